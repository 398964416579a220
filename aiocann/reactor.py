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

# ruff: noqa: SLF001 - its other half is completion.Operation; and anyio has no public way

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from aiocann.errors import ForkError
from aiocann.ledger import in_flight
from aiocann.native import NULL, ffi, last_error, lib

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from aiocann.completion import Operation

# Awaits of finished ops in a row before the loop gets a turn.
_MAX_SPINS = 64
# Ops taken from the native list at once, and before other callbacks get a turn.
_BATCH = 512
_BUDGET = 4096

# What an await that lingered counts for among awaits of finished ops.
_LINGER_SPINS = 8
# Lingering pays where it takes the core from nobody: the lane, for one, is at work.
_CAN_LINGER = (os.cpu_count() or 1) >= 4

_loop_drain = lib.aiocann_loop_drain
_loop_linger = lib.aiocann_loop_linger
_unpack = ffi.unpack
_memmove = ffi.memmove
_ID_BYTES = 8
_ZEROS = bytes(_ID_BYTES * _BATCH)
_get_running_loop = asyncio._get_running_loop
_modules = sys.modules


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


class Reactor(Home):
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
            self._come_again()
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
                self._come_again()
                return True

    def _come_again(self) -> None:
        with self._fd_lock:  # once closed, the number may be another file's
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    def call_soon(self, fn: Callable[[], object]) -> bool:
        """Have the loop call `fn`, from any thread. False: it has closed."""
        raise NotImplementedError

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
        self._come_again()

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

    def waiter(self) -> Any:
        """Make what stands for the current task while it waits."""
        raise NotImplementedError

    def wake(self, waiters: list[Any]) -> None:
        """Resume the tasks behind `waiters`."""
        raise NotImplementedError

    def needs_turn(self) -> bool:
        """Whether an await of a finished op must give the loop a turn first."""
        raise NotImplementedError

    def turn(self) -> Generator[Any, Any, None]:
        """Give the loop a turn, in which cancellation is delivered."""
        raise NotImplementedError


def _no_scopes(_: Any) -> bool:
    return False


def _scope_check() -> Callable[[Any], bool]:
    """Return how to see that an anyio cancel scope around a task was cancelled.

    The public way (`anyio.current_effective_deadline`) takes microseconds, more than
    the rest of an await of a finished op; so it is only the fallback.
    """
    backend = _modules.get("anyio._backends._asyncio")
    if backend is None:
        return _no_scopes
    states = getattr(backend, "_task_states", None)
    if states is None:
        import anyio

        def ask_anyio(_: Any) -> bool:
            return anyio.current_effective_deadline() == float("-inf")

        return ask_anyio

    def walk(task: Any) -> bool:
        state = states.get(task)
        scope = None if state is None else state.cancel_scope
        while scope is not None:
            if scope.cancel_called:
                return True
            if scope.shield:
                return False
            scope = scope._parent_scope
        return False

    return walk


class _Readable:
    """The reader's callback. The loop owns the only reference: see `__del__`."""

    __slots__ = ("reactor",)

    def __init__(self, reactor: AsyncioReactor) -> None:
        self.reactor = reactor

    def __call__(self) -> None:
        if self.reactor.is_live:
            self.reactor.readable()

    def __del__(self) -> None:
        # A loop that closes drops its readers: the one sign of it that needs no patch.
        self.reactor.close()


