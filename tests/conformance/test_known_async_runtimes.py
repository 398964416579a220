"""How libraries that await devices fail: tests named after the rows of that list."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32
from helpers.programs import run
from helpers.waiting import after_its_callback, until

pytestmark = pytest.mark.anyio
N = 1 << 12


async def test_async_runtimes_01_no_native_thread_waits_for_the_interpreter(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        out = np.zeros(N, np.uint8)
        holding = ctypes.PyDLL(None)  # calls of it keep the interpreter's lock
        before = sys.getswitchinterval()
        sys.setswitchinterval(100)
        try:
            async with device.stream() as stream:
                for n in range(20):
                    stream.memset(buffer, n)
                op = stream.memcpy(out, buffer)
                for _ in range(2000):
                    holding.usleep(5000)
                    if op.done:
                        break
                assert op.done
                assert (out == 19).all()
        finally:
            sys.setswitchinterval(before)


def test_async_runtimes_05_no_function_of_pythons_crosses_over() -> None:
    root = Path(__file__).resolve().parents[2]
    header = (root / "native" / "include" / "aiocann.h").read_text("utf-8")
    declared = header.partition("cdef-begin")[2].partition("cdef-end")[0]
    assert "aiocann_stream_memcpy" in declared
    assert not re.search(r"\(\s*\*", declared), "a pointer to a function"


async def test_async_runtimes_06_completions_do_not_hold_the_stream(
    opened: Any,
) -> None:
    """A loop that takes no turn is told of nothing, and nothing waits for it."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            ops = [stream.memset(buffer, n % 251) for n in range(2000)]
            deadline = time.monotonic() + 20
            while not stream.idle and time.monotonic() < deadline:
                pass
            assert stream.idle
            assert ops[-1].done


async def test_async_runtimes_07_a_slow_host_call_delays_no_other_stream(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as slow, device.stream() as other:
            seen: list[bool] = []

            def holds_the_loop() -> None:
                op = other.memset(buffer, 1)
                deadline = time.monotonic() + 20
                while not op.done and time.monotonic() < deadline:
                    pass
                seen.append(op.done)

            await slow.host_call(holds_the_loop)
            assert seen == [True]


async def test_async_runtimes_08_a_callback_that_never_comes_is_made_up_for(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_COMPLETION", "callback")
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            await stream.synchronize()
            aiocann.sim.drop_callback()
            with anyio.fail_after(20):
                await after_its_callback(stream.memset, buffer, 1)
        assert rt.statistics().lost_callbacks == 1
        aiocann.sim.let_go()


@pytest.mark.parametrize("call", ["aclrtSubscribeReport", "aclrtLaunchCallback"])
async def test_async_runtimes_08b_a_refused_registration_ends_the_await(
    opened: Any, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_COMPLETION", "callback")
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)

        async def attempt() -> None:
            async with device.stream() as stream:
                # What is over at once may need no callback.
                with aiocann.sim.hold(0):
                    op = stream.memset(buffer, 1)
                    await until(lambda: not aiocann.sim.counters()["armed_faults"])
                await op

        aiocann.sim.fail_call(call, 507000)
        with anyio.fail_after(20):
            with pytest.raises(aiocann.AiocannError, match=call):
                await attempt()
            await attempt()


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.full(N, 7, np.uint8),
        lambda: bytes([7]) * N,
        lambda: bytearray([7]) * N,
        lambda: memoryview(bytearray([7]) * N),
        lambda: __import__("array").array("B", [7]) * N,
    ],
    ids=["ndarray", "bytes", "bytearray", "memoryview", "array"],
)
async def test_async_runtimes_16_host_operands_are_owned(
    opened: Any, make: Any
) -> None:
    """Every kind of buffer: dropped at once, and impossible to resize."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                stream.memcpy(buffer, make())
                source = make()
                op = stream.memcpy(buffer, source)
                if hasattr(source, "append"):
                    with pytest.raises(BufferError):
                        source.append(1)
                if isinstance(source, np.ndarray):
                    with pytest.raises(ValueError, match="resize"):
                        source.resize(2 * N)
            await op
            out = np.zeros(N, np.uint8)
            await stream.memcpy(out, buffer)
            assert (out == 7).all()
            if hasattr(source, "append"):
                await until(lambda: _can_append(source))


def _can_append(source: Any) -> bool:
    try:
        source.append(1)
    except BufferError:
        return False
    return True


def test_async_runtimes_18_the_simulator_sees_a_use_after_a_free() -> None:
    source = """
    import aiocann
    from helpers import acl
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    before = aiocann.sim.counters()["misuse"]
    with acl.made("Stream") as stream:
        address = acl.allocate(64)
        with aiocann.sim.hold(0):
            acl.fill(address, 1, 64, stream)
            acl.call("aclrtFree", address)
        acl.library().aclrtSynchronizeStream(stream)
    print(aiocann.sim.counters()["misuse"] > before)
    """
    assert run(source).stdout.split() == ["True"]


async def test_async_runtimes_20_streams_are_known_by_more_than_their_handles(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        numbers = set()
        for n in range(30):
            async with device.stream() as stream:
                numbers.add(stream.number)
                buffer = await device.allocate(N, stream=stream)
                out = np.zeros(N, np.uint8)
                stream.memset(buffer, n)
                buffer.close()
                again = await device.allocate(N, stream=stream)
                stream.memset(again, n + 1)
                await stream.memcpy(out, again)
                assert (out == n + 1).all()
        assert len(numbers) == 30


async def test_async_runtimes_27_waiting_costs_no_cpu_time(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                op = stream.memset(buffer, 1)
                with anyio.move_on_after(0.2):
                    await op  # the lanes have gone to sleep by now
                before, start = time.process_time(), time.monotonic()
                with anyio.move_on_after(1.0):
                    await op
                spent = time.process_time() - before
                assert spent < 0.25 * (time.monotonic() - start)


async def test_async_runtimes_29_an_op_says_what_it_was(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            op = stream.memcpy(buffer, np.zeros(N, np.uint8))
            await op
            assert (op.kind, op.stream, op.path) == ("memcpy", stream, "staged")
            assert "test_known_async_runtimes.py" in op.enqueued_at


async def test_async_runtimes_35_cancelled_before_submission(opened: Any) -> None:
    """It was enqueued, so it is done, and nobody is left waiting."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        out = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await stream.memset(buffer, 3)
            await stream.memcpy(out, buffer)
        assert (out == 3).all()


