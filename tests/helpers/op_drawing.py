"""Operands that hypothesis draws: shapes, and how they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from aiocann import BF16, F16, F32, I32, Tensor, ops
from aiocann.dtypes import DType
from helpers.op_runs import FLOATS, Array, OpRuns

#: Bytes before and after an output that must stay as they are.
GUARD = 256


@dataclass(frozen=True)
class Case:
    """A node, and what it must give."""

    node: Tensor
    want: Array
    #: The largest error that is allowed; None: as everywhere.
    limit: float | None = None
    #: What it is judged as: the dtype that its numbers were last rounded to.
    dtype: DType = F32


class Draw:
    """Draws what ops take, and puts it on the device."""

    def __init__(self, data: Any, runs: OpRuns) -> None:
        self._data, self.runs = data, runs
        runs.random = np.random.default_rng(self.integer(0, 2**32 - 1))

    def one_of(self, *choices: Any) -> Any:
        return self._data.draw(st.sampled_from(choices))

    def integer(self, low: int, high: int) -> int:
        number: int = self._data.draw(st.integers(low, high))
        return number

    def number(self, low: float, high: float) -> float:
        """Return a number that float32 holds."""
        number: float = self._data.draw(st.floats(low, high, width=32))
        return number

    def shape(self, least: int = 1, most: int = 4, longest: int = 9) -> tuple[int, ...]:
        n = self.integer(least, most)
        last = self.one_of(1, 2, 3, 5, 8, 16, 31, 33, 64)
        return (*(self.integer(1, longest) for _ in range(n - 1)), last)

    def float_dtype(self) -> DType:
        dtype: DType = self.one_of(F32, F16, BF16)
        return dtype

    async def floats(
        self,
        shape: tuple[int, ...],
        dtype: DType = F32,
        low: float = -1,
        high: float = 1,
    ) -> tuple[Array, Tensor]:
        """Return random numbers, in float64, and a tensor that shows them."""
        values = self.runs.uniform(shape, dtype, low, high)
        leaf = await self.lay(values, dtype)
        return values.astype(np.float64), leaf

    async def integers(
        self, shape: tuple[int, ...], high: int, dtype: DType = I32
    ) -> tuple[Array, Tensor]:
        """Return random integers from 0 to before `high`, and a tensor."""
        values = self.runs.random.integers(0, high, shape)
        return values, await self.lay(values, dtype)

    async def lay(self, array: Array, dtype: DType) -> Tensor:
        """Put an array on the device: in order; or axes permuted, gaps between."""
        if self.integer(0, 2) == 0:
            tensor = await self.runs.leaf(array, dtype)
        else:
            tensor = await self._view(array, dtype)
        # A value inside a graph, as operands mostly are.
        if dtype in FLOATS and self.integer(0, 3) == 0:
            return ops.neg(ops.neg(tensor))
        return tensor

    async def _view(self, array: Array, dtype: DType) -> Tensor:
        axes = self._data.draw(st.permutations(range(array.ndim)))
        turned = np.transpose(array, axes)
        steps = [self.integer(1, 2) for _ in axes[1:]] + [1]
        before = [self.integer(0, 2) for _ in axes]
        after = [self.integer(0, 2) for _ in axes]
        stored = np.full(
            [
                a + n * step + b
                for a, n, step, b in zip(
                    before, turned.shape, steps, after, strict=True
                )
            ],
            99,
            array.dtype,
        )
        where = tuple(
            slice(a, a + n * step, step)
            for a, n, step in zip(before, turned.shape, steps, strict=True)
        )
        stored[where] = turned
        size = dtype.block_bytes
        whole = [size * int(np.prod(stored.shape[i + 1 :])) for i in range(array.ndim)]
        shown = ops.view(
            await self.runs.leaf(stored, dtype),
            turned.shape,
            [n * step for n, step in zip(whole, steps, strict=True)],
            offset=sum(n * a for n, a in zip(whole, before, strict=True)),
        )
        return ops.permute(shown, [int(i) for i in np.argsort(axes)])

    async def broadcast(
        self, shape: tuple[int, ...], dtype: DType, low: float, high: float
    ) -> tuple[Array, Tensor]:
        """Return numbers that repeat into a shape, and a tensor with them."""
        short = tuple(
            self.one_of(*(k for k in range(1, n + 1) if n % k == 0)) for n in shape
        )
        values, leaf = await self.floats(
            short[self.integer(0, len(shape) - 1) :], dtype, low, high
        )
        return values, leaf
