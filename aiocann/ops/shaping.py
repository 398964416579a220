"""Ops that move elements: conversions, parts, padding, views; and that make them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aiocann.dtypes import dtype_of
from aiocann.errors import usage
from aiocann.node import build
from aiocann.optable import OPS
from aiocann.tensor import MAX_DIMS, require_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiocann.dtypes import DType
    from aiocann.tensor import Tensor

__all__ = [
    "acc",
    "arange",
    "cast",
    "concat",
    "cont",
    "cpy",
    "diag",
    "diag_mask_inf",
    "dup",
    "fill",
    "get_rows",
    "pad",
    "pad_reflect_1d",
    "permute",
    "repeat",
    "reshape",
    "set",
    "set_rows",
    "timestep_embedding",
    "transpose",
    "tri",
    "upscale",
    "view",
]

_ARANGE = OPS["arange"]
_GET_ROWS = OPS["get_rows"]
_CAST = OPS["cast"]
_CONT = OPS["cont"]
_DUP = OPS["dup"]
_CPY = OPS["cpy"]
_RESHAPE = OPS["reshape"]
_VIEW = OPS["view"]
_PERMUTE = OPS["permute"]
_TRANSPOSE = OPS["transpose"]
_REPEAT = OPS["repeat"]
_PAD = OPS["pad"]
_PAD_REFLECT_1D = OPS["pad_reflect_1d"]
_UPSCALE = OPS["upscale"]
_TRI = OPS["tri"]
_DIAG = OPS["diag"]
_FILL = OPS["fill"]
_DIAG_MASK_INF = OPS["diag_mask_inf"]
_ACC = OPS["acc"]
_SET = OPS["set"]
_SET_ROWS = OPS["set_rows"]
_CONCAT = OPS["concat"]
_TIMESTEP_EMBEDDING = OPS["timestep_embedding"]


# ---- copies and conversions ----


def get_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows of `table`, picked by number, as float32.

    Parameters
    ----------
    table : Tensor, (n, k)
        With more axes, ``(..., n, k)``, each of its tables is used by the ids that
        have the same leading indices.
    ids : Tensor, (...), int32 or int64
        Row numbers, at most 3 axes. A number that is no row is a device fault.

    Returns
    -------
    Tensor, (..., k), float32
    """
    return build(_GET_ROWS, (table, ids))


def cast(x: Tensor, dtype: DType | object) -> Tensor:
    """Return `x` converted to another dtype."""
    return build(_CAST, (x,), (dtype_of(dtype).value,))


def cont(x: Tensor) -> Tensor:
    """Return a contiguous copy of `x`."""
    return build(_CONT, (x,))


def dup(x: Tensor) -> Tensor:
    """Return a copy of `x`."""
    return build(_DUP, (x,))


def cpy(x: Tensor, dst: Tensor) -> Tensor:
    """Write `x` into `dst`, converted to its dtype, and return `dst` as it is then.

    The shapes may differ where the number of elements does not. Nodes run in the order
    in which they were built: those built before this one see the old contents.
    """
    return build(_CPY, (x, dst))


# ---- writing into parts ----


def set_rows(x: Tensor, ids: Tensor, dst: Tensor) -> Tensor:
    """Write the rows of `x` into rows of `dst`; the result is `dst`.

    Parameters
    ----------
    x : Tensor, (..., r, k)
        Rows.
    ids : Tensor, (..., r)
        Where in `dst` each goes, int32 or int64. Leading axes divide those of `x`
        and are gone through again where they are shorter.
    dst : Tensor, (..., n, k)
        Written in place. Of a row that is named twice, the last is kept.
    """
    return build(_SET_ROWS, (x, ids, dst))


