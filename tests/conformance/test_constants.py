"""What ops compute once and keep on the device: ones, rope's factors, slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiocann import F16, I32, AclError, DeviceFaultError, Graph, ops, sim
from helpers.op_runs import Array, OpRuns, check_close

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: constants are native's business."""
    return "asyncio"


FILL = "aclnnInplaceFillScalarGetWorkspaceSize"


def rms_norm(x: Array) -> Array:
    wide = x.astype(np.float64)
    want: Array = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-5)
    return want


async def test_they_are_computed_once(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = runs.uniform((1, 4, 6, 8))
        leaf, half = await runs.leaf(x), await runs.leaf(x, F16)
        positions = await runs.leaf(np.arange(4), I32)
        mask = await runs.leaf(runs.uniform((1, 1, 6, 8)))
        nodes = []
        for _ in range(3):
            nodes += [ops.rms_norm(leaf, eps=1e-5), ops.rms_norm(half, eps=1e-5)]
            nodes.append(ops.rope(leaf, positions, n_dims=8))
            nodes.append(ops.soft_max(leaf, mask, scale=1.0, max_bias=8.0))
        graph = Graph(nodes)
        with sim.counted_calls() as calls:
            for _ in range(3):
                await runs.backend.graph_compute(graph)
        assert calls[FILL] == 2 + 4  # ones of two dtypes, slopes of four heads
        assert calls["aclnnArangeGetWorkspaceSize"] == 1
        check_close(await runs.read(nodes[-4]), rms_norm(x))
        assert rt.statistics().live_tensors == 0


async def test_each_stream_has_its_own(opened: Any) -> None:
    """One that waits for its constants leaves others alone."""
    async with opened() as rt:
        (device,) = rt.devices
        slow, quick = OpRuns(device.backend()), OpRuns(device.backend())
        x = slow.uniform((3, 8))
        nodes = [ops.rms_norm(await runs.leaf(x), eps=1e-5) for runs in (slow, quick)]
        sim.delay_kernel(100, "aclnnInplaceFillScalar")
        op = slow.backend.graph_compute(Graph([nodes[0]]))
        await quick.backend.graph_compute(Graph([nodes[1]]))
        check_close(await quick.read(nodes[1]), rms_norm(x))
        await op
        check_close(await slow.read(nodes[0]), rms_norm(x))


async def test_one_that_could_not_be_made_is_made_later(opened: Any) -> None:
    async with opened() as rt:
        runs = OpRuns(rt.devices[0].backend())
        x = runs.uniform((3, 8))
        node = ops.rms_norm(await runs.leaf(x), eps=1e-5)
        for function in (FILL, "aclnnInplaceFillScalar"):
            sim.fail_call(function, 161002)
            with pytest.raises(AclError, match="rms_norm"):
                await runs.backend.graph_compute(Graph([node]))
        [got] = await runs.compute(node)
        check_close(got, rms_norm(x))


async def test_one_whose_kernel_faults_goes_with_its_stream(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        node = ops.rms_norm(await runs.leaf(runs.uniform((3, 8))), eps=1e-5)
        sim.fail_kernel("aclnnInplaceFillScalar")
        with pytest.raises(DeviceFaultError):
            await runs.backend.graph_compute(Graph([node]))
        await device.reset()
        runs = OpRuns(device.backend())
        x = runs.uniform((3, 8))
        [got] = await runs.compute(ops.rms_norm(await runs.leaf(x), eps=1e-5))
        check_close(got, rms_norm(x))


async def test_more_than_are_kept(opened: Any) -> None:
    """Those that go are still there for what was enqueued with them."""
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        arrays = [runs.uniform((2, width)) for width in range(1, 150)]
        nodes = [ops.rms_norm(await runs.leaf(x), eps=1e-5) for x in arrays]
        with sim.hold(device.index):
            pending = [runs.backend.graph_compute(Graph([node])) for node in nodes]
            pending.append(runs.backend.graph_compute(Graph(nodes)))
        for op in pending:
            await op
        for x, node in zip(arrays, nodes, strict=True):
            check_close(await runs.read(node), rms_norm(x))
