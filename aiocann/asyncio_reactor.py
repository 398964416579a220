"""The reactor of an asyncio loop, uvloop's too."""

# ruff: noqa: SLF001 - neither asyncio nor anyio tells it in public

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from aiocann.native import lib
from aiocann.reactor import MAX_SPINS, Reactor

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator

# What an await that lingered counts for among awaits of finished ops.
_LINGER_SPINS = 8
# Lingering pays where it takes the core from nobody: the lane, for one, is at work.
_CAN_LINGER = (os.cpu_count() or 1) >= 4

_loop_linger = lib.aiocann_loop_linger

by_loop: dict[int, AsyncioReactor] = {}


def _no_scopes(_: Any) -> bool:
    return False


def _scope_check() -> Callable[[Any], bool]:
    """Return how to see that an anyio cancel scope around a task was cancelled.

    The public way (`anyio.current_effective_deadline`) takes microseconds, more than
    the rest of an await of a finished op; so it is only the fallback.
    """
    backend = sys.modules.get("anyio._backends._asyncio")
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
    """Wakes tasks through futures."""

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
        if self._ready is None or self._ready or self.spins >= MAX_SPINS:
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
                self.come_again()

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
        if self.spins >= MAX_SPINS:
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
        for key, reactor in list(by_loop.items()):
            if reactor is self:
                by_loop.pop(key, None)


def attach(loop: asyncio.AbstractEventLoop) -> AsyncioReactor:
    """Make the reactor of a running loop."""
    # Should a loop have closed without dropping its reader, this finds it.
    for key, stale in list(by_loop.items()):
        other = stale.loop_ref()
        if other is None or other.is_closed():
            by_loop.pop(key, None)
            stale.close()
    reactor = by_loop[id(loop)] = AsyncioReactor(loop)
    return reactor
