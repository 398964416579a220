"""Everything at once, at random: every await ends, every result is right."""

from __future__ import annotations

import random
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import testing
from helpers.waiting import until, until_counts_are

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_storm(seed: int) -> None:
    chance = random.Random(seed)
    n_tasks, n_rounds = 60, 12
    async with aiocann.open_runtime("sim", 4) as rt:
        before = testing.counts(rt)
        wrong: list[Any] = []

        async def one(number: int) -> None:
            device = chance.choice(rt.devices)
            other = chance.choice(rt.devices)
            value = number % 251
            async with device.stream() as stream, other.stream() as second:
                for turn in range(n_rounds):
                    nbytes = chance.choice([1, 777, 65_536, 65_537, 500_000])
                    first, then = (
                        await device.allocate(nbytes),
                        await other.allocate(nbytes),
                    )
                    target = np.zeros(nbytes, np.uint8)
                    stream.memset(first, 255 - value, notify=chance.random() < 0.5)
                    stream.memcpy(first, np.full(nbytes, value, np.uint8))
                    second.wait(stream.record())
                    second.memcpy(then, first)
                    last = second.memcpy(target, then)
                    del first, then
                    with anyio.CancelScope() as scope:
                        if chance.random() < 0.4:
                            when = anyio.current_time() + chance.random() * 0.01
                            scope.deadline = when
                        await last
                        if not (target == value).all():
                            wrong.append((number, turn))
                    if chance.random() < 0.2:
                        await anyio.lowlevel.checkpoint()

        async def all_of_them() -> None:
            async with anyio.create_task_group() as tasks:
                for number in range(n_tasks):
                    tasks.start_soon(one, number)

        await all_of_them()
        assert not wrong, f"seed {seed}"
        await until(lambda: rt.statistics().abandoned == rt.statistics().reaped)
        testing.assert_settled(rt)
        await until_counts_are(before, rt)
        assert rt.statistics().lost_callbacks == 0


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
