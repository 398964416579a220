"""The same promises, however the driver tells that work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import DeviceFaultError, UnsupportedError
from helpers.waiting import after_its_callback

pytestmark = pytest.mark.anyio

VARIANTS = [
    ("callback", "ex"),
    ("callback-block", "ex"),
    ("host-func", "ex"),
    ("query", "ex"),
    ("callback", "flag"),
    ("callback", "plain"),
    ("query", "plain"),
]


@pytest.fixture(params=VARIANTS, ids="-".join)
def variant(
    request: pytest.FixtureRequest, driver: str, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Family of completions; it and the maker of events are forced."""
    family, maker = request.param
    if family == "host-func" and "cann81" in request.node.name:
        pytest.skip("CANN 8.1 has no aclrtLaunchHostFunc")
    monkeypatch.setenv("AIOCANN_COMPLETION", family)
    monkeypatch.setenv("AIOCANN_EVENTS", maker)
    return str(family)


async def test_copies_events_and_faults(opened: Any, variant: str) -> None:
    async with opened(2) as rt:
        first, second = rt.devices
        source = np.arange(3 << 20, dtype=np.uint8)
        a, b = await first.allocate(source.nbytes), await second.allocate(source.nbytes)
        async with first.stream() as s, second.stream() as t:
            for _ in range(3):
                back = np.empty_like(source)
                start = s.record()
                s.memcpy(a, source)
                event = s.record()
                t.wait(event)
                t.memcpy(b, a)
                op = t.memcpy(back, b)
                await op
                assert event.done
                assert event.elapsed_ms(start) >= 0
                assert (back == source).all()
            called = await s.host_call(lambda: 5)
            assert called == 5
        async with first.stream() as s:
            aiocann.sim.fail_copy("memset")
            fault = s.memset(a, 1)
            with pytest.raises(DeviceFaultError) as caught:
                await fault
            assert "memset(" in caught.value.op
            with pytest.raises(DeviceFaultError) as later:
                await s.memset(a, 2)
            assert later.value.__cause__ is not None
        a.close()
        b.close()
        assert rt.statistics().lost_callbacks == 0


async def test_a_lost_callback_is_found(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_COMPLETION", "callback")
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(4096)
        async with device.stream() as stream:
            aiocann.sim.drop_callback("no_block")
            await after_its_callback(stream.memset, buffer, 1)
            assert rt.statistics().lost_callbacks == 1
            await stream.memset(buffer, 2)
        buffer.close()


@pytest.mark.parametrize("name", ["AIOCANN_COMPLETION", "AIOCANN_EVENTS"])
async def test_unknown_settings_are_refused(
    name: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "telepathy")
    with pytest.raises(aiocann.UsageError, match=f'{name} is "telepathy"'):
        async with aiocann.open_runtime(driver):
            pass


@pytest.mark.parametrize("driver", ["cann81"], indirect=True)
async def test_a_family_that_this_cann_lacks_is_refused(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCANN_COMPLETION", "host-func")
    with pytest.raises(UnsupportedError, match="AIOCANN_COMPLETION=host-func needs"):
        async with aiocann.open_runtime(driver, 1):
            pass
