"""Ops: functions that describe a computation. Nothing runs before `graph_compute`.

Each takes tensors and returns the tensor that a graph will compute, or a view that
shares its operand's storage. Shapes are in NumPy's order. Every function is a row of
the op table, under the same name and with the same parameters; ``docs/ops.md`` lists
them with the dtypes that they take.

All of them raise `UsageError` where shapes or parameters make no sense, and
`UnsupportedError` where an operand's dtype is not taken; both name the op and its
operands, and both come at once, from the line that built the node.
"""

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
    "abs",
    "acc",
    "add",
    "add1",
    "arange",
    "argmax",
    "argsort",
    "cast",
    "clamp",
    "concat",
    "cont",
    "conv_transpose_1d",
    "cos",
    "count_equal",
    "cpy",
    "cross_entropy_loss",
    "cumsum",
    "diag",
    "diag_mask_inf",
    "div",
    "dup",
    "elu",
    "exp",
    "fill",
    "flash_attn_ext",
    "gated_linear_attn",
    "geglu",
    "geglu_erf",
    "geglu_quick",
    "gelu",
    "gelu_erf",
    "gelu_quick",
    "get_rows",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "im2col",
    "l2_norm",
    "leaky_relu",
    "log",
    "mean",
    "mul",
    "mul_mat",
    "mul_mat_id",
    "neg",
    "norm",
    "out_prod",
    "pad",
    "pad_reflect_1d",
    "permute",
    "pool_2d",
    "reglu",
    "relu",
    "repeat",
    "reshape",
    "rms_norm",
    "rope",
    "scale",
    "set",
    "set_rows",
    "sgn",
    "sigmoid",
    "silu",
    "sin",
    "soft_max",
    "softplus",
    "solve_tri",
    "sqr",
    "sqrt",
    "ssm_conv",
    "step",
    "sub",
    "sum",
    "sum_rows",
    "swiglu",
    "tanh",
    "timestep_embedding",
    "transpose",
    "tri",
    "upscale",
    "view",
]

_ABS, _NEG, _EXP, _LOG = OPS["abs"], OPS["neg"], OPS["exp"], OPS["log"]
_SQRT, _SIN, _COS, _SQR = OPS["sqrt"], OPS["sin"], OPS["cos"], OPS["sqr"]
_TANH, _SIGMOID, _RELU, _SILU = OPS["tanh"], OPS["sigmoid"], OPS["relu"], OPS["silu"]
_GELU, _GELU_ERF = OPS["gelu"], OPS["gelu_erf"]
_ADD, _SUB, _MUL, _DIV = OPS["add"], OPS["sub"], OPS["mul"], OPS["div"]
_ARANGE, _GATED_LINEAR_ATTN = OPS["arange"], OPS["gated_linear_attn"]
_SCALE, _CLAMP, _MUL_MAT = OPS["scale"], OPS["clamp"], OPS["mul_mat"]
_SOFT_MAX, _NORM, _RMS_NORM = OPS["soft_max"], OPS["norm"], OPS["rms_norm"]
_L2_NORM, _SUM, _SUM_ROWS, _MEAN = (
    OPS["l2_norm"],
    OPS["sum"],
    OPS["sum_rows"],
    OPS["mean"],
)
_GET_ROWS, _CAST, _CONT, _DUP = OPS["get_rows"], OPS["cast"], OPS["cont"], OPS["dup"]
_CPY, _RESHAPE, _VIEW = OPS["cpy"], OPS["reshape"], OPS["view"]
_PERMUTE, _TRANSPOSE = OPS["permute"], OPS["transpose"]
_ADD1, _STEP, _ELU, _SGN = OPS["add1"], OPS["step"], OPS["elu"], OPS["sgn"]
_HARDSIGMOID, _HARDSWISH = OPS["hardsigmoid"], OPS["hardswish"]
_SOFTPLUS, _LEAKY_RELU = OPS["softplus"], OPS["leaky_relu"]
_GELU_QUICK, _GEGLU_QUICK = OPS["gelu_quick"], OPS["geglu_quick"]
_REGLU, _GEGLU, _GEGLU_ERF = OPS["reglu"], OPS["geglu"], OPS["geglu_erf"]
_SWIGLU, _GROUP_NORM, _CUMSUM = OPS["swiglu"], OPS["group_norm"], OPS["cumsum"]
_CROSS_ENTROPY_LOSS, _COUNT_EQUAL = OPS["cross_entropy_loss"], OPS["count_equal"]
_REPEAT, _PAD, _PAD_REFLECT_1D = OPS["repeat"], OPS["pad"], OPS["pad_reflect_1d"]
_UPSCALE, _TRI, _DIAG, _FILL = OPS["upscale"], OPS["tri"], OPS["diag"], OPS["fill"]
_DIAG_MASK_INF, _OUT_PROD = OPS["diag_mask_inf"], OPS["out_prod"]
_ACC, _SET, _SET_ROWS, _CONCAT = (
    OPS["acc"],
    OPS["set"],
    OPS["set_rows"],
    OPS["concat"],
)
_TIMESTEP_EMBEDDING = OPS["timestep_embedding"]
_MUL_MAT_ID = OPS["mul_mat_id"]
_ROPE, _FLASH_ATTN_EXT = OPS["rope"], OPS["flash_attn_ext"]
_ARGMAX, _ARGSORT, _SOLVE_TRI = OPS["argmax"], OPS["argsort"], OPS["solve_tri"]
_IM2COL, _POOL_2D, _SSM_CONV = OPS["im2col"], OPS["pool_2d"], OPS["ssm_conv"]
_CONV_TRANSPOSE_1D = OPS["conv_transpose_1d"]


