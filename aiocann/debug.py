"""Debug mode: host arrays are guarded while in flight, loops are watched.

Switched on by ``open_runtime(debug=True)`` or ``AIOCANN_DEBUG=1``, for the process, as
long as a runtime is open that asked for it.

- A NumPy array cannot be written while it is the source or the destination of a copy
  (NumPy raises at the line that tries); a source that changes all the same, through
  another view of it or in a buffer that has no such flag, fails its op. A destination
  holds `POISON` until the device has written it, so reading too early is seen.
- `sites.here` notes the whole stack of the enqueueing call.
- ``debug="blocking"`` or ``AIOCANN_DEBUG=blocking`` also waits for each command before
  the call that enqueued it returns, and raises its failure there. It holds the loop for
  as long; what a command waits for must not come later from the same thread.
- A loop that takes no turn for `HOLD_SECONDS` is reported, with the line that holds it.
"""

from __future__ import annotations

import sys
import threading
import traceback
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from aiocann import sites
from aiocann.errors import usage
from aiocann.logs import log
from aiocann.loops import reactors
from aiocann.native import ffi

if TYPE_CHECKING:
    from aiocann.completion import Operation

__all__ = ["HOLD_SECONDS", "POISON", "Guard", "disable", "enable"]

#: What a loop may take for one callback; asyncio's own debug mode says 0.1 too.
HOLD_SECONDS = 0.1
#: What a destination is filled with.
POISON = 0xA5

#: Whether commands are waited for where they are enqueued.
is_blocking = False

_lock = threading.RLock()
_users = _blocking_users = 0
_watch: _LoopWatch | None = None
# Arrays that are write-protected, by id: the array, and how many guards it has.
_frozen: dict[int, list[Any]] = {}


def enable(*, blocking: bool = False) -> None:
    """Switch debug mode on; as often as this, `disable` must be called."""
    global _users, _blocking_users, _watch, is_blocking
    with _lock:
        _users += 1
        _blocking_users += blocking
        is_blocking = bool(_blocking_users)
        if _users == 1:
            sites.is_debugging = True
            _watch = _LoopWatch()
            _watch.start()


def disable(*, blocking: bool = False) -> None:
    """Take one `enable` back."""
    global _users, _blocking_users, _watch, is_blocking
    with _lock:
        _users -= 1
        _blocking_users -= blocking
        is_blocking = bool(_blocking_users)
        if _users == 0:
            sites.is_debugging = False
            assert _watch is not None
            _watch.stop()
            _watch = None


class Guard:
    """The export of a host buffer, and what keeps others from writing it."""

    __slots__ = ("_array", "_checksum", "_name", "export")

    def __init__(self, value: object, export: Any, *, writable: bool) -> None:
        self._array: Any = None
        #: What keeps the memory where it is.
        self.export = export
        self._name = _describe(value, len(export))
        self._checksum: int | None = None
        if writable:
            if id(value) not in _frozen:  # else the device may still read it
                ffi.buffer(export)[:] = bytes([POISON]) * len(export)
        else:
            self._checksum = zlib.crc32(ffi.buffer(export))
        if isinstance(value, np.ndarray) and _freeze(value):
            self._array = value

    def __len__(self) -> int:
        return len(self.export)

    def __del__(self) -> None:
        array = getattr(self, "_array", None)
        if array is not None:
            _thaw(array)

    def verify(self, op: Operation[Any]) -> None:
        """Fail the op whose source was written before it was done."""
        if self._checksum is None:
            return
        if zlib.crc32(ffi.buffer(self.export)) != self._checksum:
            raise usage(
                f"the source of {op.kind}, {self._name}, was written before the op was "
                f"done, so what was copied is not known: await the op first. It was "
                f"enqueued at {op.enqueued_at}"
            )


def verify_all(op: Operation[Any]) -> Any:
    """Check the guards among the operands of an op that is done; return its result."""
    for operand in op._operands:  # noqa: SLF001 - finishes operations
        if isinstance(operand, Guard):
            operand.verify(op)
    return op._result  # noqa: SLF001


def _describe(value: object, nbytes: int) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)}"
    return f"a {type(value).__name__} of {nbytes} bytes"


def writable_again(array: object) -> bool:
    """Take the protection of a guarded array away, if it is that; `protect` follows."""
    with _lock:
        if id(array) not in _frozen or not isinstance(array, np.ndarray):
            return False
        array.flags.writeable = True
        return True


def protect(array: Any) -> None:
    """Put the protection back."""
    with _lock:
        if id(array) in _frozen:
            array.flags.writeable = False


def _freeze(array: np.ndarray[Any, Any]) -> bool:
    with _lock:
        entry = _frozen.get(id(array))
        if entry is not None:
            entry[1] += 1
            array.flags.writeable = False
            return True
        if not array.flags.writeable:
            return False
        try:  # on a view of it: can the flag be set again?
            view = array.view()
            view.flags.writeable = False
            view.flags.writeable = True
        except ValueError:
            return False
        array.flags.writeable = False
        _frozen[id(array)] = [array, 1]
        return True


def _thaw(array: np.ndarray[Any, Any]) -> None:
    with _lock:
        entry = _frozen[id(array)]
        entry[1] -= 1
        if entry[1] == 0:
            del _frozen[id(array)]
            array.flags.writeable = True


class _LoopWatch(threading.Thread):
    """Asks each loop for a turn now and then, and says what holds one that gives none.

    A thread, as a loop that is held cannot say so.
    """

    def __init__(self) -> None:
        super().__init__(name="aiocann loop watch", daemon=True)
        self._stopping = threading.Event()
        # By reactor: whether its turn has come, and whether that was told.
        self._asked: dict[Any, threading.Event] = {}
        self._told: set[Any] = set()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.wait(HOLD_SECONDS):
            alive = reactors()
            for reactor in alive:
                self._look(reactor)
            for gone in [one for one in self._asked if one not in alive]:
                self._asked.pop(gone)
                self._told.discard(gone)

    def _look(self, reactor: Any) -> None:
        turn = self._asked.get(reactor)
        if turn is not None and not turn.is_set():
            if reactor not in self._told:
                self._told.add(reactor)
                _tell(reactor)
            return
        self._told.discard(reactor)
        turn = self._asked[reactor] = threading.Event()
        if not reactor.call_soon(turn.set):
            self._asked.pop(reactor)


def _tell(reactor: Any) -> None:
    frame = sys._current_frames().get(reactor.thread_id)  # noqa: SLF001
    stack = "".join(traceback.format_stack(frame)[-4:]) if frame is not None else ""
    log.warning(
        "the event loop of thread %d has been held for more than %.1f s:\n%s",
        reactor.thread_id,
        HOLD_SECONDS,
        stack,
    )
