#!/usr/bin/env python3
"""Write docs/ops.md, the reference of the ops, from the op table of the native half.

Usage: ``gen_op_docs.py``, with aiocann installed. A test fails when the file is old.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from aiocann import ops
from aiocann.optable import OPS, Op

TARGET = Path(__file__).resolve().parent.parent / "docs" / "ops.md"

HEAD = """\
# Ops

<!-- Written by scripts/gen_op_docs.py from native/core/ops/op_rows_*.cpp. -->

The functions of `aiocann.ops`, from the table that also drives dispatch and
`Backend.supports_op`. Each builds a node; `aiocann.Graph` collects what outputs need,
and `Backend.graph_compute` computes it. Shapes are in NumPy's order, the last axis
contiguous. What an op does not take is refused where the node is built, before anything
runs.

Operands may have gaps (views, permuted axes) wherever nothing else is said. A result is
contiguous, except that of a view, which shares its operand's storage, and of `cpy`,
which writes into an operand. The simulator computes float16 and bfloat16 in float32 and
rounds the result once. None of this has run on hardware yet.
"""


def section(op: Op) -> str:
    """Return the section of one op."""
    function = getattr(ops, op.name)
    signature = inspect.signature(function)
    bare = signature.replace(
        parameters=[
            p.replace(annotation=inspect.Parameter.empty)
            for p in signature.parameters.values()
        ],
        return_annotation=inspect.Signature.empty,
    )
    lines = [
        f"## {op.name}",
        "",
        f"`{op.name}{bare}`",
        "",
        op.summary,
        "",
        f"- Shape: {op.shape}",
        f"- Takes: {op.dtypes or 'no tensors'}",
    ]
    if op.is_view:
        lines.append("- A view: no device work")
    else:
        lines.append(f"- Result: dtype {op.out_dtype}")
        functions = ", ".join(f"`{name}`" for name in op.aclnn)
        lines.append(f"- Calls: {functions}")
    if op.soc:
        lines.append(f"- {op.soc}")
    return "\n".join(lines) + "\n"


def document() -> str:
    """Return the whole text."""
    return "\n".join([HEAD, *(section(op) for op in OPS.values())])


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(document(), encoding="utf-8")
