"""How long is the event loop held, and how late do its timers come?

Use it to see what a program does to its own loop::

    with CallbackMeter() as held:
        async with ticking() as ticks:
            await work()
    print(held.longest_ms, ticks.lateness_ms())
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np


@dataclass
class CallbackMeter:
    """Measures every callback that asyncio runs, in CPU time of the loop's thread.

    CPU time, because on a busy machine the clock on the wall also counts what
    other threads and programs did meanwhile. A task's step is a callback too.
    Works with asyncio's own loops; uvloop runs callbacks where nobody can look.
    """

    longest_ms: float = 0.0
    longest_name: str = ""
    n_callbacks: int = 0
    _run: Callable[[asyncio.Handle], None] | None = field(default=None, repr=False)

    def __enter__(self) -> CallbackMeter:
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            start = time.thread_time_ns()
            run(handle)
            spent_ms = (time.thread_time_ns() - start) / 1e6
            self.n_callbacks += 1
            if spent_ms > self.longest_ms:
                self.longest_ms = spent_ms
                self.longest_name = _name_of(handle)

        self._run = run
        asyncio.Handle._run = measured  # type: ignore[method-assign]
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._run is not None
        asyncio.Handle._run = self._run  # type: ignore[method-assign]


def _name_of(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback  # None once the handle is cancelled
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


@asynccontextmanager
async def ticking(period_s: float = 0.001) -> AsyncIterator[Ticks]:
    """Run a task that sleeps `period_s` over and over, until the block is left."""
    ticks = Ticks()

    async def tick() -> None:
        while True:
            due = anyio.current_time() + period_s
            await anyio.sleep(period_s)
            ticks.late_s.append(anyio.current_time() - due)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick, name="ticker")
        yield ticks
        tasks.cancel_scope.cancel()
