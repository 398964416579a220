"""`Tensor`: a shaped, typed piece of device memory, or what a graph computes."""

# ruff: noqa: SLF001 - follows views to their owner, another tensor

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aiocann.arguments import require_int
from aiocann.errors import usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiocann.device import Device
    from aiocann.dtypes import DType
    from aiocann.memory import Block

__all__ = ["Tensor"]

MAX_DIMS = 4


def ne_of(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return ggml's extents for a NumPy shape: the contiguous axis first."""
    if not 1 <= len(shape) <= MAX_DIMS:
        raise usage(f"a tensor has 1 to {MAX_DIMS} axes, not {len(shape)}: {shape!r}")
    extents = [require_int(n, "a tensor's extent") for n in reversed(shape)]
    extents += [1] * (MAX_DIMS - len(extents))
    return (extents[0], extents[1], extents[2], extents[3])


def contiguous_nb(
    dtype: DType, ne: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Return the strides, in bytes, of a tensor without gaps."""
    nb1 = dtype.row_bytes(ne[0])
    return (dtype.block_bytes, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2])


class Tensor:
    """A value with a shape and an element type.

    `Backend.empty` makes tensors that have memory; `aiocann.ops` makes tensors that a
    graph computes. Views share their source's storage.

    Attributes
    ----------
    dtype : DType
        Element type.
    ne, nb : tuple of int
        Extents and strides in bytes, in ggml's order: the contiguous axis first,
        always four.
    n_dims : int
        How many axes `shape` shows.
    name : str
        For errors and listings.
    """

    __slots__ = (
        "__weakref__",
        "_block",
        "_device",
        "_offset",
        "_view_of",
        "dtype",
        "n_dims",
        "name",
        "nb",
        "ne",
        "node",
    )

    def __init__(
        self,
        dtype: DType,
        ne: tuple[int, int, int, int],
        nb: tuple[int, int, int, int],
        n_dims: int,
        *,
        device: Device | None = None,
        block: Block | None = None,
        offset: int = 0,
        view_of: Tensor | None = None,
        node: Any = None,
        name: str = "",
    ) -> None:
        self.dtype, self.ne, self.nb, self.n_dims = dtype, ne, nb, n_dims
        self._device = device
        #: Its memory; None for an intermediate, and for a view (see `storage`).
        self._block = block
        #: Bytes into the block, or from the first element of `_view_of`.
        self._offset = offset
        #: The tensor whose storage it shares; may itself be a view.
        self._view_of = view_of
        #: What computes it (made by `aiocann.ops`); None for a leaf.
        self.node = node
        self.name = name

    def __repr__(self) -> str:
        where = f" on {self.device!r}" if self.device is not None else ""
        name = f" {self.name!r}" if self.name else ""
        return f"<aiocann.Tensor{name} {self.dtype.name} {self.shape}{where}>"

    def describe(self) -> str:
        """Say what it is, in an error."""
        name = f" {self.name!r}" if self.name else ""
        return f"{self.dtype.name.lower()}{list(self.shape)}{name}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in NumPy's order: the contiguous axis last."""
        return tuple(reversed(self.ne[: self.n_dims]))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.n_dims

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.ne)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, without gaps."""
        return self.dtype.row_bytes(self.ne[0]) * math.prod(self.ne[1:])

    @property
    def device(self) -> Device | None:
        """Where it lives; None for a graph's value whose sources have no device."""
        owner = self
        while owner._view_of is not None:
            owner = owner._view_of
        return owner._device

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie without gaps, in order."""
        expected = self.dtype.block_bytes
        for axis, (n, stride) in enumerate(zip(self.ne, self.nb, strict=True)):
            if n != 1 and stride != expected:
                return False
            expected = self.dtype.row_bytes(n) if axis == 0 else expected * n
        return True

    def storage(self) -> tuple[Block, int]:
        """Return the memory that holds it and its offset there.

        Raises
        ------
        UsageError
            It has no memory: it is a value inside a graph.
        """
        owner, offset = self, self._offset
        while owner._view_of is not None:
            owner = owner._view_of
            offset += owner._offset
        if owner._block is None:
            raise usage(
                f"{self.describe()} has no memory of its own: it is a value inside a "
                "graph. Make it an output of the graph, Graph([..., y]), and compute "
                "that before you read it"
            )
        return owner._block, offset

    def span_bytes(self) -> int:
        """Bytes from its first element to the end of its last."""
        if 0 in self.ne:
            return 0
        # The first axis has gaps too where a view has moved it (ops.permute).
        last_block = self.ne[0] // self.dtype.block_size - 1
        return (
            self.dtype.block_bytes
            + last_block * self.nb[0]
            + sum((n - 1) * nb for n, nb in zip(self.ne[1:], self.nb[1:], strict=True))
        )


def require_tensor(value: object, what: str) -> Tensor:
    """Return `value`, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{what} must be an aiocann.Tensor, not {type(value).__name__}: make one "
            "with Backend.empty() and fill it with set_tensor_async()"
        )
    return value
