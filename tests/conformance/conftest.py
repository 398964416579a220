"""The drivers that the shared suite runs on.

``cann`` is the path that a real CANN takes, with a folder that `make_home` laid out in
its place; ``cann81`` is that as CANN 8.1.
"""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import aiocann
from aiocann import testing
from aiocann.home import make_home
from aiocann.lowlevel import sim_library

#: The version of CANN that each plays; None: the simulator is asked for by name.
DRIVERS = {"sim": None, "cann": "9.1", "cann81": "8.1"}
DEVICES = 4


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out uvloop with CANN: the whole matrix of loops is for the simulator."""
    left_out = {item for item in items if _is_left_out(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _is_left_out(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    plays_cann = DRIVERS.get(parameters.get("driver", "sim")) is not None
    return plays_cann and parameters.get("anyio_backend") == "uvloop"


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a folder like an installation of CANN for each version."""
    return {
        version: make_home(tmp_path_factory.mktemp(name), version)
        for name, version in DRIVERS.items()
        if version
    }


@pytest.fixture(params=DRIVERS)
def driver(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    homes: dict[str, Path],
) -> Iterator[str]:
    """Name of a driver; its machine has DEVICES devices."""
    monkeypatch.setenv("AIOCANN_SIM_DEVICES", str(DEVICES))
    version = DRIVERS[request.param]
    # By hand: of two folders in one process, the one loaded last would decide.
    monkeypatch.setenv("AIOCANN_SIM_CANN", version or "9.1")
    if version:
        monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(homes[version]))
    name = "cann" if version else "sim"
    before = aiocann.sim.counters()["misuse"]
    yield name
    if version:
        # The folder loaded last decides, also for the tests to come.
        ctypes.CDLL(sim_library()).aiocann_sim_play_cann(b"9.1")
    aiocann.sim.clear_faults()
    # Hardware would have punished it silently.
    misuse = aiocann.sim.counters()["misuse"] - before
    assert not misuse, aiocann.sim.last_misuse()


@pytest.fixture
def opened(driver: str) -> Callable[..., Any]:
    """Return a context manager that opens a runtime and checks that it ends clean."""

    @asynccontextmanager
    async def opens(
        devices: int = 1, *, clean: bool = True, **options: Any
    ) -> AsyncIterator[aiocann.Runtime]:
        async with aiocann.open_runtime(driver, devices, **options) as rt:
            assert rt.driver == driver
            yield rt
        if clean:
            testing.assert_settled(rt)

    return opens
