"""Running ops on a device, and judging their results against float64.

Arrays are float32 whose values the dtype under test holds exactly, so that the
reference starts from what the device has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aiocann
from aiocann import ops
from aiocann.dtypes import DType
from helpers.blocks import dequantize, quantize

Array = NDArray[Any]

FLOATS = (aiocann.F32, aiocann.F16, aiocann.BF16)
#: How a leaf lies in memory: without gaps; with its axes stored in reverse; as the
#: middle of something larger.
LAYOUTS = ("contiguous", "permuted", "sliced")

# Normalised mean squared error that users of such a backend hold it to; bfloat16's own
# rounding alone is more than 1e-7.
LIMIT = {aiocann.F32: 1e-7, aiocann.F16: 1e-7, aiocann.BF16: 1e-5}


erf = np.vectorize(math.erf)


def to_bits(array: Array, dtype: DType) -> Array:
    """Return the bytes of an array in a dtype: what is written to the device."""
    if dtype is not aiocann.BF16:
        return np.ascontiguousarray(array.astype(dtype.numpy)).view(np.uint8)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded >> 16).astype(np.uint16).view(np.uint8)


def from_bits(raw: Array, dtype: DType) -> Array:
    """Return an array that was read from the device, bfloat16 as float32."""
    if dtype is not aiocann.BF16:
        return raw
    bits = np.ascontiguousarray(raw).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)


def rounded(array: Array, dtype: DType) -> Array:
    """Return the values nearest to an array's that a dtype holds, as float32."""
    if dtype is aiocann.BF16:
        bits = to_bits(array.astype(np.float32), dtype).view(np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return array.astype(dtype.numpy).astype(np.float32)
    return array


def nmse(got: Array, want: Array) -> float:
    """Return the normalised mean squared error, infinite where one is not finite."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    if got.shape != want.shape or np.isnan(got).any() or np.isnan(want).any():
        return float("inf")
    finite = np.isfinite(want)
    if not (np.isfinite(got) == finite).all() or (got != want)[~finite].any():
        return float("inf")
    difference = ((got[finite] - want[finite]) ** 2).sum()
    power = (want[finite] ** 2).sum()
    return float(difference / power if power else difference)


def check_close(
    got: Array, want: Array, dtype: DType = aiocann.F32, limit: float | None = None
) -> None:
    """Fail unless a result of a dtype is as near to float64's as users expect."""
    with np.errstate(over="ignore"):
        want = rounded(want, dtype) if dtype is not aiocann.F32 else want
        if dtype is aiocann.F32:
            want = np.where(np.abs(want) > np.finfo(np.float32).max, np.inf, want)
    error = nmse(got, want)
    assert error <= (LIMIT[dtype] if limit is None else limit), error


class OpRuns:
    """Leaves and results on one backend."""

    def __init__(self, backend: aiocann.Backend, seed: int = 1) -> None:
        self.backend = backend
        self.random = np.random.default_rng(seed)

    def uniform(
        self,
        shape: Sequence[int],
        dtype: DType = aiocann.F32,
        low: float = -1.0,
        high: float = 1.0,
    ) -> Array:
        """Return random numbers that `dtype` holds exactly."""
        return rounded(self.random.uniform(low, high, shape), dtype)

    async def leaf(
        self, array: Array, dtype: DType = aiocann.F32, layout: str = "contiguous"
    ) -> aiocann.Tensor:
        """Put an array on the device, and return a tensor that shows it."""
        if layout == "permuted":
            axes = tuple(reversed(range(array.ndim)))
            stored = await self.leaf(np.transpose(array, axes), dtype)
            return ops.permute(stored, axes)
        if layout == "sliced":
            padded = np.full([n + 2 for n in array.shape], 99)
            padded = padded.astype(array.dtype)
            padded[tuple(slice(1, -1) for _ in array.shape)] = array
            stored = await self.leaf(padded, dtype)
            strides = [
                dtype.block_bytes * int(np.prod(padded.shape[i + 1 :]))
                for i in range(array.ndim)
            ]
            return ops.view(stored, array.shape, strides, offset=sum(strides))
        tensor = await self.backend.empty(array.shape, dtype)
        if array.size:
            await self.backend.set_tensor_async(tensor, to_bits(array, dtype))
        return tensor

    async def weights(
        self, shape: tuple[int, ...], dtype: DType
    ) -> tuple[aiocann.Tensor, Array]:
        """Return random quantized weights on the device, and what they stand for."""
        blocks = quantize(self.uniform(shape), dtype)
        tensor = await self.backend.empty(shape, dtype)
        await self.backend.set_tensor_async(tensor, blocks)
        return tensor, dequantize(blocks, dtype, shape)

    async def compute(self, *outputs: aiocann.Tensor) -> list[Array]:
        """Compute outputs in one graph and read them."""
        await self.backend.graph_compute(aiocann.Graph(outputs))
        return [await self.read(output) for output in outputs]

    async def read(self, tensor: aiocann.Tensor) -> Array:
        """Read a tensor that has been computed."""
        return from_bits(await self.backend.get_tensor_async(tensor), tensor.dtype)
