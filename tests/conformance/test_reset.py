"""`Device.reset`: what it closes and leaves alone, and what if it fails."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, ClosedResourceError, DeviceFaultError, Graph, ops, sim
from helpers import acl
from helpers.waiting import until

pytestmark = pytest.mark.anyio


async def adds(device: aiocann.Device) -> bool:
    """Whether the device's backend computes."""
    backend = device.backend()
    x = await backend.empty(100, F32)
    await backend.set_tensor_async(x, np.full(100, 3, np.float32))
    y = ops.add(x, x)
    await backend.graph_compute(Graph([y]))
    return bool((await backend.get_tensor_async(y) == 6).all())


async def test_after_a_fault_everything_of_the_device_is_closed(opened: Any) -> None:
    async with opened(2) as rt:
        device, other = rt.devices
        backend = device.backend()
        x = await backend.empty(16, F32)
        await backend.set_tensor_async(x, np.ones(16, np.float32))
        graph = Graph([ops.add(x, x)])
        buffer = await device.allocate(4096)
        kept = await other.allocate(4096)
        async with other.stream() as healthy, device.stream() as stream:
            event = stream.record()
            await event
            sim.fail_kernel("aclnnAdd")
            with pytest.raises(DeviceFaultError):
                await backend.graph_compute(graph)
            assert device.poisoned
            await device.reset()
            assert not device.poisoned
            uses: tuple[Callable[[], Any], ...] = (
                lambda: stream.memset(buffer, 1),
                lambda: stream.record(),
                lambda: stream.synchronize(),
                lambda: backend.graph_compute(graph),
                lambda: backend.get_tensor_async(x),
                lambda: healthy.memcpy(kept, buffer),
            )
            for use in uses:
                with pytest.raises(ClosedResourceError, match="reset"):
                    await use()
            await healthy.memset(kept, 2)
            assert event.done
            assert device.backend() is not backend
            assert await adds(device)
            assert await adds(other)
        assert rt.unavailable == []
        buffer.close()
        kept.close()


