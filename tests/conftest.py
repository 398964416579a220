"""Fixtures and hooks that every test shares."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {"use_uvloop": False, "debug": True}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}


#: Those that a test runs on, if it does not say.
usual = list(LOOPS)

# How scripts/harsh wants the tests to run; empty as a rule.
MODE = os.environ.get("AIOCANN_TEST_MODE", "")
if MODE == "switch":
    sys.setswitchinterval(1e-6)
elif MODE == "gc":
    gc.set_threshold(1, 1, 1)
elif MODE == "uvloop":
    usual = ["uvloop"]
elif MODE:
    raise ValueError(f"AIOCANN_TEST_MODE is {MODE!r}, but must be switch, gc or uvloop")


@pytest.fixture(params=usual)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Run a test marked ``anyio`` on every loop. The one place that lists them."""
    return LOOPS[request.param]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what the machine sets out of the tests, and what tests leave visible."""
    for name in list(os.environ):
        if name.startswith(("AIOCANN_SIM_", "ASCEND_")) and name != (
            "AIOCANN_SIM_LIBRARY"
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIOCANN_SIM_STRICT", "1")
    for name in ("AIOCANN_DRIVER", "AIOCANN_CANN_PATH", "AIOCANN_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    yield
    # What a finaliser has to say belongs to the test that caused it.
    gc.collect()


@pytest.fixture
def open_fds() -> Any:
    """Return a function that counts this process's open files."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Replace the native half of completions by a scripted one."""
    from helpers.fake_native import FakeNative

    native = FakeNative()
    native.install(monkeypatch)
    yield native
    native.retire()


sys.path.insert(0, str(Path(__file__).parent))
