"""What ops compute, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.op_runs import Array, erf

# name -> reference, lowest and highest input
UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "abs": (np.abs, -150, 150),
    "neg": (np.negative, -150, 150),
    "exp": (np.exp, -150, 150),
    "log": (np.log, 0.001, 150),
    "sqrt": (np.sqrt, 0, 150),
    "sin": (np.sin, -150, 150),
    "cos": (np.cos, -150, 150),
    "tanh": (np.tanh, -150, 150),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -150, 150),
    "relu": (lambda x: np.maximum(x, 0), -150, 150),
    "silu": (lambda x: x / (1 + np.exp(-x)), -150, 150),
    "gelu": (
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        -150,
        150,
    ),
    "gelu_erf": (lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))), -150, 150),
    "sqr": (np.square, -150, 150),
    "hardsigmoid": (lambda x: np.clip((x + 3) / 6, 0, 1), -150, 150),
    "hardswish": (lambda x: x * np.clip((x + 3) / 6, 0, 1), -150, 150),
    "sgn": (np.sign, -150, 150),
    "step": (lambda x: np.where(x > 0, 1.0, 0.0), -150, 150),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), -150, 150),
    "softplus": (lambda x: np.logaddexp(0, x), -150, 150),
    "gelu_quick": (lambda x: 0.5 * x * (1 + np.tanh(0.851 * x)), -150, 150),
}


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def repeat_into(b: Array, shape: tuple[int, ...]) -> Array:
    """Repeat a whole array, along every axis, as often as it fits."""
    b = b.reshape((1,) * (len(shape) - b.ndim) + b.shape)
    times = [shape[axis] // b.shape[axis] for axis in range(b.ndim)]
    return np.tile(b, times)


def product(w: Array, x: Array) -> Array:
    """Multiply with w (..., n, k) and x (..., m, k); neighbours in x share a matrix."""
    axes = max(w.ndim, x.ndim, 2)
    w = w.reshape((1,) * (axes - w.ndim) + w.shape).astype(np.float64)
    wide = x.reshape((1,) * (axes - x.ndim) + x.shape).astype(np.float64)
    for axis in range(axes - 2):
        w = np.repeat(w, wide.shape[axis] // w.shape[axis], axis=axis)
    result = wide @ np.swapaxes(w, -1, -2)
    return result.reshape(
        result.shape[axes - max(x.ndim, w.ndim if w.ndim > 2 else 1) :]
    )


def softmax(x: Array) -> Array:
    shifted: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    total: Array = shifted.sum(axis=-1, keepdims=True)
    return shifted / total


def slopes(n_heads: int, max_bias: float) -> Array:
    low = 1 << (n_heads.bit_length() - 1)
    one, two = 2 ** (-max_bias / low), 2 ** (-max_bias / 2 / low)
    return np.array(
        [
            one ** (h + 1) if h < low else two ** (2 * (h - low) + 1)
            for h in range(n_heads)
        ]
    )


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow."""
    result: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return result


def gelu(x: Array) -> Array:
    """Return the approximation with tanh."""
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    result: Array = 0.5 * x * (1 + np.tanh(inner))
    return result


GLU: dict[str, Callable[[Array], Array]] = {
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": gelu,
    "geglu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "geglu_quick": lambda x: x * sigmoid(1.702 * x),
    "swiglu": lambda x: x * sigmoid(x),
}


def repeat_to(ids: Array, lead: tuple[int, ...]) -> Array:
    """Go through leading axes again until they have the given lengths."""
    times = [n // m for n, m in zip(lead, ids.shape[:-1], strict=True)]
    return np.tile(ids, (*times, 1))


def rope(
    x: Array,
    positions: Array,
    n_dims: int,
    mode: int,
    *,
    factors: Array | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    ext: float = 0.0,
    attn: float = 1.0,
    context: int = 0,
    sections: tuple[int, ...] = (0, 0, 0, 0),
) -> Array:
    """Rotate each pair of numbers of x (batch, tokens, heads, n) by its own angle."""
    tokens = x.shape[1]
    several = mode in (8, 24, 40)
    rotated = x.shape[-1] if mode == 24 else n_dims
    pairs = rotated // 2
    rows = positions.reshape(4 if several else 1, tokens).astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(sections)])
    angles = np.zeros((tokens, pairs))
    for pair in range(pairs):
        row, exponent = 0, pair
        if several:
            at = pair % starts[4]
            row = int(np.searchsorted(starts[1:4], at, side="right"))
            if mode == 24:
                exponent = at - starts[row]
            if mode == 40:
                inside = [at < 3 * n for n in sections]
                row = next(
                    (i for i in (1, 2, 0) if at % 3 == i and inside[i]),
                    3,
                )
        theta = base ** (-2 * exponent / n_dims)
        if factors is not None:
            theta /= factors[pair]
        slowed = theta * scale
        if ext:

            def edge(beta: float) -> float:
                turns = context / (beta * 2 * math.pi)
                return n_dims * math.log(turns) / (2 * math.log(base))

            low = max(0, math.floor(edge(32)))
            high = min(n_dims - 1, math.ceil(edge(1)))
            ramp = 1 - min(1, max(0, (pair - low) / max(0.001, high - low)))
            slowed = slowed * (1 - ramp * ext) + theta * ramp * ext
        angles[:, pair] = rows[row] * slowed
    size = attn * (1 + 0.1 * math.log(1 / scale) if ext else 1)
    cos, sin = (f(angles)[:, None, :] * size for f in (np.cos, np.sin))
    out: Array = x.astype(np.float64).copy()
    if mode == 0:
        a, b = out[..., 0:rotated:2].copy(), out[..., 1:rotated:2].copy()
        out[..., 0:rotated:2], out[..., 1:rotated:2] = (
            a * cos - b * sin,
            b * cos + a * sin,
        )
    else:
        a, b = out[..., :pairs].copy(), out[..., pairs:rotated].copy()
        out[..., :pairs], out[..., pairs:rotated] = a * cos - b * sin, b * cos + a * sin
    return out


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, max_bias: float
) -> Array:
    heads, key_heads = q.shape[1], k.shape[1]
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    k, v = (np.repeat(t, heads // key_heads, axis=1) for t in (k, v))
    scores = scale * q @ k.transpose(0, 1, 3, 2)
    if mask is not None:
        biased = slopes(heads, max_bias)[:, None, None] * mask[:, :, : q.shape[2]]
        scores = scores + biased
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    out: Array = (weights @ v).transpose(0, 2, 1, 3)
    return out


def windows(
    x: Array, kernel: tuple[int, int], stride: Any, padding: Any, dilation: Any
) -> Array:
    """Return x (n, c, h, w) as (n, oh, ow, c, kh, kw); pairs are along w, then h."""
    (sw, sh), (pw, ph), (dw, dh) = stride, padding, dilation
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    seen = np.lib.stride_tricks.sliding_window_view(
        x, (dh * (kernel[0] - 1) + 1, dw * (kernel[1] - 1) + 1), axis=(2, 3)
    )
    out: Array = seen[:, :, ::sh, ::sw, ::dh, ::dw].transpose(0, 2, 3, 1, 4, 5)
    return out
