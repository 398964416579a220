"""Tensors and graphs of one device, and copies between two."""

from __future__ import annotations

from array import array as standard_array
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F16, F32, I32, Graph, UnsupportedError, UsageError, ops

pytestmark = pytest.mark.anyio


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


async def test_write_and_read(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        assert rt.devices[0].backend() is backend
        array = random(3, 5, 7)
        tensor = await backend.empty(array.shape, F32, name="weights")
        assert tensor.shape == (3, 5, 7)
        assert tensor.ne == (7, 5, 3, 1)
        assert tensor.nb == (4, 28, 140, 420)
        assert (tensor.ndim, tensor.size, tensor.nbytes) == (3, 105, 420)
        assert tensor.device is rt.devices[0]
        assert "weights" in repr(tensor)
        assert await backend.set_tensor_async(tensor, array) is None
        read = await backend.get_tensor_async(tensor)
        assert read.dtype == np.float32
        assert read.shape == array.shape
        np.testing.assert_array_equal(read, array)
        out = np.zeros_like(array)
        assert await backend.get_tensor_async(tensor, out=out) is out
        np.testing.assert_array_equal(out, array)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int16", "int32"])
async def test_element_types(opened: Any, dtype: str) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        array = np.arange(-20, 20).astype(dtype).reshape(4, 10)
        tensor = await backend.empty((4, 10), array.dtype)
        await backend.set_tensor_async(tensor, array)
        read = await backend.get_tensor_async(tensor)
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


async def test_bfloat16(opened: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    async with opened() as rt:
        backend = rt.devices[0].backend()
        array = np.arange(40).astype(ml_dtypes.bfloat16)
        tensor = await backend.empty(40, aiocann.BF16)
        await backend.set_tensor_async(tensor, array)
        read = await backend.get_tensor_async(tensor)
        assert read.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(read, array)


async def test_parts_and_raw_bytes(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        array = random(100)
        tensor = await backend.empty(100, F32)
        for start in (60, 0, 20):
            part = array[start : start + 40]
            await backend.set_tensor_async(tensor, part, offset=4 * start)
        np.testing.assert_array_equal(await backend.get_tensor_async(tensor), array)
        raw = array[::-1].tobytes()
        for source in (raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, "u1")):
            await backend.set_tensor_async(tensor, bytes(400))
            await backend.set_tensor_async(tensor, source)
            read = await backend.get_tensor_async(tensor)
            np.testing.assert_array_equal(read, array[::-1])
        out = np.zeros(400, np.uint8)
        await backend.get_tensor_async(tensor, out)
        assert out.tobytes() == raw


async def test_wrong_size(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        tensor = await backend.empty((10, 10), F32, name="table")
        for n in (99, 101):
            with pytest.raises(UsageError, match=r"table' takes 400 bytes, the array"):
                backend.set_tensor_async(tensor, random(n))
            with pytest.raises(UsageError, match=r"has 400 bytes, out= has"):
                backend.get_tensor_async(tensor, random(n))
        for offset in (-4, 4, 400):
            with pytest.raises(UsageError, match="do not lie in"):
                backend.set_tensor_async(tensor, random(100), offset=offset)


async def test_wrong_element_type(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        tensor = await backend.empty(10, F32)
        for wrong in (
            np.zeros(5, np.float64),
            np.zeros(10, np.int32),
            np.zeros(20, np.float16),
            np.zeros(40, np.int8),
            memoryview(standard_array("i", range(10))),
        ):
            with pytest.raises(UsageError, match=r"astype\('float32'\)"):
                backend.set_tensor_async(tensor, wrong)
        with pytest.raises(UsageError, match="cannot fill a tensor of f32"):
            backend.get_tensor_async(tensor, np.zeros(10, np.int32))
        with pytest.raises(UsageError, match="no element type of a tensor"):
            backend.empty(10, np.complex64)
        with pytest.raises(UsageError, match=r"use one of aiocann\.F32"):
            backend.empty(10, "nonsense")


async def test_wrong_shape(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        for shape in ((), (1, 2, 3, 4, 5), (-1,)):
            with pytest.raises(UsageError):
                backend.empty(shape, F32)
        with pytest.raises(UsageError, match="pad the last axis"):
            backend.empty((2, 33), aiocann.Q8_0)


async def test_tensor_of_another_device(opened: Any) -> None:
    async with opened(2) as rt:
        here, there = (device.backend() for device in rt.devices)
        theirs = await there.empty(10, F32)
        mine = await here.empty(10, F32)
        array = random(10)
        uses: list[Callable[[], object]] = [
            lambda: here.set_tensor_async(theirs, array),
            lambda: here.get_tensor_async(theirs),
            lambda: here.graph_compute(Graph([ops.add(theirs, theirs)])),
        ]
        for use in uses:
            with pytest.raises(UsageError, match=r"cpy_tensor_async\(\)"):
                use()
        with pytest.raises(UsageError, match=r"cpy_tensor_async\(\)"):
            ops.add(mine, theirs)
        with pytest.raises(UsageError, match="neither tensor is on device 0"):
            here.cpy_tensor_async(theirs, theirs)
        assert not here.supports_op(ops.add(theirs, theirs))


async def test_not_a_tensor(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        with pytest.raises(TypeError, match=r"must be an aiocann\.Tensor, not ndarray"):
            backend.get_tensor_async(random(3))
        tensor = await backend.empty(10, F32)
        with pytest.raises(TypeError, match="no operand of a copy"):
            backend.set_tensor_async(tensor, [1.0] * 10)


async def test_empty_tensor(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        tensor = await backend.empty((0, 4), F32)
        await backend.set_tensor_async(tensor, np.zeros((0, 4), np.float32))
        assert (await backend.get_tensor_async(tensor)).shape == (0, 4)


async def test_graph(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        w, x, b = random(8, 16), random(4, 16, seed=1), random(8, seed=2)
        tw, tx, tb = [await backend.empty(array.shape, F32) for array in (w, x, b)]
        for tensor, array in ((tw, w), (tx, x), (tb, b)):
            backend.set_tensor_async(tensor, array)
        y = ops.add(ops.mul_mat(tw, tx), tb)
        with pytest.raises(UsageError, match="has no memory of its own"):
            backend.get_tensor_async(y)
        graph = Graph([y])
        for _ in range(3):
            await backend.graph_compute(graph)
            read = await backend.get_tensor_async(y)
            np.testing.assert_allclose(read, x @ w.T + b, rtol=1e-5, atol=1e-5)
        backend.set_tensor_async(tx, 2 * x)
        backend.graph_compute(graph)
        read = await backend.get_tensor_async(y)
        np.testing.assert_allclose(read, 2 * x @ w.T + b, rtol=1e-5, atol=1e-5)


async def test_matmul_precision(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        w, x = random(8, 16), random(4, 16, seed=1)
        for precision in ("float32", "reduced", "float16", "hf32"):
            backend = aiocann.Backend(device, matmul_precision=precision)
            tw, tx = [await backend.empty(array.shape, F32) for array in (w, x)]
            backend.set_tensor_async(tw, w)
            backend.set_tensor_async(tx, x)
            y = ops.mul_mat(tw, tx)
            await backend.graph_compute(Graph([y]))
            read = await backend.get_tensor_async(y)
            np.testing.assert_allclose(read, x @ w.T, rtol=1e-2, atol=1e-2)
        with pytest.raises(UsageError, match="matmul_precision is one of"):
            aiocann.Backend(device, matmul_precision="fast")


async def test_reading_a_view_with_gaps(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        array = random(3, 4, 5)
        tensor = await backend.empty(array.shape, F32)
        await backend.set_tensor_async(tensor, array)
        view = ops.permute(tensor, (0, 2, 1))
        read = await backend.get_tensor_async(view)
        np.testing.assert_array_equal(read, array.transpose(0, 2, 1))
        with pytest.raises(UsageError, match=r"ops\.cont"):
            backend.get_tensor_async(view, out=np.zeros(view.shape, np.float32))
        with pytest.raises(UsageError, match=r"ops\.cont"):
            backend.set_tensor_async(view, np.zeros(view.shape, np.float32))


async def test_supports_and_offload(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        x = await backend.empty((64, 16), F32)
        small = await backend.empty((8, 16), F32)
        rows = await backend.empty(40, I32)
        assert backend.supports_op(x)
        assert backend.supports_op(ops.mul(x, x))
        assert backend.offload_op(ops.mul(x, x))
        assert not backend.offload_op(ops.mul(small, small))
        assert not backend.offload_op(ops.get_rows(x, rows))
        assert not backend.offload_op(x)


async def test_offload_threshold(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        node = ops.neg(await backend.empty((8, 16), F32))
        assert not backend.offload_op(node)
        monkeypatch.setenv("GGML_OP_OFFLOAD_MIN_BATCH", "8")
        assert backend.offload_op(node)
        monkeypatch.setenv("GGML_OP_OFFLOAD_MIN_BATCH", "junk")
        assert not backend.offload_op(node)


@pytest.mark.parametrize("peers", ["all", "none"])
async def test_copy_between_devices_is_ordered_on_both(
    opened: Any, driver: str, peers: str
) -> None:
    """After earlier work of both backends, before later work of both."""
    aiocann.sim.configure(peers=peers)
    try:
        async with opened(2) as rt:
            a, b = (device.backend() for device in rt.devices)
            n = 300_000
            x, y = await a.empty(n, F32), await b.empty(n, F32)
            for turn in range(8):
                old = np.full(n, turn, np.float32)
                new = np.full(n, 100 + turn, np.float32)
                a.set_tensor_async(x, old)
                # Earlier work of the target: reads what lies there before the copy.
                b.set_tensor_async(y, new)
                before = b.get_tensor_async(y)
                by = a if turn % 2 else b
                copy = by.cpy_tensor_async(x, y)
                # Later work of both: must not overtake it.
                a.set_tensor_async(x, -old)
                after = b.get_tensor_async(y)
                await copy
                assert copy.path == ("peer" if peers == "all" else "staged")
                np.testing.assert_array_equal(await before, new)
                np.testing.assert_array_equal(await after, old)
    finally:
        aiocann.sim.configure(peers=None)


async def test_copy_on_one_device(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        array = random(1000)
        x, y = await backend.empty(1000, F32), await backend.empty(1000, F32)
        backend.set_tensor_async(x, array)
        copy = backend.cpy_tensor_async(x, y)
        await copy
        assert copy.path == "direct"
        np.testing.assert_array_equal(await backend.get_tensor_async(y), array)
        for other in (await backend.empty(999, F32), await backend.empty(1000, F16)):
            with pytest.raises(UsageError, match="must be the same"):
                backend.cpy_tensor_async(x, other)


async def test_events_between_backends(opened: Any) -> None:
    async with opened(2) as rt:
        a, b = (device.backend() for device in rt.devices)
        x, y = await a.empty(10, F32), await b.empty(10, F32)
        with aiocann.sim.hold(0):
            a.set_tensor_async(x, random(10))
            event = a.event_record()
            b.event_wait(event)
            op = b.set_tensor_async(y, random(10))
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert not op.done
        await op
        await event
        await a.synchronize()
        await b.synchronize()


async def test_unsupported_node_is_reported_before_anything_runs(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        x = await backend.empty((4, 32), aiocann.Q8_0)
        with pytest.raises(UnsupportedError, match="sqr"):
            ops.sqr(x)


async def test_two_tasks_share_a_backend(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        good: list[bool] = []

        async def one(seed: int) -> None:
            array = random(500, seed=seed)
            x = await backend.empty(500, F32)
            await backend.set_tensor_async(x, array)
            y = ops.sqr(x)
            await backend.graph_compute(Graph([y]))
            read = await backend.get_tensor_async(y)
            good.append(np.allclose(read, array**2))

        async with anyio.create_task_group() as tasks:
            for seed in range(30):
                tasks.start_soon(one, seed)
        assert good == [True] * 30
