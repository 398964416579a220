"""Counts before and after: nothing that keeps nothing may grow."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, DeviceGroup, Graph, ops, testing
from helpers.waiting import until, until_counts_are

pytestmark = pytest.mark.anyio


async def copies(rt: aiocann.Runtime) -> None:
    device = rt.devices[0]
    source, target = np.ones(5000, np.uint8), np.zeros(5000, np.uint8)
    async with device.stream() as stream:
        for _ in range(20):
            buffer = await device.allocate(5000)
            stream.memcpy(buffer, source)
            stream.memset(buffer[:100], 3, notify=False)
            await stream.memcpy(target, buffer)
            await stream.record()
            await stream.host_call(len, b"")


async def graphs(rt: aiocann.Runtime) -> None:
    backend = rt.devices[0].backend()
    for _ in range(10):
        x = await backend.empty((8, 8), F32)
        await backend.set_tensor_async(x, np.ones((8, 8), np.float32))
        y = ops.mul_mat(x, ops.add(x, x))
        await backend.graph_compute(Graph([y]))
        await backend.get_tensor_async(y)


async def peer_copies(rt: aiocann.Runtime) -> None:
    a, b = (device.backend() for device in rt.devices)
    x, y = await a.empty(1000, F32), await b.empty(1000, F32)
    for _ in range(20):
        await a.cpy_tensor_async(x, y)
        await b.cpy_tensor_async(y, x)


async def cancellations(rt: aiocann.Runtime) -> None:
    device = rt.devices[1]
    buffer = await device.allocate(1 << 20)
    async with device.stream() as stream:
        for n in range(20):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await stream.memcpy(buffer, np.ones(1 << 20, np.uint8))
            with anyio.move_on_after(n * 1e-4):
                await stream.memcpy(np.ones(1 << 20, np.uint8), buffer)


async def failures(rt: aiocann.Runtime) -> None:
    device = rt.devices[0]
    buffer = await device.allocate(64)
    for _ in range(5):
        async with device.stream() as stream:
            aiocann.sim.fail_copy("memset")
            with pytest.raises(aiocann.DeviceFaultError):
                await stream.memset(buffer, 1)
            with pytest.raises(aiocann.UsageError):
                stream.memcpy(buffer, bytes(3))


async def pinned(rt: aiocann.Runtime) -> None:
    device = rt.devices[0]
    for _ in range(10):
        array = await rt.pinned_empty(10_000, np.float32)
        buffer = await device.allocate(array.nbytes)
        async with device.stream() as stream:
            await stream.memcpy(buffer, array)


async def groups(rt: aiocann.Runtime) -> None:
    async def work(device: aiocann.Device, n: int) -> int:
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            await stream.memset(buffer, n)
        return n

    for _ in range(3):
        async with DeviceGroup(rt.devices) as group:
            assert [n async for n in group.map(work, range(10))] == list(range(10))


WORK = [copies, graphs, peer_copies, cancellations, failures, pinned, groups]


async def settled(rt: aiocann.Runtime) -> testing.Counts:
    await until(lambda: rt.statistics().in_flight_ops == 0)
    await until(lambda: rt.statistics().abandoned == rt.statistics().reaped)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    return testing.counts(rt)


@pytest.mark.parametrize("work", WORK)
async def test_counts_are_flat(
    work: Callable[[aiocann.Runtime], Awaitable[None]],
) -> None:
    async with aiocann.open_runtime("sim", 2) as rt:
        await work(rt)  # pools and caches fill
        before = await settled(rt)
        for _ in range(3):
            await work(rt)
        await until_counts_are(before, rt)


async def test_python_memory_is_flat() -> None:
    async with aiocann.open_runtime("sim") as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)

        async def rounds(stream: aiocann.Stream, n: int) -> None:
            for _ in range(n):
                await stream.memset(buffer, 1)

        async with device.stream() as stream:
            await rounds(stream, 200)
            gc.collect()
            tracemalloc.start()
            await rounds(stream, 200)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await rounds(stream, 5000)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
        # 5000 ops that left anything behind would weigh 5000 objects.
        assert grown < 100_000


async def test_objects_are_freed_without_the_collector(opened_runtime: Any) -> None:
    """No reference cycles among what users hold."""
    import weakref

    rt = opened_runtime
    async with rt as runtime:
        (device,) = runtime.devices
        gc.collect()
        gc.disable()
        try:
            buffer = await device.allocate(64)
            async with device.stream() as stream:
                op = stream.memset(buffer, 1)
                event = stream.record()
                await op
                await event
            tensor = await device.backend().empty(3, F32)
            graph = Graph([ops.neg(tensor)])
            await device.backend().graph_compute(graph)
            await device.backend().synchronize()
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            refs = [weakref.ref(x) for x in (buffer, op, event, tensor, graph, stream)]
            del buffer, op, event, tensor, graph, stream
            assert [ref() for ref in refs] == [None] * 6
        finally:
            gc.enable()


async def test_an_error_keeps_no_frame_alive(opened_runtime: Any) -> None:
    """What a failed function had in its variables goes with the error."""
    import weakref

    async with opened_runtime as runtime:
        (device,) = runtime.devices
        buffer = await device.allocate(64)

        async def awaits(stream: aiocann.Stream) -> None:
            await stream.memset(buffer, 1)

        async def synchronizes(stream: aiocann.Stream) -> None:
            stream.memset(buffer, 1)
            await stream.synchronize()

        async def leaves(stream: aiocann.Stream) -> None:
            stream.memset(buffer, 1)

        async def failing(work: Callable[[aiocann.Stream], Awaitable[None]]) -> Any:
            held = set[int]()
            refs.append(weakref.ref(held))
            async with device.stream() as stream:
                aiocann.sim.fail_copy("memset")
                await work(stream)
            held.clear()

        refs: list[Any] = []
        gc.collect()
        gc.disable()
        try:
            for work in (awaits, synchronizes, leaves):
                with contextlib.suppress(aiocann.DeviceFaultError):
                    await failing(work)
            assert [ref() for ref in refs] == [None] * 3
        finally:
            gc.enable()


async def test_a_function_that_raised_is_forgotten_with_its_op(
    opened_runtime: Any,
) -> None:
    """Its frames are in the exception, and nothing of ours keeps that."""
    import weakref

    class Held:
        """What the function has in a variable."""

    refs: list[Any] = []

    def raises() -> None:
        held = Held()
        refs.append(weakref.ref(held))
        raise KeyError(held)

    async with opened_runtime as runtime:
        (device,) = runtime.devices
        async with device.stream() as stream:
            with pytest.raises(KeyError):
                await stream.host_call(raises)
        del stream
        await until(lambda: gc.collect() is not None and refs[0]() is None, 5)


@pytest.fixture
def opened_runtime() -> Any:
    return aiocann.open_runtime("sim")
