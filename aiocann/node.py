"""`Node`: how a tensor is computed, and the one function that makes nodes."""

from __future__ import annotations

from itertools import count

from aiocann.errors import usage
from aiocann.optable import Op, Rule, infer
from aiocann.sites import Site, Stack, here
from aiocann.tensor import Tensor, require_tensor

__all__ = ["Node", "build"]

_numbers = count()


class Node:
    """How a tensor is computed: an op, its operands, and where it was built.

    Attributes
    ----------
    rule : Rule
        The op with its parameters, and the layout of its result.
    srcs : tuple of Tensor or None
        Operands; None for one that was left out.
    site : Site or None
        The line that built it.
    number : int
        Nodes run in the order in which they were built.
    """

    __slots__ = ("number", "rule", "site", "srcs")

    def __init__(
        self, rule: Rule, srcs: tuple[Tensor | None, ...], site: Site | Stack | None
    ) -> None:
        self.rule, self.srcs, self.site = rule, srcs, site
        self.number = next(_numbers)

    def __repr__(self) -> str:
        return f"<node {self.describe()}>"

    @property
    def op(self) -> str:
        """Name of the op."""
        return self.rule.op.name

    def describe(self) -> str:
        """Return the op with its operands: ``add(f32 (7, 384), f32 (384,))``."""
        operands = [
            "-" if src is None else f"{src.dtype.name.lower()} {src.shape}"
            for src in self.srcs
        ]
        return f"{self.op}({', '.join(operands)})"


def build(
    op: Op, srcs: tuple[Tensor | None, ...], params: tuple[float, ...] = ()
) -> Tensor:
    """Make the tensor that `op` computes from `srcs`, or the view that it is."""
    try:
        rule = infer(op, params, srcs)
    except AttributeError:
        for name, src in zip(op.sources, srcs, strict=False):
            if src is not None:
                require_tensor(src, f"{name} of {op.name}")
        raise
    device = None
    for src in srcs:
        if src is None:
            continue
        where = src.device
        if where is not device and where is not None:
            if device is not None:
                raise usage(
                    f"{Node(rule, srcs, None).describe()}: its operands are on "
                    f"{device!r} and {where!r}; bring them together with "
                    "Backend.cpy_tensor_async()"
                )
            device = where
    # The last operand owns the storage of a view, and is what cpy writes into.
    is_shared = op.is_view or op.writes_dst
    return Tensor(
        rule.dtype,
        rule.ne,
        rule.nb,
        rule.n_dims,
        device=device,
        offset=rule.offset,
        view_of=srcs[-1] if is_shared else None,
        node=Node(rule, srcs, here()),
    )
