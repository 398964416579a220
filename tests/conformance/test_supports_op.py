"""`supports_op` is exact: both ways, for every op, operand and dtype, on each SoC.

What it accepts is computed, and gives what the same numbers in float32 give. What it
refuses is refused before anything runs, with the op, the dtype and a reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from aiocann import F32, Graph, Tensor, UnsupportedError, dtypes, ops, sim
from aiocann.dtypes import DType
from aiocann.node import build
from aiocann.optable import OPS
from helpers.op_examples import op_examples
from helpers.op_runs import FLOATS, Array, OpRuns, nmse, rounded

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]

SOCS = ["Ascend910B2", "Ascend910_9391", "Ascend310P3"]
#: Between numbers in float16 or bfloat16 and the same in float32: what roundings on the
#: way make of it. Far below what an operand that is read as another dtype makes of it.
NEAR = 1e-3


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: it has nothing to do with what is supported."""
    return "asyncio"


async def values_of(runs: OpRuns, srcs: set[Tensor]) -> dict[Tensor, Array]:
    """Return what operands hold, each as its dtype has it."""
    plain = [src for src in srcs if not src.dtype.is_quantized]
    return dict(zip(plain, await runs.compute(*map(ops.cont, plain)), strict=True))


class Walk:
    """Examples of ops whose operands are given other dtypes, one at a time."""

    def __init__(self, runs: OpRuns, values: dict[Tensor, Array]) -> None:
        self.runs, self.values = runs, values
        self.packed: dict[tuple[Tensor, DType], Tensor] = {}
        self.accepted = self.refused = 0

    async def operand(self, src: Tensor, dtype: DType) -> Tensor:
        """Return a fresh operand with the values of `src`, as `dtype` holds them."""
        if dtype.is_quantized:
            if (src, dtype) not in self.packed:
                made, _ = await self.runs.weights(src.shape, dtype)
                self.packed[src, dtype] = made
            return self.packed[src, dtype]
        values = self.values.get(src)
        if values is None:  # blocks
            values = self.runs.uniform(src.shape)
        return await self.runs.leaf(rounded(values, dtype), dtype)

    async def operands(self, node: Any, at: int, dtype: DType) -> list[Tensor | None]:
        """Return operands for a node, all as they were but one."""
        return [
            None
            if src is None
            else await self.operand(src, dtype if i == at else src.dtype)
            for i, src in enumerate(node.srcs)
        ]

    async def step(self, node: Any, at: int, dtype: DType) -> None:
        """Give one operand of a node another dtype."""
        op, backend = node.rule.op, self.runs.backend
        what = f"{node.describe()} with {op.sources[at]} as {dtype}"
        srcs = await self.operands(node, at, dtype)
        try:
            made = build(op, tuple(srcs), node.rule.params)
            is_supported = backend.supports_op(made)
            if is_supported:
                (got,) = await self.runs.compute(made)
            else:
                with (
                    sim.counted_calls() as calls,
                    pytest.raises(UnsupportedError) as refusal,
                ):
                    await backend.graph_compute(Graph([made]))
                assert not [name for name in calls if name.startswith("aclnn")], what
                raise refusal.value
        except UnsupportedError as exc:
            self.refused += 1
            told = str(exc)
            assert f"{op.name}(" in told, what
            assert dtype.name.lower() in told.lower(), what
            return
        self.accepted += 1
        if node.srcs[at] in self.values and dtype in FLOATS and dtype is not F32:
            await self.compare(node, at, dtype, got, what)

    async def compare(
        self, node: Any, at: int, dtype: DType, got: Array, what: str
    ) -> None:
        """Compare with the same numbers as float32, where the op takes that."""
        srcs = await self.operands(node, at, dtype)
        src = node.srcs[at]
        srcs[at] = await self.runs.leaf(rounded(self.values[src], dtype))
        try:
            wide = build(node.rule.op, tuple(srcs), node.rule.params)
            (want,) = await self.runs.compute(wide)
        except UnsupportedError:
            return
        assert nmse(got, want) < NEAR, what


@pytest.mark.parametrize("soc", SOCS)
async def test_whatever_is_accepted_is_computed_and_the_rest_is_refused(
    opened: Any, monkeypatch: pytest.MonkeyPatch, soc: str
) -> None:
    monkeypatch.setenv("AIOCANN_SIM_SOC", soc)
    async with opened(1) as rt:
        runs = OpRuns(rt.devices[0].backend())
        nodes = [
            tensor.node
            for tensor in await op_examples(runs)
            if all(
                src is None or runs.backend.supports_op(src) for src in tensor.node.srcs
            )
        ]
        srcs = {src for node in nodes for src in node.srcs if src is not None}
        walk = Walk(runs, await values_of(runs, srcs))
        seen = set()
        for node in nodes:
            for at, src in enumerate(node.srcs):
                for dtype in dtypes.ALL:
                    is_blocks = dtype.is_quantized and (src is None or src.ne[0] % 32)
                    if src is None or is_blocks:
                        continue
                    await walk.step(node, at, dtype)
                    seen.add(node.op)
        computing = {name for name, op in OPS.items() if not op.is_view and op.sources}
        assert computing <= seen
        assert walk.accepted > 200
        assert walk.refused > 300
