"""For those who extend aiocann: its reactors, its failures, its native counters."""

from aiocann.errors import NativeError, class_for, code_name, error_for
from aiocann.native import sim_library
from aiocann.reactor import Reactor, current_reactor, orphans, reactor_count

__all__ = [
    "NativeError",
    "Reactor",
    "class_for",
    "code_name",
    "current_reactor",
    "drain_orphans",
    "error_for",
    "reactor_count",
    "sim_library",
]


def drain_orphans() -> None:
    """Settle what threads without a loop have enqueued and what has completed."""
    orphans.drain()
