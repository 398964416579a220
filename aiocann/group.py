"""`DeviceGroup`: several devices under one task group."""

# ruff: noqa: SLF001 - a map is a part of its group

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import anyio

from aiocann.completion import Interruption, settled
from aiocann.errors import AiocannError, ClosedResourceError, usage
from aiocann.logs import log
from aiocann.results import Results, Work

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import TaskGroup

    from aiocann.device import Device

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

__all__ = ["DeviceGroup"]

T = TypeVar("T")
R = TypeVar("R")


class _Slot(Generic[R]):
    """The place of one item's result, in order."""

    __slots__ = ("done", "has_result", "result")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.has_result = False
        self.result: R


class _Load:
    """A device, and how many items it works on."""

    __slots__ = ("device", "running", "started")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.running = 0
        self.started = 0


@final
class DeviceGroup:
    """Tasks on several devices, all done, or stopped together, when it is left.

    ``async with DeviceGroup(rt.devices) as group``. The first failure cancels the waits
    of the others; leaving then drains the devices and raises an `ExceptionGroup` that
    names the devices that failed.

    Parameters
    ----------
    devices : sequence of Device
        Those to use.
    max_in_flight : int
        How many items `map` has on a device at once.
    """

    def __init__(self, devices: Sequence[Device], *, max_in_flight: int = 4) -> None:
        self.devices = tuple(devices)
        if not self.devices:
            raise usage("a DeviceGroup needs at least one device")
        if max_in_flight < 1:
            raise usage(f"max_in_flight must be at least 1, not {max_in_flight}")
        self.max_in_flight = max_in_flight
        self._tasks: TaskGroup | None = None
        self._loads = [_Load(device) for device in self.devices]
        self._failures: list[tuple[Device, BaseException]] = []
        self._maps: set[_Map[Any]] = set()

    async def __aenter__(self) -> DeviceGroup:
        if self._tasks is not None:
            raise RuntimeError("this DeviceGroup was used already: make another")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        tasks = self._tasks
        assert tasks is not None
        # A map that was not read to its end is not wanted any more.
        for one in tuple(self._maps):
            one.stop()
        try:
            handled = await tasks.__aexit__(exc_type, exc, traceback)
        except BaseExceptionGroup as group:
            await self._drain(report=False, because=group)
            raise self._named(group) from None
        except BaseException as failure:
            await self._drain(report=False, because=failure)
            raise
        await self._drain(report=True)
        return handled

    def cancel(self) -> None:
        """Cancel the tasks of the group; leaving it still drains the devices."""
        self._started().cancel_scope.cancel()

    def _named(self, group: BaseExceptionGroup[Any]) -> BaseExceptionGroup[Any]:
        """Return the same failures under a message that names the devices."""
        by_device: dict[int, BaseException] = {}
        for device, failure in self._failures:
            by_device.setdefault(device.index, failure)
        if not by_device:
            return group
        told = "; ".join(
            f"device {index}: {type(failure).__name__}: {failure}"
            for index, failure in sorted(by_device.items())
        )
        named: BaseExceptionGroup[Any] = BaseExceptionGroup(told, group.exceptions)
        return named.with_traceback(group.__traceback__)

    async def _drain(
        self, *, report: bool, because: BaseException | None = None
    ) -> None:
        """Wait for what is enqueued on the devices' backends."""
        first: BaseException | None = None
        interruption = Interruption(because)
        for device in self.devices:
            if device.runtime.closed:
                continue
            try:
                op = device.backend().synchronize()
                if not await settled(op, device.runtime.close_timeout, interruption):
                    log.error("%r still had work when its group was left", device)
                    continue
                op.result()
            except AiocannError as exc:
                first = first or exc
                if not report:
                    log.debug("%r drained with an error", device, exc_info=True)
        interruption.release(first)
        if report and first is not None:
            try:
                raise first
            finally:
                del first  # its traceback has this frame: a cycle

    def _started(self) -> TaskGroup:
        if self._tasks is None:
            raise RuntimeError("enter the group first: async with DeviceGroup(...)")
        return self._tasks

    def _claim(self, device: Device | None = None) -> _Load:
        """Count a task for a device, or that with the least to do.

        Of equals, it is the least used so far.
        """
        if device is None:
            load = min(self._loads, key=lambda load: (load.running, load.started))
        else:
            found = [load for load in self._loads if load.device is device]
            if not found:
                raise usage(f"{device!r} is not one of the group's devices")
            load = found[0]
        load.running += 1
        load.started += 1
        return load

    def start_soon(
        self,
        fn: Callable[..., Awaitable[Any]],
        *args: Any,
        device: Device | None = None,
    ) -> None:
        """Run ``fn(device, *args)`` as a task of the group.

        Parameters
        ----------
        fn : async callable
            Its first argument is the device.
        *args
            Further arguments.
        device : Device, optional
            One of the group's; by default the one with the least to do.
        """
        tasks = self._started()
        load = self._claim(device)
        tasks.start_soon(self._run, load, fn, args)

    async def _run(
        self, load: _Load, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> Any:
        try:
            return await fn(load.device, *args)
        except BaseException as exc:
            if failure := _failure_in(exc):
                self._failures.append((load.device, failure))
            raise
        finally:
            load.running -= 1

    def map(
        self,
        fn: Callable[[Device, T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
    ) -> Results[R]:
        """Iterate over ``fn(device, item)`` of every item, in the items' order.

        Items go to the device with the least to do, at most `max_in_flight` at once on
        each, and are taken from `items` only as there is room. Results that are ready
        early wait for their turn; no more than twice what can be in flight.

        Parameters
        ----------
        fn : async callable
            Called with a device and an item.
        items : iterable or async iterable
            Read in a task of the group.
        """
        return Results(_Map(self, fn, items))


class _Map(Work[R]):
    """One run of `DeviceGroup.map`, in tasks of the group."""

    def __init__(
        self,
        group: DeviceGroup,
        fn: Callable[[Device, T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
    ) -> None:
        room = len(group.devices) * group.max_in_flight
        self._group = group
        self._tasks = group._started()
        self._fn = fn
        self._items = items
        self._running = anyio.Semaphore(room)
        self._waiting = anyio.Semaphore(2 * room)
        self._slots: deque[_Slot[R]] = deque()
        self._more = anyio.Event()
        self._has_ended = self._is_stopped = False
        self._feeding = anyio.CancelScope()
        self._scopes = {self._feeding}

    def start(self) -> None:
        self._group._maps.add(self)
        self._tasks.start_soon(self._feed)

    def stop(self) -> None:
        self._is_stopped = True  # for those that have not begun yet
        for scope in tuple(self._scopes):
            scope.cancel()
        self._group._maps.discard(self)

    async def _work(self, slot: _Slot[R], load: _Load, item: Any) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if self._is_stopped:
                    load.running -= 1
                    return
                slot.result = await self._group._run(load, self._fn, (item,))
                slot.has_result = True
            finally:
                slot.done.set()
                self._scopes.discard(scope)
                self._running.release()

    async def _feed(self) -> None:
        with self._feeding:
            async with contextlib.aclosing(each(self._items)) as source:
                async for item in source:
                    await self._waiting.acquire()
                    await self._running.acquire()
                    load = self._group._claim()
                    slot: _Slot[R] = _Slot()
                    self._slots.append(slot)
                    self._tasks.start_soon(self._work, slot, load, item)
                    self._news()
        self._has_ended = True
        self._news()

    def _news(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def next(self) -> R:
        while not self._slots:
            if self._has_ended:
                raise StopAsyncIteration
            await self._more.wait()
        slot = self._slots.popleft()
        await slot.done.wait()
        if not slot.has_result:
            # It may have been told of a cancellation sooner than we.
            await anyio.lowlevel.checkpoint()
            raise ClosedResourceError(
                "an item of this map failed or was cancelled, so there are no "
                "more results; leaving the group tells why"
            )
        self._waiting.release()
        return slot.result


def _failure_in(exc: BaseException) -> BaseException | None:
    """Return the first failure that an exception tells of, if it is not cancelled."""
    if isinstance(exc, BaseExceptionGroup):
        # Trio adds the cancellations that a failure has caused.
        return next(filter(None, map(_failure_in, exc.exceptions)), None)
    return exc if isinstance(exc, Exception) else None


async def each(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
