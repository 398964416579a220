"""Each call of each ACL function fails once: it is told, and nothing is lost by it.

Scenarios that together use everything are run once to count the calls; then again for
every function and every n up to its count, with the nth call failing.
``AIOCANN_EVERY_FAULT=1`` takes every n; otherwise the first, the second and the last,
and of what a scenario has in common with another one none.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import (
    F32,
    AclError,
    AiocannError,
    Graph,
    ops,
    sim,
)
from aiocann.errors import (
    E_NO_MEMORY,
    E_PREDECESSOR,
    E_USAGE,
    NativeError,
    class_for,
    clone,
    error_for,
)
from helpers import acl
from helpers.op_examples import op_examples
from helpers.op_runs import OpRuns
from helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = os.environ.get("AIOCANN_EVERY_FAULT", "") not in ("", "0")

# They answer NULL, whatever the code is.
CREATORS = [
    f"aclCreate{kind}" for kind in ("IntArray", "Scalar", "Tensor", "TensorList")
]

# What a function may answer that fails; any other says 507899, an error of the driver.
OTHERWISE = 507899
DEVICE_FAULT, ABORTED = 507053, 107023
CODES = {
    **dict.fromkeys(CREATORS, 207001),
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
    "aclDestroyIntArray": "only its few bytes are lost",
    "aclDestroyScalar": "only its few bytes are lost",
    "aclDestroyTensor": "only its few bytes are lost",
    "aclDestroyTensorList": "only its few bytes are lost",
    "aclFinalizeReference": "the process has closed everything by then",
    "aclrtCreateEventExWithFlag": "those in use come back; the first one is told",
    "aclrtDeviceCanAccessPeer": "copies between devices go through the host",
    "aclrtDeviceEnablePeerAccess": "copies between devices go through the host",
    "aclrtEventGetTimestamp": "only elapsed_ms needs it, and says that it is missing",
    "aclrtExceptionInfoCallbackRegister": "faults are seen by asking the streams",
    "aclrtExceptionInfoCallbackUnregister": "our library stays loaded",
    "aclrtGetSocName": "soc is empty: not known",
    "aclrtGetPhyDevIdByUserDevId": "physical_id is -1: not known",
    "aclrtGetThreadLastTaskId": "a fault is blamed on the first op that may have it",
    "aclrtGetVersion": "version is empty: not known",
    "aclrtLaunchCallback": "behind commands without notification the lane waits itself",
    "aclrtLaunchHostFunc": "behind commands without notification the lane waits itself",
    "aclrtMalloc": "the pool gives back what it can, and asks again",
    "aclrtMallocHost": "what is kept for nothing is given back, and it is asked again",
    "aclrtProcessReport": "it is asked again",
    "aclrtQueryEventStatus": "it is asked again",
    "aclrtRecordEvent": "a mark behind commands without notification needs no event",
    "aclrtSetCurrentContext": "the reports come all the same",
    "aclmdlRICaptureGetInfo": "the stream counts as one that is not captured",
    "aclrtStreamQuery": "it is asked again",
    "aclrtStreamAbort": "a reset ends what could not be stopped before",
    "aclrtUnSubscribeReport": "the stream is destroyed next",
}

# Those that no case calls, and why.
NOT_CALLED = {
    "aclCreateBoolArray": "only of operators that are not in CANN's documentation",
    "aclCreateFloatArray": "only of operators that are not in CANN's documentation",
    "aclDestroyAclOpExecutor": "only where its workspace cannot be had",
    "aclDestroyBoolArray": "only of operators that are not in CANN's documentation",
    "aclDestroyFloatArray": "only of operators that are not in CANN's documentation",
    "aclFinalize": "only where there is no aclFinalizeReference",
    "aclGetRecentErrMsg": "it cannot fail: there may be no text",
    "aclrtDestroyStreamForce": "only of streams that hang, which are leaked anyway",
    "aclrtGetDeviceIdFromExceptionInfo": "it returns what it tells",
    "aclrtGetErrorCodeFromExceptionInfo": "it returns what it tells",
    "aclrtGetStreamIdFromExceptionInfo": "it returns what it tells",
    "aclrtGetTaskIdFromExceptionInfo": "it returns what it tells",
    "aclrtSetExceptionInfoCallback": "only where the other registration fails",
}

# Those without which the device stays open: here, the machine is made anew.
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


async def streams_and_copies(rt: aiocann.Runtime) -> None:
    """Use streams, events, memory and copies in every way, and compute a little."""
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


async def all_ops(rt: aiocann.Runtime) -> None:
    """Compute every op of the table, each in every way that calls other functions."""
    (device,) = rt.devices
    runs = OpRuns(device.backend())
    await runs.compute(*await op_examples(runs))
    x = await runs.leaf(np.ones((2, 4)))
    joined = await runs.backend.empty((4, 4), F32)
    await runs.backend.stream.aclnn("aclnnCat", [x, x], 0, joined)


def call_foreign(name: str, *arguments: object) -> None:
    """Call a function of ACL as another library does."""
    code = getattr(acl.library(), name)(*arguments)
    if code != 0:
        raise error_for(NativeError(code, "told to another library"))


@contextmanager
def foreign_device(index: int) -> Iterator[None]:
    """Have a device as another library has it."""
    call_foreign("aclrtSetDevice", index)
    try:
        yield
    finally:
        call_foreign("aclrtResetDevice", index)


async def foreign_stream(rt: aiocann.Runtime) -> None:
    """Use a stream of another library."""
    (device,) = rt.devices
    with foreign_device(device.index):
        foreign = ctypes.c_void_p()
        call_foreign("aclrtCreateStream", ctypes.byref(foreign))
        try:
            buffer = await device.allocate(5 << 20)
            async with device.adopt_stream(foreign.value or 0) as stream:
                stream.memset(buffer, 1, notify=False)
                mark = stream.record()
                found = np.zeros(5 << 20, np.uint8)
                await stream.memcpy(found, buffer)
                await mark
                await stream.synchronize()
            assert (found == 1).all()
        finally:
            call_foreign("aclrtDestroyStream", foreign)


async def aborted_stream(rt: aiocann.Runtime) -> None:
    """Have another library abort work that another device waits for."""
    device, other = rt.devices
    buffer = await device.allocate(1000)
    async with device.stream() as stream, other.stream() as dependant:
        with foreign_device(device.index), sim.hold(device.index):
            fill = stream.memset(buffer, 1)
            dependant.wait(stream.record(), notify=False)
            last = dependant.record()
            handle = ctypes.c_void_p(stream.handle)
            while not fill.done:  # in vain until the device has it
                call_foreign("aclrtStreamAbort", handle)
                await anyio.sleep(0.01)
        await ends(fill)
        await ends(last)


async def ends(op: Awaitable[None]) -> None:
    """Await what may have been aborted."""
    try:
        await op
    except AiocannError as exc:
        if str(ABORTED) not in str(exc):
            raise


async def a_reset(rt: aiocann.Runtime) -> None:
    """Let a device fail, start it anew, and use it again."""
    (device,) = rt.devices
    buffer = await device.allocate(1000)
    async with device.stream() as stream:
        await stream.memset(buffer, 3)
        sim.fail_copy("memset", DEVICE_FAULT)
        try:
            await stream.memset(buffer, 4)
        except AiocannError as exc:
            if getattr(exc, "code", 0) != DEVICE_FAULT:
                sim.clear_faults()  # this one did not get to strike
                raise
        try:
            await device.reset()
        except AclError:
            await device.reset()  # it may be tried again
            raise


Scenario = Callable[[aiocann.Runtime], Awaitable[None]]


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


@dataclass(frozen=True)
class Case:
    """A scenario, and under which circumstances it runs."""

    name: str
    scenario: Scenario
    devices: int = 1
    peers: str = "all"
    environment: tuple[tuple[str, str], ...] = ()
    #: What only here may fail without anybody being told.
    tolerable: tuple[str, ...] = ()
    #: Only the functions that this one lacks count, but for AIOCANN_EVERY_FAULT.
    beyond: Case | None = None

    @contextmanager
    def machine(self) -> Iterator[None]:
        """Have the circumstances."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment:
                patch.setenv(name, value)
            sim.configure(devices=self.devices, peers=self.peers)
            try:
                yield
            finally:
                sim.clear_faults()
                sim.configure(peers=None, devices=None)

    async def run(self, told: list[BaseException]) -> None:
        """Open, run the scenario, see whether it still works, close.

        What is told is kept without traceback, which would keep pinned arrays alive.
        """
        opening = aiocann.open_runtime("sim", self.devices, close_timeout=5)
        try:
            async with opening as rt:
                told += [unavailable.error for unavailable in rt.unavailable]
                if not rt.unavailable:
                    try:
                        await self.scenario(rt)
                    except AiocannError as exc:
                        told.append(clone(exc))
                await still_works(rt)
        except AiocannError as exc:
            told.append(clone(exc))