async def test_async_runtimes_41_streams_that_run_out_are_a_resource(
    driver: str,
) -> None:
    aiocann.sim.configure(max_streams=6)
    try:
        async with (
            aiocann.open_runtime(driver, 1) as rt,
            anyio.create_task_group() as tasks,
        ):
            refused: list[BaseException] = []
            some = anyio.Event()

            async def leases() -> None:
                try:
                    async with rt.devices[0].stream():
                        await some.wait()
                except aiocann.ResourceExhaustedError as exc:
                    refused.append(exc)
                    some.set()

            for _ in range(8):
                tasks.start_soon(leases)
        assert refused
        assert "streams" in str(refused[0])
    finally:
        aiocann.sim.configure(max_streams=None)


async def test_async_runtimes_44_no_wait_spins_without_end(opened: Any) -> None:
    """Every thread of ours sleeps while a stream waits for an event."""
    async with opened(2) as rt:
        a, b = rt.devices
        buffer = await b.allocate(N)
        async with a.stream() as first, b.stream() as second:
            with aiocann.sim.hold(a.index):
                second.wait(first.record())
                op = second.memset(buffer, 1)
                with anyio.move_on_after(0.2):
                    await op
                before, start = time.process_time(), time.monotonic()
                with anyio.move_on_after(0.5):
                    await op
                spent = time.process_time() - before
                assert spent < 0.3 * (time.monotonic() - start)
            await op


async def test_async_runtimes_54_results_can_be_had_without_await(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        tensor = await backend.empty(4, F32)
        backend.set_tensor_async(tensor, np.arange(4, dtype=np.float32))
        found: list[Any] = []

        def plain() -> None:
            op = backend.get_tensor_async(tensor)
            while not op.done:
                time.sleep(0)
            found.extend(op.result())

        thread = threading.Thread(target=plain)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert found == [0, 1, 2, 3]
