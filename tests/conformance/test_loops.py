"""Several loops, threads and libraries of loops on one device."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest
import trio
import uvloop

import aiocann
from aiocann import testing
from helpers.programs import printed, run
from helpers.waiting import until

pytestmark = pytest.mark.anyio
N = 1 << 12
Main = Callable[[], Awaitable[None]]


def run_asyncio(main: Main) -> None:
    asyncio.run(main())  # type: ignore[arg-type]


def run_uvloop(main: Main) -> None:
    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


RUNNERS: list[Callable[[Main], None]] = [run_asyncio, run_uvloop, trio.run]


class Elsewhere(threading.Thread):
    """A loop of its own in a thread of its own."""

    def __init__(self, runner: Callable[[Main], None], main: Main) -> None:
        super().__init__(daemon=True)
        self._runner, self._main = runner, main
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._runner(self._main)
        except BaseException as exc:
            self.failure = exc

    async def ended(self) -> None:
        await until(lambda: not self.is_alive())
        if self.failure is not None:
            raise self.failure


async def test_a_test_runs_on_the_loop_that_it_names(
    anyio_backend_name: str, anyio_backend_options: dict[str, Any]
) -> None:
    if anyio_backend_name == "trio":
        assert trio.lowlevel.in_trio_task()
        return
    loop = asyncio.get_running_loop()
    assert isinstance(loop, uvloop.Loop) == anyio_backend_options["use_uvloop"]


async def test_every_kind_of_loop_at_once_on_one_device(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices

        def work(seed: int) -> Main:
            async def main() -> None:
                with anyio.fail_after(30):
                    buffer = await device.allocate(N)
                    async with device.stream() as stream:
                        for n in range(50):
                            value = (seed + n) % 251
                            out = np.zeros(N, np.uint8)
                            stream.memset(buffer, value)
                            await stream.memcpy(out, buffer)
                            assert (out == value).all()
                            assert await stream.host_call(int, str(n)) == n

            return main

        threads = [Elsewhere(runner, work(k)) for k, runner in enumerate(RUNNERS * 2)]
        await work(100)()
        for thread in threads:
            await thread.ended()


@pytest.mark.parametrize("runner", RUNNERS)
async def test_an_op_is_awaited_by_other_loops_than_its_own(
    opened: Any, runner: Any
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        woken: list[Any] = []
        out = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            await stream.memset(buffer, 9)
            with aiocann.sim.hold(device.index):
                op = stream.memcpy(out, buffer)
                called = stream.host_call(lambda: "called")
                event = stream.record()

                async def waits() -> None:
                    await op
                    assert (out == 9).all()
                    await event
                    woken.append(await called)

                threads = [Elsewhere(runner, waits) for _ in range(3)]
                await until(lambda: len(op._foreign or ()) == 3)
                assert not woken
            await op
            for thread in threads:
                await thread.ended()
        assert woken == ["called"] * 3


async def test_many_plain_threads_enqueue_on_one_stream(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffers = [await device.allocate(N) for _ in range(8)]
        async with device.stream() as stream:
            outs = [np.zeros(N, np.uint8) for _ in buffers]

            def enqueues(k: int) -> None:
                for n in range(50):
                    stream.memset(buffers[k], n, notify=n % 2 == 0)
                stream.memset(buffers[k], k + 1)
                stream.memcpy(outs[k], buffers[k])

            threads = [
                threading.Thread(target=enqueues, args=(k,)) for k in range(len(outs))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                await anyio.to_thread.run_sync(thread.join)
            await stream.synchronize()
            for k, out in enumerate(outs):
                assert (out == k + 1).all()


@pytest.mark.parametrize("runner", RUNNERS)
async def test_loop_that_ends_with_waiters_and_work_in_flight(
    opened: Any, runner: Any
) -> None:
    """It drops its own waiters; the work goes on, and others hear of it."""
    async with opened() as rt:
        (device,) = rt.devices
        out = np.zeros(N, np.uint8)
        ops: list[Any] = []
        waiting = threading.Event()
        ending = threading.Event()
        async with device.stream() as stream:
            buffer = await device.allocate(N)
            await stream.memset(buffer, 5)

            async def main() -> None:
                ops.append(stream.memcpy(out, buffer))
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:

                        async def waits() -> None:
                            await ops[0]

                        tasks.start_soon(waits)
                        await until(lambda: bool(ops[0]._waiters))
                        waiting.set()
                        await anyio.to_thread.run_sync(ending.wait)
                        scope.cancel()

            with aiocann.sim.hold(device.index):
                thread = Elsewhere(runner, main)
                await anyio.to_thread.run_sync(waiting.wait)
                ending.set()
                await thread.ended()
                assert not ops[0].done
            with anyio.fail_after(20):
                await ops[0]
            assert (out == 5).all()
            assert rt.statistics().abandoned == 1
            ops.clear()
        stats = rt.statistics()
        assert (stats.abandoned, stats.reaped, stats.in_flight_ops) == (1, 1, 0)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_one_runtime_over_several_runs_of_a_loop(loop: str) -> None:
    """Opened in one run, used in others, closed in yet another."""
    source = """
    import sys, anyio, aiocann, numpy as np
    options = {"use_uvloop": True} if sys.argv[1] == "uvloop" else {}
    backend = "trio" if sys.argv[1] == "trio" else "asyncio"
    def run(fn, *args):
        return anyio.run(fn, *args, backend=backend, backend_options=options)
    opening = aiocann.open_runtime("sim", 1)
    rt = run(opening.__aenter__)
    device, = rt.devices
    kept = []
    async def work(n):
        buffer = await device.allocate(64)
        out = np.zeros(64, np.uint8)
        async with device.stream() as stream:
            await stream.memset(buffer, n)
            await stream.memcpy(out, buffer)
        kept.append(device.main_stream.memset(buffer, 1))  # of a loop that is gone
        return bool((out == n).all())
    print(*[run(work, n) for n in range(3)])
    async def awaits():
        for op in kept:
            await op
    run(awaits)
    print(rt.statistics().in_flight_ops)
    kept.clear()
    run(opening.__aexit__, None, None, None)
    async def again():
        async with aiocann.open_runtime("sim", 1) as rt:
            return len(rt.devices)
    print(run(again))
    """
    assert printed(source, loop).split() == ["True", "True", "True", "0", "1"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
@pytest.mark.parametrize("closing", ["loop", "exit"])
def test_ctrl_c_with_work_in_flight(loop: str, closing: str) -> None:
    """The prompt is back at once; the device is still at its work."""
    source = """
    import asyncio, os, signal, sys, threading, time, anyio, aiocann
    import numpy as np
    signal.signal(signal.SIGINT, signal.default_int_handler)
    opening = aiocann.open_runtime("sim", 1, close_timeout=0.1)
    holding = aiocann.sim.hold(0)
    async def main():
        if sys.argv[2] == "exit":
            rt = await opening.__aenter__()
            await waits(rt)
        else:
            async with opening as rt:
                await waits(rt)
    async def waits(rt):
        device, = rt.devices
        array = np.zeros(1 << 20, np.uint8)
        buffer = await device.allocate(array.nbytes)
        holding.__enter__()
        device.main_stream.memcpy(buffer, array)
        op = device.main_stream.synchronize()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        await op
    options = {"use_uvloop": True} if sys.argv[1] == "uvloop" else {}
    backend = "trio" if sys.argv[1] == "trio" else "asyncio"
    try:
        anyio.run(main, backend=backend, backend_options=options)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted")
    except BaseExceptionGroup as group:
        print("interrupted", group.split(KeyboardInterrupt)[1])
    """
    done = run(source, loop, closing)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted")
    assert "Traceback" not in done.stderr


async def test_finalisers_on_any_thread_and_during_collections(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = rt.statistics().live_buffers
        async with device.stream() as stream:
            cycles: list[list[Any]] = []
            for n in range(40):
                cycles.append([await device.allocate(N)])
                cycles[-1] += [stream.memset(cycles[-1][0], n), cycles[-1]]
            half = [cycles.pop() for _ in range(20)]

            def drops() -> None:
                half.clear()
                gc.collect()

            thread = threading.Thread(target=drops)
            thread.start()
            cycles.clear()
            testing.counts(rt)  # collects here
            await anyio.to_thread.run_sync(thread.join)
            await stream.synchronize()

        def are_gone() -> bool:
            gc.collect()  # two at once would be one
            return bool(rt.statistics().live_buffers == before)

        await until(are_gone)
