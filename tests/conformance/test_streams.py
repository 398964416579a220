"""Streams and events: order, marks, host calls, closing."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import ClosedResourceError, Event, UsageError
from helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_await_does_not_wait_for_later_work(opened: Any) -> None:
    async with opened(2) as rt:
        d0, d1 = rt.devices
        a, b = await d0.allocate(64), await d1.allocate(64)
        async with d0.stream() as s, d1.stream() as t:
            with aiocann.sim.hold(d1.index):
                blocker = t.memset(b, 1)
                gate = t.record()
                first = s.memset(a, 1)
                s.wait(gate)
                later = s.memset(a, 2)
                await first  # although the stream is held behind it
                assert not later.done
                assert not blocker.done
                assert not s.idle
            await later
            await s.synchronize()
            assert s.idle


async def test_wait_orders_streams(opened: Any) -> None:
    """A device-side wait: the second stream reads only what the first has written."""
    async with opened() as rt:
        (device,) = rt.devices
        n = 1 << 20
        a, b = await device.allocate(n), await device.allocate(n)
        out = np.zeros(n, np.uint8)
        async with device.stream() as s, device.stream() as t:
            for value in range(1, 20):
                s.memset(a, value, notify=False)
                written = s.record()
                t.wait(written)
                t.memcpy(b, a, notify=False)
                s.wait(t.record(), notify=False)
                await t.memcpy(out, b)
                assert (out == value).all()


async def test_wait_means_the_latest_recording_before_it(opened: Any) -> None:
    async with opened(2) as rt:
        d0, d1 = rt.devices
        buffer, other = await d0.allocate(64), await d1.allocate(64)
        async with d0.stream() as s, d1.stream() as t:
            event = s.record()
            await event
            waiting = t.wait(event)  # the first recording
            with aiocann.sim.hold(d0.index):
                s.memset(buffer, 1)
                assert s.record(event) is event
                assert waiting is not None
                await waiting
                await t.memset(other, 1)
                assert not event.done
                behind = t.wait(event)  # the second
                assert behind is not None
                after = t.memset(other, 2)
                assert not after.done
            await after
            assert event.done


async def test_event(opened: Any) -> None:
    async with opened(2) as rt:
        d0, d1 = rt.devices
        buffer = await d0.allocate(8 << 20)
        async with d0.stream() as s, d1.stream() as t:
            start = s.record()
            s.memset(buffer, 3)
            end = s.record()
            assert "done" in repr(end) or "recorded" in repr(end)
            await end
            assert start.done
            assert end.elapsed_ms(start) >= 0
            assert start.elapsed_ms(end) <= 0
            elsewhere = t.record()
            await elsewhere
            with pytest.raises(UsageError, match="clocks differ"):
                elsewhere.elapsed_ms(start)


async def test_unrecorded_event(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        event = Event()
        assert "not recorded" in repr(event)
        async with device.stream() as stream:
            for use in (
                lambda: stream.wait(event),
                lambda: event.done,
                lambda: event.__await__(),
                lambda: event.elapsed_ms(stream.record()),
                lambda: stream.record().elapsed_ms(event),
            ):
                with pytest.raises(UsageError, match=r"not been recorded: call stream"):
                    use()
            with pytest.raises(UsageError, match="not been recorded"):
                await event
            stream.record(event)
            await event


async def test_marks_cover_host_parts(opened: Any) -> None:
    """A mark after a staged copy is reached once the destination is written."""
    async with opened() as rt:
        (device,) = rt.devices
        n = 10 << 20
        buffer = await device.allocate(n)
        target = np.zeros(n, np.uint8)
        async with device.stream() as stream:
            stream.memset(buffer, 5)
            stream.memcpy(target, buffer)
            await stream.record()
            assert (target == 5).all()
            stream.memset(buffer, 6)
            stream.memcpy(target, buffer)
            await stream.synchronize()
            assert (target == 6).all()
            assert stream.idle


async def test_host_call(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(1 << 20)
        target = np.zeros(1 << 20, np.uint8)
        seen: list[Any] = []

        def called(value: int) -> str:
            seen.append((value, int(target[0]), threading.current_thread()))
            return "result"

        async with device.stream() as stream:
            stream.memset(buffer, 8)
            stream.memcpy(target, buffer)
            op = stream.host_call(called, 3)
            assert not seen
            assert await op == "result"
            assert seen == [(3, 8, threading.current_thread())]

            def fails() -> None:
                raise ZeroDivisionError("in the call")

            failing = stream.host_call(fails)
            await stream.memset(buffer, 1)  # later work does not wait for it
            with pytest.raises(ZeroDivisionError, match="in the call"):
                await failing
            await stream.synchronize()


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit])
async def test_host_call_that_raises_no_exception(
    opened: Any, kind: type[BaseException]
) -> None:
    """What is no `Exception` must not look like the awaiter's own end."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)

        def fails() -> None:
            raise kind

        async with device.stream() as stream:
            call = stream.host_call(fails)
            later = [stream.memset(buffer, i) for i in range(20)]
            with pytest.raises(RuntimeError, match="host_call") as caught:
                await call
            assert isinstance(caught.value.__cause__, kind)
            for op in later:
                await op


