"""What fails on the device: who is told, of what, and what goes on."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, DeviceFaultError, DeviceMemoryError, Graph, ops
from helpers.waiting import until

pytestmark = pytest.mark.anyio


def line_of(marker: str) -> int:
    """Return the line of this file that ends with ``# <marker>``."""
    with open(__file__, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            if line.rstrip().endswith(f"# {marker}") and "line_of" not in line:
                return number
    raise AssertionError(marker)


async def test_kernel_fault_names_op_and_lines(opened: Any) -> None:
    async with opened(2) as rt:
        backend = rt.devices[0].backend()
        x = await backend.empty((4, 8), F32)
        await backend.set_tensor_async(x, np.ones((4, 8), np.float32))
        y = ops.sqr(ops.add(x, x))
        z = ops.mul(y, x)  # built
        graph = Graph([z])
        await backend.graph_compute(graph)
        aiocann.sim.fail_kernel("aclnnMul", nth=2)
        op = backend.graph_compute(graph)  # computed
        with pytest.raises(DeviceFaultError) as caught:
            await op
        fault = caught.value
        assert fault.code == 507015
        assert fault.code_name == "ACL_ERROR_RT_AICORE_EXCEPTION"
        assert fault.op.startswith("mul(f32 (4, 8), f32 (4, 8))")
        assert f"test_faults.py:{line_of('built')} in " in fault.enqueued_at
        assert f"test_faults.py:{line_of('computed')} in " in fault.enqueued_at
        assert "mul(" in str(fault)
        assert not fault.is_device_lost
        assert rt.devices[0].poisoned

        # The process goes on, and the other device works.
        assert not rt.devices[1].poisoned
        other = rt.devices[1].backend()
        t = await other.empty(10, F32)
        await other.set_tensor_async(t, np.full(10, 3, np.float32))
        u = ops.sqr(t)
        await other.graph_compute(Graph([u]))
        assert (await other.get_tensor_async(u) == 9).all()


async def test_copy_fault_names_copy_and_line(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(4000)
        source = await rt.pinned_empty(1000, np.float32)
        async with device.stream() as stream:
            aiocann.sim.fail_copy("memcpy")
            op = stream.memcpy(buffer, source)  # copied
            with pytest.raises(DeviceFaultError) as caught:
                await op
        fault = caught.value
        assert fault.op == "memcpy(4000 bytes on device 0, host float32[1000])"
        assert f"test_faults.py:{line_of('copied')} in " in fault.enqueued_at
        assert fault.origin
        with pytest.raises(DeviceFaultError) as again:
            await op
        assert again.value is not fault


async def test_later_work_of_the_stream_fails_with_the_first_as_cause(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream, device.stream() as other:
            await stream.memset(buffer, 1)
            with aiocann.sim.hold(device.index):
                aiocann.sim.fail_copy("memset")
                first = stream.memset(buffer, 2)
                second = stream.memset(buffer, 3)
                event = stream.record()
                other.wait(event)
                third = other.memset(buffer, 4)
            with pytest.raises(DeviceFaultError) as root:
                await first
            assert root.value.__cause__ is None
            for op in (second, third):
                with pytest.raises(DeviceFaultError) as caught:
                    await op
                cause = caught.value.__cause__
                assert isinstance(cause, DeviceFaultError)
                assert cause.code == root.value.code
                assert caught.value.origin == root.value.origin
            with pytest.raises(DeviceFaultError):
                await event


async def test_independent_stream_of_a_faulted_device_goes_on(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        out = np.zeros(64, np.uint8)
        async with device.stream() as stream, device.stream() as other:
            aiocann.sim.fail_copy("memset")
            with pytest.raises(DeviceFaultError):
                await stream.memset(buffer, 2)
            await other.memset(buffer, 3)
            await other.memcpy(out, buffer)
        assert (out == 3).all()


async def test_unawaited_failure_is_raised_once_by_synchronize(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            aiocann.sim.fail_copy("memset")
            stream.memset(buffer, 2)  # nobody awaits it
            with (
                caplog.at_level(logging.ERROR, "aiocann"),
                pytest.raises(DeviceFaultError, match="memset") as caught,
            ):
                await stream.synchronize()
            assert "nobody awaited it" in caplog.text
            assert f":{line_of('nobody awaits it')} in " in caught.value.enqueued_at
        # Told once: leaving the stream does not raise it again.


async def test_unawaited_failure_is_raised_by_leaving_the_stream(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with pytest.raises(DeviceFaultError, match="memset"):  # noqa: PT012 - leaving raises
            async with device.stream() as stream:
                aiocann.sim.fail_copy("memset")
                stream.memset(buffer, 2)


async def test_unnotified_failure_is_raised_by_leaving_the_stream(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with pytest.raises(DeviceFaultError):  # noqa: PT012 - leaving raises
            async with device.stream() as stream:
                aiocann.sim.fail_copy("memset")
                stream.memset(buffer, 2, notify=False)
                stream.memset(buffer, 3, notify=False)


async def test_unnotified_fault_is_the_cause_of_what_follows(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with pytest.raises(DeviceFaultError) as left:  # noqa: PT012 - leaving raises
            async with device.stream() as stream:
                with aiocann.sim.hold(device.index):
                    aiocann.sim.fail_copy("memset", 507054)
                    stream.memset(buffer, 2, notify=False)
                    later = stream.memset(buffer, 3)
                with pytest.raises(DeviceFaultError) as followed:
                    await later
        for exc in (followed.value, left.value):
            assert exc.is_device_lost
            cause = exc.__cause__
            assert isinstance(cause, DeviceFaultError)
            assert (cause.code, cause.op) == (507054, "memset")
            assert cause.detail.startswith("Device 0 reports failure 507054")


async def test_unnotified_refusal_is_the_cause_of_what_tells_it(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with pytest.raises(DeviceFaultError, match="aclrtMemsetAsync") as left:  # noqa: PT012
            async with device.stream() as stream:
                aiocann.sim.fail_call("aclrtMemsetAsync", 107000)
                stream.memset(buffer, 2, notify=False)
        assert isinstance(left.value.__cause__, aiocann.UsageError)
        assert not left.value.is_device_lost


@pytest.mark.parametrize("how", ["dropped", "cancelled"])
async def test_unnotified_failure_outlives_a_synchronization_that_nobody_awaited(
    opened: Any, how: str
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            aiocann.sim.fail_call("aclrtMemsetAsync", 507899)
            stream.memset(buffer, 2, notify=False)
            first = stream.synchronize()
            if how == "cancelled":
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await first
            del first
            with pytest.raises(DeviceFaultError, match="aclrtMemsetAsync"):
                await stream.synchronize()
            await stream.synchronize()  # told once


async def test_failure_of_the_body_wins(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        with pytest.raises(KeyError, match="body"):  # noqa: PT012 - leaving raises
            async with device.stream() as stream:
                aiocann.sim.fail_copy("memset")
                stream.memset(buffer, 2)
                raise KeyError("body")
        assert "because of another error" in caplog.text


async def test_unawaited_failure_of_a_backend_is_raised_by_leaving(
    opened: Any,
) -> None:
    with pytest.raises(DeviceFaultError, match="set_tensor"):  # noqa: PT012 - leaving raises
        async with opened(clean=False) as rt:
            backend = rt.devices[0].backend()
            tensor = await backend.empty(10, F32)
            aiocann.sim.fail_copy("memcpy")
            backend.set_tensor_async(tensor, np.ones(10, np.float32))


async def test_allocation_that_fails(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        total = (await device.memory_info()).total
        with pytest.raises(DeviceMemoryError) as caught:
            await device.allocate(2 * total)
        error = caught.value
        assert isinstance(error, MemoryError)
        assert error.requested >= 2 * total
        assert error.total == total
        assert 0 < error.free <= total
        assert "asked for" in str(error)
        # The device goes on.
        (await device.allocate(1 << 20)).close()


async def test_injected_allocation_failure(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        aiocann.sim.fail_call("aclrtMalloc", 207001, nth=0)
        with pytest.raises(DeviceMemoryError):
            await device.allocate(100 << 20)
        aiocann.sim.clear_faults()
        (await device.allocate(100 << 20)).close()


async def test_submission_failure_names_the_call(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            aiocann.sim.fail_call("aclrtMemsetAsync", 107017)
            with pytest.raises(aiocann.UsageError) as caught:
                await stream.memset(buffer, 1)
            assert caught.value.call == "aclrtMemsetAsync"
            assert caught.value.code_name == "ACL_ERROR_RT_INVALID_HANDLE"


async def test_stream_that_cannot_be_made(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        aiocann.sim.fail_call("aclrtCreateStreamWithConfig", 207008)
        with pytest.raises(aiocann.ResourceExhaustedError, match="close streams"):
            async with device.stream():
                pass
        async with device.stream() as stream:
            await stream.synchronize()


async def test_pinned_memory_that_cannot_be_had(opened: Any) -> None:
    async with opened() as rt:
        aiocann.sim.fail_call("aclrtMallocHost", 207001, nth=0)
        with pytest.warns(aiocann.SlowPathWarning, match="207001"):
            source = await rt.pinned_empty((1 << 20,), np.uint8)
        target = await rt.pinned_empty((1 << 20,), np.uint8)  # told once
        assert rt.statistics().pinned_bytes == 0
        source[:] = 7
        async with rt.devices[0].stream() as stream:
            buffer = await rt.devices[0].allocate(source.nbytes)
            aiocann.sim.clear_faults()
            assert await stream.memcpy(buffer, source) is None
            await stream.memcpy(target, buffer)
        assert (target == 7).all()


async def test_nothing_runs_past_a_wait_that_the_driver_refused(opened: Any) -> None:
    """Without the order that it was to bring, what follows would read stale data."""
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        source, target = await device.allocate(16), np.zeros(16, np.uint8)
        witness, seen = await device.allocate(16), np.zeros(16, np.uint8)
        async with device.stream() as first:
            second = await device.stream().__aenter__()
            await first.memset(witness, 1)
            with aiocann.sim.hold(device.index):
                first.memset(source, 5)
                event = first.record()
                aiocann.sim.fail_call("aclrtStreamWaitEvent", 507899)
                wait = second.wait(event)
                second.memset(witness, 2, notify=False)
                copy = second.memcpy(target, source)
                # An event that has come to pass need not be waited for.
                await until(lambda: not aiocann.sim.counters()["armed_faults"])
            assert wait is not None
            with pytest.raises(aiocann.AclError) as refused:
                await wait
            assert refused.value.code == 507899
            with pytest.raises(aiocann.AclError) as caught:
                await copy
            assert isinstance(caught.value.__cause__, aiocann.AclError)
            assert caught.value.__cause__.code == 507899
            await second.aclose(10)
            await first.memcpy(seen, witness)
            assert (seen == 1).all()
            await first.memset(source, 6)
