"""No call holds the loop, however much it moves."""

from __future__ import annotations

import time
from typing import Any

import anyio
import numpy as np
import pytest

from aiocann import testing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

GIB = 1 << 30


@pytest.mark.slow
# However a driver was loaded, the same code runs at the same cost.
@pytest.mark.parametrize("driver", ["sim"], indirect=True)
async def test_copy_of_a_gibibyte_of_ordinary_memory(
    opened: Any, driver: str, record_property: Any
) -> None:
    """Other tasks make progress, and the data is right; times are only reported."""
    async with opened() as rt:
        (device,) = rt.devices
        source = np.arange(GIB // 8, dtype=np.int64)
        buffer = await device.allocate(GIB)
        target = np.zeros(GIB // 8, np.int64)
        done = False

        async with device.stream() as stream:
            hold = testing.LoopHold()

            async def copies() -> None:
                nonlocal done
                await stream.memcpy(buffer, source)
                await stream.memcpy(target, buffer)
                done = True

            async with anyio.create_task_group() as tasks:
                start = time.perf_counter()
                tasks.start_soon(copies)
                while not done:
                    hold.tick()
                    await anyio.sleep(0.001)
                seconds = time.perf_counter() - start
        assert hold.turns > 10, "others made progress"
        assert (target == source).all()
    print(
        f"2 GiB in {seconds:.2f} s; longest turn of the loop "
        f"{hold.longest * 1e3:.2f} ms of CPU time, {hold.turns} turns"
    )
    record_property("longest_turn_ms", hold.longest * 1e3)
