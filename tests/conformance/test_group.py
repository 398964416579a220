"""Several devices under one task group, and pipelines over them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections import Counter
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, DeviceGroup, Graph, Pipeline, Stage, UsageError, ops
from helpers.waiting import until

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

pytestmark = pytest.mark.anyio


async def square(device: aiocann.Device, value: int) -> int:
    backend = device.backend()
    x = await backend.empty(100, F32)
    await backend.set_tensor_async(x, np.full(100, value, np.float32))
    y = ops.sqr(x)
    await backend.graph_compute(Graph([y]))
    return int((await backend.get_tensor_async(y))[7])


async def test_map_is_ordered_and_uses_every_device(opened: Any) -> None:
    async with opened(4) as rt:
        used: Counter[int] = Counter()

        async def work(device: aiocann.Device, n: int) -> int:
            used[device.index] += 1
            return await square(device, n)

        async with DeviceGroup(rt.devices) as group:
            results = [r async for r in group.map(work, range(100))]
        assert results == [n * n for n in range(100)]
        assert set(used) == {0, 1, 2, 3}
        assert max(used.values()) <= 60


async def test_map_is_bounded(opened: Any) -> None:
    async with opened(2) as rt:
        taken = 0
        running: Counter[int] = Counter()
        most: Counter[int] = Counter()

        def items() -> Any:
            nonlocal taken
            for n in range(100):
                taken += 1
                yield n

        async def work(device: aiocann.Device, n: int) -> int:
            running[device.index] += 1
            most[device.index] = max(most[device.index], running[device.index])
            await anyio.lowlevel.checkpoint()
            running[device.index] -= 1
            return n

        async with DeviceGroup(rt.devices, max_in_flight=3) as group:  # noqa: SIM117 - two things
            async with contextlib.aclosing(group.map(work, items())) as results:
                async for first in results:
                    assert first == 0
                    # While the consumer does something else, the group runs ahead,
                    # but not without limit.
                    for _ in range(200):
                        await anyio.lowlevel.checkpoint()
                    assert 6 <= taken <= 2 * 6 + 2
                    break
        assert all(count <= 3 for count in most.values())


async def test_map_takes_async_items_and_two_maps_at_once(opened: Any) -> None:
    async def items() -> Any:
        for n in range(10):
            await anyio.lowlevel.checkpoint()
            yield n

    async with opened(2) as rt:
        results: dict[int, list[int]] = {}

        async with DeviceGroup(rt.devices) as group:

            async def collect(_: aiocann.Device, which: int) -> None:
                results[which] = [r async for r in group.map(square, items())]

            group.start_soon(collect, 1)
            group.start_soon(collect, 2)
        assert results[1] == results[2] == [n * n for n in range(10)]


async def test_map_of_nothing(opened: Any) -> None:
    async with opened() as rt, DeviceGroup(rt.devices) as group:
        assert [r async for r in group.map(square, [])] == []


async def test_map_not_read_to_its_end(opened: Any) -> None:
    async with opened(2) as rt:
        async with DeviceGroup(rt.devices) as group:
            results = group.map(square, range(1000))
            assert await anext(results) == 0
        await results.aclose()


async def test_a_map_that_is_dropped_stops(opened: Any) -> None:
    async with opened(2) as rt, DeviceGroup(rt.devices) as group:
        taken = 0

        async def forever(device: aiocann.Device, n: int) -> int:
            nonlocal taken
            taken += 1
            if n:
                try:
                    await anyio.sleep_forever()
                finally:
                    taken -= 1
            return n

        async for result in group.map(forever, range(1000)):
            assert result == 0
            break
        gc.collect()
        await until(lambda: taken == 1)
        assert [r async for r in group.map(square, [3])] == [9]


async def test_results_are_read_by_one_task_or_none(opened: Any) -> None:
    async with opened(2) as rt, DeviceGroup(rt.devices) as group:
        unread = group.map(square, range(3))
        await unread.aclose()
        assert [r async for r in unread] == []

        begun, may_go_on = anyio.Event(), anyio.Event()

        async def waits(device: aiocann.Device, n: int) -> int:
            begun.set()
            await may_go_on.wait()
            return n

        results = group.map(waits, [5])
        got: list[int] = []

        async def read(_: aiocann.Device) -> None:
            got.extend([r async for r in results])

        group.start_soon(read)
        await begun.wait()
        with pytest.raises(anyio.BusyResourceError):
            await anext(results)
        may_go_on.set()
        await until(lambda: got == [5])


async def test_start_soon(opened: Any) -> None:
    async with opened(3) as rt:
        seen: list[tuple[int, str]] = []

        async def work(device: aiocann.Device, what: str) -> None:
            seen.append((device.index, what))

        async with DeviceGroup(rt.devices) as group:
            group.start_soon(work, "a", device=rt.devices[2])
            for _ in range(3):
                group.start_soon(work, "any")
        assert (2, "a") in seen
        assert {index for index, what in seen if what == "any"} >= {0, 1}
        async with DeviceGroup(rt.devices[:1]) as group:
            with pytest.raises(UsageError, match="not one of the group's"):
                group.start_soon(work, "b", device=rt.devices[1])


async def test_failure_cancels_drains_and_names_the_device(opened: Any) -> None:
    async with opened(3) as rt:
        cancelled: list[int] = []

        async def fails(device: aiocann.Device) -> None:
            backend = device.backend()
            x = await backend.empty(10, F32)
            await until(lambda: len(waiting) == 2)
            aiocann.sim.fail_copy("memcpy")
            await backend.set_tensor_async(x, np.ones(10, np.float32))

        waiting: list[int] = []

        async def waits(device: aiocann.Device) -> None:
            waiting.append(device.index)
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(device.index)

        with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - leaving raises
            async with DeviceGroup(rt.devices) as group:
                group.start_soon(waits, device=rt.devices[0])
                group.start_soon(fails, device=rt.devices[1])
                group.start_soon(waits, device=rt.devices[2])
        assert sorted(cancelled) == [0, 2]
        assert "device 1: DeviceFaultError" in str(caught.value)
        (failure,) = caught.value.exceptions
        assert isinstance(failure, aiocann.DeviceFaultError)
        assert rt.statistics().in_flight_ops == 0


async def test_failure_inside_map(opened: Any) -> None:
    async with opened(2) as rt:

        async def work(device: aiocann.Device, n: int) -> int:
            if n == 13:
                raise ValueError("thirteen")
            return await square(device, n)

        results = []
        with pytest.raises(ExceptionGroup, match=r"device \d: ValueError: thirteen"):  # noqa: PT012 - leaving raises
            async with DeviceGroup(rt.devices) as group:
                async for r in group.map(work, range(40)):
                    results.append(r)  # noqa: PERF401 - kept up to the failure
        assert results == [n * n for n in range(len(results))]
        assert len(results) <= 13


async def test_failures_of_two_devices(opened: Any) -> None:
    async with opened(2) as rt:
        ready = anyio.Event()

        async def fails(device: aiocann.Device, text: str) -> None:
            await ready.wait()
            raise RuntimeError(text)

        with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - leaving raises
            async with DeviceGroup(rt.devices) as group:
                group.start_soon(fails, "first", device=rt.devices[0])
                group.start_soon(fails, "second", device=rt.devices[1])
                await anyio.wait_all_tasks_blocked()
                ready.set()
        assert len(caught.value.exceptions) == 2
        assert "device 0: RuntimeError: first" in str(caught.value)
        assert "device 1: RuntimeError: second" in str(caught.value)


async def test_a_failure_among_cancellations_names_its_device(opened: Any) -> None:
    """Trio tells of a failure and of the cancellations beside it in one group."""

    async def fails(device: aiocann.Device) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            raise ValueError("nine")

    async with opened(2) as rt:
        with (
            anyio.CancelScope() as scope,
            pytest.raises(BaseExceptionGroup, match="device 1: ValueError: nine"),
        ):
            async with DeviceGroup(rt.devices) as group:
                group.start_soon(fails, device=rt.devices[1])


async def test_cancelling_a_group_drains(opened: Any) -> None:
    async with opened(2) as rt:
        n = 3 << 20
        out = [np.zeros(n, np.float32) for _ in rt.devices]

        async def work(device: aiocann.Device) -> None:
            backend = device.backend()
            x = await backend.empty(n, F32)
            backend.set_tensor_async(x, np.full(n, 5, np.float32))
            op = backend.get_tensor_async(x, out[device.index])
            scope.cancel()
            await op

        with anyio.CancelScope() as scope:
            async with DeviceGroup(rt.devices) as group:
                for device in rt.devices:
                    group.start_soon(work, device=device)
        assert scope.cancelled_caught
        assert rt.statistics().in_flight_ops == 0
        assert any((array == 5).all() for array in out)


async def test_nonsense(opened: Any) -> None:
    async with opened() as rt:
        for call in (
            lambda: DeviceGroup([]),
            lambda: DeviceGroup(rt.devices, max_in_flight=0),
            lambda: Pipeline([]),
            lambda: Pipeline([Stage(square, rt.devices[0])], depth=0),
        ):
            with pytest.raises(UsageError):
                call()
        with pytest.raises(RuntimeError, match="enter the group first"):
            DeviceGroup(rt.devices).start_soon(square, 1)


async def test_pipeline(opened: Any) -> None:
    async with opened(3) as rt:

        async def plus_one(device: aiocann.Device, value: int) -> int:
            await anyio.lowlevel.checkpoint()
            return value + 1

        pipeline = Pipeline(
            [
                Stage(square, rt.devices[0]),
                Stage(plus_one, rt.devices[1]),
                Stage(square, rt.devices[2]),
            ]
        )
        results = [r async for r in pipeline(range(20))]
        assert results == [(n * n + 1) ** 2 for n in range(20)]
        assert [r async for r in pipeline([])] == []


async def test_pipeline_stages_overlap(opened: Any) -> None:
    async with opened(2) as rt:
        inside: set[int] = set()
        overlapped = 0

        async def stage(device: aiocann.Device, value: int) -> int:
            nonlocal overlapped
            inside.add(device.index)
            for _ in range(5):
                overlapped += len(inside) == 2
                await anyio.lowlevel.checkpoint()
            inside.discard(device.index)
            return value

        pipeline = Pipeline([Stage(stage, d) for d in rt.devices])
        assert [r async for r in pipeline(range(20))] == list(range(20))
        assert overlapped


async def test_pipeline_failure_names_the_device(opened: Any) -> None:
    async with opened(2) as rt:

        async def fails(device: aiocann.Device, value: int) -> int:
            if value == 9:
                raise ValueError("nine")
            return value

        pipeline = Pipeline([Stage(square, rt.devices[0]), Stage(fails, rt.devices[1])])
        with pytest.raises(ExceptionGroup, match="device 1: ValueError: nine"):
            async for _ in pipeline([1, 2, 3, 4, 5]):
                pass
        pipeline = Pipeline([Stage(fails, rt.devices[1]), Stage(square, rt.devices[0])])
        with pytest.raises(ExceptionGroup, match="device 1: ValueError: nine"):
            async for _ in pipeline([7, 8, 9, 10]):
                pass


async def test_pipeline_left_early(opened: Any) -> None:
    async with opened(2) as rt:
        pipeline = Pipeline([Stage(square, d) for d in rt.devices])
        async with pipeline(range(1000)) as results:
            async for result in results:
                assert result == 0
                break
        assert rt.statistics().in_flight_ops == 0
        assert [r async for r in results] == []


@pytest.mark.parametrize("how", ["break", "raise", "cancel"])
async def test_pipeline_left_without_closing_it(opened: Any, how: str) -> None:
    """Its task group must not cross the scopes of whoever iterates."""
    async with opened(2) as rt:
        pipeline = Pipeline([Stage(square, d) for d in rt.devices])

        async def consume() -> None:
            with anyio.CancelScope() as scope:
                async for result in pipeline(range(1000)):
                    if result < 9:
                        continue
                    if how == "break":
                        break
                    if how == "raise":
                        raise LookupError
                    scope.cancel()
            await anyio.lowlevel.checkpoint()  # nothing is left to be cancelled

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
            if how == "raise":
                with pytest.raises(LookupError):
                    await consume()
            else:
                await consume()
        gc.collect()  # closes the iterator
        with anyio.fail_after(20):
            while rt.statistics().in_flight_ops:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop"], indirect=True)
async def test_a_cancelled_map_ends_as_cancelled(opened: Any) -> None:
    """Its items may hear of it before whoever reads the results does."""

    async def one(device: aiocann.Device, item: int) -> int:
        if item:
            await anyio.sleep_forever()
        # Comes to pass when the reader is about to wake for this item's result.
        asyncio.get_running_loop().call_soon(scope.cancel)
        return item

    async with opened(1) as rt:
        with anyio.CancelScope() as scope:
            async with DeviceGroup(rt.devices, max_in_flight=2) as group:
                async for result in group.map(one, [0, 1]):
                    assert result == 0
        assert scope.cancelled_caught
