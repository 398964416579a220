"""Opening, sharing and closing."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import BusyResourceError, ClosedResourceError, UsageError
from helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_shows_what_is_open(opened: Any, driver: str) -> None:
    async with opened(3) as rt:
        assert [device.index for device in rt.devices] == [0, 1, 2]
        assert rt.unavailable == []
        assert rt.version.count(".") == 2
        assert rt.library.endswith(".so")
        assert driver in repr(rt)
        device = rt.device(1)
        assert device is rt.devices[1]
        assert device.soc_name.startswith("Ascend")
        assert device.soc_name in repr(device)
        assert not device.poisoned
        assert device.can_access_peer(device)
        with pytest.raises(UsageError, match="open are 0, 1, 2"):
            rt.device(7)


async def test_devices_by_id(opened: Any, driver: str) -> None:
    async with aiocann.open_runtime(driver, [2, 0]) as rt:
        assert [device.index for device in rt.devices] == [2, 0]
        a, b = [await device.allocate(64) for device in rt.devices]
        out = np.zeros(64, np.uint8)
        async with rt.devices[0].stream() as stream:
            stream.memset(a, 3)
            stream.memcpy(b, a)
            await stream.synchronize()
        async with rt.devices[1].stream() as stream:
            await stream.memcpy(out, b)
        assert (out == 3).all()


async def test_opening_again_shares(opened: Any, driver: str) -> None:
    async with opened(2) as rt:
        async with aiocann.open_runtime(driver, 2) as again:
            assert again is rt
        buffer = await rt.devices[0].allocate(64)  # still open
        buffer.close()
        with pytest.raises(BusyResourceError, match="A process has one runtime"):
            async with aiocann.open_runtime(driver, 3):
                pass
        other = "sim" if driver == "cann" else "cann"
        with pytest.raises(BusyResourceError):
            async with aiocann.open_runtime(other, 2):
                pass


async def test_many_open_and_close_at_once(opened: Any, driver: str) -> None:
    seen = set()

    async def one() -> None:
        async with aiocann.open_runtime(driver, 2) as rt:
            seen.add(rt)
            buffer = await rt.devices[1].allocate(64)
            async with rt.devices[1].stream() as stream:
                await stream.memset(buffer, 1)

    for _ in range(3):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(one)
    assert all(rt.closed for rt in seen)


async def test_cancelled_while_opening(opened: Any, driver: str) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with aiocann.open_runtime(driver, 2):
            pass
    # What was opening then does not stand in the way.
    async with opened(1) as rt:
        assert len(rt.devices) == 1


async def test_closed_runtime(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        backend = device.backend()
        tensor = await backend.empty((4,), aiocann.F32)
        buffer = await device.allocate(64)
    assert rt.closed
    for use in (
        lambda: rt.pinned_empty((3,)),
        lambda: device.allocate(10),
        device.memory_info,
        device.backend,
        lambda: device.poisoned,
        lambda: backend.empty((3,), aiocann.F32),
        lambda: backend.get_tensor_async(tensor),
        backend.synchronize,
    ):
        with pytest.raises(ClosedResourceError):
            use()
    with pytest.raises(ClosedResourceError):
        async with device.stream():
            pass
    buffer.close()  # late, but harmless
    async with opened() as again:
        assert again is not rt
        (new,) = again.devices
        async with new.stream() as stream:
            with pytest.raises((UsageError, ClosedResourceError)):
                stream.memset(tensor, 0)  # of the runtime that was closed


async def test_opened_and_closed_many_times(opened: Any, open_fds: Any) -> None:
    async with opened(2):
        pass
    gc.collect()
    before = open_fds()
    for _ in range(10):
        async with opened(2) as rt:
            buffer = await rt.devices[1].allocate(1 << 20)
            async with rt.devices[1].stream() as stream:
                await stream.memset(buffer, 1)
    gc.collect()
    assert open_fds() <= before


async def test_statistics(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = rt.statistics()
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(before, "in_flight_ops", 3)  # noqa: B010 - mypy sees the other
        buffer = await device.allocate(1 << 20)
        assert rt.statistics().live_buffers == before.live_buffers + 1
        assert rt.statistics().pool_used_bytes >= 1 << 20
        data = np.ones(1 << 20, np.uint8)
        async with device.stream() as stream:
            assert rt.statistics().live_streams == before.live_streams + 1
            with aiocann.sim.hold(device.index):
                op = stream.memcpy(buffer, data)
                stats = rt.statistics()
                assert stats.in_flight_ops >= 1
                assert stats.in_flight_bytes >= 1 << 20
                listed = rt.in_flight()
                assert [one.op for one in listed] == ["memcpy"]
                assert listed[0].device == device.index
                assert "test_runtime.py" in listed[0].enqueued_at
                assert listed[0].age >= 0
            await op
        after = rt.statistics()
        assert after.h2d_bytes == before.h2d_bytes + (1 << 20)
        assert after.completions > before.completions
        assert after.in_flight_ops == 0
        assert rt.in_flight() == []
        buffer.close()
        await until(lambda: rt.statistics().live_buffers == before.live_buffers)


async def test_steady_state_creates_no_events(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:

            async def rounds() -> None:
                for _ in range(20):
                    await stream.memset(buffer, 1)
                    await stream.record()

            await rounds()
            created = rt.statistics().events_created
            for _ in range(10):
                await rounds()
            assert rt.statistics().events_created == created


async def test_opening_fails_and_cannot_be_undone(opened: Any) -> None:
    try:
        # The first stream is the lane's own.
        aiocann.sim.fail_call("aclrtCreateStream", 207008, 2)
        aiocann.sim.fail_call("aclrtResetDevice", 507033)
        with (
            pytest.warns(aiocann.CleanupWarning, match="aclrtResetDevice"),
            pytest.raises(aiocann.ResourceExhaustedError),
        ):
            async with opened():
                pass
    finally:
        aiocann.sim.reset()


async def test_pinned_array_outlives_the_runtime(opened: Any) -> None:
    async with opened() as rt:
        array = await rt.pinned_empty((1000,), np.int32)
        array[:] = np.arange(1000)
        part = array[500:]
        assert rt.statistics().pinned_bytes > 0
    del array
    gc.collect()
    np.testing.assert_array_equal(part, np.arange(500, 1000))
    assert rt.statistics().pinned_bytes == 4000
    part[:] = 1
    del part
    gc.collect()
    assert rt.statistics().pinned_bytes == 0


async def test_pinned_memory_is_used_again(opened: Any) -> None:
    async with opened() as rt:
        with aiocann.sim.counted_calls() as calls:
            for _ in range(10):
                array = await rt.pinned_empty(3 << 20, np.uint8)
                del array
                await until(lambda: rt.statistics().pinned_bytes == 0)
        assert calls["aclrtMallocHost"] == 1
        assert rt.statistics().pinned_reserved_bytes == 3 << 20


async def test_pinned_memory_gives_way_before_it_is_refused(opened: Any) -> None:
    gc.collect()  # arrays of other tests count too, until they are collected
    aiocann.sim.configure(pinned_memory="64M")
    try:
        async with opened() as rt:
            array = await rt.pinned_empty(40 << 20, np.uint8)
            del array
            await until(lambda: rt.statistics().pinned_bytes == 0)
            array = await rt.pinned_empty(60 << 20, np.uint8)  # would warn
            assert rt.statistics().pinned_bytes == 60 << 20
            del array
            await until(lambda: rt.statistics().pinned_bytes == 0)
    finally:
        aiocann.sim.configure(pinned_memory=None)


async def test_empty_pinned_array(opened: Any) -> None:
    async with opened() as rt:
        array = await rt.pinned_empty((0, 5), np.float64)
        assert array.shape == (0, 5)
        with pytest.raises(UsageError, match="from 0 to"):
            rt.pinned_empty((-1,))


async def test_leaving_drains(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        n = 4 << 20
        tensor = await backend.empty((n,), aiocann.F32)
        data = np.arange(n, dtype=np.float32)
        out = np.zeros(n, np.float32)
        backend.set_tensor_async(tensor, data)
        op = backend.get_tensor_async(tensor, out)
    assert op.done
    np.testing.assert_array_equal(out, data)


async def test_leaving_at_once_drains_too(opened: Any) -> None:
    """What was enqueued just before is not overtaken by the closing."""
    targets = [np.zeros(100, np.uint8) for _ in range(40)]
    for target in targets:
        async with opened() as rt:
            op = rt.devices[0].main_stream.memcpy(target, np.ones(100, np.uint8))
        await op
    assert all((target == 1).all() for target in targets)


async def test_leaving_with_a_stuck_device(opened: Any) -> None:
    """It gives up after its time, says so, and the next opening works."""
    out = np.zeros(64, np.float32)
    with aiocann.sim.hold(0):
        with pytest.raises(aiocann.DeviceTimeoutError):  # noqa: PT012 - leaving raises
            async with opened(clean=False, close_timeout=0.05) as rt:
                backend = rt.devices[0].backend()
                tensor = await backend.empty(64, aiocann.F32)
                backend.set_tensor_async(tensor, np.ones(64, np.float32))
                op = backend.get_tensor_async(tensor, out)
        assert op.done
        with pytest.raises(aiocann.AiocannError, match="was closed while"):
            await op
    async with opened() as again:
        backend = again.devices[0].backend()
        tensor = await backend.empty(64, aiocann.F32)
        backend.set_tensor_async(tensor, np.ones(64, np.float32))
        await backend.get_tensor_async(tensor, out)
    assert (out == 1).all()


@pytest.mark.parametrize("devices", [0, -1, [], [0, 0], [-1]])
def test_nonsense_devices(devices: Any, anyio_backend: Any) -> None:
    with pytest.raises(UsageError):
        aiocann.open_runtime("sim", devices)


def test_nonsense_arguments(anyio_backend: Any) -> None:
    with pytest.raises(TypeError, match="a number or a list"):
        aiocann.open_runtime("sim", "0,1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="close_timeout"):
        aiocann.open_runtime("sim", close_timeout=-1)


async def test_unknown_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="driver is 'cuda'"):
        async with aiocann.open_runtime("cuda"):
            pass
    monkeypatch.setenv("AIOCANN_DRIVER", "rocm")
    with pytest.raises(UsageError, match="AIOCANN_DRIVER is 'rocm'"):
        async with aiocann.open_runtime():
            pass


async def test_more_devices_than_there_are(driver: str) -> None:
    if driver == "sim":
        async with aiocann.open_runtime("sim", 6) as rt:  # the simulator makes them
            assert len(rt.devices) == 6
    else:
        with pytest.raises(aiocann.AiocannError):
            async with aiocann.open_runtime(driver, 6):
                pass
