"""Operations and reactors on a scripted native half: every order of events."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import anyio
import pytest

from aiocann import ClosedResourceError, DeviceFaultError, loops, reactor
from aiocann.completion import Operation
from aiocann.ledger import in_flight
from helpers.fake_native import FakeNative
from helpers.waiting import until

pytestmark = pytest.mark.anyio


async def parked(op: Operation[Any]) -> None:
    await until(lambda: bool(op._waiters))


async def test_awaits_what_settles_later(fake: FakeNative) -> None:
    op = fake.enqueue(result=7)
    results = []

    async def waits() -> None:
        results.append(await op)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            await parked(op)
            assert not op.done
            fake.settle(op)
    assert results == [7]
    assert op.done
    assert op.id not in in_flight


async def test_settled_op_is_awaited_without_a_turn_of_the_loop(
    fake: FakeNative,
) -> None:
    turned = []

    async def other() -> None:
        while True:
            turned.append(1)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await until(lambda: turned)
        turned.clear()
        for _ in range(20):
            op = fake.enqueue()
            fake.settle(op)
            await op
        assert not turned
        tasks.cancel_scope.cancel()


async def test_finished_ops_do_not_starve_the_loop(fake: FakeNative) -> None:
    op = fake.enqueue()
    fake.settle(op)
    turned = []

    async def other() -> None:
        while True:
            turned.append(1)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await until(lambda: turned)
        turned.clear()
        for _ in range(1000):
            await op
        # One turn for every 64 awaits.
        assert 12 <= len(turned) <= 32
        tasks.cancel_scope.cancel()


async def test_finished_op_still_checks_for_cancellation(fake: FakeNative) -> None:
    op = fake.enqueue()
    fake.settle(op)
    await op
    with anyio.CancelScope() as scope:
        scope.cancel()
        await op
        pytest.fail("went on in a cancelled scope")
    assert scope.cancelled_caught
    with anyio.CancelScope() as scope:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await op  # shielded: goes on
            shielded = True
    assert shielded
    await op


async def test_two_awaiters_one_cancelled(fake: FakeNative) -> None:
    op = fake.enqueue(result="data")
    done = []

    async def waits() -> None:
        done.append(await op)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waits)
        await parked(op)
        with anyio.move_on_after(0.001) as scope:
            await op
        assert scope.cancelled_caught
        assert not fake.ops[op.id].abandoned, "the other still waits"
        fake.settle(op)
    assert done == ["data"]


async def test_last_awaiter_gone_abandons(fake: FakeNative) -> None:
    op = fake.enqueue()
    with anyio.move_on_after(0.001):
        await op
    assert fake.ops[op.id].abandoned == 1
    assert op.id in in_flight, "the ledger owns it until it settles"
    fake.settle(op)
    await op  # may still be awaited


async def test_abandoned_operands_stay_until_settled(fake: FakeNative) -> None:
    class Buffer:
        pass

    buffer = Buffer()
    alive = weakref.ref(buffer)
    op = fake.enqueue(operands=(buffer,))
    op_id = op.id
    with anyio.move_on_after(0.001):
        await op
    del buffer
    gc.collect()
    assert alive() is not None
    fake.settle(op)
    await until(lambda: op_id not in in_flight)
    gc.collect()
    assert alive() is None


async def test_dropped_op_is_released_once_settled(fake: FakeNative) -> None:
    op = fake.enqueue()
    op_id = op.id
    fake.settle(op)
    del op
    await until(lambda: fake.ops[op_id].released)


async def test_failure_raises_a_fresh_exception_for_each(fake: FakeNative) -> None:
    op = fake.enqueue("memcpy")
    fake.settle(op, error=fake.error(507015, is_fault=1, device=1, detail=b"vector"))
    with pytest.raises(DeviceFaultError, match="vector") as first:
        await op
    with pytest.raises(DeviceFaultError) as second:
        await op
    assert first.value is not second.value
    assert first.value.code == 507015
    assert "test_completion.py" in first.value.enqueued_at or (
        "fake_native.py" in first.value.enqueued_at
    )


async def test_follower_has_the_first_failure_as_cause(fake: FakeNative) -> None:
    first, second = fake.enqueue("first"), fake.enqueue("second")
    fake.settle(first, error=fake.error(507015, is_fault=1))
    fake.settle(second, error=fake.error(-7, cause_op=first.id))
    # The second is looked at before the first was taken from the loop.
    with pytest.raises(DeviceFaultError) as caught:
        await second
    assert isinstance(caught.value.__cause__, DeviceFaultError)
    assert caught.value.__cause__.code == 507015


async def test_a_thousand_settle_in_one_batch(fake: FakeNative) -> None:
    ops = [fake.enqueue(result=n) for n in range(1000)]
    results: list[int] = []

    async def waits(op: Operation[int]) -> None:
        results.append(await op)

    async with anyio.create_task_group() as tasks:
        for op in ops:
            tasks.start_soon(waits, op)
        await until(lambda: all(op._waiters for op in ops))
        (home,) = {op._home for op in ops}
        loop = fake.loops[fake.aiocann_op_id(home.loop)]
        before = loop.wakes
        for op in reversed(ops):
            fake.settle(op)
        assert loop.wakes == before + 1, "one wake for them all"
    assert sorted(results) == list(range(1000))
    assert not any(op.id in in_flight for op in ops)


async def test_awaited_from_two_loops_in_two_threads(fake: FakeNative) -> None:
    op = fake.enqueue(result="both")
    seen: list[Any] = []
    waiting = threading.Event()

    async def elsewhere() -> None:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                seen.append(await op)

            tasks.start_soon(wait)
            await until(lambda: bool(op._foreign))
            waiting.set()

    threads = [
        threading.Thread(target=anyio.run, args=(elsewhere,), kwargs={"backend": name})
        for name in ("asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    with anyio.fail_after(10):
        await until(lambda: len(op._foreign or ()) == 2)
        fake.settle(op)
        assert await op == "both"
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
    assert seen == ["both", "both"]
    assert not op._foreign


async def test_foreign_awaiter_cancelled_before_delivery(fake: FakeNative) -> None:
    """The watch is still delivered; it must not steal the op from its home."""
    ops: list[Any] = []

    async def makes() -> None:
        ops.append(fake.enqueue(result=1))
        release.wait(10)  # its loop does not run meanwhile
        await until(lambda: ops[0].done)
        ops.append(await ops[0])

    release = threading.Event()
    thread = threading.Thread(target=anyio.run, args=(makes,))
    thread.start()
    await until(lambda: ops)
    op = ops[0]
    with anyio.move_on_after(0.001):
        await op
    assert fake.ops[op.id].abandoned == 1
    fake.settle(op)
    here = loops.current_reactor()
    await until(lambda: op.id not in here.foreign)
    assert op.id in in_flight, "its home has not taken it yet"
    release.set()
    await anyio.to_thread.run_sync(thread.join)
    assert ops[1] == 1


async def test_enqueued_by_a_plain_thread(fake: FakeNative) -> None:
    ops: list[Operation[Any]] = []
    thread = threading.Thread(target=lambda: ops.append(fake.enqueue(result=3)))
    thread.start()
    thread.join()
    (op,) = ops
    assert op._home is reactor.orphans

    async def settles() -> None:
        await until(lambda: bool(op._foreign))
        fake.settle(op)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(settles)
        assert await op == 3
    reactor.orphans.drain()
    assert op.id not in in_flight


async def test_orphan_that_settled_before_it_was_in_the_ledger(
    fake: FakeNative, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = fake.aiocann_op_watch

    def settles_first(op: Any, loop: Any) -> int:
        fake.ops[fake.aiocann_op_id(op)].state = 1
        return watch(op, loop)

    monkeypatch.setattr(fake, "aiocann_op_watch", settles_first)
    ops: list[Operation[Any]] = []
    thread = threading.Thread(target=lambda: ops.append(fake.enqueue(result=4)))
    thread.start()
    thread.join()
    assert ops[0].id not in in_flight
    assert await ops[0] == 4


async def test_exception_and_result_of_an_unfinished_op(fake: FakeNative) -> None:
    op = fake.enqueue()
    with pytest.raises(RuntimeError, match="has not finished"):
        op.result()
    with pytest.raises(RuntimeError, match="has not finished"):
        op.exception()
    assert "in flight" in repr(op)
    fake.settle(op)
    assert op.exception() is None
    assert "done" in repr(op)


async def test_host_call_runs_on_its_loop_and_wakes_others(fake: FakeNative) -> None:
    seen: list[Any] = []
    thread_of: list[threading.Thread] = []

    def called(value: int) -> int:
        thread_of.append(threading.current_thread())
        return value + 1

    op = fake.host_call(called, 41)

    async def elsewhere() -> None:
        seen.append(await op)

    thread = threading.Thread(target=anyio.run, args=(elsewhere,))
    thread.start()
    await until(lambda: bool(op._foreign))
    fake.settle(op)
    assert await op == 42
    await anyio.to_thread.run_sync(thread.join)
    assert seen == [42]
    assert thread_of == [threading.current_thread()]


def test_await_without_a_loop(fake: FakeNative) -> None:
    op = fake.enqueue()
    with pytest.raises(RuntimeError, match="needs a running"):
        op.__await__().send(None)


def test_loop_that_closes_hands_its_ops_to_the_orphans(
    fake: FakeNative, open_fds: Any, anyio_backend: Any
) -> None:
    name, options = anyio_backend
    ops: list[Operation[Any]] = []

    async def makes() -> None:
        ops.append(fake.enqueue(operands=("kept",)))
        async with anyio.create_task_group() as tasks:

            async def waits() -> None:
                await ops[0]

            tasks.start_soon(waits)
            await parked(ops[0])
            tasks.cancel_scope.cancel()

    # A loop's own first run may keep files open.
    anyio.run(anyio.lowlevel.checkpoint, backend=name, backend_options=options)
    before = open_fds()
    anyio.run(makes, backend=name, backend_options=options)
    (op,) = ops
    gc.collect()
    assert loops.reactor_count() == 0
    assert open_fds() == before
    assert not op._home.is_live
    assert op.id in in_flight
    assert op._operands == ("kept",)
    fake.settle(op)
    reactor.orphans.drain()
    assert op.id not in in_flight
    assert not op._operands


def test_host_call_of_a_closed_loop_says_so(fake: FakeNative) -> None:
    ops: list[Operation[Any]] = []

    async def makes() -> None:
        ops.append(fake.host_call(print))

    asyncio.run(makes())
    gc.collect()
    fake.settle(ops[0])
    reactor.orphans.drain()
    assert isinstance(ops[0].exception(), ClosedResourceError)
