"""Programs in C++ that are measured: built against the simulator, and run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from aiocann.home import make_home
from harness import Row

HERE = Path(__file__).parent


def compiler() -> str | None:
    """Return the compiler; None where there is none, and nothing can be built."""
    return shutil.which("c++")


def build(source: str, library: str, folder: Path, *flags: str) -> Path:
    """Compile a file of this folder against the simulator `library`."""
    home = make_home(folder / "cann")
    made = folder / Path(source).stem
    # The simulator itself: a folder like CANN's would put a jump before each call.
    link = [library, f"-Wl,-rpath,{Path(library).parent}", "-lpthread"]
    subprocess.run(
        [
            *(str(compiler()), "-std=c++17", "-O2", f"-I{home / 'include'}", *flags),
            *(str(HERE / source), "-o", str(made), *link),
        ],
        check=True,
    )
    return made


def measure(library: str, rounds: int) -> list[Row]:
    """Return what the simulator costs a C program, by `native_sim.cpp`.

    Nothing where there is no compiler.
    """
    if compiler() is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        program = build("native_sim.cpp", library, Path(folder))
        done = subprocess.run(
            [str(program), str(rounds)], check=True, capture_output=True, text=True
        )
    rows = []
    for line in done.stdout.splitlines():
        thing, way, unit, *numbers = line.split("\t")
        rows.append(Row(thing, way, unit, *map(float, numbers)))
    return rows