class AsyncioReactor(Reactor):
    """The reactor of an asyncio loop, uvloop's too."""

    __slots__ = ("_is_cancelled", "_ready", "loop_ref")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop_ref = weakref.ref(loop)
        self._is_cancelled: Callable[[Any], bool] = _no_scopes
        #: What the loop has still to run in this turn; None where it does not say.
        self._ready: deque[Any] | None = (
            getattr(loop, "_ready", None) if _CAN_LINGER else None
        )
        loop.add_reader(self.fd, _Readable(self))

    def call_soon(self, fn: Callable[[], object]) -> bool:
        """See `Reactor`."""
        loop = self.loop_ref()
        try:
            if loop is not None and loop.is_running():
                loop.call_soon_threadsafe(fn)
                return True
        except RuntimeError:
            pass  # closed just now
        return False

    def linger(self) -> None:
        """See `Reactor`."""
        if self._ready is None or self._ready or self.spins >= _MAX_SPINS:
            return
        self.spins += _LINGER_SPINS
        is_armed = False
        try:
            is_armed = not _loop_linger(self.loop)
            if not is_armed:
                self.drain()
                is_armed = True
        finally:
            if not is_armed:
                self._come_again()

    def waiter(self) -> asyncio.Future[None]:
        """See `Reactor`."""
        loop = self.loop_ref()
        assert loop is not None  # it is running
        return loop.create_future()

    def wake(self, waiters: list[asyncio.Future[None]]) -> None:
        """See `Reactor`."""
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def needs_turn(self) -> bool:
        """See `Reactor`."""
        self.spins += 1
        if self.spins >= _MAX_SPINS:
            self.spins = 0
            return True
        task = asyncio.current_task(self.loop_ref())
        if getattr(task, "_must_cancel", False):
            return True
        if self._is_cancelled is _no_scopes:  # anyio may have come in since
            self._is_cancelled = _scope_check()
        return self._is_cancelled(task)

    def turn(self) -> Generator[Any, Any, None]:
        """See `Reactor`."""
        while True:
            yield
            task = asyncio.current_task(self.loop_ref())
            if not self._is_cancelled(task):
                return

    def close(self) -> None:
        """See `Reactor`."""
        super().close()
        for key, reactor in list(_by_loop.items()):
            if reactor is self:
                _by_loop.pop(key, None)


class TrioReactor(Reactor):
    """The reactor of a trio run."""

    __slots__ = ("_token",)

    is_asyncio = False

    def __init__(self, token: Any) -> None:
        super().__init__()
        self._token = token
        _lowlevel().spawn_system_task(self._run, name="aiocann reactor")

    async def _run(self) -> None:
        trio = _lowlevel()
        try:
            while True:
                await trio.wait_readable(self.fd)
                self.readable()
        finally:
            _by_token.pop(self._token, None)
            self.close()

    def call_soon(self, fn: Callable[[], object]) -> bool:
        """See `Reactor`."""
        try:
            self._token.run_sync_soon(fn)
        except RuntimeError:
            return False  # trio.RunFinishedError
        return True

    def waiter(self) -> Any:
        """See `Reactor`."""
        return _lowlevel().current_task()

    def wake(self, waiters: list[Any]) -> None:
        """See `Reactor`."""
        reschedule = _lowlevel().reschedule
        for task in waiters:
            reschedule(task)

    def block(self, forget: Callable[[], None]) -> Generator[Any, Any, None]:
        """Park the current task. `forget` must drop its waiter at once."""
        trio = _lowlevel()

        def abort(_: Any) -> Any:
            forget()
            return trio.Abort.SUCCEEDED

        yield from trio.wait_task_rescheduled(abort).__await__()

    def needs_turn(self) -> bool:
        """See `Reactor`."""
        self.spins += 1
        return True

    def turn(self) -> Generator[Any, Any, None]:
        """See `Reactor`."""
        trio = _lowlevel()
        if self.spins >= _MAX_SPINS:
            self.spins = 0
            yield from trio.checkpoint().__await__()
        else:
            yield from trio.checkpoint_if_cancelled().__await__()


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

_by_loop: dict[int, AsyncioReactor] = {}
_by_token: dict[Any, TrioReactor] = {}
_in_trio_task: Callable[[], bool] | None = None
_trio_lowlevel: Any = None
_forked = False
_watching_forks = False


def _lowlevel() -> Any:
    return _trio_lowlevel


def _see_trio() -> None:
    global _in_trio_task, _trio_lowlevel
    lowlevel: Any = getattr(_modules.get("trio"), "lowlevel", None)
    if hasattr(lowlevel, "in_trio_task"):  # else trio is still being imported
        _trio_lowlevel = lowlevel
        _in_trio_task = lowlevel.in_trio_task


