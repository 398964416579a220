"""For every op of the table: a call that is drawn, and what float64 makes of it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import numpy as np

from aiocann import F16, F32, I8, I16, I32, I64, Q4_0, Q8_0, ops
from helpers.op_drawing import Case, Draw
from helpers.op_references import (
    BINARY,
    GLU,
    UNARY,
    attention,
    product,
    repeat_into,
    repeat_to,
    rope,
    slopes,
    softmax,
    windows,
)
from helpers.op_runs import FLOATS, Array, rounded

#: What users hold products to, which the device may round to float16.
PRODUCT = 5e-4
PLAIN = (I8, I16, I32, I64, *FLOATS)

Drawn = Callable[[Draw], Awaitable[Case]]
CASES: dict[str, Drawn] = {}


def case(*names: str) -> Callable[[Callable[[Draw, str], Awaitable[Case]]], None]:
    """Say that a function draws calls of these ops."""

    def note(function: Callable[[Draw, str], Awaitable[Case]]) -> None:
        for name in names:
            CASES[name] = lambda draw, name=name: function(draw, name)  # type: ignore[misc]

    return note


def f32(number: float) -> float:
    """Return a number as the device gets it."""
    return float(np.float32(number))


# ---- element by element ----


@case(*UNARY)
async def unary(draw: Draw, name: str) -> Case:
    reference, low, high = UNARY[name]
    dtype = draw.float_dtype()
    # Long rows: of a few numbers all might be where results are next to nothing.
    shape = (*draw.shape()[:-1], 64)
    x, leaf = await draw.floats(shape, dtype, low, high)
    with np.errstate(over="ignore"):
        return Case(getattr(ops, name)(leaf), reference(x), dtype=dtype)


@case(*BINARY)
async def binary(draw: Draw, name: str) -> Case:
    dtype = draw.float_dtype()
    other = draw.one_of(*FLOATS) if dtype is F32 else draw.one_of(F32, dtype)
    shape = draw.shape()
    a, left = await draw.floats(shape, dtype)
    b, right = await draw.broadcast(shape, other, 0.5, 2)
    want = BINARY[name](a, repeat_into(b, shape))
    node = getattr(ops, name)(left, right)
    return Case(node, want, dtype=dtype)


@case("add1")
async def add1(draw: Draw, _: str) -> Case:
    dtype = draw.float_dtype()
    x, leaf = await draw.floats(draw.shape(), dtype)
    one, other = await draw.floats((1,), dtype)
    return Case(ops.add1(leaf, other), x + one[0], dtype=dtype)


@case("scale", "clamp", "leaky_relu", "fill")
async def with_numbers(draw: Draw, name: str) -> Case:
    dtype = F32 if name == "fill" else draw.float_dtype()
    x, leaf = await draw.floats(draw.shape(), dtype, -4, 4)
    a, b = sorted((draw.number(-3, 3), draw.number(-3, 3)))
    if name == "scale":
        return Case(ops.scale(leaf, a, b), x * a + b, dtype=dtype)
    if name == "clamp":
        return Case(ops.clamp(leaf, a, b), np.clip(x, a, b), dtype=dtype)
    if name == "fill":
        return Case(ops.fill(leaf, a), np.full(x.shape, a), 0)
    want = np.where(x > 0, x, x * a)
    return Case(ops.leaky_relu(leaf, a), want, dtype=dtype)


@case(*GLU)
async def gated(draw: Draw, name: str) -> Case:
    dtype = draw.float_dtype()
    gate, function = GLU[name], getattr(ops, name)
    shape = draw.shape()
    if draw.integer(0, 1):
        a, left = await draw.floats(shape, dtype, -4, 4)
        b, right = await draw.floats(shape, dtype)
        return Case(function(left, right), gate(a) * b, dtype=dtype)
    x, leaf = await draw.floats((*shape[:-1], 2 * shape[-1]), dtype, -4, 4)
    a, b = np.split(x, 2, axis=-1)
    if draw.integer(0, 1):
        return Case(function(leaf, swapped=True), gate(b) * a, dtype=dtype)
    return Case(function(leaf), gate(a) * b, dtype=dtype)


# ---- rows ----


@case("norm", "rms_norm", "l2_norm")
async def normalised(draw: Draw, name: str) -> Case:
    dtype = draw.float_dtype()
    x, leaf = await draw.floats(draw.shape(), dtype)
    eps = draw.one_of(f32(1e-6), f32(1e-5), 0.5, 10.0)
    square = (x**2).sum(axis=-1, keepdims=True)
    if name == "l2_norm":
        want = x / np.maximum(np.sqrt(square), eps)
    elif name == "rms_norm":
        want = x / np.sqrt(square / x.shape[-1] + eps)
    else:
        centred = x - x.mean(axis=-1, keepdims=True)
        want = centred / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return Case(getattr(ops, name)(leaf, eps=eps), want, dtype=dtype)


@case("group_norm")
async def group_norm(draw: Draw, _: str) -> Case:
    dtype = draw.float_dtype()
    shape = draw.shape(least=3)
    groups = draw.one_of(*(k for k in range(1, 10) if shape[-3] % k == 0))
    x, leaf = await draw.floats(shape, dtype)
    n = shape[0] if len(shape) == 4 else 1
    wide = x.reshape(n, groups, -1)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    want = centred / np.sqrt(wide.var(axis=-1, keepdims=True) + f32(1e-5))
    node = ops.group_norm(leaf, n_groups=groups, eps=1e-5)
    return Case(node, want.reshape(shape), dtype=dtype)


@case("sum", "sum_rows", "mean", "cumsum")
async def reduced(draw: Draw, name: str) -> Case:
    dtype = F32 if name == "cumsum" else draw.float_dtype()
    x, leaf = await draw.floats(draw.shape(), dtype, 0, 1)
    want = {
        "sum": x.sum().reshape(1),
        "sum_rows": x.sum(axis=-1, keepdims=True),
        "mean": x.mean(axis=-1, keepdims=True),
        "cumsum": x.cumsum(axis=-1),
    }[name]
    return Case(getattr(ops, name)(leaf), want, dtype=dtype)


@case("soft_max")
async def soft_max(draw: Draw, _: str) -> Case:
    dtype = draw.float_dtype()
    shape = draw.shape()
    scale = f32(draw.number(0.125, 2))
    x, leaf = await draw.floats(shape, dtype, -5, 5)
    if len(shape) < 2 or draw.integer(0, 2) == 0:
        return Case(ops.soft_max(leaf, scale=scale), softmax(x * scale), dtype=dtype)
    max_bias = draw.one_of(0.0, 8.0) if len(shape) > 2 else 0.0
    lead = [draw.one_of(*(k for k in (1, n) if n % k == 0)) for n in shape[:-2]]
    rows = draw.one_of(1, shape[-2], shape[-2] + 3)
    mask, extra = await draw.floats(
        (*lead, rows, shape[-1]), draw.one_of(F32, F16), -5, 5
    )
    added = repeat_into(mask[..., : shape[-2], :], shape)
    if max_bias:
        added = added * slopes(shape[-3], max_bias)[:, None, None]
    node = ops.soft_max(leaf, extra, scale=scale, max_bias=max_bias)
    return Case(node, softmax(x * scale + added), dtype=dtype, limit=None)


@case("cross_entropy_loss")
async def cross_entropy_loss(draw: Draw, _: str) -> Case:
    # Of one class the logarithm is 0, and float64's own rounding is all there is.
    *lead, classes = draw.shape()
    shape = (*lead, classes + 1)
    x, leaf = await draw.floats(shape, F32, -5, 5)
    labels, other = await draw.floats(shape)
    logs = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    want = -(labels * logs).sum(axis=-1).mean().reshape(1)
    # Terms of both signs may nearly cancel: judged by what they are, not by their sum.
    size = np.abs(labels * logs).sum(axis=-1).mean() / max(abs(want[0]), 1e-9)
    return Case(ops.cross_entropy_loss(leaf, other), want, 1e-7 * max(1, size**2))


@case("count_equal")
async def count_equal(draw: Draw, _: str) -> Case:
    shape, dtype = draw.shape(), draw.one_of(I32, I64)
    a, left = await draw.integers(shape, 3, dtype)
    b, right = await draw.integers(shape, 3, dtype)
    return Case(ops.count_equal(left, right), np.array([(a == b).sum()]), 0)


@case("argmax", "argsort")
async def ordered(draw: Draw, name: str) -> Case:
    x, leaf = await draw.integers(draw.shape(), 20, F32)
    if name == "argmax":
        node = ops.argmax(leaf)
        return Case(node, x.argmax(axis=-1).reshape(node.shape), 0)
    down = bool(draw.integer(0, 1))
    want = (-x if down else x).argsort(axis=-1, kind="stable")
    return Case(ops.argsort(leaf, descending=down), want, 0)


@case("solve_tri")
async def solve_tri(draw: Draw, _: str) -> Case:
    *lead, m = draw.shape(most=3)
    n = draw.integer(1, 20)
    # The diagonal is kept away from zero: that is what such systems are like.
    a = draw.runs.uniform((*lead, n, n)) / np.float32(n) + 2 * np.eye(n)
    a = a.astype(np.float32)
    left = await draw.lay(a, F32)
    b, right = await draw.floats((*lead, n, m))
    want = np.linalg.solve(np.tril(a).astype(np.float64), b)
    return Case(ops.solve_tri(left, right), want)


# ---- products ----


def divided(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return leading axes that divide those of a shape."""
    return tuple(
        draw.one_of(*(k for k in range(1, n + 1) if n % k == 0)) for n in shape
    )


