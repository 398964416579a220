"""The simulator's controls: those that Python knows, and what they reach."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiocann import native, sim
from aiocann.lowlevel import sim_library

NATIVE = Path(__file__).resolve().parents[2] / "native"
ABI = NATIVE / "acl" / "abi"
HEADER = (NATIVE / "sim" / "aiocann_sim.h").read_text(encoding="utf-8")


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


# What cannot say that it failed, or must not: it tells of the failure.
ALWAYS_ANSWER = re.compile(
    r"aclGetRecentErrMsg|aclrtGetLastError|aclrtPeekAtLastError|aclGetStreamIdFrom"
)


@pytest.fixture
def faults() -> Iterator[None]:
    yield
    sim.clear_faults()


def failing_functions() -> list[tuple[str, bool]]:
    """Return each function that has a way to fail, and whether that is NULL.

    Operators are not among them: their faults strike calls that are right.
    """
    found = []
    for line in (ABI / "acl_functions.tsv").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition("\t")
        returns = rest.partition("\t")[0]
        if name.startswith("#") or ALWAYS_ANSWER.search(name):
            continue
        if returns in ("aclError", "aclnnStatus") or returns.endswith("*"):
            found.append((name, returns.endswith("*")))
    return found


def test_every_function_can_be_made_to_fail(faults: None) -> None:
    """Before it looks at an argument, once, and with the code that was asked for."""
    library = ctypes.CDLL(sim_library())
    wrong = []
    for name, null in failing_functions():
        function = getattr(library, name)
        function.restype = ctypes.c_void_p if null else ctypes.c_int32
        sim.fail_call(name, 507899)
        answer = function(*[ctypes.c_void_p()] * 12)
        left = sim.counters()["armed_faults"]
        sim.clear_faults()
        if answer != (None if null else 507899) or left:
            wrong.append((name, answer))
    assert not wrong
