"""Tensors of quantized blocks: their two forms, and the ops that take them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import F16, F32, I32, Q4_0, Q8_0, Graph, ops
from aiocann.dtypes import DType
from helpers.op_runs import Array, OpRuns, check_close

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]

QUANTIZED = (Q4_0, Q8_0)
#: What users hold such products to: x is rounded to float16, and so is the result.
LIMIT = 5e-4


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: forms and values have nothing to do with it."""
    return "asyncio"


@pytest.fixture
async def runs(opened: Any) -> AsyncIterator[OpRuns]:
    async with opened(1) as rt:
        yield OpRuns(rt.devices[0].backend())


def random_blocks(runs: OpRuns, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return blocks of any bits, with scales that are numbers."""
    count = int(np.prod(shape)) // 32
    blocks = runs.random.integers(0, 256, (count, dtype.block_bytes), np.uint8)
    scales = runs.random.uniform(-1, 1, (count, 1)).astype(np.float16)
    blocks[:, :2] = scales.view(np.uint8)
    return blocks.ravel()


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
@pytest.mark.parametrize("pinned", [False, True])
async def test_what_is_written_is_read(
    runs: OpRuns, dtype: DType, pinned: bool
) -> None:
    """Bit by bit, whatever the bits; through slots, and through several chunks."""
    for shape in [(32,), (3, 64), (2, 3, 5, 96), (3000, 6400)]:
        blocks = random_blocks(runs, dtype, shape)
        source, found = blocks, np.zeros_like(blocks)
        if pinned:
            runtime = runs.backend.device.runtime
            source = await runtime.pinned_empty(blocks.shape, np.uint8)
            found = await runtime.pinned_empty(blocks.shape, np.uint8)
            source[:] = blocks
        tensor = await runs.backend.empty(shape, dtype)
        assert tensor.nbytes == blocks.nbytes
        await runs.backend.set_tensor_async(tensor, source)
        await runs.backend.get_tensor_async(tensor, out=found)
        np.testing.assert_array_equal(found, blocks)
        np.testing.assert_array_equal(source, blocks)
        other = await runs.backend.empty(shape, dtype)
        await runs.backend.cpy_tensor_async(tensor, other)
        again = await runs.backend.get_tensor_async(other)
        np.testing.assert_array_equal(again, blocks)


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
async def test_the_form_on_the_device(runs: OpRuns, dtype: DType) -> None:
    """All quants in the order of the elements, then all scales."""
    shape = (4, 64)
    blocks = random_blocks(runs, dtype, shape)
    tensor = await runs.backend.empty(shape, dtype)
    await runs.backend.set_tensor_async(tensor, blocks)
    raw = np.zeros(tensor.nbytes, np.uint8)
    async with runs.backend.device.stream() as stream:
        await stream.memcpy(raw, tensor)
    apart = blocks.reshape(-1, dtype.block_bytes)
    quants = apart[:, 2:]
    if dtype is Q4_0:
        levels = np.concatenate([quants & 15, quants >> 4], axis=1).astype(np.int8) - 8
        nibbles = levels.view(np.uint8) & 15
        quants = nibbles[:, ::2] | nibbles[:, 1::2] << 4
    np.testing.assert_array_equal(raw[: quants.size], quants.ravel())
    np.testing.assert_array_equal(raw[quants.size :], apart[:, :2].ravel())


async def test_it_reaches_another_device(opened: Any) -> None:
    async with opened(2) as rt:
        here, there = (device.backend() for device in rt.devices)
        runs = OpRuns(here)
        blocks = random_blocks(runs, Q4_0, (40, 320))
        source = await here.empty((40, 320), Q4_0)
        target = await there.empty((40, 320), Q4_0)
        await here.set_tensor_async(source, blocks)
        await here.cpy_tensor_async(source, target)
        found = await there.get_tensor_async(target)
        np.testing.assert_array_equal(found, blocks)


async def test_it_is_written_whole(runs: OpRuns) -> None:
    tensor = await runs.backend.empty((2, 64), Q8_0)
    with pytest.raises(aiocann.UsageError, match="written whole"):
        runs.backend.set_tensor_async(tensor, bytes(34), offset=0)
    with pytest.raises(aiocann.UsageError, match="pad the last axis"):
        await runs.backend.empty((2, 33), Q8_0)


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
@pytest.mark.parametrize("kind", [F32, F16], ids=str)
async def test_mul_mat(runs: OpRuns, dtype: DType, kind: DType) -> None:
    for n, k, m, of_w, lead in [
        (16, 32, 1, (), ()),
        (33, 64, 7, (), (2, 3)),
        (129, 1056, 1, (), ()),
        (31, 2880, 5, (2,), (4,)),
        (5, 256, 3, (2, 3), (4, 3)),
        (1, 96, 4, (3,), (3,)),
    ]:
        w, exact = await runs.weights((*of_w, n, k), dtype)
        for layout in ("contiguous", "permuted", "sliced"):
            x = runs.uniform((*lead, m, k), kind)
            (got,) = await runs.compute(
                ops.mul_mat(w, await runs.leaf(x, kind, layout))
            )
            wide = exact
            for axis, shared in enumerate(of_w):
                wide = np.repeat(wide, lead[axis] // shared, axis)
            want = x.astype(np.float64) @ np.swapaxes(wide, -1, -2)
            check_close(got, want, limit=LIMIT)


async def test_mul_mat_of_more_rows_than_the_device_takes_at_once(runs: OpRuns) -> None:
    for dtype in QUANTIZED:
        w, exact = await runs.weights((70001, 64), dtype)
        x = runs.uniform((2, 64))
        (got,) = await runs.compute(ops.mul_mat(w, await runs.leaf(x)))
        check_close(got, x.astype(np.float64) @ exact.T, limit=LIMIT)


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
async def test_mul_mat_id(runs: OpRuns, dtype: DType) -> None:
    for experts, used, tokens, kind, shared in [
        (4, 1, 5, F32, False),
        (8, 4, 3, F16, True),
        (5, 2, 33, F32, False),
    ]:
        w, exact = await runs.weights((experts, 17, 96), dtype)
        x = runs.uniform((tokens, 1 if shared else used, 96), kind)
        ids = runs.random.integers(0, experts, (tokens, used)).astype(np.int32)
        node = ops.mul_mat_id(w, await runs.leaf(x, kind), await runs.leaf(ids, I32))
        (got,) = await runs.compute(node)
        rows = np.broadcast_to(x, (tokens, used, 96)).astype(np.float64)
        check_close(got, np.einsum("tuk,tunk->tun", rows, exact[ids]), limit=LIMIT)


async def test_get_rows(runs: OpRuns) -> None:
    for shape, of_ids in [
        ((9, 64), (5,)),
        ((7, 32), (2, 3)),
        ((3, 2, 6, 96), (3, 2, 4)),
    ]:
        table, exact = await runs.weights(shape, Q8_0)
        ids = runs.random.integers(0, shape[-2], of_ids).astype(np.int32)
        (got,) = await runs.compute(ops.get_rows(table, await runs.leaf(ids, I32)))
        if len(shape) == 2:
            want = exact[ids]
        else:
            want = np.take_along_axis(exact, ids[..., None].astype(np.int64), -2)
        check_close(got, want, limit=1e-12)


async def test_what_is_refused(runs: OpRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = runs.backend
    w, _ = await runs.weights((4, 64), Q4_0)
    x = await runs.leaf(runs.uniform((2, 64), aiocann.BF16), aiocann.BF16)
    with pytest.raises(aiocann.UnsupportedError, match="f32 or f16"):
        ops.mul_mat(w, x)
    for op in (ops.transpose, ops.relu, ops.cont):
        with pytest.raises(aiocann.UnsupportedError, match="cannot be q4_0"):
            op(w)
    ids = await runs.leaf(np.zeros(1, np.int32), I32)
    with pytest.raises(aiocann.UnsupportedError, match="cannot be q4_0"):
        ops.get_rows(w, ids)
    wide = await backend.empty((1, 65536), Q8_0)
    with pytest.raises(aiocann.UnsupportedError, match="at most 65535"):
        ops.mul_mat(wide, await backend.empty((1, 65536), F32))


async def test_310p_has_no_quantized_weights(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_SIM_SOC", "Ascend310P3")
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        w, _ = await runs.weights((4, 64), Q8_0)
        node = ops.mul_mat(w, await runs.leaf(runs.uniform((2, 64))))
        assert not runs.backend.supports_op(node)
        with pytest.raises(aiocann.UnsupportedError, match="no quantized weights"):
            await runs.backend.graph_compute(Graph([node]))