# ---- element by element ----


def add(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b; `b` repeats a whole number of times into `a` along every axis."""
    return build(_ADD, (a, b))


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Return a - b; `b` repeats into `a`."""
    return build(_SUB, (a, b))


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Return a * b, element by element; `b` repeats into `a`."""
    return build(_MUL, (a, b))


def div(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b; `b` repeats into `a`."""
    return build(_DIV, (a, b))


def add1(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b, where `b` has one element."""
    return build(_ADD1, (a, b))


def sqr(x: Tensor) -> Tensor:
    """Return x * x."""
    return build(_SQR, (x,))


def scale(x: Tensor, scale: float, bias: float = 0.0) -> Tensor:
    """Return scale * x + bias."""
    return build(_SCALE, (x,), (float(scale), float(bias)))


def clamp(x: Tensor, min: float, max: float) -> Tensor:  # noqa: A002 - the op's names
    """Return `x`, but at least `min` and at most `max`."""
    return build(_CLAMP, (x,), (float(min), float(max)))


def abs(x: Tensor) -> Tensor:  # noqa: A001 - the op's name
    """Return the absolute value of `x`."""
    return build(_ABS, (x,))


def neg(x: Tensor) -> Tensor:
    """Return -x."""
    return build(_NEG, (x,))


def exp(x: Tensor) -> Tensor:
    """Return e to the power `x`."""
    return build(_EXP, (x,))


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm of `x`."""
    return build(_LOG, (x,))


def sqrt(x: Tensor) -> Tensor:
    """Return the square root of `x`."""
    return build(_SQRT, (x,))


def sin(x: Tensor) -> Tensor:
    """Return the sine of `x`."""
    return build(_SIN, (x,))


def cos(x: Tensor) -> Tensor:
    """Return the cosine of `x`."""
    return build(_COS, (x,))


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of `x`."""
    return build(_TANH, (x,))


def sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return build(_SIGMOID, (x,))


def relu(x: Tensor) -> Tensor:
    """Return max(x, 0)."""
    return build(_RELU, (x,))


def silu(x: Tensor) -> Tensor:
    """Return x * sigmoid(x)."""
    return build(_SILU, (x,))


def gelu(x: Tensor) -> Tensor:
    """Return x * Phi(x), by its usual approximation with tanh."""
    return build(_GELU, (x,))


def gelu_erf(x: Tensor) -> Tensor:
    """Return x * Phi(x), with the error function."""
    return build(_GELU_ERF, (x,))


def gelu_quick(x: Tensor) -> Tensor:
    """Return x * sigmoid(1.702 * x)."""
    return build(_GELU_QUICK, (x,))


def hardsigmoid(x: Tensor) -> Tensor:
    """Return (x + 3) / 6, but at least 0 and at most 1."""
    return build(_HARDSIGMOID, (x,))


def hardswish(x: Tensor) -> Tensor:
    """Return x * hardsigmoid(x)."""
    return build(_HARDSWISH, (x,))


def sgn(x: Tensor) -> Tensor:
    """Return the sign of `x`: 1, 0 or -1."""
    return build(_SGN, (x,))


def step(x: Tensor) -> Tensor:
    """Return 1 where `x` is more than 0, else 0."""
    return build(_STEP, (x,))


def elu(x: Tensor) -> Tensor:
    """Return `x` where it is more than 0, else exp(x) - 1."""
    return build(_ELU, (x,))


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x))."""
    return build(_SOFTPLUS, (x,))


def leaky_relu(x: Tensor, negative_slope: float) -> Tensor:
    """Return `x` where it is more than 0, else `negative_slope` times `x`."""
    return build(_LEAKY_RELU, (x,), (float(negative_slope),))


# ---- gated linear units ----


def reglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return relu(a) * b.

    Without `b`, the two are the halves of the last axis of `a`, the first of them
    under the activation, or the second where they are `swapped`. So it is with all
    these units.
    """
    return build(_REGLU, (a, b), (int(swapped),))


def geglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu(a) * b, operands as in `reglu`."""
    return build(_GEGLU, (a, b), (int(swapped),))


def geglu_erf(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu_erf(a) * b, operands as in `reglu`."""
    return build(_GEGLU_ERF, (a, b), (int(swapped),))


def geglu_quick(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu_quick(a) * b, operands as in `reglu`."""
    return build(_GEGLU_QUICK, (a, b), (int(swapped),))


def swiglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return silu(a) * b, operands as in `reglu`."""
    return build(_SWIGLU, (a, b), (int(swapped),))


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


# ---- attention ----


def rope(
    x: Tensor,
    positions: Tensor,
    freq_factors: Tensor | None = None,
    *,
    n_dims: int,
    mode: int = 0,
    n_ctx_orig: int = 0,
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    sections: Sequence[int] = (0, 0, 0, 0),
) -> Tensor:
    """Return `x` with rotary position embedding.

    Parameters
    ----------
    x : Tensor, (batch, tokens, heads, n), float32 or float16
        What is rotated; numbers beyond `n_dims` stay.
    positions : Tensor, (tokens,), int32
        Of each token. In modes 8, 24 and 40 four positions, ``(4 * tokens,)``: all
        tokens' first ones come first.
    freq_factors : Tensor, (n_dims / 2,), float32
        Divide the frequencies.
    mode
        0: neighbours are a pair; 2: halves are (NeoX); 8: halves, turned by several
        positions (M-RoPE); 24: the same for images; 40: the same, interleaved.
    n_ctx_orig, ext_factor, beta_fast, beta_slow
        YaRN's correction of contexts longer than trained; none with `ext_factor` 0.
    freq_base, freq_scale
        The frequencies: pair i turns by freq_scale * freq_base ** (-2i / n_dims).
    attn_factor
        Factor of the result.
    sections
        How many pairs each of the four positions turns.
    """
    srcs = (x, positions) if freq_factors is None else (x, positions, freq_factors)
    parts = [int(n) for n in sections]
    if len(parts) != 4:
        raise usage(f"rope: {tuple(sections)} does not name 4 sections")
    numbers = (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    head = (int(n_dims), int(mode), int(n_ctx_orig))
    return build(_ROPE, srcs, (*head, *map(float, numbers), *parts))


def flash_attn_ext(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    max_bias: float = 0.0,
    logit_softcap: float = 0.0,
) -> Tensor:
    """Return the attention softmax(scale * q @ k.T + slope * mask) @ v, as float32.

    Parameters
    ----------
    q : Tensor, (batch, heads, m, d)
        Queries.
    k, v : Tensor, (batch, key heads, n, d), float16
        Keys and values; `heads` is a multiple of `key heads`.
    mask : Tensor, (batch or 1, heads or 1, m or more, n), float16
        Added to the scores.
    scale
        Factor of the scores.
    max_bias
        ALiBi's: with more than 0, each head multiplies the mask by its own slope.
    logit_softcap
        Must be 0: the device has none.

    Returns
    -------
    Tensor, (batch, m, heads, d), float32
    """
    srcs = (q, k, v) if mask is None else (q, k, v, mask)
    params = (float(scale), float(max_bias), float(logit_softcap))
    return build(_FLASH_ATTN_EXT, srcs, params)


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


# ---- windows ----


def im2col(
    kernel: Tensor,
    x: Tensor,
    *,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    is_2d: bool = True,
    dtype: DType | object = "f32",
) -> Tensor:
    """Return the elements that a kernel's window sees at each place, in rows.

    Parameters
    ----------
    kernel : Tensor, (oc, ic, kh, kw), or (oc, ic, kw)
        Only its shape counts.
    x : Tensor, (n, ic, h, w), or (n, ic, w)
        Images, or rows where `is_2d` is false.
    stride, padding, dilation : sequence of int
        Along w, then along h.
    dtype
        Of the result.

    Returns
    -------
    Tensor, (n, oh, ow, ic * kh * kw), or (n, ow, ic * kw)
    """
    pairs = [_pair(given, "im2col") for given in (stride, padding, dilation)]
    numbers = [n for pair in pairs for n in pair]
    params = (dtype_of(dtype).value, *numbers, int(is_2d))
    return build(_IM2COL, (kernel, x), params)


def pool_2d(
    x: Tensor,
    kernel: Sequence[int],
    *,
    average: bool = False,
    stride: Sequence[int] | None = None,
    padding: Sequence[int] = (0, 0),
) -> Tensor:
    """Return the largest number, or the mean, of each window of the last two axes.

    `kernel`, `stride` (default: the kernel) and `padding` are given along the last
    axis, then along the one before. Padding counts as zeros in means.
    """
    window = _pair(kernel, "pool_2d")
    steps = window if stride is None else _pair(stride, "pool_2d")
    params = (int(average), *window, *steps, *_pair(padding, "pool_2d"))
    return build(_POOL_2D, (x,), params)


def conv_transpose_1d(w: Tensor, x: Tensor, *, stride: int = 1) -> Tensor:
    """Return `x` (ic, l) convolved, transposed, with `w` (ic, oc, k).

    The result is (oc, (l - 1) * stride + k).
    """
    return build(_CONV_TRANSPOSE_1D, (w, x), (int(stride),))


def ssm_conv(x: Tensor, kernel: Tensor) -> Tensor:
    """Return each channel of `x` convolved with its own row of `kernel`.

    `x` is (n, channels, k - 1 + l), `kernel` (channels, k), and the result
    (n, l, channels).
    """
    return build(_SSM_CONV, (x, kernel))


def gated_linear_attn(
    k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, *, scale: float
) -> Tensor:
    """Return linear attention whose state decays by gates, token after token.

    For each head, ``state = g[:, None] * state + k[:, None] * v``, then the token's
    result is ``scale * q @ state``.

    Parameters
    ----------
    k, v, q, g : Tensor, (tokens, heads, size), float32
        Keys, values, queries and gates; tokens of one sequence are neighbours.
    state : Tensor, (sequences, heads, size, size), float32
        The states to start from, without gaps; ``sequences`` divides ``tokens``.
    scale
        Factor of the results.

    Returns
    -------
    Tensor, (tokens + size * sequences, heads * size), float32
        The results of all tokens, then the states.
    """
    return build(_GATED_LINEAR_ATTN, (k, v, q, g, state), (float(scale),))


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


def _pair(values: Sequence[int], op: str) -> tuple[int, int]:
    """Return two numbers, the first for the last axis."""
    if len(values) != 2:
        raise usage(f"{op}: {tuple(values)} must be two numbers, one for each axis")
    return int(values[0]), int(values[1])


def _extents(shape: list[int], op: str) -> tuple[int, ...]:
    """Return a shape in ggml's order, -1 for axes that are not there."""
    if not 1 <= len(shape) <= MAX_DIMS or any(n < 0 for n in shape):
        raise usage(
            f"{op}: {tuple(shape)} is no shape of 1 to {MAX_DIMS} axes with the "
            "elements that there are"
        )
    return (*reversed(shape), *[-1] * (MAX_DIMS - len(shape)))
