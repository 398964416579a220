"""For tests of programs that use aiocann: nothing left behind, nothing held."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiocann import ledger
from aiocann.completion import Operation
from aiocann.loops import drain_here
from aiocann.memory import Block
from aiocann.stream import Stream
from aiocann.tensor import Tensor

if TYPE_CHECKING:
    from aiocann.runtime import Runtime

__all__ = ["Counts", "LoopHold", "assert_settled", "counts"]

_NATIVE = (
    "in_flight_ops",
    "in_flight_bytes",
    "live_buffers",
    "live_streams",
    "live_tensors",
    "live_executors",
    "pool_used_bytes",
    "pinned_bytes",
)
_COUNTED = (Operation, Block, Stream, Tensor)


@dataclass(frozen=True)
class Counts:
    """What is alive: Python objects by class, and native ones by counter."""

    python: dict[str, int]
    native: dict[str, int]


def counts(runtime: Runtime) -> Counts:
    """Count what is alive, after a collection.

    Counts before and after a piece of work that keeps nothing must be the same.
    """
    gc.collect()
    drain_here()
    python = dict.fromkeys((cls.__name__ for cls in _COUNTED), 0)
    for thing in gc.get_objects():
        for cls in _COUNTED:
            if isinstance(thing, cls):
                python[cls.__name__] += 1
    python["ledger"] = len(ledger.in_flight)
    stats = runtime.statistics()
    return Counts(python, {name: getattr(stats, name) for name in _NATIVE})


def assert_settled(runtime: Runtime) -> None:
    """Fail unless nothing is in flight and every abandoned op was reaped."""
    drain_here()
    stats = runtime.statistics()
    pending = runtime.in_flight()
    if stats.in_flight_ops or pending:
        raise AssertionError(f"{stats.in_flight_ops} ops are in flight: {pending}")
    if stats.abandoned != stats.reaped:
        raise AssertionError(f"{stats.abandoned} abandoned, {stats.reaped} reaped")


class LoopHold:
    """CPU time that the loop's thread spends between two ticks, at most.

    A task that ticks on each of its turns sees an upper bound of the longest callback.
    """

    def __init__(self) -> None:
        #: CPU seconds of the longest turn.
        self.longest = 0.0
        #: Turns that were taken.
        self.turns = 0
        self._last = time.thread_time()

    def tick(self) -> None:
        """Note a turn of the loop."""
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self.turns += 1
