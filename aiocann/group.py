"""`DeviceGroup`: several devices under one task group."""

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
        self._maps: set[Callable[[], None]] = set()

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
        for stop in tuple(self._maps):
            stop()
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

    def _pick(self) -> _Load:
        """Return the device with the least to do; of equals, the least used so far."""
        return min(self._loads, key=lambda load: (load.running, load.started))

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
        if device is None:
            load = self._pick()
        else:
            found = [load for load in self._loads if load.device is device]
            if not found:
                raise usage(f"{device!r} is not one of the group's devices")
            load = found[0]
        load.running += 1
        load.started += 1
        tasks.start_soon(self._run, load, fn, args)

    async def _run(
        self, load: _Load, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> Any:
        try:
            return await fn(load.device, *args)
        except Exception as exc:
            self._failures.append((load.device, exc))
            raise
        finally:
            load.running -= 1

    async def map(
        self,
        fn: Callable[[Device, T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
    ) -> AsyncGenerator[R, None]:
        """Yield ``fn(device, item)`` of every item, in the items' order.

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
        tasks = self._started()
        room = len(self.devices) * self.max_in_flight
        running = anyio.Semaphore(room)
        waiting = anyio.Semaphore(2 * room)
        slots: deque[_Slot[R]] = deque()
        more = anyio.Event()
        ended = stopped = False
        feeding = anyio.CancelScope()
        scopes = {feeding}

        def stop() -> None:
            nonlocal stopped
            stopped = True  # for those that have not begun yet
            for scope in tuple(scopes):
                scope.cancel()
            self._maps.discard(stop)

        async def work(slot: _Slot[R], load: _Load, item: T) -> None:
            with anyio.CancelScope() as scope:
                scopes.add(scope)
                try:
                    if stopped:
                        load.running -= 1
                        return
                    slot.result = await self._run(load, fn, (item,))
                    slot.has_result = True
                finally:
                    slot.done.set()
                    scopes.discard(scope)
                    running.release()

        async def feed() -> None:
            nonlocal ended, more
            with feeding:
                async with contextlib.aclosing(each(items)) as source:
                    async for item in source:
                        await waiting.acquire()
                        await running.acquire()
                        load = self._pick()
                        load.running += 1
                        load.started += 1
                        slot: _Slot[R] = _Slot()
                        slots.append(slot)
                        tasks.start_soon(work, slot, load, item)
                        more.set()
                        more = anyio.Event()
            ended = True
            more.set()

        self._maps.add(stop)
        tasks.start_soon(feed)
        try:
            while True:
                while not slots:
                    if ended:
                        return
                    await more.wait()
                slot = slots.popleft()
                await slot.done.wait()
                if not slot.has_result:
                    # It may have been told of a cancellation sooner than we.
                    await anyio.lowlevel.checkpoint()
                    raise ClosedResourceError(
                        "an item of this map failed or was cancelled, so there are no "
                        "more results; leaving the group tells why"
                    )
                waiting.release()
                yield slot.result
        finally:
            stop()


async def each(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