# Before Python 3.12, asking for the running loop costs a system call (for the process's
# id). So a task's context remembers its reactor, with the thread that this held for.
_IS_ASKING_CHEAP = sys.version_info >= (3, 12)
_remembered: contextvars.ContextVar[tuple[int, AsyncioReactor] | None] = (
    contextvars.ContextVar("aiocann_reactor", default=None)
)
_get_ident = threading.get_ident


def current_home() -> Home:
    """Return where ops that this thread enqueues now are delivered.

    Raises
    ------
    ForkError
        In a child of a process that had opened a runtime.
    """
    if _forked:
        raise_forked()
    if _in_trio_task is None:
        if "trio" in _modules:
            _see_trio()
    elif _in_trio_task():
        return _trio_reactor()
    remembered = _remembered.get()
    if remembered is not None and remembered[0] == _get_ident():
        reactor = remembered[1]
        running = reactor.loop_ref()
        if reactor.is_live and running is not None and running.is_running():
            return reactor
    loop = _get_running_loop()
    if loop is None:
        return orphans
    found = _by_loop.get(id(loop))
    if found is None or found.loop_ref() is not loop or not found.is_live:
        found = _attach(loop)
    if not _IS_ASKING_CHEAP:
        _remembered.set((_get_ident(), found))
    return found


def current_reactor() -> Reactor:
    """Return the reactor of the running loop.

    Raises
    ------
    RuntimeError
        No asyncio or trio loop runs in this thread.
    """
    home = current_home()
    if not isinstance(home, Reactor):
        raise RuntimeError("await needs a running asyncio, uvloop or trio loop")
    return home


_background: set[asyncio.Task[None]] = set()


def run_in_background(fn: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``fn()`` in a task of its own, beside whatever the caller is part of.

    It must not raise but for its own cancellation.
    """
    if _in_trio_task is not None and _in_trio_task():
        context = contextvars.copy_context()
        _lowlevel().spawn_system_task(fn, context=context)
        return
    task = asyncio.get_running_loop().create_task(fn())
    _background.add(task)  # a loop keeps only weak references
    task.add_done_callback(_background.discard)


def drain_here() -> None:
    """Settle what this thread's loop, and loops that are gone, have not taken yet."""
    home = current_home()
    if isinstance(home, Reactor):
        while home.drain():
            pass
    else:
        orphans.drain()


def _attach(loop: asyncio.AbstractEventLoop) -> AsyncioReactor:
    # Should a loop have closed without dropping its reader, this finds it.
    for key, stale in list(_by_loop.items()):
        other = stale.loop_ref()
        if other is None or other.is_closed():
            _by_loop.pop(key, None)
            stale.close()
    reactor = _by_loop[id(loop)] = AsyncioReactor(loop)
    return reactor


def _trio_reactor() -> TrioReactor:
    token = _trio_lowlevel.current_trio_token()
    reactor = _by_token.get(token)
    if reactor is None:
        reactor = _by_token[token] = TrioReactor(token)
    return reactor


def reactors() -> list[Reactor]:
    """Return those that are attached to a loop."""
    return [*list(_by_loop.values()), *list(_by_token.values())]


def reactor_count() -> int:
    """Count the reactors that are attached to a loop."""
    return len(reactors())


def watch_forks() -> None:
    """From now on, a forked child refuses to use the runtime."""
    global _watching_forks
    if not _watching_forks:
        _watching_forks = True
        orphans.native()  # made here, as finalisers of reactors need it
        os.register_at_fork(after_in_child=_in_child)


def _in_child() -> None:
    global _forked
    _forked = True


def raise_forked() -> None:
    """Raise `ForkError` in a forked child."""
    if _forked:
        raise ForkError(
            "an aiocann runtime was opened before this process was forked; its threads "
            "and devices belong to the parent. Open it in the child only, or start the "
            "child with multiprocessing's 'spawn' or 'forkserver' method"
        )
