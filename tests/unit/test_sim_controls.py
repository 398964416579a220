"""The simulator's controls that Python knows are those of its header."""

from __future__ import annotations

import re
from pathlib import Path

from aiocann import native

HEADER = (
    Path(__file__).resolve().parents[2] / "native" / "sim" / "aiocann_sim.h"
).read_text(encoding="utf-8")


def test_functions_and_numbers_of_arguments() -> None:
    declared = {
        name: [] if arguments == "void" else arguments.split(",")
        for name, arguments in re.findall(
            r"^\w[\w ]*\*?\s?(aiocann_sim_\w+)\(([^)]*)\);", HEADER, re.MULTILINE
        )
    }
    for name, (_, *arguments) in native._SIM_FUNCTIONS.items():
        assert name in declared
        assert len(arguments) == len(declared[name]), name
