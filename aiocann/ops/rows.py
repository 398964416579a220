"""Ops of whole rows and matrices: products, norms, sums, rows that are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiocann.node import build
from aiocann.optable import OPS

if TYPE_CHECKING:
    from aiocann.tensor import Tensor

__all__ = [
    "argmax",
    "argsort",
    "count_equal",
    "cross_entropy_loss",
    "cumsum",
    "group_norm",
    "l2_norm",
    "mean",
    "mul_mat",
    "mul_mat_id",
    "norm",
    "out_prod",
    "rms_norm",
    "soft_max",
    "solve_tri",
    "sum",
    "sum_rows",
]

_MUL_MAT = OPS["mul_mat"]
_SOFT_MAX = OPS["soft_max"]
_NORM = OPS["norm"]
_RMS_NORM = OPS["rms_norm"]
_L2_NORM = OPS["l2_norm"]
_SUM = OPS["sum"]
_SUM_ROWS = OPS["sum_rows"]
_MEAN = OPS["mean"]
_GROUP_NORM = OPS["group_norm"]
_CUMSUM = OPS["cumsum"]
_CROSS_ENTROPY_LOSS = OPS["cross_entropy_loss"]
_COUNT_EQUAL = OPS["count_equal"]
_OUT_PROD = OPS["out_prod"]
_MUL_MAT_ID = OPS["mul_mat_id"]
_ARGMAX = OPS["argmax"]
_ARGSORT = OPS["argsort"]
_SOLVE_TRI = OPS["solve_tri"]


# ---- matrix products ----


def mul_mat(w: Tensor, x: Tensor, *, cube_math_type: int = 0) -> Tensor:
    """Return `x` times `w` transposed, as float32.

    Parameters
    ----------
    w : Tensor, (..., n, k)
        Weights, one row for each output. Its leading axes divide those of `x`:
        neighbours in `x` share a matrix.
    x : Tensor, (..., m, k)
        Inputs.
    cube_math_type
        What the device's matrix unit may do with float32: 0 keep it; 1 let it be
        narrowed where the device has no float32; 2 use float16; 3 use HF32. With 0,
        the backend's ``matmul_precision`` decides.

    Returns
    -------
    Tensor, (..., m, n), float32
    """
    return build(_MUL_MAT, (w, x), (int(cube_math_type),))


def out_prod(a: Tensor, b: Tensor) -> Tensor:
    """Return `b` transposed times `a`, as float32.

    Parameters
    ----------
    a : Tensor, (..., k, m)
        Its leading axes divide those of `b`: neighbours share a matrix.
    b : Tensor, (..., k, n)
        The result is (..., n, m).
    """
    return build(_OUT_PROD, (a, b))


def mul_mat_id(w: Tensor, x: Tensor, ids: Tensor) -> Tensor:
    """Return, for each token, its row of `x` times the matrices that it chose.

    Parameters
    ----------
    w : Tensor, (experts, n, k)
        Weights.
    x : Tensor, (tokens, used or 1, k)
        Inputs: one row for each chosen matrix, or one for all of them.
    ids : Tensor, (tokens, used), int32
        Numbers of matrices. A number that is none is a device fault.

    Returns
    -------
    Tensor, (tokens, used, n), float32
    """
    return build(_MUL_MAT_ID, (w, x, ids))


# ---- rows ----


def soft_max(
    x: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float = 1.0,
    max_bias: float = 0.0,
) -> Tensor:
    """Return the softmax over the last axis of scale * x + slope * mask.

    Parameters
    ----------
    x : Tensor, (..., heads, m, n)
        Scores.
    mask : Tensor, (..., m or more or 1, n), float32 or float16
        Added to the scores. Its leading axes divide those of `x`, and repeat.
    scale
        Factor of `x`.
    max_bias
        ALiBi's: with more than 0, each head multiplies the mask by its own slope.
    """
    srcs = (x,) if mask is None else (x, mask)
    return build(_SOFT_MAX, srcs, (float(scale), float(max_bias)))


def norm(x: Tensor, *, eps: float) -> Tensor:
    """Return `x` less its mean, divided by its deviation, over the last axis.

    Layer normalisation without the affine part: use `mul` and `add` for that.
    """
    return build(_NORM, (x,), (float(eps),))


def group_norm(x: Tensor, *, n_groups: int, eps: float) -> Tensor:
    """Return `x` normalised over groups of its channels, the third axis from the end.

    No affine part. `n_groups` divides the channels.
    """
    return build(_GROUP_NORM, (x,), (int(n_groups), float(eps)))


def rms_norm(x: Tensor, *, eps: float) -> Tensor:
    """Return `x` divided by the root of its mean square over the last axis."""
    return build(_RMS_NORM, (x,), (float(eps),))


def l2_norm(x: Tensor, *, eps: float) -> Tensor:
    """Return `x` divided by its length over the last axis, or by `eps` if more."""
    return build(_L2_NORM, (x,), (float(eps),))


def sum(x: Tensor) -> Tensor:  # noqa: A001 - the op's name
    """Return the sum of all elements, as a tensor of shape ``(1,)``."""
    return build(_SUM, (x,))


def sum_rows(x: Tensor) -> Tensor:
    """Return the sum over the last axis, which stays, with one element."""
    return build(_SUM_ROWS, (x,))


def mean(x: Tensor) -> Tensor:
    """Return the mean over the last axis, which stays, with one element."""
    return build(_MEAN, (x,))


def cumsum(x: Tensor) -> Tensor:
    """Return the running sums along the last axis."""
    return build(_CUMSUM, (x,))


def cross_entropy_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the rows of -sum(labels * log(softmax(logits)))."""
    return build(_CROSS_ENTROPY_LOSS, (logits, labels))


def count_equal(a: Tensor, b: Tensor) -> Tensor:
    """Return how many elements of `a` equal those of `b`, as one int64."""
    return build(_COUNT_EQUAL, (a, b))


# ---- order ----


def argmax(x: Tensor) -> Tensor:
    """Return where the largest number of each row is, as int32: (..., n) -> (...)."""
    return build(_ARGMAX, (x,))


def argsort(x: Tensor, *, descending: bool = False) -> Tensor:
    """Return the order of each row's numbers, as int32; equal ones stay in order."""
    return build(_ARGSORT, (x,), (int(descending),))


def solve_tri(a: Tensor, b: Tensor) -> Tensor:
    """Return the x of a @ x = b; only the lower triangle of `a` (..., n, n) counts."""
    return build(_SOLVE_TRI, (a, b))
