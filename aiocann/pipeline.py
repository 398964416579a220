"""`Pipeline`: items that stream through stages on several devices."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import anyio

from aiocann import ending
from aiocann.errors import usage
from aiocann.group import DeviceGroup, each
from aiocann.loops import run_in_background
from aiocann.results import Results, Work

if TYPE_CHECKING:
    from collections.abc import (
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


class _Flow(Work[Any]):
    """One run of a pipeline.

    The stages run in a task of their own: a task group must not be open across a
    result, where the consumer's own scopes and exceptions cross it.
    """

    def __init__(
        self, pipeline: Pipeline, items: Iterable[Any] | AsyncIterable[Any]
    ) -> None:
        self._pipeline = pipeline
        self._items = items
        self._failure: BaseException | None = None

    def start(self) -> None:
        depth = self._pipeline.depth
        self._inlet, self._outlet = anyio.create_memory_object_stream[Any](depth)
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        run_in_background(self._run, self._end)

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._flow()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:
            self._failure = exc

    def _end(self) -> None:
        self._inlet.close()
        self._ended.set()

    async def next(self) -> Any:
        try:
            return await self._outlet.receive()
        except anyio.EndOfStream:
            # A failure closes the last stage's end first, and is complete later.
            await self._ended.wait()
        failure, self._failure = self._failure, None
        try:
            raise failure or StopAsyncIteration
        finally:
            del failure  # its traceback has this frame: a cycle

    def stop(self) -> None:
        self._scope.cancel()
        self._outlet.close()

    async def join(self, because: BaseException | None) -> None:
        left = ending.seconds_left(because)
        with anyio.CancelScope(deadline=anyio.current_time() + left, shield=True):
            await self._ended.wait()

    async def _flow(self) -> None:
        stages, depth = self._pipeline.stages, self._pipeline.depth
        devices = tuple(dict.fromkeys(stage.device for stage in stages))
        # The stack closes what stages that were cancelled unbegun have left open.
        with contextlib.ExitStack() as opened:

            def stream() -> tuple[
                MemoryObjectSendStream[Any], MemoryObjectReceiveStream[Any]
            ]:
                pair = anyio.create_memory_object_stream[Any](depth)
                for end in pair:
                    opened.callback(end.close)
                return pair

            async with DeviceGroup(devices) as group:
                outbox, inbox = stream()
                first = stages[0].device
                group.start_soon(_feed, self._items, outbox, device=first)
                for stage in stages[:-1]:
                    outbox, following = stream()
                    group.start_soon(
                        self._work, stage, inbox, outbox, device=stage.device
                    )
                    inbox = following
                stage = stages[-1]
                group.start_soon(
                    self._work, stage, inbox, self._inlet, device=stage.device
                )

    async def _work(
        self,
        device: Device,
        stage: Stage,
        inbox: MemoryObjectReceiveStream[Any],
        outbox: MemoryObjectSendStream[Any],
    ) -> None:
        room = anyio.Semaphore(self._pipeline.depth)
        enter, leave = anyio.create_memory_object_stream[_Place[Any]](
            self._pipeline.depth
        )

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
    and raises an `ExceptionGroup` that names the device. A loop that is left early
    stops the stages; to wait until they have stopped, write
    ``async with pipeline(xs) as results``.
    """

    def __init__(self, stages: Iterable[Stage], *, depth: int = 2) -> None:
        self.stages = tuple(Stage(*stage) for stage in stages)
        if not self.stages:
            raise usage("a Pipeline needs at least one Stage(fn, device)")
        if depth < 1:
            raise usage(f"depth must be at least 1, not {depth}")
        self.depth = depth

    def __call__(self, items: Iterable[Any] | AsyncIterable[Any]) -> Results[Any]:
        """Send `items` through the stages; iterate over what comes out."""
        return Results(_Flow(self, items))


async def _feed(
    _: Device,
    items: Iterable[Any] | AsyncIterable[Any],
    outlet: MemoryObjectSendStream[Any],
) -> None:
    async with outlet, contextlib.aclosing(each(items)) as source:
        async for item in source:
            await outlet.send(item)
