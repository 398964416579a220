"""Cancelling whoever waits: the work goes on, its operands are kept, nothing leaks."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import testing
from helpers.waiting import until, until_counts_are

pytestmark = pytest.mark.anyio


async def test_cancelling_one_of_two_awaiters(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        done: list[str] = []

        async def waits(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                await op
                done.append(name)

        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                op = stream.memset(buffer, 1)
                scopes = [anyio.CancelScope(), anyio.CancelScope()]
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(waits, "cancelled", scopes[0])
                    tasks.start_soon(waits, "other", scopes[1])
                    await until(lambda: len(op._waiters or ()) == 2)
                    scopes[0].cancel()
                    await until(lambda: len(op._waiters or ()) == 1)
                    assert not op.done
                    aiocann.sim.release(device.index)
            assert done == ["other"]
        assert rt.statistics().abandoned == 0


async def test_cancelling_returns_at_once_and_keeps_the_operands(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        n = 1 << 20
        buffer = await device.allocate(n)
        before = rt.statistics().live_buffers
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                source = np.full(n, 7, np.uint8)
                alive = weakref.ref(source)
                with anyio.move_on_after(0.01) as scope:
                    await stream.memcpy(buffer, source)
                assert scope.cancelled_caught
                out = np.zeros(n, np.uint8)
                op = stream.memcpy(out, buffer)
                del source
                buffer.close()
                del buffer
                gc.collect()
                assert alive() is not None
                assert rt.statistics().live_buffers == before
                assert rt.statistics().abandoned == 1
            await op
            assert (out == 7).all()
            await until(lambda: alive() is None)
            await until(lambda: rt.statistics().live_buffers == before - 1)
        stats = rt.statistics()
        assert (stats.abandoned, stats.reaped) == (1, 1)


async def test_thousand_copies_a_third_of_them_cancelled(opened: Any) -> None:
    """Mixed sizes on four devices, operands dropped at once."""
    seed = 20240
    chance = random.Random(seed)
    async with opened(4) as rt:
        before = testing.counts(rt)
        wrong: list[int] = []
        finished: list[int] = []

        async def one(n: int, device: aiocann.Device, stream: aiocann.Stream) -> None:
            nbytes = chance.choice([1, 100, 5_000, 65_536, 70_000, 300_000])
            source = np.full(nbytes, n % 251, np.uint8)
            buffer = await device.allocate(nbytes)
            stream.memcpy(buffer, source)
            del source  # only the op keeps it
            target = np.zeros(nbytes, np.uint8)
            op = stream.memcpy(target, buffer)
            del buffer
            with anyio.CancelScope() as scope:
                if n % 3 == 0:
                    # At some later turn of the loop, or at once.
                    when = chance.random() * 0.003
                    scope.deadline = anyio.current_time() + when
                await op
                finished.append(n)
                if not (target == n % 251).all():
                    wrong.append(n)
            if scope.cancelled_caught:
                del target

        async def all_of_them() -> None:
            async with (
                rt.devices[0].stream() as s0,
                rt.devices[1].stream() as s1,
                rt.devices[2].stream() as s2,
                rt.devices[3].stream() as s3,
            ):
                streams = [s0, s1, s2, s3]
                async with anyio.create_task_group() as tasks:
                    for n in range(1000):
                        which = n % 4
                        tasks.start_soon(one, n, rt.devices[which], streams[which])

        await all_of_them()
        assert not wrong, f"seed {seed}"
        assert len(finished) >= 666
        testing.assert_settled(rt)
        await until_counts_are(before, rt)
        assert rt.statistics().lost_callbacks == 0


async def test_cancelled_allocations_leak_nothing(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = rt.statistics().live_buffers
        for _ in range(20):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await device.allocate(40 << 20)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await rt.pinned_empty(1 << 20, np.uint8)
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with device.stream():
                    pass

        def settled() -> bool:
            gc.collect()
            stats = rt.statistics()
            return bool(
                stats.live_buffers == before
                and stats.live_streams <= 1
                and stats.pinned_bytes == 0
                and stats.in_flight_ops == 0
            )

        await until(settled)
