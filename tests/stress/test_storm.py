"""Everything at once, at random: each await ends, each result is right, nothing grows.

``AIOCANN_STORM_OPS`` and ``AIOCANN_STORM_SEED`` say how much and which: the full form
is 200000 ops, in ten rounds.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import AclError, sim, testing
from helpers.storm import Storm
from helpers.waiting import until, until_counts_are

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEED = os.environ.get("AIOCANN_STORM_SEED", "1")
N_OPS = int(os.environ.get("AIOCANN_STORM_OPS", "5000"))
N_ROUNDS = 10 if N_OPS >= 50_000 else 3
# Seconds that a round may take: a stuck await ends it, not the patience of who waits.
ROUND = 60 + N_OPS // N_ROUNDS // 50
#: Devices, their memory, and who reaches whom, by round.
DEVICES, MEMORY = 8, "192M"
PEERS = ("all", "none", "0-1,1-0,2-3,4-5,5-4,6-0")


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
    warm, last = footprints[len(footprints) // 2], footprints[-1]
    told = "\n".join(map(str, footprints))
    assert last.counters == warm.counters, told
    assert last.fds <= warm.fds, told
    assert last.native - warm.native < 1_000_000, told
    # A handful are caches; an op or a stream that stayed would be thousands.
    assert last.objects - warm.objects < 200, told
    assert last.blocks - warm.blocks < 2000, told


async def one_round(number: int, seed: str) -> None:
    sim.configure(devices=DEVICES, memory=MEMORY, peers=PEERS[number % len(PEERS)])
    dropped = sim.counters()["dropped_callbacks"]
    storm: Storm | None = None
    try:
        async with aiocann.open_runtime("sim", DEVICES) as rt:
            before = testing.counts(rt)
            storm = Storm(rt, seed, N_OPS // N_ROUNDS, lost=3 if number == 1 else 0)
            with anyio.fail_after(ROUND):
                await storm.rage()
                await calm(storm)
            assert storm.host_calls_run <= storm.host_calls_due
            testing.assert_settled(rt)
            await until_counts_are(before, rt)
            # A later callback of the same stream makes up for a lost one.
            dropped = sim.counters()["dropped_callbacks"] - dropped
            assert rt.statistics().lost_callbacks <= dropped <= storm.lost
            assert dropped or not storm.lost
            print(seed, storm, file=sys.stderr)
    except AclError as exc:  # from leaving
        if storm is None:
            raise
        storm.accept(exc)


async def calm(storm: Storm) -> None:
    """Let what is late come, and hear of every failure that nobody was told of."""
    sim.clear_faults()
    sim.let_go()
    for device in storm.rt.devices:
        with storm.misfortunes():
            await device.backend().synchronize()
    await until(lambda: storm.rt.statistics().abandoned == storm.rt.statistics().reaped)


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
