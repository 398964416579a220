"""Orders of events that lost something once."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import DeviceFaultError, opening, ops
from aiocann.completion import HostCall
from helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_failure_is_told_once_when_awaited_beside_synchronize(
    opened: Any, caplog: Any
) -> None:
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        told: list[BaseException] = []

        async def awaiting(op: Any) -> None:
            try:
                await op
            except aiocann.AiocannError as exc:
                told.append(exc)

        for _ in range(5):
            told.clear()
            async with device.stream() as stream:
                with aiocann.sim.hold(device.index):
                    aiocann.sim.fail_copy("memset")
                    op = stream.memset(buffer, 1)
                    mark = stream.synchronize()
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(awaiting, op)
                        tasks.start_soon(awaiting, mark)
                        await anyio.wait_all_tasks_blocked()
                        aiocann.sim.release(device.index)
            # The mark failed too: because of the op.
            assert len(told) == 2
            assert all(isinstance(exc, DeviceFaultError) for exc in told)
    assert "nobody awaited" not in caplog.text


async def test_graph_scratch_stays_out_of_memory_that_is_still_to_be_read(
    opened: Any,
) -> None:
    """Queued behind a held graph: a copy from a tensor that was dropped at once."""
    n = 1 << 20
    async with opened() as rt:
        (device,) = rt.devices
        backend = device.backend()
        x = await backend.empty((n,), aiocann.F32)
        await backend.set_tensor_async(x, np.ones(n, np.float32))
        doubled = ops.add(x, x)
        graph = aiocann.Graph([ops.add(doubled, doubled)])
        await backend.graph_compute(graph)
        filler = await device.allocate(1024)
        for _ in range(3):
            source: Any = await backend.empty((n,), aiocann.F32)
            target = await backend.empty((n,), aiocann.F32)
            await backend.set_tensor_async(source, np.full(n, 7, np.float32))
            with aiocann.sim.hold(device.index):
                for _ in range(600):  # more than the driver is given at once
                    backend.stream.memset(filler, 1, notify=False)
                backend.graph_compute(graph)
                backend.stream.memcpy(target, source, notify=False)
                source = None
            assert (await backend.get_tensor_async(target) == 7).all()


async def test_tensor_is_anybodys_once_it_is_awaited(opened: Any) -> None:
    """New memory must not be what queued work of the backend still reads."""
    n = 1 << 20
    async with opened() as rt:
        (device,) = rt.devices
        backend = device.backend()
        target = await backend.empty((n,), aiocann.F32)
        async with device.stream() as stream:
            for value in range(3):
                source: Any = await backend.empty((n,), aiocann.F32)
                await backend.set_tensor_async(source, np.full(n, value, np.float32))
                gate = await backend.empty((n,), aiocann.F32)
                for _ in range(50):
                    backend.stream.memset(gate, 1, notify=False)
                backend.stream.memcpy(target, source, notify=False)
                source = None
                other = await backend.empty((n,), aiocann.F32)
                await stream.memset(other, 255)
                read = await backend.get_tensor_async(target)
                assert (read == value).all()


async def test_map_ends_for_a_consumer_outside_the_group(opened: Any) -> None:
    async def fails(_: Any, item: int) -> int:
        raise LookupError(item)

    async with opened() as rt:
        ended: list[BaseException] = []
        results: list[Any] = []

        async def consume() -> None:
            try:
                async for _ in results[0]:
                    pass
            except aiocann.ClosedResourceError as exc:
                ended.append(exc)

        async with anyio.create_task_group() as outside:
            with pytest.raises(BaseException) as caught:  # noqa: PT011,PT012
                async with aiocann.DeviceGroup(rt.devices) as group:
                    results.append(group.map(fails, [1, 2, 3]))
                    outside.start_soon(consume)
                    await anyio.sleep_forever()
            assert "LookupError" in str(caught.value)
        assert ended


def test_host_call_awaited_twice_from_another_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second await comes just as it finishes: the first must be woken still."""
    watch = HostCall._watch
    finish, seen = threading.Event(), []

    def slow_watch(self: Any, reactor: Any) -> bool:
        seen.append(reactor)
        if len(seen) == 2:
            finish.set()
            while not self._state:
                pass
        return watch(self, reactor)

    monkeypatch.setattr(HostCall, "_watch", slow_watch)
    woken: list[str] = []

    async def main() -> None:
        async with (
            aiocann.open_runtime("sim", 1) as rt,
            rt.devices[0].stream() as stream,
        ):
            enlisted = threading.Event()

            def call() -> None:
                enlisted.wait(10)
                finish.wait(10)

            op = stream.host_call(call)

            async def one(name: str) -> None:
                await asyncio.wait_for(asyncio.ensure_future(op), 10)
                woken.append(name)

            async def elsewhere() -> None:
                first = asyncio.create_task(one("first"))
                await until(lambda: len(seen) == 1)
                enlisted.set()
                await asyncio.gather(first, one("second"))

            thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
            thread.start()
            await asyncio.to_thread(enlisted.wait, 10)
            await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert sorted(woken) == ["first", "second"]


def test_opening_from_threads_takes_no_locks_in_two_orders() -> None:
    from aiocann import completion

    assert opening._lock is completion.settle_lock


def test_cancelled_leave_still_logs_a_failure(caplog: Any) -> None:
    async def main() -> None:
        async with aiocann.open_runtime("sim", devices=1) as rt:
            (device,) = rt.devices
            buffer = await device.allocate(64)
            leaving = asyncio.Event()

            async def body() -> None:
                async with device.stream() as stream:
                    aiocann.sim.fail_copy("memset")
                    stream.memset(buffer, 1)
                    leaving.set()

            with aiocann.sim.hold(0):
                task = asyncio.create_task(body())
                await leaving.wait()
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task

    with caplog.at_level(logging.ERROR, "aiocann"):
        asyncio.run(main())
    assert "nobody awaited" in caplog.text


async def test_operation_cannot_be_copied(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            op = stream.memset(buffer, 1)
            for copying in (copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be copied"):
                    copying(op)
            await op


@pytest.mark.parametrize("ending", [SystemExit, asyncio.CancelledError])
def test_leaving_replaces_no_cancellation_or_exit(
    ending: type[BaseException], caplog: Any
) -> None:
    async def main() -> None:
        async with aiocann.open_runtime("sim", devices=1) as rt:
            (device,) = rt.devices
            buffer = await device.allocate(64)
            async with device.stream() as stream:
                aiocann.sim.fail_copy("memset")
                stream.memset(buffer, 1)
                raise ending

    with caplog.at_level(logging.ERROR, "aiocann"), pytest.raises(ending):
        asyncio.run(main())
    assert "nobody awaited" in caplog.text


async def test_stream_may_be_left_twice(opened: Any) -> None:
    async with opened() as rt:
        context = rt.devices[0].stream()
        await context.__aenter__()
        await context.__aexit__(None, None, None)
        await context.__aexit__(None, None, None)
