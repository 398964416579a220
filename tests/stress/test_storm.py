"""Everything at once, at random: each await ends, each result is right, nothing grows.

``AIOCANN_STORM_OPS`` and ``AIOCANN_STORM_SEED`` say how much and which: the full form
is 200000 ops, in ten rounds.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import random
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest

import aiocann
from aiocann import AiocannError, ledger, sim, testing
from helpers.storm import KINDS, Kind, Sea, Storm
from helpers.waiting import until, until_counts_are

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEED = os.environ.get("AIOCANN_STORM_SEED", "1")
N_OPS = int(os.environ.get("AIOCANN_STORM_OPS", "5000"))
N_ROUNDS = 10 if N_OPS >= 50_000 else 2 * len(KINDS)
# Seconds that a round may take: a stuck await ends it, not the patience of who waits.
ROUND = 60 + N_OPS // N_ROUNDS // 50
#: Whether there are any that can be lost: scripts/harsh does without, too.
HAS_CALLBACKS = os.environ.get("AIOCANN_COMPLETION") != "query"
#: Devices, their memory, and who reaches whom, by round.
DEVICES, MEMORY = 8, "192M"
PEERS = ("all", "none", "0-1,1-0,2-3,4-5,5-4,6-0")
THREE_LOOPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("asyncio", {}),
    ("asyncio", {"use_uvloop": True}),
    ("trio", {}),
)


@pytest.fixture(autouse=True)
def _machine() -> Iterator[None]:
    yield
    sim.clear_faults()
    sim.let_go()
    sim.configure(peers=None, memory=None, devices=None)


@dataclass
class Footprint:
    """What the process holds between two rounds."""

    native: int
    objects: int
    blocks: int
    fds: int
    counters: dict[str, int]

    @classmethod
    def now(cls) -> Footprint:
        # The last thousand failures are kept, as causes of others.
        ledger._failures.clear()
        gc.collect()
        live = {k: v for k, v in sim.counters().items() if k.startswith("live_")}
        return cls(
            native=_malloced(),
            objects=len(gc.get_objects()),
            blocks=sys.getallocatedblocks(),
            fds=len(os.listdir("/proc/self/fd")),
            counters=live,
        )


class _MallInfo2(ctypes.Structure):
    _fields_ = [  # type: ignore[mutable-override] # that is how ctypes wants it
        (f"field{n}", ctypes.c_size_t) for n in range(10)
    ]


def _malloced() -> int:
    """Bytes that malloc has given out; 0 where the C library does not say."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = _MallInfo2
    info = libc.mallinfo2()
    return int(info.field4) + int(info.field7)  # mapped, and in use


