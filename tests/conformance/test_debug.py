"""Debug mode: guarded arrays, whole stacks, held loops; dumps and the logger."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import debug, sites
from helpers.programs import run
from helpers.waiting import until

pytestmark = pytest.mark.anyio
N = 1 << 12


async def test_source_cannot_be_written_while_in_flight(opened: Any) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        source = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                ops = [stream.memcpy(buffer, source), stream.memcpy(buffer, source)]
                with pytest.raises(ValueError, match="read-only"):
                    source[0] = 1
            await ops[0]
            await ops[1]
            source[0] = 1
            assert source.flags.writeable
    assert not debug._frozen
    assert not sites.is_debugging


@pytest.mark.parametrize("kind", ["view", "bytearray", "memoryview", "pinned"])
async def test_source_that_was_written_fails_its_op(opened: Any, kind: str) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        base: Any = bytearray(N)
        source: Any = base
        if kind == "view":
            base = np.zeros(N, np.uint8)
            source = base[:]
        elif kind == "memoryview":
            source = memoryview(base)
        elif kind == "pinned":
            base = await rt.pinned_empty(N, np.uint8)
            base[:] = 0
            source = base[:]
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                op = stream.memcpy(buffer, source)
                base[7] = 1
            with pytest.raises(aiocann.UsageError, match="was written before") as told:
                await op
            assert "test_debug.py" in str(told.value)
            assert "memcpy" in str(told.value)


async def test_destination_is_poisoned_and_guarded_until_it_is_there(
    opened: Any,
) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        out = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            await stream.memset(buffer, 3)
            with aiocann.sim.hold(device.index):
                op = stream.memcpy(out, buffer)
                assert (out == debug.POISON).all(), "too early, and it shows"
                with pytest.raises(ValueError, match="read-only"):
                    out[:] = 0
                again = stream.memcpy(out, buffer)
            await op
            await again
            assert (out == 3).all()
            out[:] = 0


async def test_what_was_there_before_is_known_to_be_done(opened: Any) -> None:
    """Whoever awaits a later op may write the sources of earlier ones."""
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            for n in range(20):
                source = np.full(N, n, np.uint8)
                stream.memcpy(buffer, source)
                event = stream.record()
                await event
                source[:] = 0
            out = np.zeros(N, np.uint8)
            stream.memcpy(out, buffer)
            op = stream.synchronize()
            await until(lambda: op.done)
            assert (out == 19).all()
            out[:] = 1


async def test_guards_go_when_an_op_fails_or_never_begins(opened: Any) -> None:
    async with opened(debug=True, clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        source = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            with pytest.raises(aiocann.UsageError, match="sizes differ"):
                stream.memcpy(buffer[1:], source)
            source[0] = 1
            aiocann.sim.fail_copy("memcpy")
            with pytest.raises(aiocann.DeviceFaultError):
                await stream.memcpy(buffer, source)
            source[0] = 2


async def test_read_only_arrays_stay_read_only(opened: Any) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        source = np.zeros(N, np.uint8)
        source.flags.writeable = False
        backed = np.frombuffer(bytes(N), np.uint8)
        async with device.stream() as stream:
            await stream.memcpy(buffer, source)
            await stream.memcpy(buffer, backed)
        assert not source.flags.writeable
        assert not backed.flags.writeable


async def test_the_whole_stack_is_told(opened: Any) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)

        def outer(stream: aiocann.Stream) -> Any:
            def inner() -> Any:
                return stream.memset(buffer, 1)

            return inner()

        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                op = outer(stream)
                (listed,) = [one for one in rt.in_flight() if one.op == "memset"]
            await op
        first, second = listed.enqueued_at.split(", called from ")[:2]
        assert "inner" in first
        assert "outer" in second
    assert ", called from" not in aiocann.Event().__repr__()


async def test_held_loop_is_reported_with_its_line(opened: Any, caplog: Any) -> None:
    async with opened(debug=True) as rt:
        (device,) = rt.devices
        async with device.stream() as stream:
            await stream.synchronize()

            def holds() -> None:
                end = time.monotonic() + 20
                while "hold_marker" not in caplog.text and time.monotonic() < end:
                    time.sleep(0.01)  # hold_marker

            with caplog.at_level(logging.WARNING, "aiocann"):
                await stream.host_call(holds)
    (record,) = [r for r in caplog.records if "has been held" in r.getMessage()]
    assert "hold_marker" in record.getMessage()
    assert record.driver == rt.driver


async def test_log_lines_name_the_driver_and_have_fields(
    opened: Any, caplog: Any
) -> None:
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        aiocann.sim.fail_copy("memset")
        with (
            caplog.at_level(logging.ERROR, "aiocann"),
            pytest.raises(aiocann.DeviceFaultError),
        ):
            async with device.stream() as stream:
                stream.memset(buffer, 1)
        (record,) = caplog.records
        assert record.getMessage().startswith(f"[{rt.driver}] ")
        fields = record.driver, record.device, record.stream, record.op
        assert fields == (rt.driver, 0, stream.number, "memset")


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_dump_on_a_signal_while_the_loop_is_stuck(loop: str) -> None:
    source = """
    import os, signal, sys, threading, time, anyio, aiocann
    def stuck():
        os.kill(os.getpid(), signal.SIGUSR2)
        deadline = time.monotonic() + 20
        while not seen() and time.monotonic() < deadline:
            time.sleep(0.01)
    read, write = os.pipe()
    real = os.dup(2)
    os.dup2(write, 2)
    os.set_blocking(read, False)
    got = b""
    def seen():
        global got
        try:
            got += os.read(read, 65536)
        except BlockingIOError:
            pass
        return b"most recent call first" in got and b"in stuck" in got
    async def main():
        async with aiocann.open_runtime("sim", 1) as rt:
            device, = rt.devices
            buffer = await device.allocate(64)
            async with device.stream() as stream:
                with aiocann.sim.hold(0):
                    op = stream.memset(buffer, 1)  # here
                    stuck()
                await op
    anyio.run(main, backend=sys.argv[1])
    text = got.decode()
    print("1 ops in flight, " in text or text)
    print("memset" in text, "device 0" in text, "in main" in text)
    """
    done = run(source, loop, AIOCANN_DUMP_SIGNAL="usr2")
    assert done.stdout.split() == ["True"] * 4, (done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["nonsense", "KILL", "0", "999", "_BLOCK"])
def test_dump_signals_that_there_are_not(name: str) -> None:
    source = """
    import anyio, aiocann
    async def main():
        async with aiocann.open_runtime("sim"):
            pass
    try:
        anyio.run(main)
    except aiocann.UsageError as exc:
        print("AIOCANN_DUMP_SIGNAL" in str(exc))
    """
    done = run(source, AIOCANN_DUMP_SIGNAL=name)
    assert done.stdout.split() == ["True"], done.stderr


async def test_debug_mode_is_the_processs_while_one_asks_for_it(opened: Any) -> None:
    async with opened():
        assert not sites.is_debugging
        async with opened(debug=True):
            async with opened(debug=True):
                pass
            assert sites.is_debugging
        assert not sites.is_debugging
    await anyio.lowlevel.checkpoint()


async def test_blocking_mode_raises_where_it_was_enqueued(opened: Any) -> None:
    async with opened(debug="blocking") as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        backend = device.backend()
        x = await backend.empty((4, 4), aiocann.F32)
        backend.set_tensor_async(x, np.ones((4, 4), np.float32))
        graph = aiocann.Graph([aiocann.ops.sqr(x)])
        async with device.stream() as stream:
            op = stream.memset(buffer, 1)
            assert op.done
            found = np.zeros(N, np.uint8)
            stream.memcpy(found, buffer)
            assert (found == 1).all()
            assert stream.memcpy(buffer[:8], buffer[8:16], notify=False) is None
            large = await device.allocate(16 << 20)
            stream.memcpy(large, np.full(16 << 20, 5, np.uint8))  # staged
            called = await stream.host_call(lambda: stream.memset(buffer, 2))
            assert called.done
        backend.graph_compute(graph)

        fault: list[tuple[Callable[[], None], Callable[[aiocann.Stream], Any]]] = [
            (
                lambda: aiocann.sim.fail_copy("memset"),
                lambda stream: stream.memset(buffer, 1),
            ),
            (
                lambda: aiocann.sim.fail_copy("memset"),
                lambda stream: stream.memset(buffer, 1, notify=False),
            ),
            (
                lambda: aiocann.sim.fail_call("aclrtMemsetAsync", 107000),
                lambda stream: stream.memset(buffer, 1, notify=False),
            ),
        ]
        for inject, enqueue in fault:
            async with device.stream() as stream:
                inject()
                with pytest.raises(aiocann.AclError, match=r"memset"):
                    enqueue(stream)
        aiocann.sim.fail_kernel()
        with pytest.raises(aiocann.DeviceFaultError, match="sqr"):
            backend.graph_compute(graph)
    assert not debug.is_blocking
    with pytest.raises(aiocann.UsageError, match="blocking"):
        aiocann.open_runtime(debug="often")  # type: ignore[arg-type]
