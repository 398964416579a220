"""What the ops compute that pad, gate, compare and count: against float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import F16, F32, I32, I64, ops
from aiocann.dtypes import DType
from helpers.op_references import GLU, repeat_to
from helpers.op_runs import (
    FLOATS,
    LAYOUTS,
    OpRuns,
    check_close,
    rounded,
)

# One driver, one loop: see test_ops_values.py.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]

PLAIN = [aiocann.I8, aiocann.I16, I32, I64, *FLOATS]


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: what an op computes has nothing to do with it."""
    return "asyncio"


@pytest.fixture
async def runs(opened: Any) -> AsyncIterator[OpRuns]:
    async with opened() as rt:
        yield OpRuns(rt.devices[0].backend())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_gated_units(runs: OpRuns, dtype: DType) -> None:
    for name, shape in itertools.product(GLU, [(64,), (5, 6), (3, 2, 4, 34)]):
        function, gate = getattr(ops, name), GLU[name]
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype, -4, 4)
            other = runs.uniform(shape, dtype)
            leaf = await runs.leaf(x, dtype, layout)
            second = await runs.leaf(other, dtype, layout)
            packed, swapped, split = await runs.compute(
                function(leaf), function(leaf, swapped=True), function(leaf, second)
            )
            wide = x.astype(np.float64)
            a, b = np.split(wide, 2, axis=-1)
            check_close(packed, gate(a) * b, dtype)
            check_close(swapped, gate(b) * a, dtype)
            check_close(split, gate(wide) * other, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_add1_and_leaky_relu(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        x = runs.uniform((2, 3, 4, 5), dtype, -150, 150)
        leaf = await runs.leaf(x, dtype, layout)
        one = await runs.leaf(np.full((1, 1), 0.75), dtype)
        added, leaky = await runs.compute(
            ops.add1(leaf, one), ops.leaky_relu(leaf, 0.1)
        )
        wide = x.astype(np.float64)
        check_close(added, wide + 0.75, dtype)
        check_close(leaky, np.where(wide > 0, wide, wide * np.float32(0.1)), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_group_norm_has_room_for_statistics_of_every_dtype(
    runs: OpRuns, dtype: DType
) -> None:
    # TRAP: a backend sized them in elements, not bytes.
    for shape, groups in [((2, 6, 4, 5), 3), ((4, 3, 7), 2), ((3, 8, 1, 9), 8)]:
        for layout in LAYOUTS:
            x = runs.uniform(shape, dtype)
            node = ops.group_norm(
                await runs.leaf(x, dtype, layout), n_groups=groups, eps=1e-6
            )
            (got,) = await runs.compute(node)
            n = shape[0] if len(shape) == 4 else 1
            wide = x.astype(np.float64).reshape(n, groups, -1)
            centred = wide - wide.mean(axis=-1, keepdims=True)
            deviation = np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-6)
            check_close(got, (centred / deviation).reshape(shape), dtype)


async def test_cumsum(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        for shape in [(1,), (3000,), (2, 3, 4, 50)]:
            x = runs.uniform(shape)
            (got,) = await runs.compute(ops.cumsum(await runs.leaf(x, F32, layout)))
            check_close(got, x.astype(np.float64).cumsum(axis=-1))


async def test_cross_entropy_loss(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        for shape in [(30,), (10, 5), (2, 3, 4, 77)]:
            logits, labels = runs.uniform(shape, F32, -5, 5), runs.uniform(shape)
            (got,) = await runs.compute(
                ops.cross_entropy_loss(
                    await runs.leaf(logits, F32, layout),
                    await runs.leaf(labels, F32, layout),
                )
            )
            wide = logits.astype(np.float64)
            logs = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
            check_close(got, -(labels * logs).sum(axis=-1).mean().reshape(1))


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
async def test_count_equal_leaves_its_operands_alone(
    runs: OpRuns, dtype: DType
) -> None:
    # TRAP: a backend compared in place, and left ones and zeros behind.
    for layout in LAYOUTS:
        a, b = (runs.random.integers(0, 3, (4, 5, 60)) for _ in range(2))
        left, right = [await runs.leaf(x, dtype, layout) for x in (a, b)]
        node = ops.count_equal(left, right)
        assert node.dtype is I64
        (got,) = await runs.compute(node)
        assert got.tolist() == [(a == b).sum()]
        (again,) = await runs.compute(ops.cont(left))
        assert (again == a).all()


async def test_padding_and_repeating(runs: OpRuns) -> None:
    for dtype, layout in itertools.product(PLAIN, LAYOUTS):
        x = runs.random.integers(-100, 100, (2, 3, 4, 5))
        leaf = await runs.leaf(x, dtype, layout)
        widths = [(1, 0), (0, 2), (0, 0), (3, 1)]
        padded, rows, reflected, repeated = await runs.compute(
            ops.pad(leaf, widths),
            ops.pad(leaf, [(1, 2)]),
            ops.pad_reflect_1d(leaf, 4, 2),
            ops.repeat(leaf, (2, 6, 4, 15)),
        )
        assert (padded == np.pad(x, widths)).all()
        assert (rows == np.pad(x, [(0, 0)] * 3 + [(1, 2)])).all()
        mirror = [(0, 0)] * 3 + [(4, 2)]
        assert (reflected == np.pad(x, mirror, mode="reflect")).all()
        assert (repeated == np.tile(x, (1, 2, 1, 3))).all()


async def test_padding_makes_axes_and_fills_what_is_empty(runs: OpRuns) -> None:
    row = await runs.leaf(np.arange(3.0))
    empty = await runs.leaf(np.zeros((0, 3)))
    deeper, zeros, nothing = await runs.compute(
        ops.pad(row, [(1, 0), (0, 0), (2, 0)]),
        ops.pad(empty, [(1, 1), (0, 0)]),
        ops.pad(empty, [(0, 0), (1, 1)]),
    )
    assert (
        deeper == np.pad(np.arange(3.0).reshape(1, 1, 3), [(1, 0), (0, 0), (2, 0)])
    ).all()
    assert (zeros == np.zeros((2, 3))).all()
    assert nothing.shape == (0, 5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_upscale(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        for height, width in [(10, 12), (5, 6), (7, 9), (2, 3)]:
            x = runs.uniform((2, 3, 5, 6), dtype)
            (got,) = await runs.compute(
                ops.upscale(await runs.leaf(x, dtype, layout), height, width)
            )
            rows, columns = (
                np.arange(height) * 5 // height,
                np.arange(width) * 6 // width,
            )
            assert (got == x[..., rows, :][..., columns]).all()


async def test_triangles(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        for shape in [(5, 5), (2, 3, 4, 7)]:
            x = runs.uniform(shape)
            leaf = await runs.leaf(x, F32, layout)
            got = await runs.compute(
                *(
                    ops.tri(leaf, kind)
                    for kind in ("lower", "lower_diag", "upper", "upper_diag")
                )
            )
            assert (got[0] == np.tril(x, -1)).all()
            assert (got[1] == np.tril(x)).all()
            assert (got[2] == np.triu(x, 1)).all()
            assert (got[3] == np.triu(x)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_diag_mask_inf(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        x = runs.uniform((2, 3, 4, 9), dtype)
        x[..., 8] = np.inf
        leaf = await runs.leaf(x, dtype, layout)
        for n_past in (0, 3, 20):
            (got,) = await runs.compute(ops.diag_mask_inf(leaf, n_past))
            cut = np.arange(9) > np.arange(4)[:, None] + n_past
            assert (got == np.where(cut, -np.inf, x)).all()


async def test_arange(runs: OpRuns) -> None:
    for start, stop, step in [
        (0, 10, 1),
        (-3, 2.5, 0.75),
        (5, -5, -2.5),
        (0, 1, 0.1),
        (0.5, 0.3, 1),
        (3, 3, 1),
        (1e300, -1e300, 1),
        (0, 100_000, 0.5),
    ]:
        (got,) = await runs.compute(ops.arange(start, stop, step))
        count = max(math.ceil((stop - start) / step), 0)
        check_close(got, start + step * np.arange(count))
    # It has no operands that a graph could be computed for.
    total = ops.sum(ops.add(ops.arange(0, 4), ops.arange(10, 14)))
    assert (await runs.compute(total))[0] == 52
    for stop, step in [(1, 0), (math.inf, 1), (1e30, 1), (1, math.nan)]:
        with pytest.raises(aiocann.UsageError, match="arange"):
            ops.arange(0, stop, step)


async def test_diag_and_fill(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        x = runs.uniform((2, 3, 1, 5))
        leaf = await runs.leaf(x, F32, layout)
        matrices, full = await runs.compute(ops.diag(leaf), ops.fill(leaf, -2.5))
        assert (matrices == x * np.eye(5)).all()
        assert (full == np.full(x.shape, -2.5)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_set_rows_reads_its_source_in_its_own_dtype(
    runs: OpRuns, dtype: DType
) -> None:
    # TRAP: a backend read float16 rows as float32 ones where dst is float32.
    for source, id_dtype, layout in itertools.product(FLOATS, [I32, I64], LAYOUTS):
        for lead, id_lead in [
            ((), ()),
            ((4, 6), (1, 1)),
            ((4, 6), (2, 3)),
            ((6,), (3,)),
        ]:
            x = runs.uniform((*lead, 5, 8), source)
            table = runs.uniform((*lead, 9, 8), dtype)
            ids = np.stack(
                [runs.random.permutation(9)[:5] for _ in range(int(np.prod(id_lead)))]
            ).reshape(*id_lead, 5)
            dst = await runs.leaf(table, dtype, layout)
            node = ops.set_rows(
                await runs.leaf(x, source, layout),
                await runs.leaf(ids, id_dtype, layout),
                dst,
            )
            assert node.dtype is dtype
            await runs.compute(ops.cont(node))
            want, shown = table.copy(), repeat_to(ids, lead)
            np.put_along_axis(want, shown[..., None], rounded(x, dtype), axis=-2)
            assert (await runs.read(dst) == want).all()


async def test_set_rows_of_a_table_that_it_reads_is_refused(runs: OpRuns) -> None:
    table, ids = await runs.leaf(np.zeros((4, 8))), await runs.leaf(np.zeros(2), I32)
    node = ops.set_rows(ops.view(table, (2, 8)), ids, table)
    with pytest.raises(aiocann.UsageError, match="overlaps"):
        await runs.compute(ops.cont(node))


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
async def test_acc_and_set_lie_by_their_own_strides(runs: OpRuns, dtype: DType) -> None:
    # TRAP: a backend took the strides of the first operand for those of the part.
    size = dtype.block_bytes
    for layout in LAYOUTS:
        a = runs.random.integers(-9, 9, (3, 4, 5))
        b = runs.random.integers(-9, 9, (2, 3))
        left = await runs.leaf(a, dtype, layout)
        right = await runs.leaf(b, dtype, layout)
        want = a.copy()
        want[1, 1:3, 2:5] = b
        (got,) = await runs.compute(ops.set(left, right, offset=size * (20 + 5 + 2)))
        assert (got == want).all()
        want = a.copy()
        want[0:3:2, 0, 0:3] = b
        (got,) = await runs.compute(ops.set(left, right, (40 * size, size)))
        assert (got == want).all()
        if dtype in FLOATS:
            want = a.copy()
            want[1, 1:3, 2:5] += b
            (got,) = await runs.compute(
                ops.acc(left, right, (5 * size, size), 27 * size)
            )
            assert (got == want).all()
            want = a.copy()
            want[0:3:2, 0, 0:3] += b
            (got,) = await runs.compute(ops.acc(left, right, (40 * size, size)))
            assert (got == want).all()
            assert (await runs.read(left) == a).all()


async def test_concat(runs: OpRuns) -> None:
    for dtype, layout in itertools.product(PLAIN, LAYOUTS):
        for axis in (0, 1, -1):
            shapes = [[2, 3, 4], [2, 3, 4]]
            shapes[1][axis] = 7
            a, b = (runs.random.integers(-9, 9, shape) for shape in shapes)
            leaves = [await runs.leaf(x, dtype, layout) for x in (a, b)]
            (got,) = await runs.compute(ops.concat(leaves[0], leaves[1], axis))
            assert (got == np.concatenate([a, b], axis)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
async def test_out_prod(runs: OpRuns, dtype: DType) -> None:
    for layout in LAYOUTS:
        for a_shape, b_shape in [
            ((4, 3), (4, 5)),
            ((2, 16, 7), (6, 16, 9)),
            ((1, 3, 8, 5), (2, 3, 8, 4)),
        ]:
            a, b = runs.uniform(a_shape, dtype), runs.uniform(b_shape, dtype)
            node = ops.out_prod(
                await runs.leaf(a, dtype, layout), await runs.leaf(b, dtype, layout)
            )
            assert node.dtype is F32
            (got,) = await runs.compute(node)
            wide = a.astype(np.float64)
            for axis in range(a.ndim - 2):
                wide = np.repeat(wide, b_shape[axis] // a_shape[axis], axis=axis)
            check_close(got, np.swapaxes(b, -1, -2) @ wide, limit=1e-11)


async def test_timestep_embedding(runs: OpRuns) -> None:
    for layout in LAYOUTS:
        for dim in (2, 7, 16):
            steps = np.array([0.0, 12.0, 900.0])
            leaf = await runs.leaf(steps, F32, layout)
            (got,) = await runs.compute(ops.timestep_embedding(leaf, dim, 10000))
            half = dim // 2
            falling = np.exp(-np.log(10000) * np.arange(half) / half)
            angles = steps[:, None] * falling
            want = np.zeros((3, dim))
            want[:, :half], want[:, half : 2 * half] = np.cos(angles), np.sin(angles)
            check_close(got, want)


async def test_what_makes_no_sense_is_refused_where_it_is_built(runs: OpRuns) -> None:
    x = await runs.leaf(np.zeros((2, 3, 4, 5)))
    h = await runs.leaf(np.zeros((2, 3, 4, 5)), F16)
    ids = await runs.leaf(np.zeros(4), I32)
    senseless: list[Callable[[], object]] = [
        lambda: ops.add1(x, x),
        lambda: ops.swiglu(x),
        lambda: ops.swiglu(x, x, swapped=True),
        lambda: ops.group_norm(x, n_groups=0, eps=1e-5),
        lambda: ops.group_norm(x, n_groups=3, eps=0),
        lambda: ops.tri(x, "left"),
        lambda: ops.diag(x),
        lambda: ops.pad(x, [(-1, 0)]),
        lambda: ops.pad(x, [(0, 0)] * 5),
        lambda: ops.pad_reflect_1d(x, 5, 0),
        lambda: ops.upscale(x, 0, 4),
        lambda: ops.repeat(x, (2, 3, 4, 7)),
        lambda: ops.diag_mask_inf(x, -1),
        lambda: ops.concat(x, x, 4),
        lambda: ops.concat(x, ops.view(x, (2, 3, 2, 2)), 0),
        lambda: ops.set(x, x, offset=4),
        lambda: ops.acc(x, ids, (8,)),
        lambda: ops.out_prod(x, ops.view(x, (2, 3, 5, 4))),
        lambda: ops.timestep_embedding(x, 4, 100),
        lambda: ops.set_rows(x, ops.reshape(ids, (2, 2)), x),
        lambda: ops.count_equal(ids, ops.reshape(ids, (2, 2))),
    ]
    for build in senseless:
        with pytest.raises(aiocann.UsageError):
            build()
    unsupported: list[Callable[[], object]] = [
        lambda: ops.reglu(x, h),
        lambda: ops.cumsum(h),
        lambda: ops.concat(x, h),
        lambda: ops.set(x, ids),
        lambda: ops.acc(ids, ids),
        lambda: ops.fill(h, 1),
        lambda: ops.tri(h, "upper"),
        lambda: ops.count_equal(x, h),
        lambda: ops.cross_entropy_loss(h, h),
        lambda: ops.group_norm(x, n_groups=2, eps=1e-5),
    ]
    for build in unsupported:
        with pytest.raises(aiocann.UnsupportedError):
            build()
