"""What it costs to await a tiny piece of device work, and how else it is done."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

import aiocann
from acl import Acl, Reports
from harness import Row, Run, compare

AwaitOne = Callable[[], Awaitable[object]]

SEQUENTIAL = 300
IN_FLIGHT = 1000


async def measure(device: aiocann.Device, library: str, rounds: int) -> list[Row]:
    """Await a 64-byte memset three ways, one at a time and 1000 at once."""
    loop = asyncio.get_running_loop()
    acl = Acl(library, device.index)
    waiting: dict[int, asyncio.Future[None]] = {}
    keys = itertools.count(1)
    reports = Reports(
        acl, lambda key: loop.call_soon_threadsafe(waiting.pop(key).set_result, None)
    )
    block = await device.allocate(4096)
    async with device.stream() as stream:

        async def to_thread() -> None:
            acl.memset()
            await asyncio.to_thread(acl.synchronize)

        def callback() -> Awaitable[None]:
            key = next(keys)
            future = waiting[key] = loop.create_future()
            acl.memset()
            acl.launch_callback(reports.callback, key)
            return future

        ways: dict[str, AwaitOne] = {
            "await stream.memset(...)": lambda: stream.memset(block[:64], 0),
            "to_thread(synchronize)": to_thread,
            "callback, call_soon_threadsafe": callback,
        }
        try:
            rows = await compare(
                "await one op, then the next",
                "us per op",
                {way: _sequential(one) for way, one in ways.items()},
                rounds,
            )
            return rows + await compare(
                "1000 ops in flight",
                "us per op",
                {way: _in_flight(one) for way, one in ways.items()},
                rounds,
            )
        finally:
            await asyncio.to_thread(reports.close)
            acl.close()
            block.close()


def _sequential(one: AwaitOne) -> Run:
    async def run() -> float:
        start = time.perf_counter()
        for _ in range(SEQUENTIAL):
            await one()
        return (time.perf_counter() - start) / SEQUENTIAL * 1e6

    return run


def _in_flight(one: AwaitOne) -> Run:
    async def task() -> None:
        await one()

    async def run() -> float:
        start = time.perf_counter()
        await asyncio.gather(*[asyncio.create_task(task()) for _ in range(IN_FLIGHT)])
        return (time.perf_counter() - start) / IN_FLIGHT * 1e6

    return run
