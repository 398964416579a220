"""What users of NPU runtimes ran into: tests named after the rows of that list."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, testing
from helpers import acl
from helpers.waiting import until

pytestmark = pytest.mark.anyio
N = 1 << 12


async def test_problems_01_a_device_that_does_not_open_is_listed(driver: str) -> None:
    aiocann.sim.fail_call("aclrtSetDevice", 507033, nth=2)
    async with aiocann.open_runtime(driver, 2) as rt:
        (device,) = rt.devices
        (missing,) = rt.unavailable
        assert {device.index, missing.index} == {0, 1}
        assert missing.error.code == 507033  # type: ignore[attr-defined]
        assert (await device.memory_info()).total > 0


async def test_problems_03_workers_keep_to_their_devices(opened: Any) -> None:
    async with opened(2) as rt:
        buffers = [await device.allocate(N) for device in rt.devices]
        wrong: list[int] = []

        def works(n: int) -> None:
            which = n % 2
            stream = rt.devices[which].backend().stream
            out = np.zeros(N, np.uint8)
            for _ in range(20):
                stream.memset(buffers[which], which + 1)
                op = stream.memcpy(out, buffers[which])
                while not op.done:
                    time.sleep(0)
                if not (out == which + 1).all():
                    wrong.append(n)

        threads = [threading.Thread(target=works, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        assert not wrong


@pytest.mark.parametrize("row", ["problems_04", "problems_05"])
async def test_problems_04_the_first_failure_is_the_one_that_is_told(
    driver: str, row: str
) -> None:
    code = {"problems_04": 507008, "problems_05": 507033}[row]
    aiocann.sim.fail_call("aclrtSetDevice", code, nth=0)
    aiocann.sim.fail_call("aclrtGetCurrentContext", 107002, nth=0)
    with pytest.raises(aiocann.AclError) as told:
        async with aiocann.open_runtime(driver, 1):
            pass
    assert told.value.code == code
    assert told.value.call == "aclrtSetDevice"
    assert told.value.hint


async def test_problems_05_code_and_class_come_with_the_text(driver: str) -> None:
    aiocann.sim.fail_call("aclrtSetDevice", 507033, nth=0)
    with pytest.raises(aiocann.AclError) as told:
        async with aiocann.open_runtime(driver, 1):
            pass
    assert told.value.code_name.startswith("ACL_ERROR_")
    assert "npu-smi" in told.value.hint
    assert str(told.value.code) in str(told.value)


async def test_problems_06_streams_end_on_their_own_device(opened: Any) -> None:
    async with opened(2) as rt:
        acl.call("aclrtSetDevice", 1)
        try:
            async with rt.devices[0].stream() as stream:
                await stream.synchronize()
            assert acl.current()[0] == 1
        finally:
            acl.call("aclrtResetDevice", 1)
        assert rt.statistics().live_streams == len(rt.devices)


async def test_problems_07_a_device_is_set_once(driver: str) -> None:
    with aiocann.sim.counted_calls() as calls:
        async with aiocann.open_runtime(driver, 2) as rt:
            for device in rt.devices:
                buffer = await device.allocate(N)
                async with device.stream() as stream:
                    for n in range(20):
                        await stream.memset(buffer, n)
    assert calls["aclrtSetDevice"] == 2
    assert calls["aclrtResetDevice"] == 2


async def test_problems_14_no_device_is_nothing(driver: str) -> None:
    aiocann.sim.fail_call("aclrtCreateStream", 507000, nth=1)
    async with aiocann.open_runtime(driver, 2) as rt:
        assert all(isinstance(device, aiocann.Device) for device in rt.devices)
        assert len(rt.devices) == 1
        assert len(rt.unavailable) == 1
        with pytest.raises(aiocann.UsageError, match="is open"):
            rt.device(rt.unavailable[0].index)


async def test_problems_37_a_stream_that_was_refused_costs_nothing(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = testing.counts(rt)
        aiocann.sim.fail_call("aclrtCreateStream", 207008)
        with pytest.raises(aiocann.ResourceExhaustedError, match="streams") as told:
            async with device.stream():
                pass
        assert told.value.code == 207008
        del told
        async with device.stream() as stream:
            await stream.synchronize()
        del stream
        await until(lambda: testing.counts(rt) == before)


async def test_problems_39_order_over_devices_holds_when_the_first_is_late(
    opened: Any,
) -> None:
    async with opened(2) as rt:
        a, b = rt.devices
        here, there = await a.allocate(N), await b.allocate(N)
        out = np.zeros(N, np.uint8)
        async with a.stream() as s, b.stream() as t:
            with aiocann.sim.hold(a.index):
                s.memset(here, 7)
                copied = s.memcpy(there, here)
                t.wait(s.record())
                op = t.memcpy(out, there)
                with anyio.move_on_after(0.05):
                    await op
                assert not op.done
                assert not copied.done
            await op
        assert (out == 7).all()


async def test_problems_51_one_way_peers_are_staged(driver: str) -> None:
    aiocann.sim.configure(peers="0-1")
    try:
        async with aiocann.open_runtime(driver, 2) as rt:
            a, b = rt.devices
            here, there = await a.allocate(N), await b.allocate(N)
            out = np.zeros(N, np.uint8)
            async with a.stream() as s, b.stream() as t:
                s.memset(here, 9)
                op = s.memcpy(there, here)
                t.wait(s.record())
                await t.memcpy(out, there)
            assert op.path == "staged"
            assert (out == 9).all()
            assert (a.can_access_peer(b), b.can_access_peer(a)) == (True, False)
    finally:
        aiocann.sim.configure(peers=None)


async def test_problems_52_peers_are_enabled_once_and_never_to_oneself(
    driver: str,
) -> None:
    with aiocann.sim.counted_calls() as calls:
        async with aiocann.open_runtime(driver, 2) as rt:
            a, b = rt.devices
            here, there, same = [await d.allocate(N) for d in (a, b, a)]
            async with a.stream() as s:
                s.memset(here, 1)
                for _ in range(5):
                    assert s.memcpy(same, here) is not None
                    op = s.memcpy(there, here)
                    await op
                    assert op.path == "peer"
    assert calls["aclrtDeviceEnablePeerAccess"] == 2, "each way"


async def test_problems_54_ordinary_memory_never_reaches_the_device(
    driver: str,
) -> None:
    aiocann.sim.configure(soc="Ascend310P3")
    try:
        async with aiocann.open_runtime(driver, 1) as rt:
            (device,) = rt.devices
            source = np.arange(1 << 20, dtype=np.uint32)
            out = np.zeros_like(source)
            buffer = await device.allocate(source.nbytes)
            async with device.stream() as stream:
                first = stream.memcpy(buffer, source)
                second = stream.memcpy(out, buffer)
                await second
            assert first.path == second.path == "staged"
            assert (out == source).all()
    finally:
        aiocann.sim.configure(soc=None)


async def test_problems_66_reopening_leaves_no_stale_state(opened: Any) -> None:
    for n in range(5):
        async with opened() as rt:
            backend = rt.devices[0].backend()
            tensor = await backend.empty(8, F32)
            await backend.set_tensor_async(tensor, np.full(8, n, np.float32))
            async with opened() as again:
                assert again is rt
            assert ((await backend.get_tensor_async(tensor)) == n).all()
        with pytest.raises(aiocann.ClosedResourceError):
            backend.get_tensor_async(tensor)
