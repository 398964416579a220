"""Ctrl-C all along enqueueing and delivering: nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import weakref
from functools import partial
from typing import Any

import anyio
import pytest

import aiocann
from aiocann import enqueue
from aiocann.ledger import in_flight
from aiocann.lowlevel import current_reactor
from helpers.fake_native import FakeNative
from helpers.interrupts import interrupted_at
from helpers.waiting import until

# Trio keeps ctrl-C out of system tasks, and out of what is not the user's, by itself.
pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"use_uvloop": uvloop}) for uvloop in (False, True)]
)


class Source(bytearray):
    """A host buffer that tells when it goes."""


@on_asyncio
@pytest.mark.parametrize("where", ["a loop's thread", "a plain thread"])
async def test_enqueueing(where: str) -> None:
    async with aiocann.open_runtime("sim", 1) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            await stream.synchronize()
            # What is lost of these is lost before there is an op.
            enqueue._pool.extend(enqueue.Scratch() for _ in range(100))

            def attempt(n: int) -> bool:
                source = Source(b"x" * 64)
                alive = weakref.ref(source)
                with aiocann.sim.hold(0):
                    reached = interrupted_at(n, partial(stream.memcpy, buffer, source))
                    begun = rt.statistics().in_flight_ops
                    del source
                    # What has begun is owned; what has not is not kept.
                    assert len(in_flight) == begun, n
                    assert (alive() is not None) == bool(begun), n
                while rt.statistics().in_flight_ops:
                    pass
                return reached

            n = 0
            if where == "a loop's thread":
                while attempt(n):
                    await until(lambda: not in_flight)
                    n += 1
            else:
                failures: list[BaseException] = []

                def run() -> None:
                    nonlocal n
                    try:
                        while attempt(n):
                            while in_flight:
                                rt.statistics()
                            n += 1
                    except BaseException as exc:
                        failures.append(exc)

                thread = threading.Thread(target=run)
                thread.start()
                await anyio.to_thread.run_sync(thread.join)
                assert not failures, failures
            assert n > 20
            # Asking takes what was a plain thread's, too.
            await until(lambda: not (rt.statistics().in_flight_ops or in_flight))
        stats = rt.statistics()
        assert stats.abandoned == stats.reaped


@on_asyncio
async def test_delivering(fake: FakeNative) -> None:
    reactor: Any = current_reactor()
    n = 0
    ops: list[Any] = []
    while True:
        ops[:] = [fake.enqueue(result=k) for k in range(2)]
        ops.append(fake.host_call(lambda: 2))
        with anyio.fail_after(10):
            waiting = asyncio.gather(*ops)
            await until(lambda: all(op._waiters for op in ops))
            for op in ops:
                fake.settle(op)
            reached = interrupted_at(n, reactor.drain)
            # Where ctrl-C has hit the call itself, nobody can know its result.
            settled = await asyncio.gather(waiting, return_exceptions=True)
            results: list[Any] = list(settled)
        assert results == [[0, 1, 2]] or "nterrupt" in str(results[0]), n
        assert not in_flight, n
        if not reached:
            break
        n += 1
    assert n > 20


@on_asyncio
async def test_delivering_to_another_loop(fake: FakeNative) -> None:
    """An op of a plain thread, awaited here."""
    reactor: Any = current_reactor()
    n = 0
    made: list[Any] = []
    while True:
        thread = threading.Thread(target=lambda: made.append(fake.enqueue(result=7)))
        thread.start()
        thread.join()
        with anyio.fail_after(10):
            waiting = asyncio.ensure_future(made[-1])
            await until(lambda: reactor in (made[-1]._foreign or {}))
            fake.settle(made[-1])
            reached = interrupted_at(n, reactor.drain)
            assert await waiting == 7, n
        if not reached:
            break
        n += 1
    assert n > 10