def set(  # noqa: A001 - the op's name
    a: Tensor, b: Tensor, strides: Sequence[int] | None = None, offset: int = 0
) -> Tensor:
    """Return `a` with `b` in the place of a part of it.

    Parameters
    ----------
    a : Tensor
        Where `b` is set in, a contiguous copy.
    b : Tensor
        What is set.
    strides : sequence of int, bytes
        How `b` lies in the result: one for each axis of `b`, as in NumPy; the last
        one is the size of an element. Without it, as the result's last axes lie.
    offset : int, bytes
        Where `b` starts in the result.
    """
    return build(_SET, (a, b), _part(a, b, strides, offset, "set"))


def acc(
    a: Tensor, b: Tensor, strides: Sequence[int] | None = None, offset: int = 0
) -> Tensor:
    """Return `a` with `b` added to a part of it, which is described as in `set`."""
    return build(_ACC, (a, b), _part(a, b, strides, offset, "acc"))


def concat(a: Tensor, b: Tensor, axis: int = -1) -> Tensor:
    """Return `a` and `b`, one after the other along an axis."""
    n = max(require_tensor(a, "a of concat").n_dims, require_tensor(b, "b").n_dims)
    if not -n <= axis < n:
        raise usage(f"concat: there is no axis {axis} of {n}")
    return build(_CONCAT, (a, b), (-1 - axis if axis < 0 else n - 1 - axis,))


# ---- padding, repeating, cutting out ----


