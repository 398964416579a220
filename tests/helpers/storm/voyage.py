"""What a sailor does on one stream."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import numpy as np

import aiocann
from aiocann import AiocannError, ClosedResourceError, SlowPathWarning, sim
from helpers.storm.sea import Bytes, Cargo, Region

if TYPE_CHECKING:
    from helpers.storm.crew import Sailor

SIZES = (1, 777, 4096, 65_536, 65_537, 200_000)
BIG = 5 << 20  # more than a staging chunk
HUGE = 40 << 20  # a few of them are more than a device has


class Voyage:
    """The work on one stream, until that has failed for good."""

    def __init__(self, sailor: Sailor, stream: aiocann.Stream) -> None:
        self.sailor = sailor
        self.storm = sailor.storm
        self.sea = sailor.sea
        self.chance = sailor.chance
        self.device = sailor.device
        self.stream = stream
        self.regions: list[Region] = []
        self.checks: list[tuple[aiocann.Operation[Any], Region, Bytes, Bytes]] = []
        #: Pinned arrays that no op uses.
        self.pinned: list[Bytes] = []
        self.event = aiocann.Event()
        self.is_over = False

    async def burst(self) -> None:
        """Enqueue a few commands, await some of them, compare what was read."""
        chance, storm = self.chance, self.storm
        try:
            await self._allocate()
            if chance.random() < storm.faults:
                self.sea.misfortune(chance)
            if self.sea.kind.has_resets and chance.random() < 0.02:
                await self._disaster()
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
            if chance.random() < 0.03:
                made += await anyio.to_thread.run_sync(self._enqueue_elsewhere)
            for op in chance.sample(made, min(len(made), chance.randint(0, 3))):
                await self.sailor.maybe_cancelled(op)
            del made
            if chance.random() < 0.7:
                await self._compare()
        except (AiocannError, SlowPathWarning) as exc:
            self.sea.accept(exc)
            # Trust nothing of what was.
            self.regions.clear()
            self.checks.clear()
            try:
                await self.stream.synchronize()
            except AiocannError as fault:
                self.sea.accept(fault)
                self.is_over = True
        if chance.random() < 0.1 and storm.scopes:
            chance.choice(storm.scopes).cancel()

    async def _disaster(self) -> None:
        """Reset a device, lose one, or both."""
        chance, sea = self.chance, self.sea
        device = chance.choice(sea.rt.devices)
        dice = chance.random()
        if dice < 0.6:
            sea.lose(device, for_ever=dice < 0.2)
        if dice > 0.3:
            with self.storm.scope(chance.choice([None, 0.001])):
                await sea.reset(device)

    async def _allocate(self) -> None:
        chance = self.chance
        if len(self.pinned) < 2 and chance.random() < 0.1:
            size = chance.choice(SIZES[1:])
            self.pinned.append(await self.sea.rt.pinned_empty(size, np.uint8))
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

    def _enqueue_elsewhere(self) -> list[aiocann.Operation[Any]]:
        """A few commands by a thread that has no loop."""
        made = []
        for _ in range(self.chance.randint(1, 4)):
            op = self._enqueue(has_loop=False)
            self.storm.enqueued += 1
            if op is not None:
                made.append(op)
        return made

    def _enqueue(self, *, has_loop: bool = True) -> aiocann.Operation[Any] | None:
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
            data = self._host_array(stop - start)
            data[:] = value
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
        if dice < 0.92 and has_loop:
            self.storm.host_calls_due += 1
            return stream.host_call(self._called, self.storm.host_calls_due)
        if dice < 0.96:
            return stream.synchronize()
        if self.event._mark is None:
            return None
        return stream.wait(self.event, notify=chance.random() < 0.5)

    def _host_array(self, nbytes: int) -> Bytes:
        """Of pinned memory, if there is some that is large enough, or ordinary."""
        chance = self.chance
        if chance.random() < 0.7:
            for array in self.pinned:
                if array.nbytes >= nbytes:
                    # Nobody has it any more but the op.
                    self.pinned = [one for one in self.pinned if one is not array]
                    start = chance.randint(0, array.nbytes - nbytes)
                    return array[start : start + nbytes]
        return np.empty(nbytes, np.uint8)

    def _called(self, number: int) -> int:
        self.storm.host_calls_run += 1
        return number

    def _read(self, region: Region, start: int, stop: int) -> aiocann.Operation[Any]:
        target = self._host_array(stop - start)
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
        chance, stream, market = self.chance, self.stream, self.sea.market
        cargo = market.look(chance)
        if cargo is None or chance.random() < 0.3:
            if not region.is_sure:
                return None  # whoever fetched it could not know whether it is right
            self.regions.remove(region)
            event = stream.record()
            market.give(Cargo(region, event))
            return event.recording()
        if cargo.event.done and cargo.event.recording().failed:
            market.drop(cargo)
            return None
        dice = chance.random()
        if dice < 0.2:
            return cargo.event.recording()  # awaited, perhaps on another loop
        if dice < 0.3:
            return stream.wait(cargo.event, notify=chance.random() < 0.5)
        given = cargo.region
        size = min(given.buffer.nbytes, region.buffer.nbytes)
        try:
            stream.wait(cargo.event, notify=False)
            op = stream.memcpy(region.buffer[:size], given.buffer[:size])
        except ClosedResourceError:
            market.drop(cargo)  # its device was reset
            raise
        region.holds[:size] = given.holds[:size]
        region.writes.extend(given.writes)
        return self._keep(region, op)

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
