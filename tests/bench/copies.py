"""Host-to-device bandwidth beside memcpy."""

from __future__ import annotations

import time

import numpy as np

import aiocann
from harness import Row, Run, compare

NBYTES = 256 << 20


async def measure(
    runtime: aiocann.Runtime, device: aiocann.Device, rounds: int
) -> list[Row]:
    """Copy 256 MiB; every page of both sides has been touched before."""
    ordinary = np.ones(NBYTES, np.uint8)
    pinned = await runtime.pinned_empty((NBYTES,), np.uint8)
    pinned[:] = 1
    target = np.zeros(NBYTES, np.uint8)
    block = await device.allocate(NBYTES)

    async def memcpy() -> float:
        start = time.perf_counter()
        np.copyto(target, ordinary)
        return NBYTES / (time.perf_counter() - start) / 1e9

    async with device.stream() as stream:

        def upload(source: np.ndarray) -> Run:
            async def run() -> float:
                start = time.perf_counter()
                await stream.memcpy(block, source)
                return NBYTES / (time.perf_counter() - start) / 1e9

            return run

        rows = await compare(
            "copy 256 MiB to the device",
            "GB/s",
            {
                "memcpy (NumPy, one thread)": memcpy,
                "ordinary memory, staged": upload(ordinary),
                "pinned memory": upload(pinned),
            },
            rounds,
        )
    block.close()
    return rows
