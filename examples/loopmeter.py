"""How long is the event loop held, and how late do its timers come?

Use it to see what a program does to its own loop::

    with ticking() as ticks, measuring_callbacks() as seen:
        await work()
    print(seen.longest_ms, ticks.lateness_ms())
"""

# ruff: noqa: SLF001 - asyncio has no public hook around its callbacks

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Callbacks:
    """What was seen of a loop's callbacks."""

    count: int = 0
    longest_ms: float = 0.0
    """CPU time of the loop's thread."""
    longest_name: str = ""


@contextmanager
def measuring_callbacks() -> Iterator[Callbacks]:
    """Measure every callback that asyncio runs; a task's step is a callback too.

    In CPU time of the thread, because on a busy machine the clock on the wall also
    counts what other threads and programs did meanwhile. It works with asyncio's own
    loops; uvloop runs its callbacks where nobody can look.
    """
    seen = Callbacks()
    handle_class: Any = asyncio.Handle
    run = handle_class._run

    def measured(handle: Any) -> None:
        start = time.thread_time_ns()
        run(handle)
        spent_ms = (time.thread_time_ns() - start) / 1e6
        seen.count += 1
        if spent_ms > seen.longest_ms:
            seen.longest_ms = spent_ms
            seen.longest_name = _name_of(handle)

    handle_class._run = measured
    try:
        yield seen
    finally:
        handle_class._run = run


def _name_of(handle: Any) -> str:
    callback = handle._callback  # None once the handle has been cancelled
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"a step of task {owner.get_name()!r}"
    return str(getattr(callback, "__qualname__", callback))


@dataclass
class Ticks:
    """What a ticker found: how late each of its wake-ups came."""

    late_s: list[float] = field(default_factory=list)

    def lateness_ms(self) -> tuple[float, float, float]:
        """Return p50, p99 and the maximum, in milliseconds."""
        if not self.late_s:
            return 0.0, 0.0, 0.0
        late = np.array(self.late_s) * 1e3
        p50, p99 = np.percentile(late, [50, 99])
        return float(p50), float(p99), float(late.max())


@contextmanager
def ticking(period_s: float = 0.001) -> Iterator[Ticks]:
    """Have the running asyncio loop call a timer every `period_s`, until left."""
    loop = asyncio.get_running_loop()
    ticks = Ticks()
    is_over = False

    def start() -> None:
        due = loop.time() + period_s
        loop.call_at(due, tick, due)

    def tick(due: float) -> None:
        if not is_over:
            ticks.late_s.append(loop.time() - due)
            start()

    start()
    try:
        yield ticks
    finally:
        is_over = True
