"""`Pipeline`: items that stream through stages on several devices."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import anyio

from aiocann import ending
from aiocann.errors import usage
from aiocann.group import DeviceGroup, each
from aiocann.loops import run_in_background

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Awaitable,
        Callable,
        Iterable,
    )

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from aiocann.device import Device

__all__ = ["Pipeline", "Stage"]

R = TypeVar("R")


class Stage(NamedTuple):
    """A step: ``await fn(device, item)`` gives what the next one gets."""

    fn: Callable[[Device, Any], Awaitable[Any]]
    device: Device


class _Place(Generic[R]):
    """An item's place in a stage's output."""

    __slots__ = ("done", "result")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.result: R


class Pipeline:
    """Stages that work on one item each at once: ``async for out in pipeline(xs)``.

    Parameters
    ----------
    stages : iterable of Stage
        In order. Several may share a device.
    depth : int
        Items that a stage works on at once, and that wait between two stages. With 2,
        the transfers of one item overlap the computation of another.

    Notes
    -----
    Results come in the items' order. A failure stops every stage, drains the devices
    and raises an `ExceptionGroup` that names the device. Leaving the loop early stops
    the stages when the iterator is closed; for that to happen at once, write
    ``async with contextlib.aclosing(pipeline(xs)) as results``.
    """

    def __init__(self, stages: Iterable[Stage], *, depth: int = 2) -> None:
        self.stages = tuple(Stage(*stage) for stage in stages)
        if not self.stages:
            raise usage("a Pipeline needs at least one Stage(fn, device)")
        if depth < 1:
            raise usage(f"depth must be at least 1, not {depth}")
        self.depth = depth

    async def __call__(
        self, items: Iterable[Any] | AsyncIterable[Any]
    ) -> AsyncGenerator[Any, None]:
        """Send `items` through the stages and yield what comes out."""
        # The stages run in a task of their own: a task group must not be open across
        # a yield, where the consumer's own scopes and exceptions cross it.
        results, outlet = anyio.create_memory_object_stream[Any](self.depth)
        scope, ended = anyio.CancelScope(), anyio.Event()
        failure: list[BaseException] = []

        async def run() -> None:
            try:
                with scope:
                    await self._run(items, results)
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as exc:
                failure.append(exc)
            finally:
                results.close()
                ended.set()

        run_in_background(run)
        try:
            async for result in outlet:
                yield result
        finally:
            scope.cancel()
            outlet.close()
            left = ending.seconds_left(sys.exc_info()[1])
            with anyio.CancelScope(deadline=anyio.current_time() + left, shield=True):
                await ended.wait()
        if failure:
            raise failure[0]

    async def _run(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        results: MemoryObjectSendStream[Any],
    ) -> None:
        devices = tuple(dict.fromkeys(stage.device for stage in self.stages))
        # The stack closes what stages that were cancelled unbegun have left open.
        with contextlib.ExitStack() as opened:

            def stream() -> tuple[
                MemoryObjectSendStream[Any], MemoryObjectReceiveStream[Any]
            ]:
                pair = anyio.create_memory_object_stream[Any](self.depth)
                for end in pair:
                    opened.callback(end.close)
                return pair

            async with DeviceGroup(devices) as group:
                outbox, inbox = stream()
                first = self.stages[0].device
                group.start_soon(_feed, items, outbox, device=first)
                for stage in self.stages[:-1]:
                    outbox, following = stream()
                    group.start_soon(
                        self._work, stage, inbox, outbox, device=stage.device
                    )
                    inbox = following
                stage = self.stages[-1]
                group.start_soon(self._work, stage, inbox, results, device=stage.device)

    async def _work(
        self,
        device: Device,
        stage: Stage,
        inbox: MemoryObjectReceiveStream[Any],
        outbox: MemoryObjectSendStream[Any],
    ) -> None:
        room = anyio.Semaphore(self.depth)
        enter, leave = anyio.create_memory_object_stream[_Place[Any]](self.depth)

        async def run(place: _Place[Any], item: Any) -> None:
            place.result = await stage.fn(device, item)
            place.done.set()

        async def emit() -> None:
            async with leave, outbox:
                async for place in leave:
                    await place.done.wait()
                    await outbox.send(place.result)
                    room.release()

        async with inbox, leave, enter, anyio.create_task_group() as tasks:
            tasks.start_soon(emit)
            async for item in inbox:
                await room.acquire()
                place: _Place[Any] = _Place()
                await enter.send(place)
                tasks.start_soon(run, place, item)
            enter.close()


async def _feed(
    _: Device,
    items: Iterable[Any] | AsyncIterable[Any],
    outlet: MemoryObjectSendStream[Any],
) -> None:
    async with outlet, contextlib.aclosing(each(items)) as source:
        async for item in source:
            await outlet.send(item)
