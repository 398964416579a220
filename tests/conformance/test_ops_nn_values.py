"""What attention, ordering and windows compute: against float64."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import F16, F32, I32, ops
from aiocann.dtypes import DType
from helpers.op_references import attention, rope, windows
from helpers.op_runs import FLOATS, LAYOUTS, OpRuns, check_close

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: what an op computes has nothing to do with it."""
    return "asyncio"


@pytest.fixture
async def runs(opened: Any) -> AsyncIterator[OpRuns]:
    async with opened() as rt:
        yield OpRuns(rt.devices[0].backend())


# ---- rope ----


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("mode", [0, 2, 8, 24, 40])
async def test_rope(runs: OpRuns, mode: int, dtype: DType) -> None:
    sections = (16, 24, 24, 0) if mode == 8 else (12, 10, 10, 0)
    for n, n_dims, layout in [
        (64, 64, "contiguous"),
        (64, 64, "permuted"),
        (80, 32, "sliced"),
    ]:
        if mode == 24:
            n_dims = n // 2
        x = runs.uniform((2, 5, 3, n), dtype)
        count = 20 if mode in (8, 24, 40) else 5
        positions = runs.random.integers(0, 512, count).astype(np.int32)
        factors = runs.uniform((n // 2,), F32, 0.9, 1.1)
        leaf = await runs.leaf(x, dtype, layout)
        where = await runs.leaf(positions, I32)
        plain, corrected = await runs.compute(
            ops.rope(leaf, where, n_dims=n_dims, mode=mode, sections=sections),
            ops.rope(
                leaf,
                where,
                await runs.leaf(factors),
                n_dims=n_dims,
                mode=mode,
                n_ctx_orig=512,
                freq_scale=0.5,
                ext_factor=0.7465,
                attn_factor=1.25,
                sections=sections,
            ),
        )
        check_close(plain, rope(x, positions, n_dims, mode, sections=sections), dtype)
        want = rope(
            x,
            positions,
            n_dims,
            mode,
            factors=factors,
            scale=0.5,
            ext=0.7465,
            attn=1.25,
            context=512,
            sections=sections,
        )
        check_close(corrected, want, dtype)


async def test_ropes_of_one_graph_share_nothing(runs: OpRuns) -> None:
    """Positions, bases and scales differ from node to node."""
    x = runs.uniform((1, 4, 2, 32))
    leaf = await runs.leaf(x)
    first = np.array([0, 1, 2, 3], np.int32)
    second = np.array([7, 5, 300, 2], np.int32)
    results = await runs.compute(
        ops.rope(leaf, await runs.leaf(first, I32), n_dims=32),
        ops.rope(leaf, await runs.leaf(second, I32), n_dims=32),
        ops.rope(leaf, await runs.leaf(second, I32), n_dims=32, freq_scale=0.25),
        ops.rope(leaf, await runs.leaf(second, I32), n_dims=32, freq_base=500.0),
    )
    check_close(results[0], rope(x, first, 32, 0))
    check_close(results[1], rope(x, second, 32, 0))
    check_close(results[2], rope(x, second, 32, 0, scale=0.25))
    check_close(results[3], rope(x, second, 32, 0, base=500.0))


async def test_rope_refuses(runs: OpRuns) -> None:
    x = await runs.leaf(runs.uniform((1, 4, 2, 32)))
    where = await runs.leaf(np.arange(4, dtype=np.int32), I32)
    with pytest.raises(aiocann.UsageError, match="n_dims"):
        ops.rope(x, where, n_dims=33)
    with pytest.raises(aiocann.UsageError, match="positions"):
        ops.rope(x, where, n_dims=32, mode=8, sections=(4, 4, 4, 4))
    with pytest.raises(aiocann.UnsupportedError, match="mode"):
        ops.rope(x, where, n_dims=32, mode=3)


# ---- attention ----


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("width", [40, 64, 80, 128])
async def test_flash_attn_ext(runs: OpRuns, width: int, dtype: DType) -> None:
    scale = 1 / math.sqrt(width)
    for m, n, group, max_bias, masked in [
        (1, 113, 1, 0, True),
        (1, 600, 4, 8, True),
        (3, 113, 1, 8, True),
        (35, 96, 2, 0, False),
        (75, 130, 3, 0, True),
    ]:
        batch, key_heads = 2, 2
        heads = key_heads * group
        q = runs.uniform((batch, heads, m, width), dtype)
        k = runs.uniform((batch, key_heads, n, width), F16)
        v = runs.uniform((batch, key_heads, n, width), F16)
        mask = runs.uniform((batch, 1, m + 5, n), F16)
        mask[..., ::3] = -np.inf
        # Keys lie as a cache has them: heads side by side in the row of a token.
        queries, keys, values = [
            ops.permute(
                await runs.leaf(t.transpose(0, 2, 1, 3).copy(), kind), (0, 2, 1, 3)
            )
            for t, kind in ((q, dtype), (k, F16), (v, F16))
        ]
        extra = await runs.leaf(mask, F16) if masked else None
        node = ops.flash_attn_ext(
            queries, keys, values, extra, scale=scale, max_bias=max_bias
        )
        (got,) = await runs.compute(node)
        want = attention(q, k, v, mask if masked else None, scale, max_bias)
        check_close(got, want, limit=5e-4)


async def test_flash_attn_ext_refuses(runs: OpRuns) -> None:
    q = await runs.leaf(runs.uniform((1, 2, 3, 32)))
    k = await runs.leaf(runs.uniform((1, 2, 5, 32), F16), F16)
    wide = await runs.leaf(runs.uniform((1, 2, 5, 48), F16), F16)
    with pytest.raises(aiocann.UnsupportedError, match="softcap"):
        ops.flash_attn_ext(q, k, k, scale=1, logit_softcap=2)
    with pytest.raises(aiocann.UnsupportedError, match="width"):
        ops.flash_attn_ext(q, k, wide, scale=1)
    with pytest.raises(aiocann.UnsupportedError, match="f32"):
        ops.flash_attn_ext(q, q, q, scale=1)
    with pytest.raises(aiocann.UsageError, match="mask"):
        ops.flash_attn_ext(q, k, k, scale=1, max_bias=8)


# ---- mixtures of experts ----


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_mul_mat_id(runs: OpRuns, dtype: DType) -> None:
    for experts, used, tokens, n, k in [
        (4, 2, 3, 7, 33),
        (16, 4, 5, 32, 64),
        (3, 1, 1, 5, 8),
    ]:
        for layout in LAYOUTS:
            w = runs.uniform((experts, n, k), dtype)
            ids = np.array(
                [runs.random.permutation(experts)[:used] for _ in range(tokens)],
                np.int32,
            )
            for rows, kind in ((used, F32), (1, F16)):
                x = runs.uniform((tokens, rows, k), kind)
                (got,) = await runs.compute(
                    ops.mul_mat_id(
                        await runs.leaf(w, dtype, layout),
                        await runs.leaf(x, kind, layout),
                        await runs.leaf(ids, I32, layout),
                    )
                )
                wide = np.broadcast_to(x, (tokens, used, k)).astype(np.float64)
                check_close(got, np.einsum("tunk,tuk->tun", w[ids], wide))


# ---- order ----


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_argmax_and_argsort(runs: OpRuns, dtype: DType) -> None:
    for shape in [(7,), (3, 50), (2, 3, 4, 999), (1, 5000)]:
        for layout in LAYOUTS:
            x = np.round(runs.uniform(shape) * 50).astype(np.float32)
            leaf = await runs.leaf(x, dtype, layout)
            largest, up, down = await runs.compute(
                ops.argmax(leaf), ops.argsort(leaf), ops.argsort(leaf, descending=True)
            )
            assert largest.dtype == np.int32
            np.testing.assert_array_equal(
                largest.reshape(-1), x.argmax(axis=-1).reshape(-1)
            )
            np.testing.assert_array_equal(up, x.argsort(axis=-1, kind="stable"))
            np.testing.assert_array_equal(down, (-x).argsort(axis=-1, kind="stable"))


async def test_solve_tri(runs: OpRuns) -> None:
    for batch, n, m in [((), 5, 1), ((3,), 16, 4), ((2, 2), 64, 10)]:
        for layout in LAYOUTS:
            a = runs.uniform((*batch, n, n)) / np.float32(n)
            a += 2 * np.eye(n, dtype=np.float32)
            b = runs.uniform((*batch, n, m))
            (got,) = await runs.compute(
                ops.solve_tri(
                    await runs.leaf(a, F32, layout), await runs.leaf(b, F32, layout)
                )
            )
            lower = np.tril(a).astype(np.float64)
            check_close(got, np.linalg.solve(lower, b.astype(np.float64)))


# ---- windows ----


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
async def test_im2col(runs: OpRuns, dtype: DType) -> None:
    for stride, padding, dilation in [
        ((1, 1), (0, 0), (1, 1)),
        ((2, 1), (1, 2), (1, 2)),
        ((3, 2), (2, 1), (2, 1)),
    ]:
        for layout in LAYOUTS:
            x = runs.uniform((2, 3, 12, 10))
            kernel = await runs.leaf(runs.uniform((4, 3, 3, 2), F16), F16)
            leaf = await runs.leaf(x, F32, layout)
            node = ops.im2col(
                kernel,
                leaf,
                stride=stride,
                padding=padding,
                dilation=dilation,
                dtype=dtype,
            )
            (got,) = await runs.compute(node)
            want = windows(x, (3, 2), stride, padding, dilation)
            want = want.reshape(*want.shape[:3], -1)
            np.testing.assert_array_equal(got, want.astype(dtype.numpy))
    x = runs.uniform((2, 5, 30))
    kernel = await runs.leaf(runs.uniform((7, 5, 4)))
    options: dict[str, Any] = {"stride": (2, 0), "padding": (3, 0), "dilation": (2, 0)}
    node = ops.im2col(kernel, await runs.leaf(x), is_2d=False, dtype=dtype, **options)
    (got,) = await runs.compute(node)
    want = windows(x[:, :, None], (1, 4), (2, 1), (3, 0), (2, 1))
    want = want.reshape(2, want.shape[2], -1)
    np.testing.assert_array_equal(got, want.astype(dtype.numpy))


async def test_pool_2d(runs: OpRuns) -> None:
    for kernel, stride, padding in [
        ((2, 2), None, (0, 0)),
        ((3, 2), (1, 2), (1, 1)),
        ((1, 4), (2, 1), (0, 2)),
    ]:
        for layout in LAYOUTS:
            x = runs.uniform((2, 3, 12, 10))
            leaf = await runs.leaf(x, F32, layout)
            largest, mean = await runs.compute(
                ops.pool_2d(leaf, kernel, stride=stride, padding=padding),
                ops.pool_2d(leaf, kernel, average=True, stride=stride, padding=padding),
            )
            turned = (kernel[1], kernel[0])
            steps = kernel if stride is None else stride
            wide = x.astype(np.float64)
            seen = windows(wide, turned, steps, padding, (1, 1))
            check_close(mean, seen.mean(axis=(-1, -2)).transpose(0, 3, 1, 2))
            pad = ((0, 0), (0, 0), (padding[1],) * 2, (padding[0],) * 2)
            wide = np.pad(wide, pad, constant_values=-np.inf)
            seen = windows(wide, turned, steps, (0, 0), (1, 1))
            check_close(largest, seen.max(axis=(-1, -2)).transpose(0, 3, 1, 2))
    leaf = await runs.leaf(runs.uniform((1, 1, 8, 8)))
    with pytest.raises(aiocann.UnsupportedError, match="half"):
        ops.pool_2d(leaf, (2, 2), padding=(2, 0))


async def test_conv_transpose_1d(runs: OpRuns) -> None:
    for taps, channels, stride in [(3, (4, 5), 1), (16, (2, 3), 3), (600, (3, 2), 2)]:
        for layout in LAYOUTS:
            w = runs.uniform((*channels, taps))
            x = runs.uniform((channels[0], 40))
            (got,) = await runs.compute(
                ops.conv_transpose_1d(
                    await runs.leaf(w, F32, layout),
                    await runs.leaf(x, F32, layout),
                    stride=stride,
                )
            )
            want = np.zeros((channels[1], 39 * stride + taps))
            for i in range(40):
                part = np.einsum("iok,i->ok", w.astype(np.float64), x[:, i])
                want[:, i * stride : i * stride + taps] += part
            check_close(got, want)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_gated_linear_attn(runs: OpRuns, layout: str) -> None:
    for size, heads, sequences, length, scale in [
        (64, 32, 1, 1, 1.0),
        (16, 2, 4, 3, 0.25),
        (8, 3, 2, 5, -2.0),
        (4, 1, 3, 0, 1.0),
    ]:
        shape = (sequences * length, heads, size)
        k, v, q, g = (runs.uniform(shape) for _ in range(4))
        state = runs.uniform((sequences, heads, size, size))
        leaves = [await runs.leaf(one, layout=layout) for one in (k, v, q, g)]
        leaves.append(await runs.leaf(state))
        attended = functools.partial(ops.gated_linear_attn, scale=scale)
        (got,) = await runs.compute(attended(*leaves))
        states = state.astype(np.float64)
        split = (sequences, length, heads, size)
        k, v, q, g = (one.astype(np.float64).reshape(split) for one in (k, v, q, g))
        want = np.empty(split)
        for t in range(length):
            states *= g[:, t, :, :, None]
            states += k[:, t, :, :, None] * v[:, t, :, None, :]
            want[:, t] = scale * np.einsum("shi,shij->shj", q[:, t], states)
        width = heads * size
        check_close(
            got, np.concatenate([want.reshape(-1, width), states.reshape(-1, width)])
        )


async def test_gated_linear_attn_tells_what_it_takes(runs: OpRuns) -> None:
    k = await runs.leaf(runs.uniform((6, 2, 8)))
    narrow = ops.view(k, (6, 2, 4))
    state = await runs.leaf(runs.uniform((4, 2, 8, 8)))
    with pytest.raises(aiocann.UsageError, match="same shape"):
        ops.gated_linear_attn(k, narrow, k, k, state, scale=1)
    with pytest.raises(aiocann.UsageError, match="as many for each"):
        ops.gated_linear_attn(k, k, k, k, state, scale=1)
    with pytest.raises(aiocann.UnsupportedError, match="without gaps"):
        ops.gated_linear_attn(
            k, k, k, k, ops.view(state, (2, 2, 8, 8), (1024, 512, 32, 4)), scale=1
        )


async def test_ssm_conv(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        x, kernel = runs.uniform((2, 33, 20)), runs.uniform((33, 4))
        (got,) = await runs.compute(
            ops.ssm_conv(
                await runs.leaf(x, F32, layout), await runs.leaf(kernel, F32, layout)
            )
        )
        seen = np.lib.stride_tricks.sliding_window_view(
            x.astype(np.float64), 4, axis=-1
        )
        check_close(got, np.einsum("nclk,ck->nlc", seen, kernel))


async def test_what_310p_lacks(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCANN_SIM_SOC", "Ascend310P3")
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = await runs.leaf(runs.uniform((1, 3, 2, 16)))
        where = await runs.leaf(np.arange(3, dtype=np.int32), I32)
        half = ops.cast(x, F16)
        kept = [
            ops.rope(x, where, n_dims=16, mode=2),
            ops.pool_2d(x, (2, 2), average=True),
        ]
        refused = [
            ops.rope(x, where, n_dims=16),
            ops.rope(x, where, n_dims=8, mode=2),
            ops.pool_2d(x, (2, 2)),
            ops.flash_attn_ext(x, half, half, scale=1),
            ops.out_prod(x, x),
        ]
        assert [runs.backend.supports_op(node) for node in kept] == [True] * 2
        assert [runs.backend.supports_op(node) for node in refused] == [False] * 5
        await runs.compute(*kept)
        for node in refused:
            with pytest.raises(aiocann.UnsupportedError, match="Ascend310P3"):
                await runs.compute(node)