@pytest.mark.timeout(ROUND * N_ROUNDS)
async def test_storm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "aiocann")  # it has a lot to say
    footprints = []
    for number in range(N_ROUNDS):
        seed = f"{SEED}/{number}"
        try:
            await one_round(number, seed)
        except BaseException as exc:
            raise AssertionError(
                f"seed {SEED}, round {number} of {N_ROUNDS}: run it again with "
                f"AIOCANN_STORM_SEED={SEED} AIOCANN_STORM_OPS={N_OPS}"
            ) from exc
        footprints.append(Footprint.now())
    # Rounds of one kind, with one of each kind before.
    warm, last = (
        footprints[-1 - len(KINDS) * (N_ROUNDS // len(KINDS) - 1)],
        footprints[-1],
    )
    told = "\n".join(map(str, footprints))
    assert last.counters == warm.counters, told
    assert last.fds <= warm.fds, told
    assert last.native - warm.native < 1_000_000, told
    # A handful are caches; an op or a stream that stayed would be thousands.
    assert last.objects - warm.objects < 200, told
    assert last.blocks - warm.blocks < 2000, told


async def one_round(number: int, seed: str) -> None:
    kind = KINDS[number % len(KINDS)]
    async with sea_of(number, kind) as sea:
        storm = Storm(sea, seed, N_OPS // N_ROUNDS)
        with in_time(sea.rt):
            await storm.rage()
        check_crew(storm)


@asynccontextmanager
async def sea_of(number: int, kind: Kind) -> AsyncIterator[Sea]:
    """Open the devices of a round, and see in the end that nothing is left of it."""
    sim.configure(devices=DEVICES, memory=MEMORY, peers=PEERS[number % len(PEERS)])
    dropped = sim.counters()["dropped_callbacks"]
    sea: Sea | None = None
    try:
        async with aiocann.open_runtime("sim", DEVICES) as rt:
            before = testing.counts(rt)
            sea = Sea(rt, kind)
            chance = random.Random(f"{SEED}/{number}")
            for _ in range(kind.lost_callbacks * HAS_CALLBACKS):
                sim.drop_callback(nth=chance.randint(1, N_OPS // N_ROUNDS // 3))
            yield sea
            with in_time(rt):
                await calm(sea)
            testing.assert_settled(rt)
            await until_counts_are(before, rt)
            dropped = sim.counters()["dropped_callbacks"] - dropped
            assert bool(dropped) == bool(kind.lost_callbacks * HAS_CALLBACKS)
            # A later callback of the same stream makes up for a lost one. One that is
            # late is made up for too, and a reset may see to it that it never comes.
            if not kind.has_resets:
                assert rt.statistics().lost_callbacks <= dropped
    except AiocannError as exc:  # from leaving
        if sea is None:
            raise
        sea.accept(exc)


@contextmanager
def in_time(rt: aiocann.Runtime) -> Iterator[None]:
    """Say what is in flight where something never ends."""
    try:
        with anyio.fail_after(ROUND):
            yield
    except TimeoutError as exc:
        told = "\n".join(map(str, rt.in_flight()[:20]))
        raise AssertionError(f"after {ROUND} s there is in flight:\n{told}") from exc


def check_crew(storm: Storm) -> None:
    assert storm.host_calls_run <= storm.host_calls_due
    assert storm.compared > storm.enqueued // 50
    print(storm, file=sys.stderr)


async def calm(sea: Sea) -> None:
    """Let what is late come, reset what is lost, hear of what nobody was told of."""
    sim.clear_faults()
    sim.let_go()
    sea.market.clear()
    for device in sea.rt.devices:
        if device in sea.lost_devices:
            await sea.reset(device)
        with sea.misfortunes():
            await device.backend().synchronize()
    rt = sea.rt
    await until(lambda: rt.statistics().abandoned == rt.statistics().reaped)
    assert rt.unavailable == []
    # Whatever it went through, each device works.
    for device in rt.devices:
        async with device.stream() as stream:
            buffer = await device.allocate(100)
            await stream.memset(buffer, 7)
            found = np.zeros(100, np.uint8)
            await stream.memcpy(found, buffer)
            assert (found == 7).all()


@pytest.mark.timeout(3 * ROUND)
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_storm_on_three_loops_at_once(
    anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A crew in each of three threads, on the same devices, trading with each other."""
    caplog.set_level(logging.CRITICAL, "aiocann")
    number = {"asyncio": 1, "trio": 2}[anyio_backend_name]
    async with sea_of(number, KINDS[number]) as sea:
        failures: list[BaseException] = []
        crews: list[Storm] = []
        threads: list[threading.Thread] = []
        for backend, options in THREE_LOOPS:
            seed = f"{SEED}/{number}/{len(crews)}"
            crew = Storm(sea, seed, N_OPS // N_ROUNDS // 3, n_streams=24)
            crews.append(crew)
            threads.append(
                threading.Thread(target=sail, args=(crew, backend, options, failures))
            )
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        for failure in failures:
            raise AssertionError(f"seed {SEED}") from failure
        for crew in crews:
            check_crew(crew)


def sail(
    crew: Storm, backend: str, options: dict[str, Any], failures: list[BaseException]
) -> None:
    """Run a crew on a loop of its own."""

    async def rage() -> None:
        async with aiocann.open_runtime("sim", DEVICES) as rt:
            assert rt is crew.rt
            with in_time(rt):
                await crew.rage()

    try:
        anyio.run(rage, backend=backend, backend_options=options)
    except BaseException as exc:
        failures.append(exc)


async def test_many_threads_submit_to_one_stream() -> None:
    async with aiocann.open_runtime("sim") as rt:
        (device,) = rt.devices
        buffers = [await device.allocate(1000) for _ in range(4)]
        results: list[bool] = []

        def submit(stream: aiocann.Stream, which: int) -> list[Any]:
            made = []
            for n in range(200):
                target = np.zeros(1000, np.uint8)
                stream.memset(buffers[which], n % 256, notify=False)
                op = stream.memcpy(target, buffers[which])
                made.append((op, target, n % 256))
            return made

        async with device.stream() as stream:

            async def one(which: int) -> None:
                for op, target, value in await anyio.to_thread.run_sync(
                    submit, stream, which
                ):
                    await op
                    results.append(bool((target == value).all()))

            async with anyio.create_task_group() as tasks:
                for which in range(4):
                    tasks.start_soon(one, which)
        assert results == [True] * 800
        testing.assert_settled(rt)
