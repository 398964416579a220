"""The reactor of a trio run. Trio is imported by whoever uses it, not here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from aiocann.reactor import MAX_SPINS, Reactor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

by_token: dict[Any, TrioReactor] = {}
_trio: Any = None


def _lowlevel() -> Any:
    return _trio


def see_trio() -> Callable[[], bool] | None:
    """Return ``trio.lowlevel.in_trio_task``, once trio has been imported."""
    global _trio
    lowlevel: Any = getattr(sys.modules.get("trio"), "lowlevel", None)
    if not hasattr(lowlevel, "in_trio_task"):
        return None  # or it is still being imported
    _trio = lowlevel
    found: Callable[[], bool] = lowlevel.in_trio_task
    return found


class TrioReactor(Reactor):
    """Wakes tasks by rescheduling them."""

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
            by_token.pop(self._token, None)
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
        if self.spins >= MAX_SPINS:
            self.spins = 0
            yield from trio.checkpoint().__await__()
        else:
            yield from trio.checkpoint_if_cancelled().__await__()


def reactor_here() -> TrioReactor:
    """Return the reactor of the running trio."""
    token = _lowlevel().current_trio_token()
    reactor = by_token.get(token)
    if reactor is None:
        reactor = by_token[token] = TrioReactor(token)
    return reactor


def spawn(fn: Callable[[], Any], context: Any) -> None:
    """Run an async function in a system task."""
    _lowlevel().spawn_system_task(fn, context=context)
