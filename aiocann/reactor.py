"""Where completions arrive: one reactor per event loop, and the orphans.

A reactor owns a native loop and an eventfd. The native half writes the eventfd only
when the loop is parked; the reactor then takes every op that has settled, in one batch,
and wakes their waiters.

- asyncio and uvloop: a reader on the eventfd. When the loop closes, it drops the
  reader's callback, and that closes the reactor.
- trio: a system task, which trio cancels when its run ends.
- Threads without a loop: their ops belong to the orphans, a native loop that nobody
  parks on. It is drained by whoever comes along: a reactor that wakes, the next
  enqueueing thread, `statistics()`, closing. It is also the heir of reactors whose loop
  has closed.
"""

# ruff: noqa: SLF001 - its other half is completion.Operation

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from aiocann.ledger import in_flight
from aiocann.native import NULL, ffi, last_error, lib

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aiocann.completion import Operation

# Ops taken from the native list at once, and before other callbacks get a turn.
_BATCH = 512
_BUDGET = 4096
#: Awaits of finished ops in a row before the loop gets a turn.
MAX_SPINS = 64

_loop_drain = lib.aiocann_loop_drain
_unpack = ffi.unpack
_memmove = ffi.memmove
_ID_BYTES = 8
_ZEROS = bytes(_ID_BYTES * _BATCH)


def _create_loop(fd: int) -> Any:
    loop = lib.aiocann_loop_create(fd)
    if loop == NULL:
        raise last_error()
    return loop


def _watch(pointer: Any, loop: Any) -> bool:
    """Have an op delivered to a native loop. False: it has settled already."""
    code = lib.aiocann_op_watch(pointer, loop)
    if code < 0:
        raise last_error()
    return not code


class _Intake:
    """Ids that were taken from a native loop, until their ops have been delivered.

    Ctrl-C may strike between any two instructions. So an id is always in the buffer,
    which is empty where it holds zeros, or in `pending`; for a moment in both, as to
    deliver an op twice does no harm.
    """

    __slots__ = ("_ids", "pending")

    def __init__(self) -> None:
        self._ids = ffi.new("uint64_t[]", _BATCH)
        self.pending: deque[int] = deque()

    def take(self, loop: Any) -> int:
        """Move at most a batch of ids from a native loop; return how many."""
        ids = self._ids
        if ids[0]:  # interrupted before they were noted
            self.pending.extend(itertools.takewhile(bool, ids))
            _memmove(ids, _ZEROS, _ID_BYTES * _BATCH)
        taken: int = _loop_drain(loop, ids, _BATCH)
        self.pending.extend(_unpack(ids, taken))
        _memmove(ids, _ZEROS, _ID_BYTES * taken)
        return taken


class Home:
    """Where the ops of an enqueueing thread are delivered."""

    __slots__ = ("is_live", "loop")

    def __init__(self, loop: Any, *, is_live: bool) -> None:
        self.loop = loop
        #: Whether completions are still taken by their own reactor.
        self.is_live = is_live


