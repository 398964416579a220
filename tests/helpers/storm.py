"""A storm: many streams of many devices under mixed work, cancellations and faults.

Sailors, one task for each stream, enqueue at random, and know what every buffer must
hold. What may be uncertain, because a fault that was injected struck it, is not looked
at; everything else is compared byte by byte. All choices come from one seed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt

import aiocann
from aiocann import F32, AclError, Graph, ops, sim
from aiocann.errors import E_NO_MEMORY, E_PREDECESSOR

Bytes = npt.NDArray[np.uint8]

SIZES = (1, 777, 4096, 65_536, 65_537, 200_000)
BIG = 5 << 20  # more than a staging chunk
HUGE = 40 << 20  # a few of them are more than a device has

# Calls that may fail in the middle of work, each with a code that it might give.
CALLS = (
    ("aclrtMemcpyAsync", 107000),
    ("aclrtMemsetAsync", 507899),
    ("aclrtRecordEvent", 507011),
    ("aclrtStreamWaitEvent", 507899),
    ("aclrtLaunchCallback", 507899),
    ("aclrtCreateStreamWithConfig", 207008),
    ("aclrtCreateEventExWithFlag", 207007),
    ("aclrtMalloc", 207001),
    ("aclrtMallocHost", 207001),
    ("aclnnAdd", 361001),
    ("aclnnMulGetWorkspaceSize", 561103),
)
KERNEL_FAULT = 507015
COPY_FAULT = 507053
CODES = frozenset(
    [code for _, code in CALLS] + [KERNEL_FAULT, COPY_FAULT, E_NO_MEMORY, E_PREDECESSOR]
)


@dataclass
class Region:
    """A buffer, what it must hold, and the ops that wrote it."""

    buffer: aiocann.DeviceBuffer
    holds: Bytes
    writes: list[aiocann.Operation[Any]] = field(default_factory=list)
    #: No command without notification wrote it since the last synchronization.
    is_sure: bool = True


@dataclass(frozen=True)
class Cargo:
    """A region that is written no more, and the event behind its last write."""

    region: Region
    event: aiocann.Event


@dataclass
class Storm:
    """One round of it, on an open runtime."""

    rt: aiocann.Runtime
    seed: str
    n_ops: int
    n_streams: int = 64
    #: How often a burst is struck by a fault, or something comes late.
    faults: float = 0.02
    #: How many callbacks never come. Each is found out within two seconds.
    lost: int = 0
    enqueued: int = 0
    compared: int = 0
    failed: int = 0
    cancelled: int = 0

    def __post_init__(self) -> None:
        #: What sailors give away to each other, and scopes that others may cancel.
        self.market: deque[Cargo] = deque(maxlen=16)
        self.scopes: list[anyio.CancelScope] = []
        #: Devices whose backend has failed: its stream stays failed.
        self.lost_backends: set[aiocann.Device] = set()
        self.host_calls_due = 0
        self.host_calls_run = 0

    async def rage(self) -> None:
        """Run until `n_ops` are enqueued and every await has ended."""
        chance = random.Random(self.seed)
        for _ in range(self.lost):
            sim.drop_callback(nth=chance.randint(1, self.n_ops // 3))
        async with anyio.create_task_group() as crew:
            for number in range(self.n_streams):
                device = self.rt.devices[number % len(self.rt.devices)]
                chance = random.Random(f"{self.seed}/{number}")
                crew.start_soon(Sailor(self, device, chance).sail)
        self.market.clear()

    @contextmanager
    def misfortunes(self) -> Iterator[None]:
        """Take what a fault that was injected explains; let everything else through."""
        try:
            yield
        except AclError as exc:
            self.accept(exc)

    def accept(self, exc: AclError) -> None:
        """Count a failure that a fault explains; raise any other."""
        self.failed += 1
        if not explained(exc):
            raise exc

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


def explained(exc: BaseException | None) -> bool:
    """Whether what was injected explains it; for one that followed, its cause."""
    if not isinstance(exc, AclError) or exc.code not in CODES:
        return False
    if exc.code != E_PREDECESSOR:
        return True
    if exc.__cause__ is None:  # the first to fail had no notification
        return any(str(code) in exc.detail for code in CODES)
    return explained(exc.__cause__)


class Sailor:
    """A task with one stream at a time."""

    def __init__(
        self, storm: Storm, device: aiocann.Device, chance: random.Random
    ) -> None:
        self.storm = storm
        self.device = device
        self.chance = chance

    async def sail(self) -> None:
        """Open streams and work on them, one after the other."""
        storm = self.storm
        while storm.enqueued < storm.n_ops:
            # Leaving a stream may raise what befell it.
            with storm.misfortunes():
                async with self.device.stream(self.chance.choice([None, 0, 7])) as s:
                    voyage = Voyage(self, s)
                    while storm.enqueued < storm.n_ops and not voyage.is_over:
                        with storm.misfortunes():
                            await voyage.burst()
                        if self.chance.random() < 0.01:
                            break
            if self.chance.random() < 0.3:
                with storm.misfortunes():
                    await self.work_on_the_backend()

    async def work_on_the_backend(self) -> None:
        """Write, compute, copy across, read back."""
        storm, chance = self.storm, self.chance
        here = self.device
        there = chance.choice(storm.rt.devices)
        if storm.lost_backends & {here, there}:
            return
        try:
            await self._compute(here.backend(), there.backend())
        except AclError:
            # Whatever it was: the stream may have kept a fault for good.
            for device in (here, there):
                with storm.misfortunes():
                    storm.lost_backends.add(device)
                    await device.backend().synchronize()
                    storm.lost_backends.discard(device)
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

    async def maybe_cancelled(self, awaitable: Awaitable[Any]) -> None:
        """Await, perhaps not to the end."""
        chance, storm = self.chance, self.storm
        dice = chance.random()
        if dice < 0.15:
            with suppress(TimeoutError), anyio.fail_after(chance.random() * 0.003):
                await awaitable
        elif dice < 0.5:
            with storm.scope(chance.random() * 0.003 if dice < 0.3 else None):
                if dice < 0.2:
                    storm.scopes[-1].cancel()
                await awaitable
        else:
            await awaitable


class Voyage:
    """What a sailor does on one stream."""

    def __init__(self, sailor: Sailor, stream: aiocann.Stream) -> None:
        self.sailor = sailor
        self.storm = sailor.storm
        self.chance = sailor.chance
        self.device = sailor.device
        self.stream = stream
        self.regions: list[Region] = []
        self.checks: list[tuple[aiocann.Operation[Any], Region, Bytes, Bytes]] = []
        self.event = aiocann.Event()
        self.is_over = False

    async def burst(self) -> None:
        """Enqueue a few commands, await some of them, compare what was read."""
        chance, storm = self.chance, self.storm
        try:
            await self._allocate()
            if chance.random() < storm.faults:
                self._misfortune()
            held = chance.random() < 0.05
            made: list[aiocann.Operation[Any]] = []
            with sim.hold(self.device.index) if held else nullcontext():
                for _ in range(chance.randint(1, 12)):
                    op = self._enqueue()
                    storm.enqueued += 1
                    if op is not None:
                        made.append(op)
                if held and made:
                    with storm.scope(0.001):
                        await made[-1]
            for op in chance.sample(made, min(len(made), chance.randint(0, 3))):
                await self.sailor.maybe_cancelled(op)
            del made
            if chance.random() < 0.7:
                await self._compare()
        except AclError as exc:
            storm.accept(exc)
            # Trust nothing of what was.
            self.regions.clear()
            self.checks.clear()
            try:
                await self.stream.synchronize()
            except AclError as fault:
                storm.accept(fault)
                self.is_over = True
        if chance.random() < 0.1 and storm.scopes:
            chance.choice(storm.scopes).cancel()

    async def _allocate(self) -> None:
        chance = self.chance
        if self.regions and chance.random() < 0.7:
            return
        if len(self.regions) > 3:
            self._drop(chance.choice(self.regions))
        dice = chance.random()
        size = HUGE if dice < 0.004 else BIG if dice < 0.02 else chance.choice(SIZES)
        stream = self.stream if chance.random() < 0.5 else None
        buffer = await self.device.allocate(size, stream=stream)
        region = Region(buffer, np.zeros(size, np.uint8))
        self.regions.append(region)
        self._keep(region, self.stream.memset(buffer, 0))
        self.storm.enqueued += 1

    def _drop(self, region: Region) -> None:
        self.regions.remove(region)
        if self.chance.random() < 0.5:
            region.buffer.close()

    def _keep(
        self, region: Region, op: aiocann.Operation[Any] | None
    ) -> aiocann.Operation[Any] | None:
        if op is None:
            region.is_sure = False
        else:
            region.writes.append(op)
        return op

    def _enqueue(self) -> aiocann.Operation[Any] | None:
        """One command of any kind."""
        chance, stream = self.chance, self.stream
        if not self.regions:
            return stream.synchronize()
        region = chance.choice(self.regions)
        size = region.buffer.nbytes
        start = chance.randrange(size)
        stop = chance.randint(start + 1, size)
        dice = chance.random()
        if dice < 0.2:
            value = chance.randrange(256)
            region.holds[start:stop] = value
            return self._keep(
                region,
                stream.memset(
                    region.buffer[start:stop], value, notify=chance.random() < 0.5
                ),
            )
        if dice < 0.4:
            value = chance.randrange(256)
            data = np.full(stop - start, value, np.uint8)
            region.holds[start:stop] = data
            return self._keep(
                region,
                stream.memcpy(
                    region.buffer[start:stop], data, notify=chance.random() < 0.7
                ),
            )
        if dice < 0.55:
            return self._read(region, start, stop)
        if dice < 0.65:
            return self._copy_within(region, start, stop)
        if dice < 0.75:
            return self._trade(region)
        if dice < 0.85:
            self.event = stream.record(
                self.event if chance.random() < 0.5 else aiocann.Event()
            )
            return self.event.recording()
        if dice < 0.92:
            self.storm.host_calls_due += 1
            return stream.host_call(self._called, self.storm.host_calls_due)
        if dice < 0.96:
            return stream.synchronize()
        if self.event._mark is None:
            return None
        return stream.wait(self.event, notify=chance.random() < 0.5)

    def _called(self, number: int) -> int:
        self.storm.host_calls_run += 1
        return number

    def _read(self, region: Region, start: int, stop: int) -> aiocann.Operation[Any]:
        target = np.empty(stop - start, np.uint8)
        op = self.stream.memcpy(target, region.buffer[start:stop])
        snapshot = Region(region.buffer, region.holds, list(region.writes))
        if self.chance.random() < 0.8:
            self.checks.append((op, snapshot, target, region.holds[start:stop].copy()))
        return op

    def _copy_within(
        self, region: Region, start: int, stop: int
    ) -> aiocann.Operation[Any] | None:
        other = self.chance.choice(self.regions)
        length = min(stop - start, other.buffer.nbytes)
        if other is region:
            return None
        other.holds[:length] = region.holds[start : start + length]
        other.writes.extend(region.writes)
        other.is_sure &= region.is_sure
        return self._keep(
            other,
            self.stream.memcpy(
                other.buffer[:length],
                region.buffer[start : start + length],
                notify=self.chance.random() < 0.5,
            ),
        )

    def _trade(self, region: Region) -> aiocann.Operation[Any] | None:
        """Give a region away, or fetch one that another gave, across devices."""
        chance, storm, stream = self.chance, self.storm, self.stream
        if not storm.market or chance.random() < 0.3:
            if not region.is_sure:
                return None  # whoever fetched it could not know whether it is right
            self.regions.remove(region)
            event = stream.record()
            storm.market.append(Cargo(region, event))
            return event.recording()
        cargo = chance.choice(storm.market)
        if cargo.event.done and cargo.event.recording().failed:
            storm.market.remove(cargo)
            return None
        given = cargo.region
        size = min(given.buffer.nbytes, region.buffer.nbytes)
        stream.wait(cargo.event, notify=False)
        region.holds[:size] = given.holds[:size]
        region.writes.extend(given.writes)
        return self._keep(
            region, stream.memcpy(region.buffer[:size], given.buffer[:size])
        )

    def _misfortune(self) -> None:
        chance, nth = self.chance, self.chance.randint(1, 20)
        dice = chance.random()
        if dice < 0.5:
            sim.fail_call(*chance.choice(CALLS), nth=nth)
        elif dice < 0.55:
            sim.fail_kernel(code=KERNEL_FAULT, nth=nth)
        elif dice < 0.8:
            sim.fail_copy(chance.choice(["memcpy", "memset"]), COPY_FAULT, nth)
        elif dice < 0.9:
            sim.delay_callback(chance.randint(1, 20), nth=nth)
        else:
            sim.delay_copy(chance.randint(1, 20), nth=nth)

    async def _compare(self) -> None:
        """Wait for what was read and compare, where nothing has failed."""
        storm = self.storm
        checks, self.checks = self.checks, []
        # Raises what has failed unseen, that of commands without notification too.
        await self.stream.synchronize()
        for op, region, found, expected in checks:
            await op
            if any(write.failed for write in region.writes):
                continue
            differ = np.flatnonzero(found != expected)
            assert not differ.size, (
                f"{differ.size} of {expected.size} bytes differ, the first at "
                f"{differ[0]}: {found[differ[0]]}, not {expected[differ[0]]}"
            )
            storm.compared += 1
        for region in self.regions:
            region.is_sure = True
            region.writes = [op for op in region.writes if not op.done or op.failed]
