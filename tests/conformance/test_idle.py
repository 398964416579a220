"""Waiting costs nothing: no thread of ours runs while there is nothing to do.

While callbacks are awaited a lane asks once a second whether one was lost, and a
reactor that takes reports comes back from the driver as often. Asking for events, where
the driver has no callbacks, is another matter: it is done every 10 ms.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

import aiocann

pytestmark = pytest.mark.asyncio

# Ticks are of 10 ms.
_ALLOWED_TICKS = 2
_SECONDS = 1.5
# Beside those once a second: the seconds are not ours, and a lock may be taken.
_SLACK = 4
# How often a reactor wakes in a second, by what tells of completions.
_REACTOR_WAKES = {"callback": 1, "callback-block": 1, "host-func": 0, "query": 100}
# What is asked of a stream whose marker has not come.
_QUERIES = {"aclrtQueryEventStatus", "aclrtStreamQuery", "aclmdlRICaptureGetInfo"}


@dataclass
class _Use:
    """What threads have used, by their names and ids."""

    ticks: dict[str, int] = field(default_factory=dict)
    #: How often they went to sleep, and so were woken.
    sleeps: dict[str, int] = field(default_factory=dict)


def _use() -> _Use:
    use = _Use()
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("aiocann"):
            name = f"{name} {task.name}"
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            use.ticks[name] = int(fields[11]) + int(fields[12])
            status = (task / "status").read_text()
            found = status.partition("\nvoluntary_ctxt_switches:")[2]
            use.sleeps[name] = int(found.split()[0])
    return use


async def _waits(rt: aiocann.Runtime) -> tuple[_Use, dict[str, int]]:
    """Wait for ops that do not end; what that has used, and the calls it has made."""
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
            async with anyio.create_task_group() as tasks:
                for each in (op, event, held):
                    tasks.start_soon(_awaits, each)
                # Time has to pass here: it is what is measured.
                await anyio.sleep(0.3)  # spinning has ended
                wakes = rt.statistics().loop_wakes
                with aiocann.sim.counted_calls() as calls:
                    before = _use()
                    await anyio.sleep(_SECONDS)
                    after = _use()
                assert rt.statistics().loop_wakes == wakes
                assert not op.done
                assert not held.done
                aiocann.sim.release(first.index)
    names = {name.split()[0] for name in before.ticks}
    assert {"aiocann-lane", "aiocann-reactor", "aiocann-copier"} <= names
    used = _Use()
    for name in before.ticks.keys() & after.ticks.keys():
        used.ticks[name] = after.ticks[name] - before.ticks[name]
        used.sleeps[name] = after.sleeps[name] - before.sleeps[name]
    return used, calls


async def _awaits(awaitable: Any) -> None:
    await awaitable


async def test_an_op_that_takes_an_hour_costs_no_cpu(opened: Any) -> None:
    async with opened(2) as rt:
        used, _ = await _waits(rt)
    assert max(used.ticks.values()) <= _ALLOWED_TICKS, used
    assert os.sysconf("SC_CLK_TCK") == 100


@pytest.mark.parametrize("family", list(_REACTOR_WAKES))
async def test_nobody_wakes_but_to_look_for_lost_callbacks(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_COMPLETION", family)
    async with aiocann.open_runtime("sim", 2) as rt:
        used, calls = await _waits(rt)
    per_second = {
        "aiocann-lane": 1,
        "aiocann-reactor": _REACTOR_WAKES[family],
        "aiocann-copier": 0,
    }
    for name, sleeps in used.sleeps.items():
        allowed = per_second.get(name.split()[0], 0) * _SECONDS + _SLACK
        assert sleeps <= allowed, used.sleeps
    # Each of two devices has its internal stream and one of the test.
    streams, times = 4, _SECONDS + 1
    queries = sum(calls.pop(name, 0) for name in _QUERIES)
    polls = _REACTOR_WAKES["query"] * len(_QUERIES) if family == "query" else 0
    assert queries <= (len(_QUERIES) * streams + polls * 2) * times, queries
    assert calls.pop("aclrtProcessReport", 0) <= 2 * times
    assert not calls