@case("mul_mat")
async def mul_mat(draw: Draw, _: str) -> Case:
    *lead, k = draw.shape(least=2, longest=5)
    batch, n = tuple(lead[:-1]), draw.integer(1, 40)
    if draw.integer(0, 3) == 0:
        dtype = draw.one_of(Q4_0, Q8_0)
        k = 32 * draw.integer(1, 4)
        weights, w = await draw.runs.weights((*divided(draw, batch), n, k), dtype)
    else:
        w, weights = await draw.floats(
            (*divided(draw, batch), n, k), draw.float_dtype()
        )
    is_packed = weights.dtype.is_quantized
    x_dtype = draw.one_of(F32, F16) if is_packed else draw.float_dtype()
    x, leaf = await draw.floats((*lead, k), x_dtype)
    if is_packed:
        leaf = ops.cont(leaf)
    node = ops.mul_mat(weights, leaf)
    return Case(node, product(w, x).reshape(node.shape), PRODUCT)


@case("out_prod")
async def out_prod(draw: Draw, _: str) -> Case:
    *lead, n = draw.shape(least=2)
    batch, k, m = tuple(lead[:-1]), lead[-1], draw.integer(1, 33)
    short = divided(draw, batch)
    a, left = await draw.floats((*short, k, m), draw.float_dtype())
    b, right = await draw.floats((*batch, k, n), draw.float_dtype())
    for axis, (long, part) in enumerate(zip(batch, short, strict=True)):
        a = np.repeat(a, long // part, axis=axis)
    return Case(ops.out_prod(left, right), np.swapaxes(b, -1, -2) @ a, PRODUCT)


@case("mul_mat_id")
async def mul_mat_id(draw: Draw, _: str) -> Case:
    experts, tokens, n = draw.integer(1, 6), draw.integer(1, 4), draw.integer(1, 20)
    used = draw.integer(1, experts)
    dtype = draw.one_of(F32, F16, Q4_0, Q8_0)
    k = 32 * draw.integer(2, 3) if dtype.is_quantized else draw.integer(1, 40)
    if dtype.is_quantized:
        weights, w = await draw.runs.weights((experts, n, k), dtype)
    else:
        w, weights = await draw.floats((experts, n, k), dtype)
    x, leaf = await draw.floats((tokens, draw.one_of(1, used), k))
    chosen, ids = await draw.integers((tokens, used), experts)
    if dtype.is_quantized:
        leaf = ops.cont(leaf)
    wide = np.broadcast_to(x, (tokens, used, k))
    want = np.einsum("tunk,tuk->tun", w[chosen], wide)
    return Case(ops.mul_mat_id(weights, leaf, ids), want, PRODUCT)


# ---- moving ----


@case("cast", "cont", "dup")
async def copied(draw: Draw, name: str) -> Case:
    if name == "cast":
        source, target = draw.float_dtype(), draw.float_dtype()
        x, leaf = await draw.floats(draw.shape(), source)
        return Case(ops.cast(leaf, target), rounded(x, target), 0, target)
    dtype = draw.one_of(*PLAIN)
    x, leaf = await draw.integers(draw.shape(), 100, dtype)
    return Case(getattr(ops, name)(leaf), x, 0)


@case("cpy")
async def cpy(draw: Draw, _: str) -> Case:
    source, target = draw.float_dtype(), draw.float_dtype()
    x, leaf = await draw.floats(draw.shape(), source)
    shape = draw.one_of(x.shape, (x.size,), (1, x.size))
    dst = await draw.runs.leaf(
        np.zeros(shape), target, draw.one_of("contiguous", "sliced")
    )
    return Case(ops.cont(ops.cpy(leaf, dst)), rounded(x, target).reshape(shape), 0)


@case("get_rows")
async def get_rows(draw: Draw, _: str) -> Case:
    dtype = draw.one_of(*FLOATS, Q8_0)
    n, count = draw.integer(1, 20), draw.integer(1, 6)
    if dtype is Q8_0:
        table, rows = await draw.runs.weights((n, 32 * draw.integer(1, 3)), dtype)
        chosen, ids = await draw.integers(draw.shape(most=3, longest=3), n)
        return Case(ops.get_rows(table, ids), rows[chosen], 1e-6)
    lead = tuple(draw.integer(1, 3) for _ in range(draw.integer(0, 2)))
    rows, table = await draw.floats((*lead, n, draw.integer(1, 40)), dtype)
    chosen, ids = await draw.integers((*lead, count), n, draw.one_of(I32, I64))
    want = np.take_along_axis(rows, chosen[..., None], axis=-2)
    return Case(ops.get_rows(table, ids), want, 0)


@case("set_rows")
async def set_rows(draw: Draw, _: str) -> Case:
    lead = tuple(draw.integer(1, 4) for _ in range(draw.integer(0, 2)))
    n, r, k = draw.integer(1, 12), draw.integer(1, 12), draw.integer(1, 40)
    source, target = draw.one_of(F32, F16), draw.float_dtype()
    r = min(n, r)
    x, leaf = await draw.floats((*lead, r, k), source)
    short = divided(draw, lead)
    ids = np.stack(
        [draw.runs.random.permutation(n)[:r] for _ in range(math.prod(short))]
    ).reshape(*short, r)
    where = await draw.lay(ids, draw.one_of(I32, I64))
    want = draw.runs.uniform((*lead, n, k), target)
    layout = draw.one_of("contiguous", "permuted", "sliced")
    dst = await draw.runs.leaf(want, target, layout)
    np.put_along_axis(
        want, repeat_to(ids, lead)[..., None], rounded(x, target), axis=-2
    )
    return Case(ops.cont(ops.set_rows(leaf, where, dst)), want, 0)


@case("set", "acc")
async def into_part(draw: Draw, name: str) -> Case:
    dtype = F32 if name == "acc" else draw.one_of(F32, I32)
    a, left = await draw.integers(draw.shape(least=2), 50, dtype)
    part = tuple(draw.integer(1, n) for n in a.shape)
    starts = [draw.integer(0, n - m) for n, m in zip(a.shape, part, strict=True)]
    b, right = await draw.integers(part, 50, dtype)
    where = tuple(slice(at, at + m) for at, m in zip(starts, part, strict=True))
    want = a.copy()
    want[where] = b + (a[where] if name == "acc" else 0)
    places = np.ravel_multi_index(starts, a.shape)
    node = getattr(ops, name)(left, right, offset=dtype.block_bytes * int(places))
    return Case(node, want, 0)


@case("concat")
async def concat(draw: Draw, _: str) -> Case:
    dtype, shape = draw.one_of(*PLAIN), draw.shape()
    axis = draw.integer(-len(shape), len(shape) - 1)
    other = list(shape)
    other[axis] = draw.integer(1, 9)
    a, left = await draw.integers(shape, 100, dtype)
    b, right = await draw.integers(tuple(other), 100, dtype)
    return Case(ops.concat(left, right, axis), np.concatenate([a, b], axis), 0)


@case("repeat", "pad", "pad_reflect_1d", "upscale")
async def longer(draw: Draw, name: str) -> Case:
    dtype = draw.float_dtype() if name == "upscale" else draw.one_of(*PLAIN)
    x, leaf = await draw.integers(draw.shape(least=2), 100, dtype)
    if name == "repeat":
        times = [draw.integer(1, 3) for _ in x.shape]
        shape = [n * m for n, m in zip(x.shape, times, strict=True)]
        return Case(ops.repeat(leaf, shape), np.tile(x, times), 0)
    if name == "pad":
        widths = [(draw.integer(0, 3), draw.integer(0, 3)) for _ in x.shape]
        return Case(ops.pad(leaf, widths), np.pad(x, widths), 0)
    if name == "pad_reflect_1d":
        most = x.shape[-1] - 1
        before, after = draw.integer(0, min(5, most)), draw.integer(0, min(5, most))
        pairs = [(0, 0)] * (x.ndim - 1) + [(before, after)]
        want = np.pad(x, pairs, mode="reflect")
        return Case(ops.pad_reflect_1d(leaf, before, after), want, 0)
    height, width = draw.integer(1, 20), draw.integer(1, 70)
    rows = np.arange(height) * x.shape[-2] // height
    columns = np.arange(width) * x.shape[-1] // width
    want = x[..., rows, :][..., columns]
    return Case(ops.upscale(leaf, height, width), want, 0)


@case("tri", "diag", "diag_mask_inf")
async def triangular(draw: Draw, name: str) -> Case:
    shape = draw.shape(least=2)
    if name == "diag":
        x, leaf = await draw.floats((*shape[:-2], 1, shape[-1]))
        return Case(ops.diag(leaf), x * np.eye(shape[-1]), 0)
    if name == "tri":
        x, leaf = await draw.floats(shape)
        kind = draw.one_of("lower", "lower_diag", "upper", "upper_diag")
        cut = np.tril if kind.startswith("lower") else np.triu
        by = 0 if kind.endswith("diag") else -1 if cut is np.tril else 1
        return Case(ops.tri(leaf, kind), cut(x, by), 0)
    x, leaf = await draw.floats(shape, draw.float_dtype())
    n_past = draw.integer(0, 40)
    behind = np.arange(shape[-1]) > np.arange(shape[-2])[:, None] + n_past
    return Case(ops.diag_mask_inf(leaf, n_past), np.where(behind, -np.inf, x), 0)


# ---- numbers from nothing ----


@case("arange")
async def arange(draw: Draw, _: str) -> Case:
    start, step = f32(draw.number(-50, 50)), draw.one_of(0.25, 1.0, -0.5, 3.0)
    count = draw.integer(1, 500)
    want = start + step * np.arange(count)
    return Case(ops.arange(start, f32(start + step * (count - 0.5)), step), want)


@case("timestep_embedding")
async def timestep_embedding(draw: Draw, _: str) -> Case:
    steps, leaf = await draw.integers((draw.integer(1, 9),), 1000, F32)
    dim, period = draw.integer(2, 33), draw.one_of(100, 10000)
    half = dim // 2
    angles = steps[:, None] * np.exp(-np.log(period) * np.arange(half) / half)
    want = np.zeros((len(steps), dim))
    want[:, :half], want[:, half : 2 * half] = np.cos(angles), np.sin(angles)
    return Case(ops.timestep_embedding(leaf, dim, period), want)


# ---- attention ----


@case("rope")
async def roped(draw: Draw, _: str) -> Case:
    dtype, mode = draw.one_of(F32, F16), draw.one_of(0, 2, 8, 24, 40)
    width, tokens = 2 * draw.integer(2, 40), draw.integer(1, 6)
    n_dims = width // 2 if mode == 24 else 2 * draw.integer(1, width // 2)
    if mode == 24 and width % 4:
        width, n_dims = 2 * width, width
    parts = draw.one_of((3, 2, 2, 1), (4, 4, 4, 0), (16, 24, 24, 0))
    x, leaf = await draw.floats(
        (draw.integer(1, 2), tokens, draw.integer(1, 4), width), dtype
    )
    count = tokens * (4 if mode in (8, 24, 40) else 1)
    positions, where = await draw.integers((count,), 512)
    half = (width if mode == 24 else n_dims) // 2
    values, factors = await draw.floats((half,), F32, 0.9, 1.1)
    base, scale = draw.one_of(10000.0, 500.0), draw.one_of(1.0, 0.5)
    ext, attn = draw.one_of(0.0, f32(0.7465)), draw.one_of(1.0, 1.25)
    has_factors = draw.integer(0, 1) == 1
    node = ops.rope(
        leaf,
        where,
        factors if has_factors else None,
        n_dims=n_dims,
        mode=mode,
        n_ctx_orig=512,
        freq_base=base,
        freq_scale=scale,
        ext_factor=ext,
        attn_factor=attn,
        sections=parts,
    )
    want = rope(
        x,
        positions,
        n_dims,
        mode,
        factors=values if has_factors else None,
        base=base,
        scale=scale,
        ext=ext,
        attn=attn,
        context=512,
        sections=parts,
    )
    return Case(node, want, dtype=dtype)


@case("flash_attn_ext")
async def flash_attn_ext(draw: Draw, _: str) -> Case:
    batch, key_heads, group = (draw.integer(1, 2) for _ in range(3))
    m, n, width = draw.integer(1, 20), draw.integer(1, 70), draw.one_of(16, 40, 64, 80)
    heads, scale = key_heads * group, f32(1 / math.sqrt(width))
    q, queries = await draw.floats((batch, heads, m, width), draw.one_of(F32, F16))
    k, keys = await draw.floats((batch, key_heads, n, width), F16)
    v, values = await draw.floats((batch, key_heads, n, width), F16)
    mask, extra, max_bias = None, None, 0.0
    if draw.integer(0, 1):
        max_bias = draw.one_of(0.0, 8.0)
        shape = (
            draw.one_of(1, batch),
            draw.one_of(1, heads),
            m + draw.integer(0, 5),
            n,
        )
        mask, extra = await draw.floats(shape, F16)
    node = ops.flash_attn_ext(
        queries, keys, values, extra, scale=scale, max_bias=max_bias
    )
    return Case(node, attention(q, k, v, mask, scale, max_bias), PRODUCT)


@case("gated_linear_attn")
async def gated_linear_attn(draw: Draw, _: str) -> Case:
    sequences, length, heads = (draw.integer(1, 3) for _ in range(3))
    size = draw.integer(1, 20)
    shape = (sequences * length, heads, size)
    leaves, split = [], []
    for _i in range(4):
        x, leaf = await draw.floats(shape)
        leaves.append(leaf)
        split.append(x.reshape(sequences, length, heads, size))
    state = draw.runs.uniform((sequences, heads, size, size))
    leaves.append(await draw.runs.leaf(state))
    k, v, q, g = split
    states, want = state.astype(np.float64), np.empty(k.shape)
    for t in range(length):
        states = states * g[:, t, :, :, None]
        states += k[:, t, :, :, None] * v[:, t, :, None, :]
        want[:, t] = 0.5 * np.einsum("shi,shij->shj", q[:, t], states)
    rows = (-1, heads * size)
    want = np.concatenate([want.reshape(rows), states.reshape(rows)])
    return Case(ops.gated_linear_attn(*leaves, scale=0.5), want)


# ---- windows ----


def place(draw: Draw, n: int, dilation: int) -> int:
    """Return the length of a kernel that fits in n."""
    return draw.integer(1, min(4, 1 + (n - 1) // dilation))


@case("im2col")
async def im2col(draw: Draw, _: str) -> Case:
    (n, c), (h, w) = (
        (draw.integer(1, 3), draw.integer(1, 4)),
        (
            draw.integer(1, 12),
            draw.integer(1, 12),
        ),
    )
    stride, padding, dilation = (
        (draw.integer(low, high), draw.integer(low, high))
        for low, high in ((1, 3), (0, 2), (1, 2))
    )
    kernel = place(draw, h, dilation[1]), place(draw, w, dilation[0])
    dtype = draw.one_of(F32, F16)
    x, leaf = await draw.floats((n, c, h, w), draw.one_of(F32, F16))
    shape = draw.runs.uniform((2, c, *kernel), F16)
    node = ops.im2col(
        await draw.runs.leaf(shape, F16),
        leaf,
        stride=stride,
        padding=padding,
        dilation=dilation,
        dtype=dtype,
    )
    want = windows(x, kernel, stride, padding, dilation)
    return Case(node, rounded(want.reshape(node.shape), dtype), 0)


@case("pool_2d")
async def pool_2d(draw: Draw, _: str) -> Case:
    average = bool(draw.integer(0, 1))
    shape = draw.shape(least=4)
    kw, kh = draw.integer(1, min(4, shape[-1])), draw.integer(1, min(4, shape[-2]))
    stride = draw.integer(1, 3), draw.integer(1, 3)
    padding = draw.integer(0, kw // 2), draw.integer(0, kh // 2)
    x, leaf = await draw.floats(shape)
    node = ops.pool_2d(leaf, (kw, kh), average=average, stride=stride, padding=padding)
    edges = ((0, 0), (0, 0), (padding[1],) * 2, (padding[0],) * 2)
    x = np.pad(x, edges, constant_values=0 if average else -np.inf)
    seen = windows(x, (kh, kw), stride, (0, 0), (1, 1)).transpose(0, 3, 1, 2, 4, 5)
    want = seen.mean(axis=(-1, -2)) if average else seen.max(axis=(-1, -2))
    return Case(node, want)


@case("conv_transpose_1d")
async def conv_transpose_1d(draw: Draw, _: str) -> Case:
    c, out, length = draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 20)
    taps, stride = draw.one_of(1, 2, 5, 16, 255, 256, 300), draw.integer(1, 3)
    w, kernel = await draw.floats((c, out, taps))
    x, leaf = await draw.floats((c, length))
    want = np.zeros((out, (length - 1) * stride + taps))
    for i in range(length):
        want[:, i * stride : i * stride + taps] += np.einsum("iok,i->ok", w, x[:, i])
    return Case(ops.conv_transpose_1d(kernel, leaf, stride=stride), want)


@case("ssm_conv")
async def ssm_conv(draw: Draw, _: str) -> Case:
    n, channels, taps = draw.integer(1, 3), draw.integer(1, 9), draw.integer(1, 4)
    x, leaf = await draw.floats((n, channels, taps - 1 + draw.integer(1, 20)))
    w, kernel = await draw.floats((channels, taps))
    seen: Array = np.lib.stride_tricks.sliding_window_view(x, taps, axis=-1)
    return Case(ops.ssm_conv(leaf, kernel), np.einsum("nclk,ck->nlc", seen, w))
