"""`Results`: what work of several tasks gives, as it comes.

Not an asynchronous generator: one that is left early is closed at some time later, by
whatever its loop has for that, and trio objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar, final

import anyio

from aiocann.loops import current_reactor

if TYPE_CHECKING:
    from types import TracebackType

    from aiocann.reactor import Reactor

__all__ = ["Results"]

R = TypeVar("R")


class Work(ABC, Generic[R]):
    """What gives the results. It must not refer to the `Results`, which stop it."""

    @abstractmethod
    def start(self) -> None:
        """Begin, as the first result is asked for."""

    @abstractmethod
    async def next(self) -> R:
        """Return the next result, or raise `StopAsyncIteration` or what has failed."""

    @abstractmethod
    def stop(self) -> None:
        """Cancel what is not done yet. No more results are asked for."""

    async def join(self, because: BaseException | None) -> None:
        """Wait for what was cancelled, if it is not for another to do so."""


@final
class Results(AsyncIterator[R]):
    """Iterate once, ``async for``, in one task. What is not wanted is cancelled.

    The work begins when the first result is asked for. It is cancelled by `aclose`, by
    leaving ``async with``, by an exception in ``async for``'s own waiting, and when the
    object is dropped; only the last does not wait for it.
    """

    __slots__ = ("__weakref__", "_is_over", "_is_reading", "_reactor", "_work")

    def __init__(self, work: Work[R]) -> None:
        self._is_over = self._is_reading = False
        self._reactor: Reactor | None = None
        self._work = work

    def __aiter__(self) -> Results[R]:
        return self

    async def __anext__(self) -> R:
        if self._is_over:
            raise StopAsyncIteration
        if self._is_reading:
            raise anyio.BusyResourceError("reading from")
        if self._reactor is None:
            self._reactor = current_reactor()
            self._work.start()
        self._is_reading = True
        try:
            return await self._work.next()
        except BaseException as exc:
            await self._close(exc)
            raise
        finally:
            self._is_reading = False

    async def aclose(self) -> None:
        """Cancel what is not done yet, and wait for it."""
        await self._close(None)

    async def _close(self, because: BaseException | None) -> None:
        is_over, self._is_over = self._is_over, True
        if not is_over and self._reactor is not None:
            self._work.stop()
            await self._work.join(because)

    async def __aenter__(self) -> Results[R]:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(exc)

    def __del__(self) -> None:
        # By whatever thread drops the last reference, or collects garbage.
        if not self._is_over and self._reactor is not None:
            self._reactor.call_soon(self._work.stop)
