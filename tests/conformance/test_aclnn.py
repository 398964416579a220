"""`Stream.aclnn`: any operator by name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import (
    F16,
    F32,
    AclError,
    DeviceFaultError,
    Graph,
    Tensor,
    UnsupportedError,
    UsageError,
    ops,
    sim,
)
from helpers.op_runs import Array, OpRuns
from helpers.programs import printed
from helpers.waiting import until

pytestmark = pytest.mark.anyio


class Call:
    """Leaves on a device, and a stream to call operators on."""

    def __init__(self, runs: OpRuns, stream: aiocann.Stream) -> None:
        self.runs, self.stream = runs, stream

    async def result(self, name: str, *args: Any, out: Tensor, **more: Any) -> Array:
        """Call an operator whose last argument is what it writes; read that."""
        await self.stream.aclnn(name, *args, out, **more)
        return await self.runs.read(out)


@pytest.fixture
async def call(opened: Any) -> AsyncIterator[Call]:
    async with opened() as rt:
        stream = rt.devices[0].backend().stream
        yield Call(OpRuns(rt.devices[0].backend()), stream)


async def test_kinds_of_arguments(call: Call) -> None:
    runs, empty = call.runs, call.runs.backend.empty
    a, b = runs.uniform((3, 4)), runs.uniform((3, 4))
    x, y = await runs.leaf(a), await runs.leaf(b)
    out = await empty((3, 4), F32)
    got = await call.result("aclnnAdd", x, y, 2.0, out=out)
    assert np.allclose(got, a + 2 * b)
    got = await call.result("aclnnAdd", x, y, np.float16(0.5), out=out)
    assert np.allclose(got, a + 0.5 * b)
    got = await call.result("aclnnAdd", x, y, 3, out=out)
    assert np.allclose(got, a + 3 * b)
    total = await empty((3, 1), F32)
    got = await call.result("aclnnReduceSum", x, [1], True, F32, out=total)
    assert np.allclose(got, a.sum(1, keepdims=True))
    joined = await empty((6, 4), F32)
    got = await call.result("aclnnCat", [x, y], 0, out=joined)
    assert (got == np.concatenate([a, b])).all()
    narrow = await empty((3, 4), F16)
    got = await call.result("aclnnCast", x, F16, out=narrow)
    assert (got == a.astype(np.float16)).all()
    got = await call.result("aclnnClamp", x, -0.5, None, out=out)
    assert (got == np.maximum(a, -0.5)).all()


async def test_views_and_formats(call: Call) -> None:
    runs, empty = call.runs, call.runs.backend.empty
    a = runs.uniform((3, 4))
    x = await runs.leaf(a)
    store = await empty((4, 6), F32)
    await runs.backend.set_tensor_async(store, np.zeros((4, 6), np.float32))
    # Columns 2 to 4 of every row, from a transposed source.
    part = ops.view(store, (4, 3), (24, 4), offset=8)
    await call.stream.aclnn("aclnnMuls", ops.transpose(x), 2.0, part)
    want = np.zeros((4, 6), np.float32)
    want[:, 2:5] = 2 * a.T
    assert (await runs.read(store) == want).all()
    image, kernel = runs.uniform((1, 2, 6)), runs.uniform((1, 2, 3))
    out = await empty((1, 1, 4), F32)
    leaves = [await runs.leaf(image), await runs.leaf(kernel)]
    await call.stream.aclnn(
        "aclnnConvolution",
        *(*leaves, None, [1], [0], [1], False, [0], 1, out, 0),
        formats={0: "NCL", 1: "NCL", 9: "NCL"},
    )
    windows = np.lib.stride_tricks.sliding_window_view(image[0], 3, axis=1)
    assert np.allclose(await runs.read(out), np.einsum("cwk,ck->w", windows, kernel[0]))


async def test_wrong_arguments(call: Call) -> None:
    runs, stream = call.runs, call.stream
    x = await runs.leaf(runs.uniform((3, 4)))
    y = ops.neg(x)
    with pytest.raises(
        UsageError,
        match=r"aclnnAdd takes 4 arguments \(self, other, alpha, out\), not 3",
    ):
        stream.aclnn("aclnnAdd", x, x, x)
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((3, x, 1, x), "self of aclnnAdd is a Tensor"),
        ((x, x, "1", x), "alpha of aclnnAdd is a number"),
        ((x, x, [1], x), "alpha of aclnnAdd is a number"),
    ]
    for args, what in wrong:
        with pytest.raises(TypeError, match=what):
            stream.aclnn("aclnnAdd", *args)
    wrong = [
        ((x, [0.5], True, F32, x), "dims of aclnnReduceSum is a list of ints"),
        ((x, 1, True, F32, x), "is a list of ints"),
        ((x, [1], 1, F32, x), "keepDims of aclnnReduceSum is True or False"),
        ((x, [1], True, "f", x), "a DType or an aclDataType"),
    ]
    for args, what in wrong:
        with pytest.raises(TypeError, match=what):
            stream.aclnn("aclnnReduceSum", *args)
    with pytest.raises(TypeError, match="is a list of tensors"):
        stream.aclnn("aclnnCat", x, 0, x)
    with pytest.raises(UsageError, match="a value inside a graph"):
        stream.aclnn("aclnnAbs", y, x)
    with pytest.raises(UsageError, match="there is no format 'NWC'"):
        stream.aclnn("aclnnAbs", x, x, formats={0: "NWC"})
    with pytest.raises(UsageError, match="is empty"):
        stream.aclnn("aclnnNobodyKnows", [])
    with pytest.raises(
        UnsupportedError, match=r"aclnnNobodyKnows.* is not in this CANN"
    ):
        stream.aclnn("aclnnNobodyKnows", x)
    weights = await runs.backend.empty((2, 32), aiocann.Q8_0)
    with pytest.raises(UnsupportedError, match="stored in blocks"):
        stream.aclnn("aclnnAbs", weights, x)


async def test_what_the_operator_refuses(call: Call) -> None:
    x = await call.runs.leaf(call.runs.uniform((3, 4)))
    small = await call.runs.backend.empty((2, 2), F32)
    for args in [(x, small), (None, x)]:
        op = call.stream.aclnn("aclnnAbs", *args)
        with pytest.raises(AclError, match="aclnnAbs") as caught:
            await op
        assert caught.value.code in {161001, 161002}
        assert "test_aclnn.py" in str(caught.value)
    # The stream is none the worse.
    got = await call.result("aclnnAbs", x, out=x)
    assert (got >= 0).all()


async def test_tensors_of_another_device(opened: Any) -> None:
    async with opened(2) as rt:
        x = await OpRuns(rt.devices[0].backend()).leaf(np.ones(4))
        with pytest.raises(UsageError, match="device"):
            rt.devices[1].backend().stream.aclnn("aclnnAbs", x, x)


async def test_a_fault_names_the_operator_and_the_line(call: Call) -> None:
    x = await call.runs.leaf(call.runs.uniform((3, 4)))
    sim.fail_kernel(nth=1)
    with pytest.raises(DeviceFaultError, match=r"aclnnAbs\(f32") as caught:
        await call.stream.aclnn("aclnnAbs", x, x)
    assert "test_a_fault_names_the_operator_and_the_line" in str(caught.value)


async def test_a_dropped_operand_lives_until_the_operator_is_done(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        runs = OpRuns(device.backend())
        out = await runs.backend.empty((1000,), F32)
        with sim.hold(device.index):
            x = await device.backend().empty((1000,), F32)
            runs.backend.set_tensor_async(x, np.full(1000, 3, np.float32))
            with anyio.CancelScope() as scope:
                op = runs.backend.stream.aclnn("aclnnMuls", x, 2.0, out)
                del x
                scope.cancel()
                await op
            # What would take its memory, if it were free.
            others = [await device.backend().empty((1000,), F32) for _ in range(8)]
            for one in others:
                runs.backend.set_tensor_async(one, np.zeros(1000, np.float32))
        await until(lambda: op.done)
        assert (await runs.read(out) == 6).all()


async def test_in_order_with_graphs(call: Call) -> None:
    runs = call.runs
    x = await runs.leaf(np.ones(64))
    y = ops.scale(x, 2.0)
    graph = Graph([y])
    pending = [runs.backend.graph_compute(graph)]
    pending += [call.stream.aclnn("aclnnAdd", y, x, 1.0, y) for _ in range(50)]
    for op in pending:
        await op
    assert (await runs.read(y) == 52).all()


CUSTOM = """
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

