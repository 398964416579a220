"""Which event loop runs here, and where its completions arrive."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from aiocann.asyncio_reactor import AsyncioReactor, attach, by_loop
from aiocann.errors import ForkError
from aiocann.reactor import Home, Reactor, orphans
from aiocann.trio_reactor import by_token, reactor_here, see_trio, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_get_running_loop = asyncio._get_running_loop  # noqa: SLF001 - None, not an error
_modules = sys.modules
_in_trio_task: Callable[[], bool] | None = None
_forked = False
_watching_forks = False

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
    global _in_trio_task
    if _forked:
        raise_forked()
    if _in_trio_task is None:
        if "trio" in _modules:
            _in_trio_task = see_trio()
    elif _in_trio_task():
        return reactor_here()
    remembered = _remembered.get()
    if remembered is not None and remembered[0] == _get_ident():
        reactor = remembered[1]
        running = reactor.loop_ref()
        if reactor.is_live and running is not None and running.is_running():
            return reactor
    loop = _get_running_loop()
    if loop is None:
        return orphans
    found = by_loop.get(id(loop))
    if found is None or found.loop_ref() is not loop or not found.is_live:
        found = attach(loop)
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


def run_in_background(
    fn: Callable[[], Coroutine[Any, Any, None]], done: Callable[[], None]
) -> None:
    """Run ``fn()`` in a task of its own, beside whatever the caller is part of.

    It must not raise but for its own cancellation. `done` is called at its end, also
    where asyncio has cancelled it before it began.
    """
    if _in_trio_task is not None and _in_trio_task():

        async def run() -> None:
            try:
                await fn()
            finally:
                done()

        spawn(run, contextvars.copy_context())
        return

    def discard(task: asyncio.Task[None]) -> None:
        _background.discard(task)
        done()

    task = asyncio.get_running_loop().create_task(fn())
    _background.add(task)  # a loop keeps only weak references
    task.add_done_callback(discard)


def drain_here() -> None:
    """Settle what this thread's loop, and loops that are gone, have not taken yet."""
    home = current_home()
    if isinstance(home, Reactor):
        while home.drain():
            pass
    else:
        orphans.drain()


def reactors() -> list[Reactor]:
    """Return those that are attached to a loop."""
    return [*list(by_loop.values()), *list(by_token.values())]


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
