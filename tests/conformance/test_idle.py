"""Waiting costs nothing: no thread of ours runs while there is nothing to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

import aiocann

# A lane asks once a second whether a callback was lost; ticks are of 10 ms.
_ALLOWED_TICKS = 2


def _cpu_ticks() -> dict[str, int]:
    """CPU time of each of our threads, by name and id, in ticks."""
    ticks = {}
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("aiocann"):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks[f"{name} {task.name}"] = int(fields[11]) + int(fields[12])
    return ticks


async def test_an_op_that_takes_an_hour_costs_no_cpu(opened: Any) -> None:
    async with opened(2) as rt:
        first, second = rt.devices
        a, b = await first.allocate(4096), await second.allocate(4096)
        async with first.stream() as s, second.stream() as t:
            await s.memset(a, 1)
            await t.memset(b, 1)
            with aiocann.sim.hold(first.index):
                op = s.memset(a, 2)
                event = s.record()
                t.wait(event)
                held = t.memset(b, 2)
                # Time has to pass here: it is what is measured.
                await anyio.sleep(0.3)  # spinning has ended
                before = _cpu_ticks()
                await anyio.sleep(1.5)
                after = _cpu_ticks()
                assert not op.done
                assert not held.done
            await op
            await held
    names = {name.split()[0] for name in before}
    assert {"aiocann-lane", "aiocann-reactor", "aiocann-copier"} <= names
    used = {name: after[name] - before[name] for name in before if name in after}
    assert max(used.values()) <= _ALLOWED_TICKS, used
    assert os.sysconf("SC_CLK_TCK") == 100