int32_t aclGetRawTensorAddr(const void *tensor, void **address);
int32_t aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t n, void *stream);

int32_t aclnnMineGetWorkspaceSize(const void *out, const void *nothing, int64_t a,
                                  bool b, double c, const char *d, float e, int8_t f,
                                  double g, int64_t h, int64_t i, int64_t j, int64_t k,
                                  uint64_t *size, void **executor) {
  bool right = nothing == 0 && a == -7 && b && c == 0.5 && strcmp(d, "text") == 0;
  right = right && e == 1.25f && f == -3 && g == 2.5;
  right = right && h == 8 && i == 9 && j == 10 && k == 1ll << 40;
  *size = 0;
  return right ? aclGetRawTensorAddr(out, executor) : 161002;
}

int32_t aclnnMine(void *workspace, uint64_t size, void *executor, void *stream) {
  return aclrtMemsetAsync(executor, 64, 1, 64, stream);
}
"""

CALLER = """
import ctypes, anyio, numpy as np
import aiocann
from aiocann import I8

async def main():
    async with aiocann.open_runtime("cann", 1) as rt:
        backend = rt.devices[0].backend()
        out = await backend.empty((64,), I8)
        numbers = -7, True, 0.5, "text", ctypes.c_float(1.25), -3, 2.5, 8, 9, 10
        await backend.stream.aclnn("aclnnMine", out, None, *numbers, 1 << 40)
        print((await backend.get_tensor_async(out)).sum())
        await backend.stream.aclnn("aclnnMine", out, None, *numbers, 0)

