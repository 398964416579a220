"""`Pipeline`: items that stream through stages on several devices."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import anyio

from aiocann.errors import usage
from aiocann.group import DeviceGroup, each

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
    and raises an `ExceptionGroup` that names the device. To stop early, close the
    iterator: ``async with contextlib.aclosing(pipeline(xs)) as results``.
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
        devices = tuple(dict.fromkeys(stage.device for stage in self.stages))
        async with DeviceGroup(devices) as group:
            send, receive = anyio.create_memory_object_stream[Any](self.depth)
            first = self.stages[0].device
            group.start_soon(_feed, items, send, device=first)
            for stage in self.stages:
                send, outlet = anyio.create_memory_object_stream[Any](self.depth)
                group.start_soon(self._work, stage, receive, send, device=stage.device)
                receive = outlet
            async with receive:
                try:
                    async for result in receive:
                        yield result
                except GeneratorExit:
                    # Closed early: this is no failure for the group to report.
                    group.cancel()

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

        async with inbox, enter, anyio.create_task_group() as tasks:
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
