"""Waiting without sleeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from aiocann import sim, testing


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Give other tasks turns until `condition()` holds."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def until_counts_are(before: testing.Counts, runtime: Any) -> None:
    """Give other tasks turns until `testing.counts` are as they were."""
    with anyio.move_on_after(20):
        while testing.counts(runtime) != before:
            await anyio.lowlevel.checkpoint()
    after = testing.counts(runtime)
    assert after == before, f"{after}, before {before}"


async def after_its_callback(enqueue: Callable[..., Any], *operands: Any) -> None:
    """Await an op of device 0 that has a callback: what is over at once may not."""
    with sim.counted_calls(), sim.hold(0):
        op = enqueue(*operands)
        await until(lambda: "aclrtLaunchCallback" in sim.counted_so_far())
    await op
