"""Ops that are layers of models: attention, convolutions, pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiocann.dtypes import dtype_of
from aiocann.errors import usage
from aiocann.node import build
from aiocann.optable import OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiocann.dtypes import DType
    from aiocann.tensor import Tensor

__all__ = [
    "conv_transpose_1d",
    "flash_attn_ext",
    "gated_linear_attn",
    "im2col",
    "pool_2d",
    "rope",
    "ssm_conv",
]

_GATED_LINEAR_ATTN = OPS["gated_linear_attn"]
_ROPE = OPS["rope"]
_FLASH_ATTN_EXT = OPS["flash_attn_ext"]
_IM2COL = OPS["im2col"]
_POOL_2D = OPS["pool_2d"]
_SSM_CONV = OPS["ssm_conv"]
_CONV_TRANSPOSE_1D = OPS["conv_transpose_1d"]


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


# ---- windows ----


def _pair(values: Sequence[int], op: str) -> tuple[int, int]:
    """Return two numbers, the first for the last axis."""
    if len(values) != 2:
        raise usage(f"{op}: {tuple(values)} must be two numbers, one for each axis")
    return int(values[0]), int(values[1])


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
