"""Each call of each ACL function fails once: it is told, and nothing is lost by it.

Scenarios that together use everything are run once to count the calls; then again for
every function and every n up to its count, with the nth call failing.
``AIOCANN_EVERY_FAULT=1`` takes every n; otherwise the first, the second and the last,
and of what a scenario has in common with another one none.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import (
    F16,
    F32,
    I32,
    AclError,
    AiocannError,
    Graph,
    ops,
    sim,
)
from aiocann.errors import E_NO_MEMORY, E_PREDECESSOR, E_USAGE, class_for, clone
from helpers.op_runs import OpRuns
from helpers.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = os.environ.get("AIOCANN_EVERY_FAULT", "") not in ("", "0")

# What a function may answer that fails; any other says 507899, an error of the driver.
OTHERWISE = 507899
DEVICE_FAULT = 507053
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
    "aclrtQueryEventStatus": "it is asked again",
    "aclrtRecordEvent": "a mark behind commands without notification needs no event",
    "aclrtSetCurrentContext": "the reports come all the same",
    "aclrtStreamAbort": "a reset ends what could not be stopped before",
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
    backend = device.backend()
    runs = OpRuns(backend)
    x = await runs.leaf(runs.uniform((2, 3, 8), low=0.5))
    half = await runs.leaf(runs.uniform((2, 3, 8), F16), F16)
    row = await runs.leaf(runs.uniform((8, 4)))
    wide = await runs.leaf(runs.uniform((2, 5, 8)))
    ids = await backend.empty(3, I32)
    await backend.set_tensor_async(ids, np.array([2, 0, 1], np.int32))
    mask = await runs.leaf(runs.uniform((3, 8), F16), F16)
    target = await runs.leaf(runs.uniform((2, 3, 8), F16), F16)
    first = ops.view(x, (3, 8))
    results = [
        *(op(x, x) for op in (ops.add, ops.sub, ops.mul, ops.div)),
        *(op(x) for op in (ops.sqr, ops.abs, ops.neg, ops.exp, ops.log, ops.sqrt)),
        *(op(x) for op in (ops.sin, ops.cos, ops.tanh, ops.sigmoid, ops.relu)),
        *(op(x) for op in (ops.silu, ops.gelu, ops.gelu_erf, ops.sum, ops.sum_rows)),
        *(op(x, eps=1e-5) for op in (ops.norm, ops.rms_norm, ops.l2_norm)),
        ops.l2_norm(half, eps=1e-5),
        ops.mean(x),
        ops.scale(x, 2.0),
        ops.scale(x, 2.0, 1.0),
        ops.scale(half, 2.0, 1.0),
        ops.clamp(x, 0.6, 0.7),
        ops.mul_mat(first, ops.transpose(row)),
        ops.mul_mat(wide, x),
        ops.mul_mat(wide, half),
        ops.mul_mat(first, x),
        ops.soft_max(x),
        ops.soft_max(x, mask, scale=0.5),
        ops.soft_max(ops.view(x, (1, 2, 3, 8)), mask, scale=0.5, max_bias=1.0),
        ops.soft_max(half),
        ops.get_rows(first, ids),
        ops.get_rows(ops.view(half, (3, 8)), ids),
        ops.cast(x, F16),
        ops.cast(ops.permute(x, (2, 1, 0)), F16),
        ops.cont(ops.transpose(x)),
        ops.dup(x),
        ops.cpy(x, target),
        *(op(x) for op in (ops.elu, ops.step, ops.softplus, ops.sgn, ops.gelu_quick)),
        *(op(x) for op in (ops.hardsigmoid, ops.hardswish, ops.cumsum, ops.geglu)),
        *(op(x, x) for op in (ops.reglu, ops.geglu_erf, ops.swiglu, ops.geglu_quick)),
        *(op(half) for op in (ops.gelu_quick, ops.swiglu, ops.geglu_quick)),
        ops.add1(x, ops.sum(x)),
        ops.leaky_relu(x, 0.1),
        ops.group_norm(x, n_groups=1, eps=1e-5),
        ops.cross_entropy_loss(row, ops.transpose(ops.view(x, (4, 8)))),
        ops.count_equal(ids, ids),
        ops.out_prod(row, row),
        ops.set_rows(first, ids, ops.dup(first)),
        ops.set_rows(first, ids, ops.view(target, (3, 8))),
        ops.set(x, first),
        ops.acc(x, first),
        ops.concat(x, x, 0),
        ops.repeat(row, (8, 8)),
        ops.pad(x, [(1, 1)]),
        ops.pad_reflect_1d(x, 2, 3),
        ops.upscale(x, 6, 9),
        ops.tri(x, "lower"),
        ops.tri(x, "upper"),
        ops.diag(ops.view(x, (1, 8))),
        ops.diag_mask_inf(x, 1),
        ops.timestep_embedding(ops.view(x, (4,)), 5, 100),
        ops.fill(x, 1.5),
    ]
    await runs.compute(*results)


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


async def run(told: list[BaseException], scenario: Scenario, devices: int) -> None:
    """Open, run the scenario, see whether it still works, close.

    What is told is kept without traceback, which would keep pinned arrays alive.
    """
    try:
        async with aiocann.open_runtime("sim", devices, close_timeout=5) as rt:
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


@dataclass(frozen=True)
class Case:
    """A scenario, and under which circumstances it runs."""

    name: str
    scenario: Scenario
    devices: int = 1
    peers: str = "all"
    environment: tuple[tuple[str, str], ...] = ()

    async def run(self, told: list[BaseException]) -> None:
        """Run it once; what is told goes to `told`."""
        await run(told, self.scenario, self.devices)


CASES = (
    Case("peers", streams_and_copies, devices=2),
    Case("no peers", streams_and_copies, devices=2, peers="none"),
    Case("ops", all_ops),
    Case("reset", a_reset),
    *(
        Case(family, streams_and_copies, 2, "all", (("AIOCANN_COMPLETION", family),))
        for family in ("callback-block", "host-func", "query")
    ),
    *(
        Case(maker, streams_and_copies, 2, "all", (("AIOCANN_EVENTS", maker),))
        for maker in ("flag", "plain")
    ),
)


@pytest.fixture
def case(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    """One of the `CASES`, on a machine that fits it."""
    found: Case = request.param
    for name, value in found.environment:
        monkeypatch.setenv(name, value)
    sim.configure(devices=found.devices, peers=found.peers)
    yield found
    sim.clear_faults()
    sim.configure(peers=None, devices=None)


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name, indirect=True)
async def test_every_call_fails_once(case: Case) -> None:
    wrong: list[str] = []
    calls = await calls_of(case)
    if case.environment and not EVERY:
        # What it shares with the others is theirs.
        with pytest.MonkeyPatch.context() as patch:
            for name, _ in case.environment:
                patch.delenv(name)
            others = await calls_of(case)
        calls = {name: times for name, times in calls.items() if name not in others}
    for function, times in calls.items():
        sample = {1} if case.scenario is all_ops else {1, 2, times}
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
    assert not quiet
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
