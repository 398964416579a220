"""Compare ways of doing one thing: interleaved rounds, medians, ratios of one run.

Absolute times of a shared machine mean little. So every round runs all ways
once, one after another, and what is reported of a way is the median of its
ratios to the first way of the same round.
"""

from __future__ import annotations

import gc
import json
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import aiocann

Run = Callable[[], Awaitable[float]]
"""Does the work once and returns what it cost, in the unit of the comparison."""


@dataclass(frozen=True)
class Row:
    """One way of doing one thing."""

    thing: str
    way: str
    unit: str
    median: float
    low: float
    high: float
    ratio: float
    """To the first way of this thing: above 1 costs more (or, of a rate, is more)."""


async def compare(
    thing: str, unit: str, ways: dict[str, Run], rounds: int
) -> list[Row]:
    """Run all `ways` in each of `rounds` rounds, after one that is not counted."""
    costs: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, run in ways.items():
            gc.collect()
            cost = await run()
            if number:
                costs[way].append(cost)
    first = next(iter(costs.values()))
    return [
        Row(
            thing,
            way,
            unit,
            median=statistics.median(cost),
            low=min(cost),
            high=max(cost),
            ratio=statistics.median([a / b for a, b in zip(cost, first, strict=True)]),
        )
        for way, cost in costs.items()
    ]


def computed(backend: aiocann.Backend, graph: aiocann.Graph, repeats: int) -> Run:
    """Return a run that computes a graph some times in a row: how often in 1 ms."""

    async def run() -> float:
        start = time.perf_counter()
        for _ in range(repeats - 1):
            backend.graph_compute(graph)
        await backend.graph_compute(graph)
        return 1e-3 * repeats / (time.perf_counter() - start)

    return run


def table(rows: list[Row]) -> str:
    """Return `rows` as text, a heading for each thing."""
    width = max(len(row.way) for row in rows)
    lines = []
    thing = ""
    for row in rows:
        if row.thing != thing:
            thing = row.thing
            lines += ["", f"{thing} ({row.unit}: median, range; x times the first)"]
        lines.append(
            f"  {row.way:<{width}}  {row.median:>10.2f}"
            f"  {row.low:>9.2f} .. {row.high:<9.2f}  x{row.ratio:.2f}"
        )
    return "\n".join(lines)


def write_json(rows: list[Row], path: Path, **facts: object) -> None:
    """Write `rows` to `path`, with what a reader must know of the machine."""
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    content = {**machine, **facts, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")
