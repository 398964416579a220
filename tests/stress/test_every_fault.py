"""Each call of each ACL function fails once: it is told, and nothing is lost by it.

A scenario that uses everything is run once to count the calls; then again for every
function and every n up to its count, with the nth call failing.
``AIOCANN_EVERY_FAULT=1`` takes every n; otherwise the first, the second and the last.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, AclError, AiocannError, Graph, ops, sim
from aiocann.errors import E_NO_MEMORY, E_PREDECESSOR, E_USAGE, class_for, clone
from helpers.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = os.environ.get("AIOCANN_EVERY_FAULT", "") not in ("", "0")

# What a function may answer that fails; any other says 507899, an error of the driver.
OTHERWISE = 507899
CODES = {
    "aclrtMalloc": 207001,
    "aclrtMallocHost": 207001,
    "aclrtCreateStream": 207008,
    "aclrtCreateStreamWithConfig": 207008,
    "aclrtCreateEventExWithFlag": 207007,
    "aclInit": 500000,
    "aclrtSetDevice": 507033,
    "aclrtGetDeviceCount": 507033,
}

# Those that may fail without anybody being told, and why.
TOLERABLE: dict[str, str] = {
    "aclFinalizeReference": "the process has closed everything by then",
    "aclrtCreateEventExWithFlag": "those in use come back; the first one is told",
    "aclrtDeviceCanAccessPeer": "copies between devices go through the host",
    "aclrtDeviceEnablePeerAccess": "copies between devices go through the host",
    "aclrtEventGetTimestamp": "only elapsed_ms needs it, and says that it is missing",
    "aclrtExceptionInfoCallbackRegister": "faults are seen by asking the streams",
    "aclrtExceptionInfoCallbackUnregister": "our library stays loaded",
    "aclrtGetPhyDevIdByUserDevId": "physical_id is -1: not known",
    "aclrtGetThreadLastTaskId": "a fault is blamed on the first op that may have it",
    "aclrtGetVersion": "version is empty: not known",
    "aclrtLaunchCallback": "behind commands without notification the lane waits itself",
    "aclrtMalloc": "the pool gives back what it can, and asks again",
    "aclrtMallocHost": "what is kept for nothing is given back, and it is asked again",
    "aclrtProcessReport": "it is asked again",
    "aclrtRecordEvent": "a mark behind commands without notification needs no event",
    "aclrtSetCurrentContext": "the reports come all the same",
    "aclrtUnSubscribeReport": "the stream is destroyed next",
}

# Those without which the device stays open. That is told; here, the machine is made
# anew.
CLOSING = frozenset(["aclrtResetDevice"])

# What the driver refused to take back stays; that is told, and closing the device does
# not help.
KEPT = frozenset(["aclrtFreeHost"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the loop has no part in it


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL, "aiocann")
    yield
    sim.clear_faults()


async def scenario(rt: aiocann.Runtime) -> None:
    """Use everything once."""
    first, second = rt.devices
    data = np.arange(3000, dtype=np.uint8)
    try:
        pinned = await rt.pinned_empty(3000, np.uint8)
    except aiocann.SlowPathWarning as exc:  # an error here, as every warning is
        raise exc.__cause__ or exc from None
    pinned[:] = data
    big = np.full(5 << 20, 7, np.uint8)
    async with first.stream() as stream, second.stream(0) as other:
        a, b = await first.allocate(3000), await second.allocate(3000)
        start = stream.record()
        await start
        stream.memset(a, 1, notify=False)
        await stream.memset(a[:10], 2)
        await stream.memcpy(a, data)
        await stream.memcpy(a, pinned)
        end = stream.record()
        other.wait(end, notify=False)
        copied = other.memcpy(b, a)
        found = np.zeros(3000, np.uint8)
        await other.memcpy(found, b)
        await copied
        assert (found == data).all()
        await other.memcpy(pinned, b)
        await end
        assert end.elapsed_ms(start) >= 0
        large = await first.allocate(big.nbytes, stream=stream)
        await stream.memcpy(large, big)
        back = np.zeros_like(big)
        await stream.memcpy(back, large)
        assert (back == 7).all()
        await stream.memcpy(large[:100], large[100:200])
        assert await stream.host_call(int, "5") == 5
        await first.memory_info()
        await stream.synchronize()
        await other.synchronize()
    here, there = first.backend(), second.backend()
    x, y = await here.empty((3, 4), F32), await there.empty((3, 4), F32)
    await here.set_tensor_async(x, np.full((3, 4), 2, np.float32))
    z = ops.add(ops.mul(x, x), ops.scale(x, 3.0))
    await here.graph_compute(Graph([z]))
    await here.cpy_tensor_async(z, y)
    assert (await there.get_tensor_async(y) == 10).all()


async def still_works(rt: aiocann.Runtime) -> None:
    """A little work on each device."""
    for device in rt.devices:
        async with device.stream() as stream:
            buffer = await device.allocate(100)
            await stream.memset(buffer, 9)
            found = np.zeros(100, np.uint8)
            await stream.memcpy(found, buffer)
            assert (found == 9).all()


async def run(told: list[BaseException]) -> None:
    """Open, run the scenario, see whether it still works, close.

    What is told is kept without traceback, which would keep pinned arrays alive.
    """
    try:
        async with aiocann.open_runtime("sim", 2, close_timeout=5) as rt:
            told += [unavailable.error for unavailable in rt.unavailable]
            if not rt.unavailable:
                try:
                    await scenario(rt)
                except AiocannError as exc:
                    told.append(clone(exc))
            await still_works(rt)
    except AiocannError as exc:
        told.append(clone(exc))


def left() -> dict[str, int]:
    """What is open of the machine, of the process and of its threads."""
    names = ("live_allocations", "live_streams", "live_events", "live_contexts")
    counters = sim.counters()
    found = {name: counters[name] for name in (*names, "live_pinned")}
    found["fds"] = len(os.listdir("/proc/self/fd"))
    found["threads"] = len(os.listdir("/proc/self/task")) - threading.active_count()
    return found


def nothing_more(before: dict[str, int]) -> bool:
    """Whether no more is left than was before."""
    return all(n <= before[name] for name, n in left().items())


@pytest.mark.anyio
@pytest.mark.parametrize("peers", ["all", "none"])
async def test_every_call_fails_once(peers: str) -> None:
    sim.configure(devices=2, peers=peers)
    try:
        await _test_every_call_fails_once()
    finally:
        sim.clear_faults()
        sim.configure(peers=None, devices=None)


async def _test_every_call_fails_once() -> None:
    quiet: list[BaseException] = []
    await run(quiet)
    with sim.counted_calls() as calls:
        await run(quiet)
    assert not quiet
    wrong: list[str] = []
    for function, times in calls.items():
        sample = sorted({1, 2, times} & set(range(1, times + 1)))
        for n in range(1, times + 1) if EVERY else sample:
            wrong += [f"{function} {n}: {text}" for text in await fail(function, n)]
    assert not wrong, "\n".join(wrong)


async def fail(function: str, n: int) -> list[str]:
    """Let the nth call of a function fail; return what is wrong then."""
    before = left()
    told: list[BaseException] = []
    code = CODES.get(function, OTHERWISE)
    sim.fail_call(function, code, n)
    try:
        with anyio.fail_after(20):
            await run(told)
        if sim.counters()["armed_faults"]:
            return []  # how often it is called depends on time: this time, less often
    except Exception as exc:
        return [repr(exc)]
    finally:
        sim.clear_faults()
    wrong = [repr(exc) for exc in told if not is_right(exc, code)]
    if not told and function not in TOLERABLE:
        wrong.append("nobody was told")
    if function in CLOSING:
        sim.reset()
    if function not in KEPT:
        with anyio.move_on_after(1):
            await until(lambda: nothing_more(before))
            return wrong
        wrong.append(f"left {left()}, before {before}")
    return wrong


def is_right(exc: BaseException, code: int) -> bool:
    """Whether an exception says that a call failed with `code`."""
    if not isinstance(exc, AclError):
        return False
    if exc.code == E_PREDECESSOR:
        return str(code) in str(exc)
    if exc.code == E_NO_MEMORY:
        return code == 207001
    if exc.code == E_USAGE:
        return "gave no timestamp" in exc.detail
    return exc.code == code and type(exc) is class_for(code)