async def test_host_call_needs_a_loop(opened: Any) -> None:
    async with opened() as rt, rt.devices[0].stream() as stream:
        caught: list[BaseException] = []

        def elsewhere() -> None:
            try:
                stream.host_call(print)
            except RuntimeError as exc:
                caught.append(exc)

        await anyio.to_thread.run_sync(elsewhere)
        assert "running loop" in str(caught[0])


async def test_failed_host_call_is_raised_by_synchronize_once(opened: Any) -> None:
    async with opened() as rt, rt.devices[0].stream() as stream:

        def fails() -> None:
            raise LookupError("nobody awaits this")

        stream.host_call(fails)
        with pytest.raises(LookupError, match="nobody awaits"):
            await stream.synchronize()
        await stream.synchronize()


async def test_submission_from_plain_threads(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(1000)
        target = np.zeros(1000, np.uint8)
        async with device.stream() as stream:

            def submit() -> Any:
                stream.memset(buffer, 4)
                return stream.memcpy(target, buffer)

            op = await anyio.to_thread.run_sync(submit)
            await op
            assert (target == 4).all()


async def test_current_stream_is_per_task(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        assert aiocann.current_stream() is None
        seen: list[bool] = []

        async def one() -> None:
            async with device.stream() as mine:
                await anyio.lowlevel.checkpoint()
                seen.append(aiocann.current_stream() is mine)

        async with device.stream() as outer:
            assert aiocann.current_stream() is outer
            async with device.stream() as inner:
                assert aiocann.current_stream() is inner
            assert aiocann.current_stream() is outer
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                tasks.start_soon(one)
            assert aiocann.current_stream() is outer
        assert aiocann.current_stream() is None
        assert seen == [True, True]


async def test_context_does_not_keep_a_closed_stream(opened: Any) -> None:
    """A loop holds the contexts of cancelled timers until they would have been due."""
    async with opened() as rt:
        async with rt.devices[0].stream() as stream:
            context = contextvars.copy_context()
            assert context.run(aiocann.current_stream) is stream
        assert context.run(aiocann.current_stream) is None
        alive = weakref.ref(stream)
        del stream
        gc.collect()
        assert alive() is None


async def test_closed_stream(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            assert stream.handle
        await stream.aclose(1)
        for use in (
            lambda: stream.memset(buffer, 1),
            lambda: stream.memcpy(buffer, bytes(64)),
            stream.record,
            stream.synchronize,
            lambda: stream.host_call(print),
            lambda: stream.idle,
            lambda: stream.handle,
        ):
            with pytest.raises(ClosedResourceError, match="closed: open another"):
                use()
        context = device.stream()
        async with context:
            pass
        with pytest.raises(RuntimeError, match="call it again"):
            await context.__aenter__()


async def test_leaving_a_stream_drains_it(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        n = 12 << 20
        buffer = await device.allocate(n)
        target = np.zeros(n, np.uint8)
        with anyio.CancelScope() as scope:
            async with device.stream() as stream:
                stream.memset(buffer, 5)
                op = stream.memcpy(target, buffer)
                scope.cancel()
        assert scope.cancel_called
        assert op.done
        assert (target == 5).all()


async def test_leaving_a_stuck_stream_gives_up(opened: Any) -> None:
    async with opened(close_timeout=0.05) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with (
            aiocann.sim.hold(device.index),
            pytest.raises(aiocann.DeviceTimeoutError, match="still had work after"),
        ):
            async with device.stream() as stream:
                op = stream.memset(buffer, 1)
        await op
        await until(lambda: rt.statistics().live_streams <= 1)


async def test_dropped_stream_finishes_its_work(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        target = np.zeros(64, np.uint8)
        from aiocann.stream import create_stream

        stream = await create_stream(device, None)
        stream.memset(buffer, 6)
        op = stream.memcpy(target, buffer)
        del stream
        await op
        assert (target == 6).all()


async def test_priorities(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        async with device.stream(priority=7) as low, device.stream(priority=0) as high:
            await low.synchronize()
            await high.synchronize()
