"""What users of other runtimes ran into: a test for each, or why it cannot arise.

The rows are those of the project's two lists: "async-runtimes" (how libraries that
await devices fail) and "problems" (what users of NPU runtimes hit); "traps" are what
the reference system does wrong in its ops. A row is a test named after it, in the file
of its list; or it is in `ELSEWHERE`, with the tests that show it or the reason why
there can be none.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
LISTS = ("test_known_async_runtimes.py", "test_known_problems.py")

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
    "problems_55": "tensors of blocks are written and read whole: "
    "test_quantized.py::test_it_is_written_whole",
    "problems_56": "no op of the table makes or takes FRACTAL_NZ",
    "problems_57": "no op of the table makes or takes FRACTAL_NZ",
    "problems_58": "test_quantized.py::test_what_is_written_is_read",
    "problems_60": "test_supports_op.py::"
    "test_whatever_is_accepted_is_computed_and_the_rest_is_refused",
    "problems_63": "test_ops_graphs.py::"
    "test_computing_changes_nothing_and_may_be_at_once",
    "problems_64": "test_faults.py::test_allocation_that_fails "
    "test_faults.py::test_kernel_fault_names_op_and_lines",
    "problems_65": "test_faults.py::"
    "test_later_work_of_the_stream_fails_with_the_first_as_cause "
    "test_faults.py::test_unawaited_failure_is_raised_once_by_synchronize",
    # ---- traps of the reference system's ops ---------------------------------------
    "trap_sqr_is_computed_twice": "test_ops_graphs.py::"
    "test_computing_changes_nothing_and_may_be_at_once",
    "trap_scratch_of_norms": "test_ops_more_values.py::"
    "test_group_norm_has_room_for_statistics_of_every_dtype",
    "trap_cache_of_rms_norm": "test_ops_graphs.py::"
    "test_trap_rms_norm_scratch_fits_every_dtype",
    "trap_strides_of_acc": "test_ops_more_values.py::"
    "test_acc_and_set_lie_by_their_own_strides",
    "trap_scratch_of_pool_2d": "test_ops_nn_values.py::test_pool_2d",
    "trap_tables_of_rope": "test_ops_nn_values.py::"
    "test_ropes_of_one_graph_share_nothing",
    "trap_slopes_of_alibi": "test_ops_graphs.py::"
    "test_trap_alibi_operands_outlive_their_use",
    "trap_table_of_get_rows": "test_ops_graphs.py::"
    "test_trap_get_rows_converts_rows_and_not_the_table",
    "trap_source_of_set_rows": "test_ops_more_values.py::"
    "test_set_rows_reads_its_source_in_its_own_dtype",
    "trap_operands_of_count_equal": "test_ops_more_values.py::"
    "test_count_equal_leaves_its_operands_alone",
    "trap_concat_of_blocks": "test_supports_op.py::"
    "test_whatever_is_accepted_is_computed_and_the_rest_is_refused",
}
ROWS = [
    *(f"async_runtimes_{n:02}" for n in range(1, 58)),
    "async_runtimes_08b",
    *(f"problems_{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14)),
    *(f"problems_{n}" for n in (37, 39, 46, 49)),
    *(f"problems_{n}" for n in (50, 51, 52, 54)),
    *(f"problems_{n}" for n in (55, 56, 57, 58, 60, 63)),
    *(f"problems_{n}" for n in (64, 65, 66)),
    *(row for row in ELSEWHERE if row.startswith("trap_")),
]


def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_row_has_a_test_or_a_reason() -> None:
    here = set().union(*(names_of(Path(__file__).with_name(name)) for name in LISTS))
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