class Reactor(Home, ABC):
    """Delivers completions to one event loop. Used on that loop's thread only."""

    __slots__ = (
        "__weakref__",
        "_fd_lock",
        "_intake",
        "_now",
        "fd",
        "foreign",
        "posted",
        "spins",
        "thread_id",
    )

    is_asyncio = True

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Reentrant: a finaliser may close this reactor in the middle of a post.
        self._fd_lock = threading.RLock()
        try:
            super().__init__(_create_loop(self.fd), is_live=True)
        except BaseException:
            os.close(self.fd)
            raise
        self._intake = _Intake()
        #: Ops of other homes that are awaited here. Kept until they are delivered.
        self.foreign: dict[int, Operation[Any]] = {}
        #: Ids of ops that another thread finished in Python (`host_call`).
        self.posted: deque[int] = deque()
        # The id that is being delivered; 0: none.
        self._now = 0
        #: Awaits of finished ops since this loop last had a turn.
        self.spins = 0
        #: The thread of the loop.
        self.thread_id = threading.get_ident()

    def drain(self) -> bool:
        """Settle what has completed. True: there may be more, and the eventfd says so.

        Whatever interrupts it (ctrl-C), nothing is lost, and the eventfd is written.
        """
        # A host_call that looks at an op drains inside of a drain.
        outer, self._now = self._now, 0
        try:
            return self._drain()
        except BaseException as exc:
            # An Exception is a bug of ours: not for the same op for ever.
            if self._now and not isinstance(exc, Exception):
                self._intake.pending.appendleft(self._now)
            self.come_again()
            raise
        finally:
            self._now = outer

    def _drain(self) -> bool:
        pending, take, posted = self._intake.pending, self._intake.take, self.posted
        while posted:
            pending.append(posted[0])
            posted.popleft()
        foreign, budget = self.foreign, _BUDGET
        while True:
            taken = take(self.loop)
            while pending:
                op_id = self._now = pending[0]
                pending.popleft()
                if foreign and op_id in foreign:
                    foreign[op_id]._delivered_foreign(self)
                    foreign.pop(op_id, None)
                else:
                    op = in_flight.get(op_id)
                    if op is not None:
                        op._delivered(self)
                        in_flight.pop(op_id, None)
                self._now = 0
            if taken < _BATCH:
                orphans.drain()
                return False
            budget -= taken
            if budget <= 0:
                self.come_again()
                return True

    def come_again(self) -> None:
        """Write the eventfd, from any thread."""
        with self._fd_lock:  # once closed, the number may be another file's
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    @abstractmethod
    def call_soon(self, fn: Callable[[], object]) -> bool:
        """Have the loop call `fn`, from any thread. False: it has closed."""

    def readable(self) -> None:
        """Drain, as the eventfd says that there is something."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        self.drain()

    def linger(self) -> None:
        """Wait a moment for completions, if nothing else could run meanwhile."""

    def post(self, op: Operation[Any]) -> None:
        """Deliver an op from another thread."""
        self.posted.append(op.id)
        self.come_again()

    def watch(self, op: Operation[Any], pointer: Any) -> bool:
        """Ask for the completion of an op of another home. False: it has settled."""
        if op.id in self.foreign:
            return True
        self.foreign[op.id] = op
        watching = False
        try:
            watching = _watch(pointer, self.loop)
        finally:
            if not watching:
                del self.foreign[op.id]
        return watching

    def close(self) -> None:
        """Give up: what is still in flight goes to the orphans. Idempotent."""
        if not self.is_live:
            return
        self.is_live = False
        lib.aiocann_loop_close(self.loop, orphans.native())
        lib.aiocann_loop_release(self.loop)
        self.loop = NULL
        for op in self.foreign.values():
            op._forget_reactor(self)
        self.foreign.clear()
        with self._fd_lock:
            fd, self.fd = self.fd, -1
        os.close(fd)
        pending = self._intake.pending
        pending.extend(self.posted)
        while pending:  # taken, but not delivered when the loop stopped
            orphans.deliver(pending[0])
            pending.popleft()

    # What differs between event loops.

    @abstractmethod
    def waiter(self) -> Any:
        """Make what stands for the current task while it waits."""

    @abstractmethod
    def wake(self, waiters: list[Any]) -> None:
        """Resume the tasks behind `waiters`."""

    @abstractmethod
    def needs_turn(self) -> bool:
        """Whether an await of a finished op must give the loop a turn first."""

    @abstractmethod
    def turn(self) -> Generator[Any, Any, None]:
        """Give the loop a turn, in which cancellation is delivered."""


class _Orphans(Home):
    """The ops of threads without a loop, and of loops that have closed."""

    __slots__ = ("_drain_lock", "_intake", "_native")

    def __init__(self) -> None:
        # NULL: an orphan is enqueued without a home and watched once it is in the
        # ledger; else another thread could drain its id before it is there.
        super().__init__(NULL, is_live=False)
        self._native: Any = None
        self._intake = _Intake()
        self._drain_lock = threading.Lock()

    def native(self) -> Any:
        """Return the native loop, which lives as long as the process."""
        if self._native is None:
            with self._drain_lock:
                if self._native is None:
                    self._native = _create_loop(-1)
        return self._native

    def adopt(self, op: Operation[Any], pointer: Any) -> None:
        """See to the delivery of an op that was enqueued without a home."""
        if not _watch(pointer, self.native()):
            self.deliver(op.id)
        self.drain()

    def deliver(self, op_id: int) -> None:
        """Settle one op, unless it is not, or no longer, an orphan."""
        op = in_flight.get(op_id)
        # A live home takes its own; here arrived the watch of a loop that closed.
        if op is None or op._home.is_live:
            return
        if in_flight.pop(op_id, None) is not None:  # one thread of several
            op._delivered(None)

    def drain(self) -> None:
        """Settle the orphans that have completed. Any thread."""
        if self._native is None or self._drain_lock.locked():
            return  # someone else is at it
        with self._drain_lock:
            pending = self._intake.pending
            while True:
                taken = self._intake.take(self._native)
                while pending:
                    self.deliver(pending[0])
                    pending.popleft()
                if taken < _BATCH:
                    return


orphans = _Orphans()