async def test_what_is_in_flight_fails_wherever_it_is_awaited(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(1 << 20)
        told = []

        async def wait_for(op: aiocann.Operation[None]) -> None:
            with pytest.raises(ClosedResourceError, match="reset"):
                await op
            told.append(op)

        async with device.stream() as stream:
            with sim.hold(0):
                fill = stream.memset(buffer, 1)
                copy = stream.memcpy(np.empty(1 << 20, np.uint8), buffer)
                async with anyio.create_task_group() as group:
                    group.start_soon(wait_for, fill)
                    group.start_soon(wait_for, copy)
                    await device.reset()
            assert len(told) == 2
        assert await adds(device)
        buffer.close()


async def test_a_device_that_cannot_be_reset_is_unavailable(
    opened: Any, driver: str
) -> None:
    async with opened(2) as rt:
        device, other = rt.devices
        sim.fail_call("aclrtResetDeviceForce", 507033)
        with pytest.raises(aiocann.AclError, match="aclrtResetDeviceForce"):
            await device.reset()
        assert device.poisoned
        assert [one.index for one in rt.unavailable] == [0]
        with pytest.raises(ClosedResourceError, match="new process"):
            await device.allocate(64)
        assert await adds(other)
        await device.reset()
        assert rt.unavailable == []
        assert not device.poisoned
        assert await adds(device)


async def test_an_adopted_stream_is_closed_but_not_aborted(opened: Any) -> None:
    """A reset takes the whole device; until then what another library has is let be."""
    async with opened(2) as rt:
        device, other = rt.devices
        acl.call("aclrtSetDevice", device.index)
        foreign = ctypes.c_void_p()
        acl.call("aclrtCreateStream", ctypes.byref(foreign))
        buffer = await device.allocate(4096)
        async with device.adopt_stream(foreign.value or 0) as stream:
            with (
                sim.counted_calls() as calls,
                sim.hold(device.index),
            ):
                held = stream.memset(buffer, 1)
                await device.reset()
            for use in (stream.record, stream.synchronize, lambda: stream.handle):
                with pytest.raises(ClosedResourceError):
                    use()
            with pytest.raises(ClosedResourceError, match="reset"):
                await held
            # Those of the backend and of the lane, not the other library's.
            assert calls.get("aclrtStreamAbort", 0) <= 3
            assert "aclrtDestroyStream" not in calls
        assert await adds(device)
        assert await adds(other)
        # What the other library made is gone with the reset; it may start anew as well.
        acl.call("aclrtSetDevice", device.index)
        with acl.made("Stream") as again:
            async with device.adopt_stream(again.value or 0) as stream:
                await stream.synchronize()
        acl.call("aclrtResetDevice", device.index)
        buffer.close()


async def test_a_device_that_was_not_opened_again_is_so_by_the_next_reset(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        sim.fail_call("aclrtSetDevice", 507033)
        with pytest.raises(aiocann.AclError, match="aclrtSetDevice"):
            await device.reset()
        await device.reset()
        assert rt.unavailable == []
        assert await adds(device)


async def test_a_second_reset_at_the_same_time_is_refused(opened: Any) -> None:
    async with opened(2) as rt:
        device, other = rt.devices
        buffer, there = await device.allocate(4096), await other.allocate(4096)
        begun = anyio.Event()

        async def first() -> None:
            begun.set()
            await device.reset()

        async with device.stream() as stream, other.stream() as elsewhere:
            await stream.memset(buffer, 1)
            await elsewhere.memcpy(there, buffer)  # opens the way
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    # It waits for what others do with its memory.
                    with sim.hold(other.index), sim.counted_calls():
                        copy = elsewhere.memcpy(there, buffer)
                        await until(lambda: "aclrtMemcpyAsync" in sim.counted_so_far())
                        group.start_soon(first)
                        await begun.wait()
                        with pytest.raises(aiocann.BusyResourceError):
                            await device.reset()
                    # Cancelled or not, it ends, and the device is there again.
                    scope.cancel()
            await copy
        assert await adds(device)


async def test_a_backend_can_be_asked_for_at_any_time(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = device.backend()
        begun = anyio.Event()

        async def resets() -> None:
            begun.set()
            await device.reset()

        async with anyio.create_task_group() as group:
            group.start_soon(resets)
            await begun.wait()
            while device.backend() is before:
                with pytest.raises(ClosedResourceError, match="reset"):
                    await device.backend().synchronize()
                await anyio.lowlevel.checkpoint()
        assert await adds(device)


async def test_what_waits_for_it_elsewhere_fails_with_all_that_follows(
    opened: Any,
) -> None:
    """It would run without the order that it relies on, or did not run at all."""
    async with opened(2) as rt:
        device, other = rt.devices
        mine, kept = await device.allocate(100), await other.allocate(100)
        async with device.stream() as stream, other.stream() as dependant:
            await dependant.memset(kept, 1)
            with sim.hold(0):
                fill = stream.memset(mine, 2)
                event = stream.record()
                behind: list[aiocann.Operation[Any] | None] = [
                    dependant.wait(event),
                    dependant.memset(kept, 2),
                    dependant.memcpy(np.empty(100, np.uint8), kept),
                ]
                with anyio.fail_after(20):
                    await device.reset()
            for op in behind:
                assert op is not None
                with anyio.fail_after(20), pytest.raises(DeviceFaultError) as told:
                    await op
                assert isinstance(told.value.__cause__, ClosedResourceError)
            for one in (fill, event):
                with pytest.raises(ClosedResourceError, match="reset"):
                    await one
        async with other.stream() as healthy:
            found = np.zeros(100, np.uint8)
            await healthy.memcpy(found, kept)
            assert (found == 1).all()


@pytest.mark.parametrize("size", [100, 40 << 20])
async def test_what_others_wait_for_may_not_even_be_submitted(
    opened: Any, size: int
) -> None:
    """They use its memory until they hear of that; and a reset waits for them."""
    async with opened(2) as rt:
        device, other = rt.devices
        mine, far = await device.allocate(size), await other.allocate(size)
        async with device.stream() as stream, other.stream() as dependant:
            with sim.hold(0):
                for _ in range(1000):  # more than the driver gets at once
                    stream.memset(mine, 1, notify=False)
                fill = stream.memcpy(mine, np.zeros(size, np.uint8))
                event = stream.record()
                dependant.wait(event, notify=False)
                copy = dependant.memcpy(far, mine)
                with anyio.fail_after(5):
                    await device.reset()
            for one in (fill, event):
                with pytest.raises(ClosedResourceError, match="reset"):
                    await one
            with pytest.raises(DeviceFaultError):
                await copy
        assert await adds(device)
        assert await adds(other)


async def test_a_lost_device_waits_for_nobody() -> None:
    """What others do with its memory waits for it, not it for them."""
    async with aiocann.open_runtime("sim", 2) as rt:
        device, other = rt.devices
        buffer, there = await device.allocate(4096), await other.allocate(4096)
        stream, elsewhere = device.backend().stream, other.backend().stream
        with sim.hold(device.index):
            fill = stream.memset(buffer, 1)
            # Submitted before the loss or refused after it: both are right.
            elsewhere.wait(stream.record(), notify=False)
            copy = elsewhere.memcpy(there, buffer)
            sim.lose_device(device.index)
            sim.restore_device(device.index)
            with anyio.fail_after(5):
                await device.reset()
                for op in (fill, copy):
                    with pytest.raises(aiocann.AiocannError):
                        await op
        assert await adds(device)
