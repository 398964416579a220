"""A vector times a matrix of 4096 x 4096 quantized numbers, beside a plain C loop."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import aiocann
from aiocann import F32, Q4_0, Q8_0, ops
from harness import Row, Run, compare, computed

SIZE = 4096
REPEATS = 4

# Built -O2 for baseline x86-64: what a program without vector code pays.
_SOURCE = """
#include <stdint.h>
void gemv_q8(float *y, const int8_t *w, const float *d, const float *x,
             long n, long k) {
  for (long r = 0; r < n; ++r) {
    float sum = 0;
    for (long b = 0; b < k / 32; ++b) {
      float part = 0;
      for (long j = 0; j < 32; ++j) part += w[r * k + b * 32 + j] * x[b * 32 + j];
      sum += part * d[r * (k / 32) + b];
    }
    y[r] = sum;
  }
}
void gemv_q4(float *y, const uint8_t *w, const float *d, const float *x,
             long n, long k) {
  for (long r = 0; r < n; ++r) {
    float sum = 0;
    for (long b = 0; b < k / 32; ++b) {
      const uint8_t *q = w + (r * k + b * 32) / 2;
      float part = 0;
      for (long j = 0; j < 16; ++j) {
        part += ((q[j] & 15) - 8) * x[b * 32 + j];
        part += ((q[j] >> 4) - 8) * x[b * 32 + j + 16];
      }
      sum += part * d[r * (k / 32) + b];
    }
    y[r] = sum;
  }
}
"""
_FORMS = {"Q8_0": (Q8_0, "gemv_q8"), "Q4_0": (Q4_0, "gemv_q4")}


async def measure(device: aiocann.Device, rounds: int) -> list[Row]:
    """Compare one product of each form; nothing where there is no compiler."""
    plain = _built()
    if plain is None:
        return []
    backend = device.backend()
    random = np.random.default_rng(0)
    x_host = random.standard_normal((1, SIZE), np.float32)
    x = await backend.empty(x_host.shape, F32)
    await backend.set_tensor_async(x, x_host)
    scales = random.uniform(0.01, 0.1, SIZE * SIZE // 32).astype(np.float16)
    rows = []
    for form, (dtype, loop) in _FORMS.items():
        quants = random.integers(
            0, 256, (len(scales), dtype.block_bytes - 2), dtype=np.uint8
        )
        blocks = np.hstack([scales.view(np.uint8).reshape(-1, 2), quants])
        w = await backend.empty((SIZE, SIZE), dtype)
        await backend.set_tensor_async(w, blocks.ravel())
        graph = aiocann.Graph([ops.mul_mat(w, x)])
        rows += await compare(
            f"{form} {SIZE} x {SIZE} times a vector",
            "1/ms",
            {
                "C loop, -O2": _plain(getattr(plain, loop), quants, scales, x_host),
                "mul_mat": computed(backend, graph, REPEATS),
            },
            rounds,
        )
    return rows


def _built() -> ctypes.CDLL | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "gemv.c", Path(folder) / "gemv.so"
        source.write_text(_SOURCE)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


def _plain(
    loop: Callable[..., object], quants: np.ndarray, scales: np.ndarray, x: np.ndarray
) -> Run:
    wide = scales.astype(np.float32)
    y = np.empty(SIZE, np.float32)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (y, quants, wide, x)]

    async def run() -> float:
        start = time.perf_counter()
        loop(*arrays, ctypes.c_long(SIZE), ctypes.c_long(SIZE))
        return 1e-3 / (time.perf_counter() - start)

    run.keep = (y, quants, wide, x)  # type: ignore[attr-defined]
    return run
