"""Ctrl-C and the end of the process, with work in flight: nobody waits for that.

A program tells when it asks to end; how long it takes from there is looked at here.
Work that is waited for takes 30 s (`close_timeout`), or for ever. How much less it is
where nobody waits depends on what else the machine does: on a quiet one set
``AIOCANN_TEST_AT_ONCE`` to 0.5, the seconds that it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import anyio
import pytest

import aiocann
from aiocann import ending
from helpers.programs import run
from helpers.waiting import until

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

LOOPS = ["asyncio", "uvloop", "trio", "no runner"]
WAITS = ["event", "held device", "staged copy"]
ENDS = ["exit inside", "exit", "return"]
_AT_ONCE = float(os.environ.get("AIOCANN_TEST_AT_ONCE", "15"))

# What programs have in common.
_PRELUDE = """
import asyncio, importlib, os, signal, sys, threading, time
import anyio, aiocann, numpy as np
# A shell starts what it runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
loop = sys.argv[1]
# Not later: an import that ctrl-C ends may leave a file open, and tells of it.
importlib.import_module(f"anyio._backends._{'trio' if loop == 'trio' else 'asyncio'}")

def run(main):
    if loop != "no runner":
        options = {"use_uvloop": True} if loop == "uvloop" else {}
        backend = "trio" if loop == "trio" else "asyncio"
        return anyio.run(main, backend=backend, backend_options=options)
    # As Python 3.10 has it: ctrl-C is raised wherever it comes.
    loop_ = asyncio.new_event_loop()
    def run(main):
        try:
            return loop_.run_until_complete(main)
        finally:
            try:
                asyncio.runners._cancel_all_tasks(loop_)
                loop_.run_until_complete(loop_.shutdown_asyncgens())
            finally:
                loop_.close()
    return run(main())

def ask():
    print("asked", time.monotonic(), flush=True)
def interrupt():
    ask()
    os.kill(os.getpid(), signal.SIGINT)
def interrupt_soon():
    threading.Timer(0.1, interrupt).start()
async def enqueues(rt, stream):
    buffer = await rt.devices[0].allocate(8 << 20)
    array = np.zeros(buffer.nbytes, np.uint8)
    return [stream.memcpy(buffer, array) for _ in range(3)]
"""


def _ends_at_once(
    source: str, *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program that is to end at once when it asks to."""
    done = run(_PRELUDE + textwrap.dedent(source), *arguments)
    ended = time.monotonic()
    assert done.returncode == code, done.stderr
    asked = float(done.stdout.partition("asked ")[2].split()[0])
    print(arguments, f"{ended - asked:.3f} s")
    assert ended - asked < _AT_ONCE
    return done


@pytest.mark.parametrize(
    ("loop", "place"),
    [
        *((loop, place) for loop in LOOPS for place in ("awaiting", "leaving")),
        *((loop, "group") for loop in ("asyncio", "trio")),
        *((loop, "other task") for loop in ("asyncio", "trio", "no runner")),
    ],
)
def test_ctrl_c_waits_for_no_device(loop: str, place: str) -> None:
    source = """
    async def awaiting(rt):
        async with rt.devices[0].stream() as stream:
            *_, op = await enqueues(rt, stream)
            interrupt_soon()
            await op
    async def group(rt):
        async with aiocann.DeviceGroup(rt.devices) as group:
            group.start_soon(lambda device: awaiting(rt))
    async def leaving(rt):
        async with rt.devices[0].stream() as stream:
            await enqueues(rt, stream)
            interrupt_soon()
    async def other_task(rt):
        await awaiting(rt)
    async def opens():
        async with aiocann.open_runtime("sim", 1) as rt:
            holding.__enter__()
            await globals()[sys.argv[2].replace(" ", "_")](rt)
    async def main():
        if sys.argv[2] != "other task":
            return await opens()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opens)
            await anyio.sleep_forever()
    holding = aiocann.sim.hold(0)
    try:
        run(main)
    except (KeyboardInterrupt, asyncio.CancelledError):  # Python 3.10: the latter
        print("interrupted")
    except BaseException as group:
        print("interrupted", group.split(KeyboardInterrupt)[1])
    """
    done = _ends_at_once(source, loop, place)
    assert done.stdout.splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_ctrl_c_during_a_copy_of_4_gib(loop: str) -> None:
    source = """
    async def main():
        array = np.zeros(4 << 30, np.uint8)
        async with aiocann.open_runtime("sim", 1) as rt:
            buffer = await rt.devices[0].allocate(array.nbytes)
            async with rt.devices[0].stream() as stream:
                op = stream.memcpy(buffer, array)
                interrupt_soon()
                try:
                    await op
                finally:
                    print(op.done)
    try:
        run(main)
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass
    """
    assert "False" in _ends_at_once(source, loop).stdout


