"""What the simulator costs a C program: `native_sim.cpp`, built and run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from aiocann.home import make_home
from harness import Row

SOURCE = Path(__file__).with_name("native_sim.cpp")


def measure(library: str, rounds: int) -> list[Row]:
    """Build the program against `library` and return what it measured.

    Nothing where there is no compiler.
    """
    compiler = shutil.which("c++")
    if compiler is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        home = make_home(Path(folder) / "cann")
        program = Path(folder) / "native_sim"
        # The simulator itself: a folder like CANN's would put a jump before each call.
        link = [library, f"-Wl,-rpath,{Path(library).parent}", "-lpthread"]
        subprocess.run(
            [
                *(compiler, "-std=c++17", "-O2", f"-I{home / 'include'}", str(SOURCE)),
                *("-o", str(program), *link),
            ],
            check=True,
        )
        done = subprocess.run(
            [str(program), str(rounds)], check=True, capture_output=True, text=True
        )
    rows = []
    for line in done.stdout.splitlines():
        thing, way, unit, *numbers = line.split("\t")
        rows.append(Row(thing, way, unit, *map(float, numbers)))
    return rows
