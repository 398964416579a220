"""Small programs in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import aiocann

# A program that takes longer hangs.
SECONDS = 60
# What asyncio's debug mode says on a machine that has other things to do as well.
_IS_SLOW = re.compile(r"Executing <.* took [\d.]+ seconds$")
# Where the package under test is, for the child to find the same one.
_PACKAGE = str(Path(aiocann.__file__).resolve().parent.parent)


def run(
    source: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with warnings as errors; return what it printed."""
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIOCANN_", "ASCEND_"))
    }
    path = [str(Path(p).resolve()) for p in sys.path if p]
    env |= {"PYTHONPATH": os.pathsep.join(path), "AIOCANN_SIM_STRICT": "1"}
    env |= environment
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def printed(source: str, *arguments: str, **environment: str) -> str:
    """Run a program that must end well; return its output."""
    done = run(source, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if not _IS_SLOW.match(line)]
    assert not told, done.stderr
    return done.stdout
