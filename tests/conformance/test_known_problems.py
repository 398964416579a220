"""What users of other runtimes ran into: a test for each, or why it cannot arise.

The rows are those of the project's two lists: "async-runtimes" (how libraries that
await devices fail) and "problems" (what users of NPU runtimes hit). A row is a test of
this file named after it; or it is in `ELSEWHERE`, with the tests that show it or the
reason why there can be none.
"""

from __future__ import annotations

import ast
import ctypes
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import F32, testing
from helpers import acl
from helpers.programs import run
from helpers.waiting import until

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).resolve().parent.parent
N = 1 << 12

ELSEWHERE = {
    # ---- async-runtimes, section 3 -------------------------------------------------
    "async_runtimes_02": "every test of awaits runs on the simulator, on every loop",
    "async_runtimes_03": "cffi releases the interpreter's lock around every call, and "
    "the next row shows that nothing waits for it: test_async_runtimes_01",
    "async_runtimes_04": "test_completion.py::test_a_thousand_settle_in_one_batch",
    "async_runtimes_09": "no timer is involved in a wake: the thread that sees the "
    "completion writes the eventfd; tests/bench measures it",
    "async_runtimes_10": "a lane spins before it sleeps; tests/bench measures it",
    "async_runtimes_11": "test_cancellation.py::"
    "test_cancelling_returns_at_once_and_keeps_the_operands",
    "async_runtimes_12": "test_cancellation.py::"
    "test_thousand_copies_a_third_of_them_cancelled",
    "async_runtimes_13": "test_cancellation.py::"
    "test_cancelling_returns_at_once_and_keeps_the_operands",
    "async_runtimes_14": "test_debug.py::test_source_that_was_written_fails_its_op "
    "test_debug.py::test_destination_is_poisoned_and_guarded_until_it_is_there",
    "async_runtimes_15": "test_loop_is_free.py::"
    "test_copy_of_a_gibibyte_of_ordinary_memory",
    "async_runtimes_17": "test_cancellation.py::"
    "test_cancelling_returns_at_once_and_keeps_the_operands",
    "async_runtimes_19": "test_races.py::"
    "test_graph_scratch_stays_out_of_memory_that_is_still_to_be_read",
    "async_runtimes_21": "test_runtime.py::test_pinned_array_outlives_the_runtime "
    "test_copies.py::test_closed_buffer",
    "async_runtimes_22": "test_loops.py::"
    "test_finalisers_on_any_thread_and_during_collections",
    "async_runtimes_23": "test_neighbours.py::"
    "test_a_loops_own_thread_may_use_acl_beside",
    "async_runtimes_24": "test_environment.py::test_exit_without_closing "
    "test_environment.py::test_exit_while_ordinary_memory_is_copied",
    "async_runtimes_25": "test_streams.py::test_host_call",
    "async_runtimes_26": "host_call belongs to streams: no graph can hold one",
    "async_runtimes_28": "test_loop_is_free.py::"
    "test_copy_of_a_gibibyte_of_ordinary_memory",
    "async_runtimes_30": "nothing polls unless the driver has no callbacks "
    "(AIOCANN_COMPLETION=query), and that is on a native thread",
    "async_runtimes_31": "test_interrupts.py::test_delivering "
    "test_completion.py::test_awaits_what_settles_later",
    "async_runtimes_32": "an eventfd is level-triggered: there is no step to be last",
    "async_runtimes_33": "test_asyncio.py::"
    "test_cancellation_wins_over_a_completion_of_the_same_turn",
    "async_runtimes_34": "test_completion.py::"
    "test_loop_that_closes_hands_its_ops_to_the_orphans",
    "async_runtimes_36": "test_races.py::test_stream_may_be_left_twice "
    "test_leaks.py::test_objects_are_freed_without_the_collector",
    "async_runtimes_37": "test_cancellation.py::"
    "test_cancelling_returns_at_once_and_keeps_the_operands",
    "async_runtimes_38": "graphs are not captured yet; a lane, the only thread that "
    "asks for events, will be the one that captures",
    "async_runtimes_39": "test_errors.py::test_class_of_a_code",
    "async_runtimes_40": "test_faults.py::test_kernel_fault_names_op_and_lines",
    "async_runtimes_42": "test_streams.py::test_wait_orders_streams",
    "async_runtimes_43": "test_neighbours.py::"
    "test_before_is_called_before_each_enqueueing",
    "async_runtimes_45": "test_runtime.py::test_steady_state_creates_no_events",
    "async_runtimes_46": "test_streams.py::test_event: a task waits, no thread does",
    "async_runtimes_47": "test_streams.py::test_await_does_not_wait_for_later_work",
    "async_runtimes_48": "test_backend.py::"
    "test_copy_between_devices_is_ordered_on_both",
    "async_runtimes_49": "test_copies.py::test_pinned_memory_is_copied_directly "
    "test_copies.py::test_between_devices",
    "async_runtimes_50": "ordinary host memory is never given to the device: "
    "test_copies.py::test_every_kind_of_host_buffer",
    "async_runtimes_51": "test_copies.py::test_between_devices",
    "async_runtimes_52": "test_interrupts.py::test_enqueueing",
    "async_runtimes_53": "test_streams.py::test_current_stream_is_per_task",
    "async_runtimes_55": "test_streams.py::test_await_does_not_wait_for_later_work: "
    "lanes submit as soon as they can, whether or not anybody awaits",
    "async_runtimes_56": "test_faults.py::test_kernel_fault_names_op_and_lines",
    "async_runtimes_57": "an op that has finished is awaited without a turn: "
    "test_completion.py::test_settled_op_is_awaited_without_a_turn_of_the_loop",
    # ---- problems ------------------------------------------------------------------
    "problems_02": "test_streams.py::test_submission_from_plain_threads",
    "problems_08": "test_visible_devices.py::test_logical_ids_count_what_is_visible",
    "problems_10": "test_visible_devices.py::"
    "test_opening_says_what_is_wrong_with_the_list",
    "problems_11": "test_visible_devices.py::test_lists_that_are_wrong_are_told "
    "test_visible_devices.py::test_ids_that_do_not_exist_are_listed",
    "problems_12": "test_environment.py::test_every_method_in_a_forked_child "
    "test_environment.py::test_fork_before_opening",
    "problems_13": "test_neighbours.py::"
    "test_acl_that_someone_else_initialised_is_never_finalized",
    "problems_46": "test_neighbours.py::test_before_is_called_before_each_enqueueing",
    "problems_49": "test_streams.py::test_wait_orders_streams",
    "problems_50": "test_copies.py::test_between_devices",
    "problems_64": "test_faults.py::test_allocation_that_fails "
    "test_faults.py::test_kernel_fault_names_op_and_lines",
    "problems_65": "test_faults.py::"
    "test_later_work_of_the_stream_fails_with_the_first_as_cause "
    "test_faults.py::test_unawaited_failure_is_raised_once_by_synchronize",
}
ROWS = [
    *(f"async_runtimes_{n:02}" for n in range(1, 58)),
    "async_runtimes_08b",
    *(f"problems_{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14)),
    *(f"problems_{n}" for n in (37, 39, 46, 49)),
    *(f"problems_{n}" for n in (50, 51, 52, 54)),
    *(f"problems_{n}" for n in (64, 65, 66)),
]


def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_row_has_a_test_or_a_reason() -> None:
    here = names_of(Path(__file__))
    for row in ROWS:
        own = [name for name in here if re.match(rf"test_{row}(_[a-z]|$)", name)]
        assert own or row in ELSEWHERE, row
        assert not (own and row in ELSEWHERE), f"{row} is there twice"
    assert set(ELSEWHERE) <= set(ROWS)


def test_the_tests_that_rows_name_exist() -> None:
    files = {path.name: names_of(path) for path in TESTS.rglob("test_*.py")}
    for row, text in ELSEWHERE.items():
        for file, name in re.findall(r"(test_\w+\.py)::(test_\w+)", text):
            assert name in files.get(file, ()), f"{row}: {file}::{name}"


# ---- async-runtimes ------------------------------------------------------------------


async def test_async_runtimes_01_no_native_thread_waits_for_the_interpreter(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        out = np.zeros(N, np.uint8)
        holding = ctypes.PyDLL(None)  # calls of it keep the interpreter's lock
        before = sys.getswitchinterval()
        sys.setswitchinterval(100)
        try:
            async with device.stream() as stream:
                for n in range(20):
                    stream.memset(buffer, n)
                op = stream.memcpy(out, buffer)
                for _ in range(2000):
                    holding.usleep(5000)
                    if op.done:
                        break
                assert op.done
                assert (out == 19).all()
        finally:
            sys.setswitchinterval(before)


def test_async_runtimes_05_no_function_of_pythons_crosses_over() -> None:
    header = (TESTS.parent / "native" / "include" / "aiocann.h").read_text("utf-8")
    declared = header.partition("cdef-begin")[2].partition("cdef-end")[0]
    assert "aiocann_stream_memcpy" in declared
    assert not re.search(r"\(\s*\*", declared), "a pointer to a function"


async def test_async_runtimes_06_completions_do_not_hold_the_stream(
    opened: Any,
) -> None:
    """A loop that takes no turn is told of nothing, and nothing waits for it."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            ops = [stream.memset(buffer, n % 251) for n in range(2000)]
            deadline = time.monotonic() + 20
            while not stream.idle and time.monotonic() < deadline:
                pass
            assert stream.idle
            assert ops[-1].done


async def test_async_runtimes_07_a_slow_host_call_delays_no_other_stream(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as slow, device.stream() as other:
            seen: list[bool] = []

            def holds_the_loop() -> None:
                op = other.memset(buffer, 1)
                deadline = time.monotonic() + 20
                while not op.done and time.monotonic() < deadline:
                    pass
                seen.append(op.done)

            await slow.host_call(holds_the_loop)
            assert seen == [True]


async def test_async_runtimes_08_a_callback_that_never_comes_is_made_up_for(
    opened: Any,
) -> None:
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            await stream.synchronize()
            aiocann.sim.drop_callback()
            with anyio.fail_after(20):
                await stream.memset(buffer, 1)
        assert rt.statistics().lost_callbacks == 1
        aiocann.sim.let_go()


@pytest.mark.parametrize("call", ["aclrtSubscribeReport", "aclrtLaunchCallback"])
async def test_async_runtimes_08b_a_refused_registration_ends_the_await(
    opened: Any, call: str
) -> None:
    async with opened(clean=False) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)

        async def attempt() -> None:
            async with device.stream() as stream:
                # What is over at once may need no callback.
                with aiocann.sim.hold(0):
                    op = stream.memset(buffer, 1)
                    await until(lambda: not aiocann.sim.counters()["armed_faults"])
                await op

        aiocann.sim.fail_call(call, 507000)
        with anyio.fail_after(20):
            with pytest.raises(aiocann.AiocannError, match=call):
                await attempt()
            await attempt()


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.full(N, 7, np.uint8),
        lambda: bytes([7]) * N,
        lambda: bytearray([7]) * N,
        lambda: memoryview(bytearray([7]) * N),
        lambda: __import__("array").array("B", [7]) * N,
    ],
    ids=["ndarray", "bytes", "bytearray", "memoryview", "array"],
)
async def test_async_runtimes_16_host_operands_are_owned(
    opened: Any, make: Any
) -> None:
    """Every kind of buffer: dropped at once, and impossible to resize."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                stream.memcpy(buffer, make())
                source = make()
                op = stream.memcpy(buffer, source)
                if hasattr(source, "append"):
                    with pytest.raises(BufferError):
                        source.append(1)
                if isinstance(source, np.ndarray):
                    with pytest.raises(ValueError, match="resize"):
                        source.resize(2 * N)
            await op
            out = np.zeros(N, np.uint8)
            await stream.memcpy(out, buffer)
            assert (out == 7).all()
            if hasattr(source, "append"):
                await until(lambda: _can_append(source))


def _can_append(source: Any) -> bool:
    try:
        source.append(1)
    except BufferError:
        return False
    return True


def test_async_runtimes_18_the_simulator_sees_a_use_after_a_free() -> None:
    source = """
    import aiocann
    from helpers import acl
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    before = aiocann.sim.counters()["misuse"]
    with acl.made("Stream") as stream:
        address = acl.allocate(64)
        with aiocann.sim.hold(0):
            acl.fill(address, 1, 64, stream)
            acl.call("aclrtFree", address)
        acl.library().aclrtSynchronizeStream(stream)
    print(aiocann.sim.counters()["misuse"] > before)
    """
    assert run(source).stdout.split() == ["True"]


async def test_async_runtimes_20_streams_are_known_by_more_than_their_handles(
    opened: Any,
) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        numbers = set()
        for n in range(30):
            async with device.stream() as stream:
                numbers.add(stream.number)
                buffer = await device.allocate(N, stream=stream)
                out = np.zeros(N, np.uint8)
                stream.memset(buffer, n)
                buffer.close()
                again = await device.allocate(N, stream=stream)
                stream.memset(again, n + 1)
                await stream.memcpy(out, again)
                assert (out == n + 1).all()
        assert len(numbers) == 30


async def test_async_runtimes_27_waiting_costs_no_cpu_time(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                op = stream.memset(buffer, 1)
                with anyio.move_on_after(0.2):
                    await op  # the lanes have gone to sleep by now
                before, start = time.process_time(), time.monotonic()
                with anyio.move_on_after(1.0):
                    await op
                spent = time.process_time() - before
                assert spent < 0.25 * (time.monotonic() - start)


async def test_async_runtimes_29_an_op_says_what_it_was(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        async with device.stream() as stream:
            op = stream.memcpy(buffer, np.zeros(N, np.uint8))
            await op
            assert (op.kind, op.stream, op.path) == ("memcpy", stream, "staged")
            assert "test_known_problems.py" in op.enqueued_at


async def test_async_runtimes_35_cancelled_before_submission(opened: Any) -> None:
    """It was enqueued, so it is done, and nobody is left waiting."""
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(N)
        out = np.zeros(N, np.uint8)
        async with device.stream() as stream:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await stream.memset(buffer, 3)
            await stream.memcpy(out, buffer)
        assert (out == 3).all()


async def test_async_runtimes_41_streams_that_run_out_are_a_resource(
    driver: str,
) -> None:
    aiocann.sim.configure(max_streams=6)
    try:
        async with (
            aiocann.open_runtime(driver, 1) as rt,
            anyio.create_task_group() as tasks,
        ):
            refused: list[BaseException] = []
            some = anyio.Event()

            async def leases() -> None:
                try:
                    async with rt.devices[0].stream():
                        await some.wait()
                except aiocann.ResourceExhaustedError as exc:
                    refused.append(exc)
                    some.set()

            for _ in range(8):
                tasks.start_soon(leases)
        assert refused
        assert "streams" in str(refused[0])
    finally:
        aiocann.sim.configure(max_streams=None)


async def test_async_runtimes_44_no_wait_spins_without_end(opened: Any) -> None:
    """Every thread of ours sleeps while a stream waits for an event."""
    async with opened(2) as rt:
        a, b = rt.devices
        buffer = await b.allocate(N)
        async with a.stream() as first, b.stream() as second:
            with aiocann.sim.hold(a.index):
                second.wait(first.record())
                op = second.memset(buffer, 1)
                with anyio.move_on_after(0.2):
                    await op
                before, start = time.process_time(), time.monotonic()
                with anyio.move_on_after(0.5):
                    await op
                spent = time.process_time() - before
                assert spent < 0.3 * (time.monotonic() - start)
            await op


async def test_async_runtimes_54_results_can_be_had_without_await(opened: Any) -> None:
    async with opened() as rt:
        backend = rt.devices[0].backend()
        tensor = await backend.empty(4, F32)
        backend.set_tensor_async(tensor, np.arange(4, dtype=np.float32))
        found: list[Any] = []

        def plain() -> None:
            op = backend.get_tensor_async(tensor)
            while not op.done:
                time.sleep(0)
            found.extend(op.result())

        thread = threading.Thread(target=plain)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert found == [0, 1, 2, 3]


# ---- problems ------------------------------------------------------------------------


async def test_problems_01_a_device_that_does_not_open_is_listed(driver: str) -> None:
    aiocann.sim.fail_call("aclrtSetDevice", 507033, nth=2)
    async with aiocann.open_runtime(driver, 2) as rt:
        (device,) = rt.devices
        (missing,) = rt.unavailable
        assert {device.index, missing.index} == {0, 1}
        assert missing.error.code == 507033  # type: ignore[attr-defined]
        assert (await device.memory_info()).total > 0


async def test_problems_03_workers_keep_to_their_devices(opened: Any) -> None:
    async with opened(2) as rt:
        buffers = [await device.allocate(N) for device in rt.devices]
        wrong: list[int] = []

        def works(n: int) -> None:
            which = n % 2
            stream = rt.devices[which].backend().stream
            out = np.zeros(N, np.uint8)
            for _ in range(20):
                stream.memset(buffers[which], which + 1)
                op = stream.memcpy(out, buffers[which])
                while not op.done:
                    time.sleep(0)
                if not (out == which + 1).all():
                    wrong.append(n)

        threads = [threading.Thread(target=works, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        assert not wrong


@pytest.mark.parametrize("row", ["problems_04", "problems_05"])
async def test_problems_04_the_first_failure_is_the_one_that_is_told(
    driver: str, row: str
) -> None:
    code = {"problems_04": 507008, "problems_05": 507033}[row]
    aiocann.sim.fail_call("aclrtSetDevice", code, nth=0)
    aiocann.sim.fail_call("aclrtGetCurrentContext", 107002, nth=0)
    with pytest.raises(aiocann.AclError) as told:
        async with aiocann.open_runtime(driver, 1):
            pass
    assert told.value.code == code
    assert told.value.call == "aclrtSetDevice"
    assert told.value.hint


async def test_problems_05_code_and_class_come_with_the_text(driver: str) -> None:
    aiocann.sim.fail_call("aclrtSetDevice", 507033, nth=0)
    with pytest.raises(aiocann.AclError) as told:
        async with aiocann.open_runtime(driver, 1):
            pass
    assert told.value.code_name.startswith("ACL_ERROR_")
    assert "npu-smi" in told.value.hint
    assert str(told.value.code) in str(told.value)


async def test_problems_06_streams_end_on_their_own_device(opened: Any) -> None:
    async with opened(2) as rt:
        acl.call("aclrtSetDevice", 1)
        try:
            async with rt.devices[0].stream() as stream:
                await stream.synchronize()
            assert acl.current()[0] == 1
        finally:
            acl.call("aclrtResetDevice", 1)
        assert rt.statistics().live_streams == len(rt.devices)


async def test_problems_07_a_device_is_set_once(driver: str) -> None:
    with aiocann.sim.counted_calls() as calls:
        async with aiocann.open_runtime(driver, 2) as rt:
            for device in rt.devices:
                buffer = await device.allocate(N)
                async with device.stream() as stream:
                    for n in range(20):
                        await stream.memset(buffer, n)
    assert calls["aclrtSetDevice"] == 2
    assert calls["aclrtResetDevice"] == 2


async def test_problems_14_no_device_is_nothing(driver: str) -> None:
    aiocann.sim.fail_call("aclrtCreateStream", 507000, nth=1)
    async with aiocann.open_runtime(driver, 2) as rt:
        assert all(isinstance(device, aiocann.Device) for device in rt.devices)
        assert len(rt.devices) == 1
        assert len(rt.unavailable) == 1
        with pytest.raises(aiocann.UsageError, match="is open"):
            rt.device(rt.unavailable[0].index)


async def test_problems_37_a_stream_that_was_refused_costs_nothing(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        before = testing.counts(rt)
        aiocann.sim.fail_call("aclrtCreateStream", 207008)
        with pytest.raises(aiocann.ResourceExhaustedError, match="streams") as told:
            async with device.stream():
                pass
        assert told.value.code == 207008
        del told
        async with device.stream() as stream:
            await stream.synchronize()
        del stream
        await until(lambda: testing.counts(rt) == before)


async def test_problems_39_order_over_devices_holds_when_the_first_is_late(
    opened: Any,
) -> None:
    async with opened(2) as rt:
        a, b = rt.devices
        here, there = await a.allocate(N), await b.allocate(N)
        out = np.zeros(N, np.uint8)
        async with a.stream() as s, b.stream() as t:
            with aiocann.sim.hold(a.index):
                s.memset(here, 7)
                copied = s.memcpy(there, here)
                t.wait(s.record())
                op = t.memcpy(out, there)
                with anyio.move_on_after(0.05):
                    await op
                assert not op.done
                assert not copied.done
            await op
        assert (out == 7).all()


async def test_problems_51_one_way_peers_are_staged(driver: str) -> None:
    aiocann.sim.configure(peers="0-1")
    try:
        async with aiocann.open_runtime(driver, 2) as rt:
            a, b = rt.devices
            here, there = await a.allocate(N), await b.allocate(N)
            out = np.zeros(N, np.uint8)
            async with a.stream() as s, b.stream() as t:
                s.memset(here, 9)
                op = s.memcpy(there, here)
                t.wait(s.record())
                await t.memcpy(out, there)
            assert op.path == "staged"
            assert (out == 9).all()
            assert (a.can_access_peer(b), b.can_access_peer(a)) == (True, False)
    finally:
        aiocann.sim.configure(peers=None)


async def test_problems_52_peers_are_enabled_once_and_never_to_oneself(
    driver: str,
) -> None:
    with aiocann.sim.counted_calls() as calls:
        async with aiocann.open_runtime(driver, 2) as rt:
            a, b = rt.devices
            here, there, same = [await d.allocate(N) for d in (a, b, a)]
            async with a.stream() as s:
                s.memset(here, 1)
                for _ in range(5):
                    assert s.memcpy(same, here) is not None
                    op = s.memcpy(there, here)
                    await op
                    assert op.path == "peer"
    assert calls["aclrtDeviceEnablePeerAccess"] == 2, "each way"


async def test_problems_54_ordinary_memory_never_reaches_the_device(
    driver: str,
) -> None:
    aiocann.sim.configure(soc="Ascend310P3")
    try:
        async with aiocann.open_runtime(driver, 1) as rt:
            (device,) = rt.devices
            source = np.arange(1 << 20, dtype=np.uint32)
            out = np.zeros_like(source)
            buffer = await device.allocate(source.nbytes)
            async with device.stream() as stream:
                first = stream.memcpy(buffer, source)
                second = stream.memcpy(out, buffer)
                await second
            assert first.path == second.path == "staged"
            assert (out == source).all()
    finally:
        aiocann.sim.configure(soc=None)


async def test_problems_66_reopening_leaves_no_stale_state(opened: Any) -> None:
    for n in range(5):
        async with opened() as rt:
            backend = rt.devices[0].backend()
            tensor = await backend.empty(8, F32)
            await backend.set_tensor_async(tensor, np.full(8, n, np.float32))
            async with opened() as again:
                assert again is rt
            assert ((await backend.get_tensor_async(tensor)) == n).all()
        with pytest.raises(aiocann.ClosedResourceError):
            backend.get_tensor_async(tensor)
