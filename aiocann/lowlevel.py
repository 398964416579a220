"""For those who extend aiocann: its reactors, its failures, its native counters."""

from aiocann.errors import NativeError, class_for, code_name, error_for
from aiocann.loops import current_reactor, drain_here, reactor_count
from aiocann.native import sim_library
from aiocann.reactor import Reactor

__all__ = [
    "NativeError",
    "Reactor",
    "class_for",
    "code_name",
    "current_reactor",
    "drain_here",
    "error_for",
    "reactor_count",
    "sim_library",
]