PEERS = Case("peers", streams_and_copies, devices=2)
CASES = (
    PEERS,
    replace(PEERS, name="no peers", peers="none"),
    Case("ops", all_ops),
    # Where its marker cannot be made to follow, the foreign stream itself is asked.
    Case("adopted", foreign_stream, tolerable=("aclrtStreamWaitEvent",)),
    # This takes the second until streams are asked.
    Case("aborted", aborted_stream, devices=2, beyond=PEERS),
    Case("reset", a_reset),
    *(
        replace(PEERS, name=value, environment=((name, value),), beyond=PEERS)
        for name, values in (
            ("AIOCANN_COMPLETION", ("callback-block", "host-func", "query")),
            ("AIOCANN_EVENTS", ("flag", "plain")),
        )
        for value in values
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_call_fails_once(case: Case) -> None:
    shared: dict[str, int] = {}
    if case.beyond is not None and not EVERY:
        with case.beyond.machine():
            shared = await calls_of(case.beyond)
    wrong: list[str] = []
    with case.machine():
        for function, times in (await calls_of(case)).items():
            sample = {1} if case.scenario is all_ops else {1, 2, times}
            if function in shared:
                sample = set()
            for n in range(1, times + 1) if EVERY else sorted(sample):
                if n <= times:
                    found = await fail(case, function, n)
                    wrong += [f"{function} {n}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


async def calls_of(case: Case) -> dict[str, int]:
    """Run a case undisturbed; return what it calls, and how often."""
    quiet: list[BaseException] = []
    await case.run(quiet)
    with sim.counted_calls() as calls:
        await case.run(quiet)
    assert not quiet, quiet
    return calls


async def fail(case: Case, function: str, n: int) -> list[str]:
    """Let the nth call of a function fail; return what is wrong then."""
    before = left()
    told: list[BaseException] = []
    code = CODES.get(function, OTHERWISE)
    sim.fail_call(function, code, n)
    try:
        with anyio.fail_after(20):
            await case.run(told)
        if sim.counters()["armed_faults"]:
            return []  # how often it is called depends on time: this time, less often
    except Exception as exc:
        return [repr(exc)]
    finally:
        sim.clear_faults()
    wrong = [repr(exc) for exc in told if not is_right(exc, code)]
    if not told and function not in (*TOLERABLE, *case.tolerable):
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


async def test_every_function_is_among_them() -> None:
    """What the core calls is called by a case, or there is a reason why not."""
    called: set[str] = set()
    for case in CASES:
        with case.machine():
            called |= (await calls_of(case)).keys()
    assert core_calls() - called == NOT_CALLED.keys()


def core_calls() -> set[str]:
    """Return the functions of the ABI that the sources of the core name."""
    native = Path(__file__).resolve().parents[2] / "native"
    known: set[str] = set()
    for table in ("acl_functions", "aclnn_functions"):
        lines = (native / "acl" / "abi" / f"{table}.tsv").read_text("utf-8")
        known |= {line.partition("\t")[0] for line in lines.splitlines()}
    found: set[str] = set()
    for source in (native / "core").rglob("*.[ch]pp"):
        code = re.sub(r"//.*", "", source.read_text("utf-8"))
        found |= known.intersection(re.findall(r"\bacl\w+", code))
    return found
