"""`aiocann.ops`, the native op table and ``docs/ops.md`` say the same."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

from aiocann import ops
from aiocann.optable import OPS, Op
from helpers.op_examples import op_examples
from helpers.op_runs import OpRuns

ROOT = Path(__file__).resolve().parents[2]

# Parameters that the table has as numbers, and Python as something better.
SPELLED = {
    "reshape": ["shape"],
    "view": ["shape", "strides", "offset"],
    "permute": ["axes"],
    "repeat": ["shape"],
    "pad": ["widths"],
    "tri": ["kind"],
    "set": ["strides", "offset"],
    "acc": ["strides", "offset"],
    "rope": [
        "n_dims",
        "mode",
        "n_ctx_orig",
        "freq_base",
        "freq_scale",
        "ext_factor",
        "attn_factor",
        "beta_fast",
        "beta_slow",
        "sections",
    ],
    "argsort": ["descending"],
    "im2col": ["stride", "padding", "dilation", "is_2d", "dtype"],
    "pool_2d": ["kernel", "average", "stride", "padding"],
}


def test_every_op_has_its_function() -> None:
    assert sorted(ops.__all__) == sorted(OPS)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_signature_is_the_tables(op: Op) -> None:
    parameters = list(inspect.signature(getattr(ops, op.name)).parameters.values())
    operands, others = parameters[: len(op.sources)], parameters[len(op.sources) :]
    assert tuple(p.name for p in operands) == op.sources
    for i, operand in enumerate(operands):
        assert operand.annotation.startswith("Tensor")
        assert (operand.default is inspect.Parameter.empty) == (i < op.min_src)
    assert [p.name for p in others] == SPELLED.get(op.name, list(op.params))
    if op.name in SPELLED:
        return
    kinds = {"float": "f", "int": "i", "bool": "i", "DType | object": "i"}
    assert "".join(kinds[p.annotation] for p in others) == op.kinds


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_parameters_are_packed_as_the_table_says(op: Op) -> None:
    packed = op.pack(tuple(range(1, len(op.params) + 1)))
    assert len(packed) == 128
    for i, kind in enumerate(op.kinds):
        cell = memoryview(packed)[8 * i : 8 * i + 8].cast("d" if kind == "f" else "q")
        assert cell[0] == i + 1


def test_the_op_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "gen_op_docs.py"
    generated = runpy.run_path(str(script))["document"]()
    assert (ROOT / "docs" / "ops.md").read_text(encoding="utf-8") == generated, (
        "run scripts/gen_op_docs.py"
    )


@pytest.mark.anyio
@pytest.mark.parametrize("driver", ["sim"], indirect=True)
async def test_every_op_has_an_example(opened: Any) -> None:
    async with opened(1) as rt:
        nodes = await op_examples(OpRuns(rt.devices[0].backend()))
        built = {node.node.op for node in nodes if node.node is not None}
    assert built == {op.name for op in OPS.values() if not op.is_view}
