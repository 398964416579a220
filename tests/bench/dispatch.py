"""What enqueueing tiny ops as one graph costs, beside a C program's own aclnn calls."""

from __future__ import annotations

import asyncio
import ctypes
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

import aiocann
import native
from aiocann import Graph, Tensor, ops
from harness import Row, Run, compare

OPS = 1000
SHAPE = (4, 64)
# A thread's CPU time comes in runs: once it sleeps, all of it is there.
SETTLE_SECONDS = 0.002


async def measure(device: aiocann.Device, library: str, rounds: int) -> list[Row]:
    """Compare the lane with a C program, and say how long the loop was held."""
    calls = _build(library)
    backend = device.backend()
    rows: list[Row] = []
    if calls is not None:
        await asyncio.to_thread(calls.dispatch_open, device.index)
    for name, is_mixed in {"add": False, "add, silu, rms_norm, soft_max": True}.items():
        graph = await _graph(backend, is_mixed)
        ways: dict[str, Run] = {}
        if calls is not None:
            ways["a C program's thread"] = _by_program(calls, is_mixed)
        ways["aiocann's lane"] = _by_lane(backend, graph)
        rows += await compare(
            f"{OPS} tiny ops as one graph ({name}): CPU time",
            "us per op",
            ways,
            rounds,
        )
    if calls is not None:
        await asyncio.to_thread(calls.dispatch_close, device.index)
    return rows + await _held(backend, rounds)


async def _held(backend: aiocann.Backend, rounds: int) -> list[Row]:
    graph = await _graph(backend, is_mixed=True)

    async def again() -> float:
        return await _loop_time(lambda: backend.graph_compute(graph))

    async def first() -> float:
        fresh = await _graph(backend, is_mixed=True)
        return await _loop_time(lambda: backend.graph_compute(fresh))

    return await compare(
        f"{OPS} tiny ops as one graph: the loop's CPU time in graph_compute",
        "ms",
        {"computed before": again, "checked and planned": first},
        rounds,
    )


async def _loop_time(enqueue: Callable[[], Awaitable[object]]) -> float:
    start = time.thread_time_ns()
    op = enqueue()
    held = time.thread_time_ns() - start
    await op
    return held / 1e6


def _build(library: str) -> ctypes.CDLL | None:
    if native.compiler() is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = native.build(
            "dispatch_calls.cpp", library, Path(folder), "-shared", "-fPIC"
        )
        calls = ctypes.CDLL(str(path))
    calls.dispatch_enqueue.restype = ctypes.c_double
    return calls


async def _graph(backend: aiocann.Backend, is_mixed: bool) -> Graph:
    x = await backend.empty(SHAPE, aiocann.F32)
    other = await backend.empty(SHAPE, aiocann.F32)
    for one in (x, other):
        await backend.set_tensor_async(one, np.ones(SHAPE, np.float32))

    def add(value: Tensor) -> Tensor:
        return ops.add(value, other)

    def rms_norm(value: Tensor) -> Tensor:
        return ops.rms_norm(value, eps=1e-5)

    made = [add, ops.silu, rms_norm, ops.soft_max] if is_mixed else [add]
    for number in range(OPS):
        x = made[number % len(made)](x)
    return Graph([x])


def _by_program(calls: ctypes.CDLL, is_mixed: bool) -> Run:
    async def run() -> float:
        spent = await asyncio.to_thread(calls.dispatch_enqueue, OPS, int(is_mixed))
        return float(spent) / OPS * 1e6

    return run


def _by_lane(backend: aiocann.Backend, graph: Graph) -> Run:
    lanes = [
        task
        for task in Path("/proc/self/task").iterdir()
        if (task / "comm").read_text().strip() == "aiocann-lane"
    ]

    def spent() -> int:
        return sum(int((lane / "schedstat").read_text().split()[0]) for lane in lanes)

    async def run() -> float:
        await asyncio.sleep(SETTLE_SECONDS)
        start = spent()
        await backend.graph_compute(graph)
        await asyncio.sleep(SETTLE_SECONDS)
        return (spent() - start) / OPS / 1e3

    return run