def repeat(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `x`, as often along each axis as it takes to fill `shape`."""
    return build(_REPEAT, (x,), _extents([int(n) for n in shape], "repeat"))


def pad(x: Tensor, widths: Sequence[tuple[int, int]]) -> Tensor:
    """Return `x` with zeros around it.

    Parameters
    ----------
    x : Tensor
        What is padded.
    widths : sequence of (before, after)
        How many zeros to add along each axis, as for `numpy.pad`. Of fewer pairs
        than axes the last belongs to the last axis.
    """
    if len(widths) > MAX_DIMS:
        raise usage(f"pad: {len(widths)} axes; there are at most {MAX_DIMS}")
    packed = [int(n) for pair in reversed(widths) for n in pair]
    return build(_PAD, (x,), (*packed, *([0] * (2 * MAX_DIMS - len(packed)))))


def pad_reflect_1d(x: Tensor, before: int, after: int) -> Tensor:
    """Return `x`, continued along its last axis by its own reflection."""
    return build(_PAD_REFLECT_1D, (x,), (int(before), int(after)))


def upscale(x: Tensor, height: int, width: int) -> Tensor:
    """Return `x` with its last two axes resized, to the nearest neighbours."""
    return build(_UPSCALE, (x,), (int(height), int(width)))


_TRIANGLES = {"upper_diag": 0, "upper": 1, "lower_diag": 2, "lower": 3}


def tri(x: Tensor, kind: str) -> Tensor:
    """Return a triangle of the last two axes of `x`, with zeros elsewhere.

    Parameters
    ----------
    x : Tensor, (..., m, n)
        Matrices.
    kind : str
        "lower" or "upper", or with the diagonal: "lower_diag", "upper_diag".
    """
    if kind not in _TRIANGLES:
        raise usage(f"tri: kind is {kind!r}, not one of {list(_TRIANGLES)}")
    return build(_TRI, (x,), (_TRIANGLES[kind],))


def diag(x: Tensor) -> Tensor:
    """Return matrices whose diagonals are the rows of `x`, (..., 1, n)."""
    return build(_DIAG, (x,))


def diag_mask_inf(x: Tensor, n_past: int) -> Tensor:
    """Return `x`, but minus infinity to the right of column row + `n_past`."""
    return build(_DIAG_MASK_INF, (x,), (int(n_past),))


def timestep_embedding(timesteps: Tensor, dim: int, max_period: int) -> Tensor:
    """Return cosines, then sines of each timestep times falling frequencies.

    Parameters
    ----------
    timesteps : Tensor, (n,)
        Positions.
    dim : int
        Numbers for each; the last is 0 where `dim` is odd.
    max_period : int
        The lowest frequency is nearly 1 / `max_period`.
    """
    return build(_TIMESTEP_EMBEDDING, (timesteps,), (int(dim), int(max_period)))


def fill(x: Tensor, value: float) -> Tensor:
    """Return a tensor like `x`, full of `value`."""
    return build(_FILL, (x,), (float(value),))


def arange(start: float, stop: float, step: float = 1.0) -> Tensor:
    """Return the numbers from `start`, `step` apart, before `stop`, as float32: (n)."""
    return build(_ARANGE, (), (float(start), float(stop), float(step)))


# ---- views ----


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `x`, which must be contiguous, in another shape; one axis may be -1."""
    axes = [int(n) for n in shape]
    if -1 in axes and axes.count(-1) == 1:
        known = -math.prod(axes)
        if known and require_tensor(x, "x of reshape").size % known == 0:
            axes[axes.index(-1)] = x.size // known
    return build(_RESHAPE, (x,), _extents(axes, "reshape"))


def view(
    x: Tensor,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    offset: int = 0,
) -> Tensor:
    """Return a part of `x`.

    Parameters
    ----------
    shape
        Of the part.
    strides : sequence of int, bytes
        One for each axis, as in NumPy; the last one is the size of an element.
        Without it the part is contiguous.
    offset : int, bytes
        From the first element of `x`.
    """
    require_tensor(x, "x of view")
    extents = _extents([int(n) for n in shape], "view")
    size = x.dtype.block_bytes
    if strides is None:
        steps = [size]
        for n in extents[: MAX_DIMS - 1]:
            steps.append(steps[-1] * (n if n >= 0 else 1))
    else:
        steps = [int(step) for step in reversed(strides)]
        if len(steps) != len(shape) or steps[0] != size:
            raise usage(
                f"view: the strides {tuple(strides)} must be one for each of "
                f"{len(shape)} axes, the last of them {size} bytes"
            )
        steps += [0] * (MAX_DIMS - len(steps))
    return build(_VIEW, (x,), (*extents, *steps[1:MAX_DIMS], int(offset)))


def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return `x` with its axes in another order: axis i is axis ``axes[i]`` of `x`."""
    n = require_tensor(x, "x of permute").n_dims
    order = [int(axis) + n if axis < 0 else int(axis) for axis in axes]
    if sorted(order) != list(range(n)):
        raise usage(f"permute: {tuple(axes)} does not name each of {n} axes once")
    swapped = [n - 1 - axis for axis in reversed(order)]
    return build(_PERMUTE, (x,), (*swapped, *range(n, MAX_DIMS)))


def transpose(x: Tensor) -> Tensor:
    """Return `x` with its last two axes exchanged."""
    return build(_TRANSPOSE, (x,))


def _part(
    a: Tensor, b: Tensor, strides: Sequence[int] | None, offset: int, op: str
) -> tuple[int, ...]:
    """Return how `b` lies in a tensor like `a`: three strides and the offset."""
    size = require_tensor(a, f"a of {op}").dtype.block_bytes
    n = require_tensor(b, f"b of {op}").n_dims
    steps = [size]
    for extent in a.ne[:-1]:
        steps.append(steps[-1] * extent)
    if strides is not None:
        given = [int(step) for step in reversed(strides)]
        if len(given) != n or given[0] != size:
            raise usage(
                f"{op}: the strides {tuple(strides)} must be one for each of "
                f"{n} axes, the last of them {size} bytes"
            )
        steps[:n] = given
    return (*steps[1:MAX_DIMS], int(offset))


def _extents(shape: list[int], op: str) -> tuple[int, ...]:
    """Return a shape in ggml's order, -1 for axes that are not there."""
    if not 1 <= len(shape) <= MAX_DIMS or any(n < 0 for n in shape):
        raise usage(
            f"{op}: {tuple(shape)} is no shape of 1 to {MAX_DIMS} axes with the "
            "elements that there are"
        )
    return (*reversed(shape), *[-1] * (MAX_DIMS - len(shape)))
