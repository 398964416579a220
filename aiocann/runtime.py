"""`Runtime`: an open driver and its devices."""

# ruff: noqa: SLF001 - finishes operations

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aiocann import ledger
from aiocann.arguments import LARGEST, require_int
from aiocann.completion import Operation
from aiocann.enqueue import enqueue
from aiocann.errors import (
    AiocannError,
    ClosedResourceError,
    ResourceExhaustedError,
    SlowPathWarning,
    error_for,
    usage,
)
from aiocann.loops import raise_forked
from aiocann.memory import pinned_array
from aiocann.native import lib, statistics, text, to_error
from aiocann.reactor import orphans

if TYPE_CHECKING:
    from aiocann.device import Device

__all__ = ["InFlight", "Runtime", "Statistics", "Unavailable", "warn_unpinned_again"]


@dataclass(frozen=True)
class Statistics:
    """Counters of a runtime, since it was opened.

    ``loop_wakes`` and ``completions`` count what reached event loops; ``abandoned``
    are ops whose last awaiter went away, ``reaped`` those of them that have finished.
    """

    in_flight_ops: int
    in_flight_bytes: int
    abandoned: int
    reaped: int
    live_buffers: int
    live_streams: int
    live_events: int
    live_tensors: int
    live_executors: int
    pool_reserved_bytes: int
    pool_used_bytes: int
    events_created: int
    lost_callbacks: int
    loop_wakes: int
    completions: int
    #: Pinned host memory in use, and bytes copied by direction.
    pinned_bytes: int
    h2d_bytes: int
    d2h_bytes: int
    d2d_bytes: int
    peer_bytes: int
    #: Pinned host memory got from the driver for arrays: in use, or kept for others.
    pinned_reserved_bytes: int


@dataclass(frozen=True)
class InFlight:
    """An op that has not finished."""

    op: str
    device: int | None
    stream: int | None
    age: float
    enqueued_at: str


@dataclass(frozen=True)
class Unavailable:
    """A device that could not be opened, or not be reset."""

    index: int
    error: AiocannError


class Runtime:
    """An open driver with its devices. `open_runtime` gives it.

    Attributes
    ----------
    driver : str
        "cann" or "sim".
    devices : list of Device
        Those that are open, by position.
    unavailable : list of Unavailable
        Those that could not be opened or reset, with the reason.
    close_timeout : float
        Seconds that leaving it, or a stream, waits for work.
    """

    def __init__(self, holder: Any, driver: str, close_timeout: float) -> None:
        #: Owns the native runtime.
        self._holder = holder
        self._pointer = holder[0]
        self.driver = driver
        self.close_timeout = close_timeout
        self.closed = False
        self.devices: list[Device] = []
        self.unavailable: list[Unavailable] = []

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.devices)} devices"
        return f"<aiocann.Runtime {self.driver}, {state}>"

    def native(self) -> Any:
        """Return the native runtime.

        Raises
        ------
        ClosedResourceError
            It is closed.
        ForkError
            This is a forked child.
        """
        raise_forked()
        if self.closed:
            raise ClosedResourceError(
                "the runtime is closed: open another with "
                "`async with aiocann.open_runtime()`"
            )
        return self._pointer

    @property
    def version(self) -> str:
        """Version of ACL, as the driver gives it."""
        return text(lib.aiocann_runtime_acl_version(self._pointer))

    @property
    def library(self) -> str:
        """Path of the driver's library."""
        return text(lib.aiocann_runtime_library(self._pointer))

    def pinned_empty(
        self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32
    ) -> Operation[npt.NDArray[Any]]:
        """Allocate a NumPy array in pinned host memory.

        Copies from and to it are direct. It may outlive the runtime. Where there is no
        pinned memory left it is an ordinary array, with one `SlowPathWarning`: copies
        then go through the runtime's own pinned chunks.

        Notes
        -----
        **Source:** aclrtMallocHost.
        """
        axes = tuple(
            require_int(extent, "an array's extent")
            for extent in (shape if isinstance(shape, Sequence) else (shape,))
        )
        element = np.dtype(dtype)
        if element.hasobject:
            raise usage("pinned memory cannot hold Python objects: use a numeric dtype")
        nbytes = require_int(math.prod(axes) * element.itemsize, "the array's size")
        return enqueue(
            lib.aiocann_pinned_allocate,
            (self.native(), max(nbytes, 1)),
            "pinned_empty",
            (axes, element, nbytes),
            finish=pinned_array,
            cls=_PinnedAllocation,
        )

    def statistics(self) -> Statistics:
        """Read the counters. They can be read after closing too."""
        raise_forked()
        orphans.drain()
        values = statistics(self._pointer)
        return Statistics(**{f.name: values[f.name] for f in fields(Statistics)})

    def in_flight(self) -> list[InFlight]:
        """List the ops that have not finished, oldest first."""
        raise_forked()
        orphans.drain()
        found = []
        for op in list(ledger.in_flight.values()):
            stream = op._stream
            if op.done or (stream is not None and stream.device.runtime is not self):
                continue
            found.append(
                InFlight(
                    op=op.kind,
                    device=None if stream is None else stream.device.index,
                    stream=None if stream is None else stream.number,
                    age=op.age,
                    enqueued_at=op.enqueued_at,
                )
            )
        return sorted(found, key=lambda one: -one.age)

    def note_unavailable(self, device: Device, error: AiocannError) -> None:
        """List a device that could not be reset."""
        self.note_available(device)
        self.unavailable.append(Unavailable(device.index, error))

    def note_available(self, device: Device) -> None:
        """Take a device off that list."""
        self.unavailable = [
            one for one in self.unavailable if one.index != device.index
        ]

    def device(self, index: int) -> Device:
        """Return the open device with this logical id."""
        index = require_int(index, "a device's logical id", -LARGEST)
        for device in self.devices:
            if device.index == index:
                return device
        ids = ", ".join(str(device.index) for device in self.devices)
        raise usage(f"no device {index} is open; open are {ids}")


class _PinnedAllocation(Operation["npt.NDArray[Any]"]):
    """Falls back to ordinary memory, which is only slower."""

    __slots__ = ()

    def _fail(self, error: Any) -> None:
        exc = error_for(to_error(error))
        if not isinstance(exc, ResourceExhaustedError):
            super()._fail(error)
            return
        shape, dtype, _ = self._operands
        try:
            self._result = np.empty(shape, dtype)
            _warn_unpinned(exc)
        except (MemoryError, SlowPathWarning) as failure:
            failure.__cause__ = exc
            self._set_error(failure)
        else:
            self._state = 1


_warned_unpinned = False


def warn_unpinned_again() -> None:
    """Forget that there was no pinned memory: the next runtime says so anew."""
    global _warned_unpinned
    _warned_unpinned = False


def _warn_unpinned(exc: AiocannError) -> None:
    global _warned_unpinned
    if not _warned_unpinned:
        _warned_unpinned = True
        warnings.warn(
            "no pinned memory could be had, so arrays are of ordinary memory and "
            f"copies of them are staged: {exc}",
            SlowPathWarning,
            stacklevel=2,
        )
