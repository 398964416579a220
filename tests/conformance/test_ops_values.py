"""What every op computes: each dtype and layout against float64."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import BF16, F16, F32, I32, I64, ops
from aiocann.dtypes import DType
from helpers.op_references import BINARY, UNARY, product, repeat_into, slopes, softmax
from helpers.op_runs import (
    FLOATS,
    LAYOUTS,
    OpRuns,
    check_close,
    rounded,
)

# One driver: how a driver was loaded has nothing to do with what its ops compute; that
# they are all there on each is tested in test_ops_graphs.py.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]

SHAPES = [(128,), (5, 7), (2, 2, 2, 128), (13, 11, 7, 5)]


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: what an op computes has nothing to do with it."""
    return "asyncio"


@pytest.fixture
async def runs(opened: Any) -> AsyncIterator[OpRuns]:
    async with opened() as rt:
        yield OpRuns(rt.devices[0].backend())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", list(UNARY))
async def test_unary(runs: OpRuns, name: str, dtype: DType) -> None:
    reference, low, high = UNARY[name]
    function = getattr(ops, name)
    for shape in SHAPES:
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype, low, high)
            (got,) = await runs.compute(function(await runs.leaf(x, dtype, layout)))
            with np.errstate(over="ignore"):
                check_close(got, reference(x.astype(np.float64)), dtype)


BROADCASTS = [
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 5), (1, 1, 4, 1)),
    ((2, 6, 4, 5), (3, 4, 5)),
    ((4, 6, 8, 10), (2, 3, 4, 5)),
    ((7,), (1,)),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", list(BINARY))
async def test_binary(runs: OpRuns, name: str, dtype: DType) -> None:
    for shape, other in BROADCASTS:
        for layout in LAYOUTS:
            a, b = runs.uniform(shape, dtype), runs.uniform(other, dtype, 0.5, 2)
            node = getattr(ops, name)(
                await runs.leaf(a, dtype, layout), await runs.leaf(b, dtype, layout)
            )
            (got,) = await runs.compute(node)
            want = BINARY[name](a.astype(np.float64), repeat_into(b, shape))
            check_close(got, want, dtype)


