"""The tasks of one event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any

import anyio
import numpy as np
import sniffio

import aiocann
from aiocann import F32, AiocannError, DeviceGroup, Graph, ops, sim
from helpers.storm.neighbour import adopted
from helpers.storm.sea import Sea
from helpers.storm.voyage import Voyage


class Storm:
    """One loop's crew.

    Parameters
    ----------
    sea : Sea
        Where they sail, perhaps with crews of other loops.
    seed : str
        What all choices come from.
    n_ops, n_streams : int
        When to stop, and how many sailors.
    """

    #: How often a burst is struck by a fault, or something comes late.
    faults = 0.02

    def __init__(self, sea: Sea, seed: str, n_ops: int, n_streams: int = 64) -> None:
        self.sea = sea
        self.rt = sea.rt
        self.seed = seed
        self.n_ops = n_ops
        self.n_streams = n_streams
        self.enqueued = self.compared = self.cancelled = 0
        #: Scopes that others may cancel.
        self.scopes: list[anyio.CancelScope] = []
        self.host_calls_due = 0
        self.host_calls_run = 0

    def __str__(self) -> str:
        sea = self.sea
        return (
            f"{self.seed} ({sea.kind.name}): {self.enqueued} enqueued, {self.compared} "
            f"compared, {self.cancelled} cancelled; {sea.failed} failures, {sea.stalls}"
            f" stalls, {sea.losses} losses, {sea.resets} resets"
        )

    def goes_on(self) -> bool:
        """Whether there is more to be enqueued."""
        return self.enqueued < self.n_ops and not self.sea.is_wrecked

    async def rage(self) -> None:
        """Run until `n_ops` are enqueued and every await has ended."""
        try:
            async with anyio.create_task_group() as watch:
                if self.sea.kind.has_stalls:
                    watch.start_soon(self._let_go_now_and_then)
                async with anyio.create_task_group() as crew:
                    for number in range(self.n_streams):
                        device = self.rt.devices[number % len(self.rt.devices)]
                        chance = random.Random(f"{self.seed}/{number}")
                        crew.start_soon(Sailor(self, device, chance).sail)
                watch.cancel_scope.cancel()
        except BaseException:
            self.sea.is_wrecked = True
            raise

    async def _let_go_now_and_then(self) -> None:
        chance = random.Random(f"{self.seed}/watch")
        while True:
            await anyio.sleep(0.005 + chance.random() * 0.1)
            sim.let_go()

    @contextmanager
    def scope(self, deadline: float | None) -> Iterator[anyio.CancelScope]:
        """Be cancelled by a deadline, or by another sailor."""
        with anyio.CancelScope() as scope:
            if deadline is not None:
                scope.deadline = anyio.current_time() + deadline
            self.scopes.append(scope)
            try:
                yield scope
            finally:
                self.scopes.remove(scope)
        self.cancelled += scope.cancelled_caught


class Sailor:
    """A task with one stream at a time."""

    def __init__(
        self, storm: Storm, device: aiocann.Device, chance: random.Random
    ) -> None:
        self.storm = storm
        self.sea = storm.sea
        self.device = device
        self.chance = chance

    async def sail(self) -> None:
        """Open streams and work on them, one after the other."""
        storm, sea, chance = self.storm, self.sea, self.chance
        while storm.goes_on():
            if self.device in sea.lost_devices and chance.random() < 0.3:
                with sea.misfortunes():
                    await sea.reset(self.device)
            # Leaving a stream may raise what befell it.
            with sea.misfortunes():
                async with self._stream() as stream:
                    voyage = Voyage(self, stream)
                    while storm.goes_on() and not voyage.is_over:
                        with sea.misfortunes():
                            await voyage.burst()
                        await self._work_elsewhere(0.04)
                        if chance.random() < 0.01:
                            break
            await self._work_elsewhere(0.3)

    async def _work_elsewhere(self, share: float) -> None:
        """Now and then, work that needs no stream of its own."""
        for work in (self.work_on_the_backend, self.work_in_a_group):
            if self.chance.random() < share and self.storm.goes_on():
                with self.sea.misfortunes():
                    await work()

    def _stream(self) -> AbstractAsyncContextManager[aiocann.Stream]:
        if self.sea.kind.has_neighbours and self.chance.random() < 0.2:
            return adopted(self.device)
        return self.device.stream(self.chance.choice([None, 0, 7]))

    # ---- what needs no stream of its own -----------------------------------------

    async def work_on_the_backend(self) -> None:
        """Write, compute, copy across, read back."""
        sea = self.sea
        here = self.device
        there = self.chance.choice(sea.rt.devices)
        if sea.lost_backends & {here, there}:
            if sea.kind.has_resets:
                await sea.reset(here if here in sea.lost_backends else there)
            return
        try:
            await self._compute(here.backend(), there.backend())
        except AiocannError:
            # Whatever it was: the stream may have kept a fault for good.
            for device in (here, there):
                with sea.misfortunes():
                    sea.lost_backends.add(device)
                    await device.backend().synchronize()
                    sea.lost_backends.discard(device)
            raise

    async def _compute(self, here: aiocann.Backend, there: aiocann.Backend) -> None:
        chance, storm = self.chance, self.storm
        shape = chance.choice([(1,), (3, 5), (16, 16), (2, 3, 40)])
        x = await here.empty(shape, F32)
        y = await there.empty(shape, F32)
        value = np.asarray(
            np.random.default_rng(chance.getrandbits(32)).integers(-9, 9, shape),
            np.float32,
        )
        n = chance.randint(-5, 5)
        made: list[aiocann.Operation[Any]] = [here.set_tensor_async(x, value)]
        square = ops.mul(x, x)
        z = ops.add(square, ops.scale(x, float(n)))
        made.append(here.graph_compute(Graph([z])))
        made.append(here.cpy_tensor_async(z, y))
        read = there.get_tensor_async(y)
        storm.enqueued += 4
        del x, y, square, z
        for op in chance.sample(made, chance.randint(0, 2)):
            await self.maybe_cancelled(op)
        if chance.random() < 0.8:
            found = await read
            if not any(op.failed for op in made):
                assert (found == value * value + n * value).all(), "graph"
                storm.compared += 1
        if chance.random() < 0.5:
            await here.synchronize()
            await there.synchronize()

    async def work_in_a_group(self) -> None:
        """Map items over some devices, perhaps not to the end."""
        chance, storm, sea = self.chance, self.storm, self.sea
        devices = chance.sample(sea.rt.devices, chance.randint(1, 3))
        items = [chance.randrange(256) for _ in range(chance.randint(1, 8))]
        n = chance.choice([10, 5000, 100_000])

        async def there_and_back(device: aiocann.Device, item: int) -> bool:
            async with device.stream() as stream:
                buffer = await device.allocate(n, stream=stream)
                stream.memset(buffer, item, notify=False)
                stream.memcpy(buffer[: n // 2], np.full(n // 2, item, np.uint8))
                found = np.zeros(n, np.uint8)
                read = stream.memcpy(found, buffer)
                storm.enqueued += 3
                # What has no notification fails only by way of this.
                await stream.synchronize()
                await read
                return bool((found == item).all())

        with storm.scope(chance.choice([None, None, 0.002])):
            async with DeviceGroup(devices, max_in_flight=2) as group:
                results = group.map(there_and_back, items)
                async for is_right in results:
                    assert is_right, "group"
                    storm.compared += 1
                    if chance.random() < 0.05:
                        break
                await results.aclose()

    # ---- awaiting ----------------------------------------------------------------

    async def maybe_cancelled(self, awaitable: Awaitable[Any]) -> None:
        """Await, perhaps not to the end."""
        chance, storm = self.chance, self.storm
        dice = chance.random()
        if dice < 0.15:
            with suppress(TimeoutError), anyio.fail_after(chance.random() * 0.003):
                await awaitable
        elif dice < 0.4:
            with storm.scope(chance.random() * 0.003 if dice < 0.3 else None):
                if dice < 0.2:
                    storm.scopes[-1].cancel()
                await awaitable
        elif dice < 0.6 and sniffio.current_async_library() == "asyncio":
            await chance.choice(ASYNCIO)(awaitable, chance.random() * 0.003)
        else:
            await awaitable


async def _cancel_task(awaitable: Awaitable[Any], seconds: float) -> None:
    """By `Task.cancel`, before it begins or while it waits."""
    task = asyncio.ensure_future(awaitable)
    if seconds > 0.001:
        await asyncio.wait([task], timeout=seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _wait_for(awaitable: Awaitable[Any], seconds: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(awaitable, seconds)


async def _timeout(awaitable: Awaitable[Any], seconds: float) -> None:
    timeout = getattr(asyncio, "timeout", None)  # from 3.11 on
    if timeout is None:
        await _wait_for(awaitable, seconds)
        return
    with suppress(TimeoutError):
        async with timeout(seconds):
            await awaitable


async def _gather(awaitable: Awaitable[Any], seconds: float) -> None:
    """Twice at once; the one is cancelled, the other is not."""
    cancelled = asyncio.ensure_future(awaitable)
    kept = asyncio.ensure_future(awaitable)
    await asyncio.sleep(seconds)
    cancelled.cancel()
    results = await asyncio.gather(cancelled, kept, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    assert not isinstance(results[1], asyncio.CancelledError)


#: asyncio's own ways to await something for a while.
ASYNCIO: tuple[Callable[[Awaitable[Any], float], Awaitable[None]], ...] = (
    _cancel_task,
    _wait_for,
    _timeout,
    _gather,
)
