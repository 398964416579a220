"""What only asyncio has: its combinators, its own cancellation, eager tasks."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anyio
import pytest

from aiocann.completion import settled
from helpers.fake_native import FakeNative
from helpers.waiting import until


async def soon(fake: FakeNative, *ops: Any) -> None:
    await asyncio.sleep(0)
    for op in ops:
        fake.settle(op)


@pytest.mark.asyncio
async def test_combinators_take_operations(fake: FakeNative) -> None:
    ops = [fake.enqueue(result=n) for n in range(4)]
    settling = asyncio.create_task(soon(fake, *ops))
    assert await asyncio.gather(*ops) == [0, 1, 2, 3]
    await settling

    op = fake.enqueue(result=5)
    settling = asyncio.create_task(soon(fake, op))
    assert await asyncio.wait_for(op, 10) == 5
    await settling

    ops = [fake.enqueue(result=n) for n in range(3)]
    settling = asyncio.create_task(soon(fake, *ops))
    results = [await next_one for next_one in asyncio.as_completed(ops, timeout=10)]
    assert sorted(results) == [0, 1, 2]
    await settling

    op = fake.enqueue(result=6)
    task = asyncio.ensure_future(op)
    settling = asyncio.create_task(soon(fake, op))
    done, pending = await asyncio.wait([task], timeout=10)
    assert [one.result() for one in done] == [6]
    assert not pending
    await settling


@pytest.mark.asyncio
async def test_wait_for_times_out_and_leaves_the_op(fake: FakeNative) -> None:
    op = fake.enqueue(result="late")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(op, 0.001)
    assert fake.ops[op.id].abandoned
    fake.settle(op)
    assert await op == "late"


@pytest.mark.asyncio
async def test_gather_cancelled_abandons_each(fake: FakeNative) -> None:
    ops = [fake.enqueue() for _ in range(3)]
    gathering = asyncio.ensure_future(asyncio.gather(*ops))
    await until(lambda: all(op._waiters for op in ops))
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert all(fake.ops[op.id].abandoned for op in ops)
    for op in ops:
        fake.settle(op)


@pytest.mark.asyncio
async def test_cancellation_wins_over_a_completion_of_the_same_turn(
    fake: FakeNative,
) -> None:
    op = fake.enqueue()

    async def waits() -> None:
        await op

    task = asyncio.create_task(waits())
    await until(lambda: op._waiters)
    fake.settle(op)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await op


@pytest.mark.asyncio
async def test_pending_cancel_is_seen_by_an_await_of_a_finished_op(
    fake: FakeNative,
) -> None:
    op = fake.enqueue()
    fake.settle(op)
    reached = []

    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await op
        reached.append("went on")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(cancels_itself())
    assert not reached


@pytest.mark.asyncio
async def test_deadline_in_the_past_is_seen_by_a_finished_op(
    fake: FakeNative,
) -> None:
    op = fake.enqueue()
    fake.settle(op)
    with anyio.move_on_after(-1) as scope:
        await op
        pytest.fail("went on after the deadline")
    assert scope.cancelled_caught


@pytest.mark.asyncio
async def test_settled_holds_back_asyncio_cancellation(fake: FakeNative) -> None:
    op = fake.enqueue()
    outcome = []

    async def drains() -> None:
        try:
            await settled(op, 10)
        except asyncio.CancelledError:
            outcome.append(op.done)
            raise

    task = asyncio.create_task(drains())
    await until(lambda: op._waiters)
    for _ in range(3):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
    fake.settle(op)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert outcome == [True]


@pytest.mark.asyncio
async def test_settled_gives_up_after_its_time(fake: FakeNative) -> None:
    op = fake.enqueue()
    assert await settled(op, 0.001) is False
    fake.settle(op)
    assert await settled(op, 0.001) is True


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are of 3.12")
def test_eager_tasks(fake: FakeNative) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        finished, pending = fake.enqueue(result=1), fake.enqueue(result=2)
        fake.settle(finished)

        async def waits(op: Any) -> Any:
            return await op

        eager = asyncio.create_task(waits(finished))
        assert eager.done(), "a finished op needs no turn of the loop"
        other = asyncio.create_task(waits(pending))
        fake.settle(pending)
        assert [await eager, await other] == [1, 2]

    asyncio.run(main())


def test_two_loops_one_after_the_other_in_a_thread(fake: FakeNative) -> None:
    async def main() -> int:
        op = fake.enqueue(result=1)
        fake.settle(op)
        pending = fake.enqueue(result=2)
        await soon(fake, pending)
        return int(await op) + int(await pending)

    for _ in range(3):
        assert asyncio.run(main()) == 3
