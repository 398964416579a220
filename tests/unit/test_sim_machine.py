"""The simulated machine from Python: settings, faults and the way out of a leak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiocann import UsageError, sim

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_new() -> Iterator[None]:
    yield
    sim.reset()
    sim.configure(devices=None, cann=None, hide=None)


def test_a_reset_ends_faults_and_lets_the_machine_change() -> None:
    sim.fail_call("aclrtMalloc", 207001, nth=0)
    sim.stall_copy()
    sim.delay_callback()
    assert sim.counters()["armed_faults"] == 3
    sim.reset()
    assert sim.counters()["armed_faults"] == 0
    sim.configure(devices=3)
    assert sim.setting("devices") == "3"


def test_what_a_fault_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        sim.delay_kernel(0)
    with pytest.raises(UsageError, match="at least 1"):
        sim.delay_copy(-5)
    with pytest.raises(UsageError, match="at least 1"):
        sim.fail_call("aclrtMalloc", 0)
    with pytest.raises(UsageError, match="77"):
        sim.lose_device(77)
    with pytest.raises(UsageError, match="77"):
        sim.restore_device(77)
    assert sim.counters()["armed_faults"] == 0


def test_another_cann() -> None:
    sim.configure(cann="8.1", hide="aclrtStreamAbort,aclnnAdd")
    assert sim.setting("cann") == "8.1"
    assert sim.setting("hide") == "aclrtStreamAbort,aclnnAdd"
    with pytest.raises(UsageError, match=r"8\.1 or 9\.1"):
        sim.configure(cann="7")
    with pytest.raises(UsageError, match="aclrtNothing"):
        sim.configure(hide="aclrtNothing")