try:
    anyio.run(main)
except aiocann.UnsupportedError as exc:
    print(exc)
except aiocann.AclError as exc:
    print(exc.code)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("driver", ["cann"], indirect=True)
def test_an_operator_of_ones_own(
    driver: str, homes: dict[str, Path], tmp_path: Path
) -> None:
    """More arguments than registers, narrow ones, floating numbers between them."""
    library = tmp_path / "op_api" / "lib" / "libcust_opapi.so"
    library.parent.mkdir(parents=True)
    where = {"ASCEND_TOOLKIT_HOME": str(homes["9.1"])}
    where["ASCEND_CUSTOM_OPP_PATH"] = str(tmp_path)
    library.write_text("no library", encoding="utf-8")
    told = printed(CALLER, **where)
    assert "aclnnMineGetWorkspaceSize is not in this CANN" in told
    assert f"{library} cannot be loaded" in told

    source = tmp_path / "mine.c"
    source.write_text(CUSTOM, encoding="utf-8")
    folder = homes["9.1"] / "lib64"
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lascendcl", "-lnnopbase"]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wall", str(source), "-o", str(library), *link],
        check=True,
        timeout=60,
    )
    assert printed(CALLER, **where).split() == ["64", "161002"]


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 70, 300), 1), ((130, 9), 0), ((4, 5), 0)]
)
async def test_running_sums_down_columns(
    call: Call, shape: tuple[int, ...], axis: int
) -> None:
    """Columns that lie side by side are added up together, a strip at a time."""
    a = call.runs.uniform(shape)
    out = await call.runs.backend.empty(shape, F32)
    got = await call.result("aclnnCumsum", await call.runs.leaf(a), axis, F32, out=out)
    np.testing.assert_allclose(got, a.cumsum(axis, np.float64), rtol=1e-6, atol=1e-6)
