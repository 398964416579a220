"""The benchmarks: ``python tests/bench [--json FILE]``. No test asserts a time."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

import aiocann
import awaits
import copies
import dispatch
import gemv
import harness
import native
import operators
import products
from aiocann.native import sim_library


async def measure(rounds: int) -> list[harness.Row]:
    """Run every comparison on one simulated device."""
    async with aiocann.open_runtime("sim", devices=1) as runtime:
        [device] = runtime.devices
        rows = await awaits.measure(device, sim_library(), rounds)
        rows += await copies.measure(runtime, device, rounds)
        rows += await products.measure(device, rounds)
        rows += await gemv.measure(device, rounds)
        rows += await dispatch.measure(device, sim_library(), rounds)
    return rows


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=Path("bench-first.json"))
    options = parser.parse_args()
    # The simulator's workers are of low priority. Where the machine does other things
    # as well, what they are compared with must be so, too.
    os.nice(10)
    rows = asyncio.run(measure(options.rounds))
    rows += native.measure(sim_library(), options.rounds)
    print(harness.table(rows))
    for threads in (1, 2):
        found = operators.measure_apart(options.rounds, threads)
        print(operators.table(found, f"{threads} threads"))
        rows += found
    harness.write_json(rows, options.json, rounds=options.rounds, cpus=os.cpu_count())


if __name__ == "__main__":
    main()