@pytest.mark.parametrize("name", list(BINARY))
@pytest.mark.parametrize(("left", "right"), [(F32, F16), (F16, F32), (F32, BF16)])
async def test_binary_of_two_dtypes(
    runs: OpRuns, name: str, left: DType, right: DType
) -> None:
    a, b = runs.uniform((3, 5), left), runs.uniform((5,), right, 0.5, 2)
    node = getattr(ops, name)(await runs.leaf(a, left), await runs.leaf(b, right))
    assert node.dtype is left
    (got,) = await runs.compute(node)
    check_close(got, BINARY[name](a.astype(np.float64), b), left)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_scale_and_clamp(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        x = runs.uniform((3, 4, 50), dtype)
        leaf = await runs.leaf(x, dtype, layout)
        plain, shifted, cut = await runs.compute(
            ops.scale(leaf, 3.25),
            ops.scale(leaf, -1.7, bias=0.9),
            ops.clamp(leaf, -0.25, 0.5),
        )
        wide = x.astype(np.float64)
        check_close(plain, wide * 3.25, dtype)
        check_close(shifted, wide * np.float32(-1.7) + np.float32(0.9), dtype)
        check_close(cut, np.clip(wide, -0.25, 0.5), dtype)


PRODUCTS = [
    ((3, 4), (5, 4)),
    ((16, 1), (1, 1)),
    ((384, 384), (4, 7, 384)),
    ((33, 193), (193,)),
    ((2, 3, 64), (2, 5, 64)),
    ((2, 3, 64), (6, 5, 64)),
    ((3, 2, 16, 128), (3, 2, 9, 128)),
    ((3, 2, 16, 128), (6, 4, 9, 128)),
    ((1, 2, 8, 16), (3, 4, 1, 16)),
    ((3, 1, 8, 16), (3, 4, 5, 16)),
]


@pytest.mark.parametrize("x_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("w_dtype", FLOATS, ids=str)
async def test_mul_mat(runs: OpRuns, w_dtype: DType, x_dtype: DType) -> None:
    for w_shape, x_shape in PRODUCTS:
        w, x = runs.uniform(w_shape, w_dtype), runs.uniform(x_shape, x_dtype)
        want = product(w, x)
        for w_layout, x_layout in zip(LAYOUTS, (*LAYOUTS[1:], LAYOUTS[0]), strict=True):
            node = ops.mul_mat(
                await runs.leaf(w, w_dtype, w_layout),
                await runs.leaf(x, x_dtype, x_layout),
            )
            (got,) = await runs.compute(node)
            # Float32 is kept: much nearer than the 5e-4 that such backends promise.
            check_close(got, want.reshape(node.shape), limit=1e-11)


async def test_mul_mat_hadamard(runs: OpRuns) -> None:
    """The rotation that spreads outliers before quantizing is a product like any."""
    for n in (32, 128, 512):
        matrix = np.ones((1, 1))
        while len(matrix) < n:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        matrix = (matrix / math.sqrt(n)).astype(np.float32)
        x = runs.uniform((2, 3, 5, n))
        w = await runs.leaf(matrix)
        turned = ops.mul_mat(w, await runs.leaf(x))
        got, back = await runs.compute(turned, ops.mul_mat(w, turned))
        check_close(got, x.astype(np.float64) @ matrix.astype(np.float64))
        check_close(back, x, limit=1e-12)  # it is its own inverse


async def test_mul_mat_may_trade_precision(runs: OpRuns) -> None:
    w, x = runs.uniform((32, 256)), runs.uniform((8, 256))
    leaves = await runs.leaf(w), await runs.leaf(x)
    exact, half = await runs.compute(
        ops.mul_mat(*leaves), ops.mul_mat(*leaves, cube_math_type=2)
    )
    check_close(exact, product(w, x), limit=1e-11)
    check_close(half, product(w, x), limit=5e-4)
    assert (exact != half).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_soft_max(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        for shape in [(7,), (2, 3, 5, 33), (4, 1000)]:
            x = runs.uniform(shape, dtype, -5, 5)
            leaf = await runs.leaf(x, dtype, layout)
            plain, scaled = await runs.compute(
                ops.soft_max(leaf), ops.soft_max(leaf, scale=0.125)
            )
            wide = x.astype(np.float64)
            check_close(plain, softmax(wide), dtype)
            check_close(scaled, softmax(wide * 0.125), dtype)


MASKS = [(2, 1, 1, 33), (2, 6, 5, 33), (5, 33), (32, 33), (1, 2, 9, 33)]


@pytest.mark.parametrize("max_bias", [0.0, 8.0])
@pytest.mark.parametrize("mask_dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_soft_max_with_mask(
    runs: OpRuns, dtype: DType, mask_dtype: DType, max_bias: float
) -> None:
    shape = (2, 6, 5, 33)
    for mask_shape in MASKS:
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype, -5, 5)
            mask = runs.uniform(mask_shape, mask_dtype, -5, 5)
            mask[..., 30:] = -np.inf
            node = ops.soft_max(
                await runs.leaf(x, dtype, layout),
                await runs.leaf(mask, mask_dtype, layout),
                scale=0.3,
                max_bias=max_bias,
            )
            (got,) = await runs.compute(node)
            added = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)[..., :5, :]
            added = repeat_into(added.astype(np.float64), shape)
            if max_bias:
                added = added * slopes(6, max_bias)[:, None, None]
            want = softmax(x.astype(np.float64) * np.float32(0.3) + added)
            check_close(got, want, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_normalisations(runs: OpRuns, dtype: DType) -> None:
    for shape in [(64,), (5, 384), (2, 3, 5, 33)]:
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype)
            leaf = await runs.leaf(x, dtype, layout)
            wide = x.astype(np.float64)
            centred = wide - wide.mean(axis=-1, keepdims=True)
            length = np.sqrt((wide**2).sum(axis=-1, keepdims=True))
            square = (wide**2).mean(axis=-1, keepdims=True)
            for eps in (0.0, 1e-5, 10.0):
                layer, rms, l2 = await runs.compute(
                    ops.norm(leaf, eps=eps),
                    ops.rms_norm(leaf, eps=eps),
                    ops.l2_norm(leaf, eps=eps),
                )
                deviation = np.sqrt(centred.var(axis=-1, keepdims=True) + eps)
                check_close(layer, centred / deviation, dtype)
                check_close(rms, wide / np.sqrt(square + eps), dtype)
                check_close(l2, wide / np.maximum(length, eps), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_reductions(runs: OpRuns, dtype: DType) -> None:
    for shape in [(64,), (5, 384), (2, 3, 5, 33)]:
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype, 0, 1)
            leaf = await runs.leaf(x, dtype, layout)
            total, rows, means = await runs.compute(
                ops.sum(leaf), ops.sum_rows(leaf), ops.mean(leaf)
            )
            wide = x.astype(np.float64)
            check_close(total, wide.sum().reshape(1), dtype)
            check_close(rows, wide.sum(axis=-1, keepdims=True), dtype)
            check_close(means, wide.mean(axis=-1, keepdims=True), dtype)


@pytest.mark.parametrize("id_dtype", [I32, I64], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_get_rows(runs: OpRuns, dtype: DType, id_dtype: DType) -> None:
    for layout in LAYOUTS:
        table = runs.uniform((30, 16), dtype)
        for shape in [(1,), (7,), (2, 5), (2, 3, 4)]:
            ids = runs.random.integers(0, 30, shape)
            node = ops.get_rows(
                await runs.leaf(table, dtype, layout),
                await runs.leaf(ids, id_dtype, layout),
            )
            (got,) = await runs.compute(node)
            assert node.dtype is F32
            assert (got == table[ids]).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_get_rows_of_many_tables(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        tables = runs.uniform((2, 3, 30, 8), dtype)
        ids = runs.random.integers(0, 30, (2, 3, 5))
        node = ops.get_rows(
            await runs.leaf(tables, dtype, layout), await runs.leaf(ids, I32, layout)
        )
        (got,) = await runs.compute(node)
        assert (got == np.take_along_axis(tables, ids[..., None], axis=2)).all()


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
async def test_copies_of_all_pairs(runs: OpRuns, source: DType, target: DType) -> None:
    for layout in LAYOUTS:
        x = runs.uniform((3, 4, 10), source)
        leaf = await runs.leaf(x, source, layout)
        dst = await runs.leaf(np.zeros((3, 4, 10)), target, layout)
        flat = await runs.leaf(np.zeros(120), target)
        got = await runs.compute(
            ops.cast(leaf, target), ops.cont(ops.cpy(leaf, dst)), ops.cpy(leaf, flat)
        )
        want = rounded(x, target)
        assert (got[0] == want).all()
        assert (got[1] == want).all()
        assert (got[2].reshape(x.shape) == want).all()
        assert (await runs.read(dst) == want).all()


@pytest.mark.parametrize("dtype", [aiocann.I8, aiocann.I16, I32, I64, *FLOATS], ids=str)
async def test_cont_and_dup(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        x = runs.random.integers(-100, 100, (3, 4, 10))
        leaf = await runs.leaf(x, dtype, layout)
        for got in await runs.compute(ops.cont(leaf), ops.dup(leaf)):
            assert (got == x).all()


async def test_cpy_between_shapes_with_gaps(runs: OpRuns) -> None:
    x = runs.uniform((4, 6))
    src = await runs.leaf(x, F32, "permuted")
    dst = await runs.leaf(np.zeros((3, 8)), F16, "sliced")
    await runs.compute(ops.cont(ops.cpy(src, dst)))
    assert (await runs.read(dst) == rounded(x, F16).reshape(3, 8)).all()


async def test_cpy_onto_overlapping_storage(runs: OpRuns) -> None:
    x = runs.uniform((100,))
    leaf = await runs.leaf(x)
    head, tail = ops.view(leaf, (90,)), ops.view(leaf, (90,), offset=40)
    await runs.compute(ops.cpy(head, tail))
    assert (await runs.read(leaf) == np.concatenate([x[:10], x[:90]])).all()


async def test_views(runs: OpRuns) -> None:
    x = runs.uniform((2, 3, 4, 5))
    leaf = await runs.leaf(x)
    got = await runs.compute(
        ops.cont(ops.permute(leaf, (2, 0, 3, 1))),
        ops.cont(ops.permute(leaf, (-1, 0, 1, 2))),
        ops.cont(ops.transpose(leaf)),
        ops.cont(ops.reshape(leaf, (6, -1))),
        ops.cont(ops.view(leaf, (3, 5), (20, 4), offset=8)),
        ops.cont(ops.view(ops.view(leaf, (60,), offset=80), (2, 7), offset=12)),
    )
    assert (got[0] == x.transpose(2, 0, 3, 1)).all()
    assert (got[1] == x.transpose(3, 0, 1, 2)).all()
    assert (got[2] == x.swapaxes(-1, -2)).all()
    assert (got[3] == x.reshape(6, 20)).all()
    flat = x.reshape(-1)
    strided = np.lib.stride_tricks.as_strided(flat[2:], (3, 5), (20, 4))
    assert (got[4] == strided).all()
    assert (got[5] == flat[23:37].reshape(2, 7)).all()


async def test_no_elements(runs: OpRuns) -> None:
    leaf = await runs.leaf(np.zeros((0, 4)))
    w = await runs.leaf(np.zeros((3, 4)))
    for got, shape in zip(
        await runs.compute(ops.neg(leaf), ops.mul_mat(w, leaf), ops.sum_rows(leaf)),
        [(0, 4), (0, 3), (0, 1)],
        strict=True,
    ):
        assert got.shape == shape
