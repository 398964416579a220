"""Graphs of ops: planning, order, faults, and what is refused before anything runs."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import DeviceFaultError, UnsupportedError, UsageError, ops
from aiocann.native import NULL, ffi, lib
from helpers.op_examples import op_examples
from helpers.op_runs import Array, OpRuns, check_close

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: graphs are native's business."""
    return "asyncio"


def line_of(site: object, contains: str) -> bool:
    """Whether ``file:line in function`` is the line of this file that contains that."""
    where = str(site).partition(" in ")[0]
    file, _, line = where.rpartition(":")
    return file == __file__ and contains in linecache.getline(file, int(line))


async def test_every_driver_has_every_op(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        nodes = await op_examples(runs)
        assert all(runs.backend.supports_op(node) for node in nodes)
        for node, result in zip(nodes, await runs.compute(*nodes), strict=True):
            assert not np.isnan(result).any(), node.node


async def test_nothing_native_is_left(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        graph = aiocann.Graph(await op_examples(runs))
        for _ in range(3):
            await runs.backend.graph_compute(graph)
        stats = rt.statistics()
        assert stats.live_tensors == 0
        assert stats.live_executors == 0


def grow(
    random: np.random.Generator, leaves: list[tuple[aiocann.Tensor, Array]], n: int
) -> list[tuple[aiocann.Tensor, Array]]:
    """Build n random nodes on leaves, with what they are worth."""
    values = list(leaves)
    for _ in range(n):
        (a, wa), (b, wb) = (values[random.integers(len(values))] for _ in range(2))
        kind = random.integers(7)
        if kind == 0:
            made = ops.add(a, b), wa + wb
        elif kind == 1:
            made = ops.scale(ops.sub(a, b), 0.5), (wa - wb) * 0.5
        elif kind == 2:
            made = ops.tanh(a), np.tanh(wa)
        elif kind == 3:
            made = ops.transpose(a), wa.T
        elif kind == 4:
            shifted = np.exp(wa - wa.max(axis=-1, keepdims=True))
            made = ops.soft_max(a), shifted / shifted.sum(axis=-1, keepdims=True)
        elif kind == 5:
            made = ops.scale(ops.mul_mat(a, b), 0.125), wb @ wa.T * 0.125
        else:
            rows = ops.view(ops.cont(a), (12, 4), (48, 4), offset=16)
            made = (
                ops.cont(ops.permute(ops.reshape(ops.cont(a), (12, 12)), (1, 0))),
                wa.T,
            )
            made = (
                ops.add(made[0], ops.sum_rows(rows)),
                wa.T + wa[:, 4:8].sum(1)[:, None],
            )
        values.append(made)
    return values


@pytest.mark.parametrize("seed", range(12))
async def test_random_graphs_share_scratch_rightly(opened: Any, seed: int) -> None:
    """Whatever the plan puts into one place, no value is lost before its last use."""
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend(), seed)
        leaves = []
        for _ in range(3):
            array = runs.uniform((12, 12))
            leaves.append((await runs.leaf(array), array.astype(np.float64)))
        values = grow(runs.random, leaves, 60)
        wanted = [values[-1], *(values[i] for i in runs.random.integers(0, 63, 4))]
        graph = aiocann.Graph([tensor for tensor, _ in wanted])
        for _ in range(2):
            await runs.backend.graph_compute(graph)
            for tensor, want in wanted:
                check_close(await runs.read(tensor), want, limit=1e-8)


@pytest.mark.parametrize("driver", ["sim"], indirect=True)
async def test_a_graph_may_be_very_deep(opened: Any) -> None:
    """Neither building, planning nor forgetting it recurses."""
    n = 20_000
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = y = await runs.leaf(np.ones(1))
        for _ in range(n):
            y = ops.neg(y)
        for _ in range(n):
            x = ops.view(x, (1,))
        graph = aiocann.Graph([y, ops.cont(x)])
        assert len(graph) == n + 1
        await runs.backend.graph_compute(graph)
        assert (await runs.read(y) == 1).all()
        del x, y, graph


async def test_computing_changes_nothing_and_may_be_at_once(opened: Any) -> None:
    """TRAP (SQR): computing a graph twice failed, because the first time changed it."""
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        array = runs.uniform((64, 64))
        x = await runs.leaf(array)
        y = ops.sqr(ops.soft_max(ops.sqr(x)))
        graph = aiocann.Graph([y])
        native = graph.native_for(device)
        before = graph._pack(device, 0)
        async with device.stream() as s, device.stream() as t:
            for stream in (s, t, s, t):
                assert (
                    lib.aiocann_graph_compute(native, stream.native(), NULL, NULL) == 0
                )
            await s.synchronize()
            await t.synchronize()
        assert graph._pack(device, 0) == before
        assert graph.native_for(device) is native
        shares = np.exp(array.astype(np.float64) ** 2)
        shares /= shares.sum(axis=-1, keepdims=True)
        check_close(await runs.read(y), shares**2)


async def test_nodes_run_as_they_were_built(opened: Any) -> None:
    """What was built before a cpy sees the old contents, what came later the new."""
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        store = await runs.leaf(np.zeros(4))
        one = await runs.leaf(np.ones(4))
        before = ops.dup(store)
        written = ops.cpy(one, store)
        after = ops.dup(store)
        for outputs in ([after, written, before], [before, written, after]):
            await runs.backend.set_tensor_async(store, np.zeros(4, np.float32))
            await runs.compute(*outputs)
            assert (await runs.read(before) == 0).all()
            assert (await runs.read(after) == 1).all()


async def test_values_in_between_cannot_be_read(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = await runs.leaf(np.ones(4))
        y = ops.neg(x)
        await runs.compute(ops.neg(y))
        with pytest.raises(UsageError, match="inside a graph"):
            await runs.read(y)


async def test_an_output_that_is_a_view(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        array = runs.uniform((3, 5))
        y = ops.transpose(ops.neg(await runs.leaf(array)))
        (got,) = await runs.compute(y)
        assert (got == -array.T).all()


async def test_tensors_of_two_devices_do_not_meet(opened: Any) -> None:
    async with opened(2) as rt:
        d0, d1 = rt.devices
        x = await d0.backend().empty((4,), aiocann.F32)
        y = await d1.backend().empty((4,), aiocann.F32)
        with pytest.raises(UsageError, match=r"add\(f32 \(4,\), f32 \(4,\)\)"):
            ops.add(x, y)
        with pytest.raises(UsageError, match="on one device"):
            aiocann.Graph([ops.neg(x), ops.neg(y)])
        with pytest.raises(UsageError, match="cannot be computed on"):
            d1.backend().graph_compute(aiocann.Graph([ops.neg(x)]))
        assert not d1.backend().supports_op(ops.neg(x))


async def test_a_graph_without_operands_is_of_the_device_that_computes_it(
    opened: Any,
) -> None:
    async with opened(2) as rt:
        d0, d1 = rt.devices
        numbers = ops.arange(0, 4)
        shared, there = aiocann.Graph([numbers]), aiocann.Graph([ops.neg(numbers)])
        await d0.backend().graph_compute(shared)
        assert numbers.device is d0
        with pytest.raises(UsageError, match="cannot be computed on"):
            d1.backend().graph_compute(shared)
        with pytest.raises(UsageError, match="cannot be computed on"):
            d1.backend().graph_compute(there)  # its operand has found a place meanwhile
        runs = OpRuns(d1.backend())
        x = await runs.leaf(np.ones(4, np.float32))
        fresh = ops.arange(0, 4)
        results = await runs.compute(fresh, ops.add(x, fresh))
        assert [list(r) for r in results] == [[0, 1, 2, 3], [1, 2, 3, 4]]


async def test_a_graph_needs_outputs(opened: Any) -> None:
    async with opened() as rt:
        x = await rt.devices[0].backend().empty((4,), aiocann.F32)
        with pytest.raises(UsageError, match="needs an output"):
            aiocann.Graph([])
        with pytest.raises(UsageError, match="in a list"):
            aiocann.Graph(ops.neg(x))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"an output must be an aiocann\.Tensor"):
            aiocann.Graph([np.zeros(4)])  # type: ignore[list-item]


async def test_operands_must_be_tensors(opened: Any) -> None:
    async with opened() as rt:
        x = await rt.devices[0].backend().empty((4,), aiocann.F32)
        with pytest.raises(TypeError, match=r"b of add must be an aiocann\.Tensor"):
            ops.add(x, np.zeros(4))  # type: ignore[arg-type]


BAD: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "shapes": (
        lambda x, i: ops.add(x, ops.view(x, (3,))),
        UsageError,
        r"add\(f32 \(4, 4\), f32 \(3,\)\): the second operand must repeat",
    ),
    "dtype": (
        lambda x, i: ops.exp(i),
        UnsupportedError,
        r"exp\(i32 \(3,\)\): operand 0 cannot be i32; it takes f32 f16 bf16",
    ),
    "product": (
        lambda x, i: ops.mul_mat(x, ops.view(x, (2, 2))),
        UsageError,
        r"the last axes differ \(4 and 2\)",
    ),
    "reshape": (
        lambda x, i: ops.reshape(x, (3, -1)),
        UsageError,
        r"\(3, -1\) is no shape",
    ),
    "gaps": (
        lambda x, i: ops.reshape(ops.transpose(x), (16,)),
        UsageError,
        "use cont first",
    ),
    "axes": (lambda x, i: ops.permute(x, (0, 0)), UsageError, "each of 2 axes once"),
    "outside": (
        lambda x, i: ops.view(x, (4,), offset=52),
        UsageError,
        "ends outside its source",
    ),
    "strides": (lambda x, i: ops.view(x, (2, 2), (16, 8)), UsageError, "the last of"),
    "quantized": (
        lambda x, i: ops.cast(x, aiocann.Q8_0),
        UnsupportedError,
        "cast to q8_0",
    ),
    "alibi": (lambda x, i: ops.soft_max(x, max_bias=8.0), UsageError, "needs a mask"),
}


@pytest.mark.parametrize("case", list(BAD))
async def test_nonsense_is_refused_where_it_is_built(opened: Any, case: str) -> None:
    build, error, match = BAD[case]
    async with opened() as rt:
        backend = rt.devices[0].backend()
        x = await backend.empty((4, 4), aiocann.F32)
        ids = await backend.empty((3,), aiocann.I32)
        with pytest.raises(error, match=match):
            build(x, ids)


async def test_310p_refuses_bf16_before_anything_runs(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_SIM_SOC", "Ascend310P3")
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        first = ops.neg(await runs.leaf(np.ones(4)))
        narrow = ops.cast(first, aiocann.BF16)  # the line to be named
        assert runs.backend.supports_op(first)
        assert not runs.backend.supports_op(narrow)
        kernels = aiocann.sim.counters()["kernels"]
        with pytest.raises(UnsupportedError, match="Ascend310P3 has no bf16") as caught:
            runs.backend.graph_compute(aiocann.Graph([first, narrow]))
        assert "cast(f32 (4,))" in str(caught.value)
        assert "test_310p_refuses_bf16_before_anything_runs" in str(caught.value)
        assert aiocann.sim.counters()["kernels"] == kernels


async def test_a_fault_names_the_node_and_its_line(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = await runs.leaf(runs.uniform((4, 7, 32)))
        w = await runs.leaf(runs.uniform((16, 32)), aiocann.F16)
        y = ops.neg(x)
        y = ops.mul_mat(w, y)  # the line to be named
        y = ops.tanh(y)
        graph = aiocann.Graph([y])
        assert line_of(graph.node_site(1), "the line to be named")
        aiocann.sim.fail_kernel("aclnnMm")
        with pytest.raises(DeviceFaultError) as caught:
            await runs.backend.graph_compute(graph)
        assert caught.value.op == "mul_mat(f16 (16, 32), f32 (4, 7, 32))"
        where = caught.value.enqueued_at
        assert line_of(where.partition(", computed at ")[0], "the line to be named")
        assert "graph_compute" in linecache.getline(
            __file__, int(where.rpartition(" in ")[0].rpartition(":")[2])
        )


async def test_a_row_that_is_not_there_is_a_fault_of_get_rows(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        table = await runs.leaf(runs.uniform((5, 8)))
        ids = await runs.leaf(np.array([0, 5]), aiocann.I64)
        graph = aiocann.Graph([ops.neg(ops.get_rows(table, ids))])
        with pytest.raises(DeviceFaultError) as caught:
            await runs.backend.graph_compute(graph)
        assert caught.value.op == "get_rows(f32 (5, 8), i64 (2,))"


async def test_a_call_that_the_driver_refuses_names_it(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = await runs.leaf(runs.uniform((4,)))
        graph = aiocann.Graph([ops.tanh(ops.neg(x))])
        for call in ("aclnnTanhGetWorkspaceSize", "aclnnTanh"):
            aiocann.sim.fail_call(call, 561003)
            with pytest.raises(aiocann.AclError) as caught:
                await runs.backend.graph_compute(graph)
            assert caught.value.code == 561003
            assert caught.value.call == call
            assert "tanh(f32 (4,))" in str(caught.value)
            assert "injected" in str(caught.value)  # the driver's own words
            stats = rt.statistics()
            assert stats.live_tensors == 0
            assert stats.live_executors == 0
        await runs.backend.graph_compute(graph)  # and the next time it works


async def test_the_backend_may_trade_precision_for_all_products(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        w, x = runs.uniform((32, 256)), runs.uniform((8, 256))
        y = ops.mul_mat(await runs.leaf(w), await runs.leaf(x))
        graph = aiocann.Graph([y])
        (exact,) = await runs.compute(y)
        native = graph.native_for(device, cube_math_type=2)
        stream = device.backend().stream
        assert lib.aiocann_graph_compute(native, stream.native(), NULL, NULL) == 0
        half = await runs.read(y)
        assert (exact != half).any()
        check_close(half, exact, limit=5e-4)


async def test_scratch_is_planned(opened: Any) -> None:
    """A chain of any length needs two places."""
    async with opened() as rt:
        (device,) = rt.devices
        y = await device.backend().empty((1024,), aiocann.F32)
        for _ in range(50):
            y = ops.neg(y)
        native = aiocann.Graph([y]).native_for(device)
        assert lib.aiocann_graph_scratch_bytes(native) == 2 * 4096


async def test_trap_get_rows_converts_rows_and_not_the_table(opened: Any) -> None:
    """TRAP: the whole table was converted for the sake of a few of its rows."""
    async with opened() as rt:
        (device,) = rt.devices
        table = await device.backend().empty((30_000, 64), aiocann.F16)
        ids = await device.backend().empty((7,), aiocann.I32)
        native = aiocann.Graph([ops.get_rows(table, ids)]).native_for(device)
        assert lib.aiocann_graph_scratch_bytes(native) <= 7 * 64 * 2 + 512


async def test_trap_rms_norm_scratch_fits_every_dtype(opened: Any) -> None:
    """TRAP: a cache counted in elements of another dtype was written beyond its end.

    Values that live beside the op's scratch memory must survive it.
    """
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        for dtype in (aiocann.F16, aiocann.F32, aiocann.BF16):
            for shape in ((200, 3), (3, 200), (1, 1)):
                x = runs.uniform(shape, dtype)
                leaf = await runs.leaf(x, dtype)
                kept = [ops.scale(leaf, float(2**i)) for i in range(4)]
                y = ops.rms_norm(leaf, eps=1e-5)
                outputs = [ops.neg(value) for value in kept]
                got, *rest = await runs.compute(y, *outputs)
                wide = x.astype(np.float64)
                square = (wide**2).mean(axis=-1, keepdims=True)
                check_close(got, wide / np.sqrt(square + 1e-5), dtype)
                for i, value in enumerate(rest):
                    assert (value == -x * 2**i).all()


async def test_trap_alibi_operands_outlive_their_use(opened: Any) -> None:
    """TRAP: slopes and bias were given back before the sum that reads them was queued.

    With the device held, everything of the graph is queued before any of it runs.
    """
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        x = runs.uniform((1, 12, 9, 33))
        mask = runs.uniform((9, 33), aiocann.F16)
        leaves = await runs.leaf(x), await runs.leaf(mask, aiocann.F16)
        outputs = [
            ops.soft_max(*leaves, scale=scale, max_bias=8.0) for scale in (0.5, 2.0)
        ]
        graph = aiocann.Graph(outputs)
        with aiocann.sim.hold(device.index):
            computed = runs.backend.graph_compute(graph)
        await computed
        low = np.array([2.0 ** -(h + 1) for h in range(8)])
        high = np.array([2.0 ** (-0.5 * (2 * h + 1)) for h in range(4)])
        slopes = np.concatenate([low, high])[:, None, None]
        for output, scale in zip(outputs, (0.5, 2.0), strict=True):
            scores = x.astype(np.float64) * scale + slopes * mask
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            check_close(await runs.read(output), shares)


async def test_memory_that_is_closed_is_told(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        x = await device.backend().empty((4,), aiocann.F32)
        graph = aiocann.Graph([ops.neg(x)])
        x._block.close()
        with pytest.raises(aiocann.ClosedResourceError):
            device.backend().graph_compute(graph)


def test_struct_sizes_are_those_of_the_abi() -> None:
    from aiocann import optable

    assert ffi.sizeof("aiocann_tensor") == optable._LAYOUT.size + optable.PLACE.size
    assert ffi.sizeof("aiocann_node") == optable.NODE_HEAD.size + 8 * optable.MAX_PARAMS