@pytest.mark.parametrize(
    ("loop", "waits", "how"),
    [
        *(("asyncio", waits, how) for waits in WAITS for how in ENDS),
        *(("trio", "held device", how) for how in ENDS),
        ("asyncio", "staged copy", "killed"),
    ],
)
def test_exit_with_waits_in_flight(loop: str, waits: str, how: str) -> None:
    source = """
    holding = aiocann.sim.hold(1 if sys.argv[2] == "event" else 0)
    opening = aiocann.open_runtime("sim", 2)
    async def works(rt):
        stream = rt.devices[0].main_stream
        other = rt.devices[1].main_stream
        if sys.argv[2] != "staged copy":
            holding.__enter__()
        if sys.argv[2] == "event":
            other.memset(await rt.devices[1].allocate(64), 1)
            stream.wait(other.record())
        op = (await enqueues(rt, stream))[-1]
        if sys.argv[2] == "staged copy":
            array = np.zeros(64 << 20, np.uint8)
            buffer = await rt.devices[0].allocate(array.nbytes)
            for _ in range(40):
                op = stream.memcpy(buffer, array)
        async def waits():
            await op
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(waits)
            await anyio.sleep(0.01)
            ask()
            if sys.argv[3] == "killed":
                os.kill(os.getpid(), signal.SIGTERM)
            if sys.argv[3].startswith("exit"):
                sys.exit(3)
            tasks.cancel_scope.cancel()
    async def main():
        if sys.argv[3] == "exit inside":
            async with opening as rt:
                await works(rt)
        else:
            await works(await opening.__aenter__())
    try:
        run(main)
    except BaseException as group:
        if isinstance(group, SystemExit):
            raise
        sys.exit(group.split(SystemExit)[0].exceptions[0].code)
    """
    # Inside: leaving drains, but not when the process is to end.
    code = {"exit inside": 3, "exit": 3, "return": 0, "killed": -15}[how]
    _ends_at_once(source, loop, waits, how, code=code)


@pytest.mark.anyio
async def test_a_mere_cancellation_drains() -> None:
    """Also when it has taken longer than what ctrl-C would leave it."""
    async with aiocann.open_runtime("sim", 1) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        ops = []
        with aiocann.sim.hold(0):

            async def works() -> None:
                async with device.stream() as stream:
                    ops.append(stream.memset(buffer, 1))
                    await ops[0]

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(works)
                await until(lambda: ops)
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(2 * ending.PATIENCE)
                assert not ops[0].done
                aiocann.sim.release(0)
        assert ops[0].exception() is None


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks have no uncancel()")
def test_who_survives_ctrl_c_drains_as_before() -> None:
    """The task that asyncio cancels for ctrl-C may say that it goes on."""
    told = []

    async def main() -> None:
        told.append(ending.seconds_left(None))
        task: Any = asyncio.current_task()
        signal.raise_signal(signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        told.append(ending.seconds_left(None))
        task.uncancel()
        told.append(ending.seconds_left(None))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)
    assert [math.isinf(seconds) for seconds in told] == [True, False, True]


def test_what_ends_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_noticed", -math.inf)
    for exc in (None, ValueError(), asyncio.CancelledError()):
        assert math.isinf(ending.seconds_left(exc))
    first = ending.seconds_left(BaseExceptionGroup("", [ValueError(), SystemExit()]))
    assert 0 < first <= ending.GRACE + 1e-6
    # One grace for all that is left one after the other.
    assert ending.seconds_left(KeyboardInterrupt()) < first
