"""Other users of ACL in the process: their streams, their memory, their threads."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from helpers import acl
from helpers.programs import printed
from helpers.waiting import until

pytestmark = pytest.mark.anyio
N = 1 << 12


class Neighbour(threading.Thread):
    """A thread that sets its device once, and asks for it after each call."""

    def __init__(self, device: int) -> None:
        super().__init__(daemon=True)
        self.device = device
        self.stopping = threading.Event()
        self.rounds = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            acl.call("aclrtSetDevice", self.device)
            before = acl.current()
            assert before[0] == self.device
            with acl.made("Stream") as stream, acl.memory(N) as memory:
                while not self.stopping.is_set():
                    value = self.rounds % 251
                    acl.fill(memory, value, N, stream)
                    acl.call("aclrtSynchronizeStream", stream)
                    assert acl.read(memory, N) == bytes([value]) * N
                    assert acl.current() == before
                    self.rounds += 1
            acl.call("aclrtResetDevice", self.device)
        except BaseException as exc:
            self.failure = exc


async def test_a_thread_that_caches_its_device_is_never_disturbed(opened: Any) -> None:
    async with opened(2) as rt:
        neighbours = [Neighbour(0), Neighbour(1)]
        for one in neighbours:
            one.start()
        try:
            for device in (*rt.devices, *reversed(rt.devices)):
                buffer = await device.allocate(N)
                async with device.stream() as stream:
                    for value in range(30):
                        back = np.zeros(N, np.uint8)
                        await stream.memset(buffer, value)
                        await stream.memcpy(back, buffer)
                        assert (back == value).all()
                buffer.close()
                gc.collect()
            await until(lambda: all(n.rounds > 20 or n.failure for n in neighbours))
        finally:
            for one in neighbours:
                one.stopping.set()
            for one in neighbours:
                await anyio.to_thread.run_sync(one.join)
        assert [one.failure for one in neighbours] == [None, None]


async def test_a_loops_own_thread_may_use_acl_beside(opened: Any) -> None:
    """Its current device is its own: nothing of ours is done on this thread."""
    async with opened(2) as rt:
        acl.call("aclrtSetDevice", 1)
        try:
            before = acl.current()
            device = rt.devices[0]
            async with device.stream() as stream:
                buffer = await device.allocate(N)
                await stream.memset(buffer, 1)
                assert acl.current() == before
                buffer.close()
            del buffer
            gc.collect()
            assert acl.current() == before
        finally:
            acl.call("aclrtResetDevice", 1)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_acl_that_someone_else_initialised_is_never_finalized(loop: str) -> None:
    source = """
    import sys, anyio, aiocann
    from helpers import acl
    acl.call("aclInit", None)
    async def main():
        for _ in range(2):
            async with aiocann.open_runtime("sim", 1) as rt:
                await rt.devices[0].allocate(64)
    anyio.run(main, backend=sys.argv[1])
    acl.call("aclrtSetDevice", 0)
    with acl.memory(64) as memory:
        acl.fill(memory, 3, 64, None)
        acl.call("aclrtSynchronizeDevice")
        print(acl.read(memory, 64) == b"\\3" * 64)
    acl.call("aclrtResetDevice", 0)
    acl.call("aclFinalize")
    print(acl.library().aclFinalize() != 0)
    """
    assert printed(source, loop).split() == ["True", "True"]


# ---- streams -------------------------------------------------------------------------


async def test_adopted_stream_runs_in_the_others_order(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        acl.call("aclrtSetDevice", device.index)
        try:
            with acl.made("Stream") as foreign, acl.memory(N) as memory:
                shared = aiocann.from_pointer(memory.value or 0, N, device)
                back = np.zeros(N, np.uint8)
                async with device.adopt_stream(foreign.value or 0) as stream:
                    assert stream.handle == foreign.value
                    with aiocann.sim.hold(device.index):
                        acl.fill(memory, 5, N, foreign)
                        op = stream.memcpy(back, shared)
                        event = stream.record()
                        everything = stream.synchronize()
                        # What is not ours holds ours up, as it should.
                        waiting = [op.done, event.done, everything.done]
                        assert not any(waiting)
                    await op
                    assert (back == 5).all()
                    await everything
                    # Nothing of ours is left on it: it still waits for the other's.
                    acl.fill(memory, 6, N, foreign)
                    await stream.synchronize()
                    assert acl.read(memory, N) == b"\6" * N
                    async with device.stream() as own:
                        own.wait(stream.record())
                        await own.memcpy(back, shared)
                    assert (back == 6).all()
                with pytest.raises(aiocann.ClosedResourceError):
                    _ = stream.handle
                # Left, but not destroyed.
                acl.fill(memory, 7, N, foreign)
                acl.call("aclrtSynchronizeStream", foreign)
                assert acl.read(memory, N) == b"\7" * N
                shared.close()
        finally:
            acl.call("aclrtResetDevice", device.index)


async def test_large_copies_on_an_adopted_stream(opened: Any) -> None:
    """Each of their parts needs an event; where one cannot be had, that is told."""
    async with opened() as rt:
        (device,) = rt.devices
        acl.call("aclrtSetDevice", device.index)
        try:
            with acl.made("Stream") as foreign:
                data = np.arange(30 << 20, dtype=np.uint8)
                buffer = await device.allocate(data.nbytes)
                async with device.adopt_stream(foreign.value or 0) as stream:
                    aiocann.sim.fail_call("aclrtCreateEventExWithFlag", 207007, nth=4)
                    try:
                        await stream.memcpy(buffer, data)
                    except aiocann.ResourceExhaustedError as exc:
                        if exc.code != 207007:
                            raise
                    await stream.memcpy(buffer, data)
                    back = np.zeros_like(data)
                    await stream.memcpy(back, buffer)
                    assert (back == data).all()
                buffer.close()
        finally:
            aiocann.sim.clear_faults()
            acl.call("aclrtResetDevice", device.index)


async def test_adopted_stream_whose_owner_has_subscribed_callbacks(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        acl.call("aclrtSetDevice", device.index)
        try:
            with acl.made("Stream") as foreign:
                thread = threading.get_native_id()
                acl.call("aclrtSubscribeReport", thread, foreign)
                buffer = await device.allocate(N)
                async with device.adopt_stream(foreign.value or 0) as stream:
                    await stream.memset(buffer, 1)
                    await stream.synchronize()
                acl.call("aclrtUnSubscribeReport", thread, foreign)
        finally:
            acl.call("aclrtResetDevice", device.index)


async def test_before_is_called_before_each_enqueueing(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        acl.call("aclrtSetDevice", device.index)
        queue: list[int] = []
        try:
            with acl.made("Stream") as foreign, acl.memory(N) as memory:

                def flush() -> None:
                    while queue:
                        acl.fill(memory, queue.pop(0), N, foreign)

                shared = aiocann.from_pointer(memory.value or 0, N, device)
                async with device.adopt_stream(foreign.value or 0, flush) as stream:
                    for enqueue in (
                        lambda: stream.memset(shared[: N // 2], 9),
                        stream.synchronize,
                        stream.record,
                        lambda: stream.host_call(int),
                        lambda: stream.memcpy(np.zeros(N, np.uint8), shared),
                    ):
                        queue.extend([1, 2])
                        await enqueue()
                        assert not queue
                    assert stream.idle
                    queue.append(4)
                    back = np.zeros(N, np.uint8)
                    await stream.memcpy(back, shared)
                    assert (back == 4).all()
                shared.close()
        finally:
            acl.call("aclrtResetDevice", device.index)


async def test_streams_that_cannot_be_adopted(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        with pytest.raises(aiocann.UsageError, match="default stream"):
            async with device.adopt_stream(0):
                pass
        async with device.stream() as own:
            with pytest.raises(aiocann.UsageError, match="already"):
                async with device.adopt_stream(own.handle):
                    pass
        with pytest.raises(TypeError, match="handle must be a whole number"):
            device.adopt_stream("0x1")
        with pytest.raises(TypeError, match="before must be a function"):
            device.adopt_stream(1, before=3)


# ---- memory --------------------------------------------------------------------------


class Owner:
    """Stands for another library's tensor."""


async def test_owner_of_foreign_memory_lives_as_long_as_its_use(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        base = await device.allocate(N)
        owner = Owner()
        alive = weakref.ref(owner)
        shared = aiocann.from_pointer(base.address, N, device, owner)
        del owner
        async with device.stream() as stream:
            await stream.memset(base, 1)
            with aiocann.sim.hold(device.index):
                op = stream.memcpy(np.zeros(N // 2, np.uint8), shared[N // 2 :])
                del shared
                gc.collect()
                assert alive() is not None
            await op
            del op
            await until(lambda: gc.collect() is not None and alive() is None)
        base.close()
