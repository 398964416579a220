"""The model's matrix products on a simulated device beside NumPy."""

from __future__ import annotations

import math
import time

import numpy as np

import aiocann
from aiocann import ops
from harness import Row, Run, compare

# w (..., n, k), x (..., m, k), for a batch of 8 texts of 256 tokens
SHAPES = {
    "query, key, value, output": ((384, 384), (2048, 384)),
    "intermediate": ((1536, 384), (2048, 384)),
    "output": ((384, 1536), (2048, 1536)),
    "attention scores": ((8, 12, 256, 32), (8, 12, 256, 32)),
    "attention mix": ((8, 12, 32, 256), (8, 12, 256, 256)),
}
REPEATS = 8


async def measure(device: aiocann.Device, rounds: int) -> list[Row]:
    """Compute each product `REPEATS` times in a row, both ways in float32."""
    backend = device.backend()
    random = np.random.default_rng(0)
    rows = []
    for name, (w_shape, x_shape) in SHAPES.items():
        w_host = random.standard_normal(w_shape, np.float32)
        x_host = random.standard_normal(x_shape, np.float32)
        w = await backend.empty(w_shape, aiocann.F32)
        x = await backend.empty(x_shape, aiocann.F32)
        await backend.set_tensor_async(w, w_host)
        await backend.set_tensor_async(x, x_host)
        graph = aiocann.Graph([ops.mul_mat(w, x) for _ in range(REPEATS)])
        flops = 2 * REPEATS * math.prod(x_shape) * w_shape[-2]
        shapes = f"{x_shape} x {w_shape[:-2] + w_shape[:-3:-1]}"
        rows += await compare(
            f"{name} {shapes}",
            "GFLOP/s",
            {
                "NumPy": _numpy(w_host, x_host, flops),
                "mul_mat, simulated": _simulated(backend, graph, flops),
            },
            rounds,
        )
    return rows


def _numpy(w: np.ndarray, x: np.ndarray, flops: int) -> Run:
    transposed = np.swapaxes(w, -1, -2)
    out = np.matmul(x, transposed)

    async def run() -> float:
        start = time.perf_counter()
        for _ in range(REPEATS):
            np.matmul(x, transposed, out=out)
        return flops / (time.perf_counter() - start) / 1e9

    return run


def _simulated(backend: aiocann.Backend, graph: aiocann.Graph, flops: int) -> Run:
    async def run() -> float:
        start = time.perf_counter()
        await backend.graph_compute(graph)
        return flops / (time.perf_counter() - start) / 1e9

    return run
