"""The drivers that the shared suite runs on.

``cann`` is the path that a real CANN takes, here with the simulator's own library in
its place. A test that a driver cannot pass is listed in UNSUPPORTED with the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import aiocann
from aiocann import testing
from aiocann.lowlevel import sim_library

DRIVERS = ("sim", "cann")
UNSUPPORTED: dict[tuple[str, str], str] = {}

DEVICES = 4


@pytest.fixture(params=DRIVERS)
def driver(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Name of a driver; its machine has DEVICES devices."""
    name: str = request.param
    reason = UNSUPPORTED.get((name, request.node.originalname))
    if reason:
        pytest.skip(reason)
    monkeypatch.setenv("AIOCANN_SIM_DEVICES", str(DEVICES))
    if name == "cann":
        monkeypatch.setenv("AIOCANN_CANN_PATH", sim_library())
    before = aiocann.sim.counters()["misuse"]
    yield name
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
