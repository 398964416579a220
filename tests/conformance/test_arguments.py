"""Arguments that make no sense: told in words, and nothing is lost by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiocann
from aiocann import testing
from helpers.waiting import until_counts_are

pytestmark = pytest.mark.anyio
HUGE = 2**70


def uses(rt: aiocann.Runtime, s: Any, buf: Any, be: Any, t: Any) -> dict[str, Any]:
    """Return calls by what they say, each wrong in one argument."""
    d: Any = rt.devices[0]
    event = aiocann.Event()
    usage, typ = aiocann.UsageError, TypeError
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (usage, "nbytes must be from 1", lambda: d.allocate(HUGE)),
        (usage, "nbytes must be from 1", lambda: d.allocate(0)),
        (usage, "nbytes must be from 1", lambda: d.allocate(-5)),
        (typ, "nbytes must be a whole number, not '8'", lambda: d.allocate("8")),
        (typ, "nbytes must be a whole number, not 1.5", lambda: d.allocate(1.5)),
        (typ, "nbytes must be a whole number", lambda: d.allocate_nowait(None)),
        (typ, "stream must be a Stream", lambda: d.allocate(8, stream=3)),
        (typ, "Device of the same runtime", lambda: d.can_access_peer(1)),
        (typ, "bound of a slice", lambda: buf[1.5:3]),
        (typ, "bound of a slice", lambda: buf[:"3"]),
        (usage, "do not lie in", lambda: buf[0:HUGE]),
        (usage, "do not lie in", lambda: buf[-1000:]),
        (typ, "slice of bytes", lambda: buf[3]),
        (usage, "no step", lambda: buf[::2]),
        (typ, "an event is needed", lambda: s.wait(None)),
        (typ, "an event is needed", lambda: s.wait(s)),
        (typ, "an event is needed", lambda: s.record("e")),
        (typ, "an event is needed", lambda: s.record().elapsed_ms(3)),
        (usage, "not been recorded", lambda: s.wait(event)),
        (typ, "value must be a whole number", lambda: s.memset(buf, "1")),
        (typ, "value must be a whole number", lambda: s.memset(buf, 1.0)),
        (typ, "no device memory", lambda: s.memset(np.zeros(3), 1)),
        (typ, "no device memory", lambda: s.memset(None, 1)),
        (typ, "no operand of a copy", lambda: s.memcpy(buf, None)),
        (typ, "no operand of a copy", lambda: s.memcpy(3, buf)),
        (typ, "no operand of a copy", lambda: s.memcpy("text", buf)),
        (usage, "sizes differ", lambda: s.memcpy(buf, b"x")),
        (usage, "read-only", lambda: s.memcpy(b"x" * 64, buf)),
        (usage, "contiguous", lambda: s.memcpy(np.zeros((8, 2), "f4")[:, 0], buf)),
        (usage, "Python objects", lambda: s.memcpy(buf, np.array([None] * 8))),
        (typ, "host_call takes a function", lambda: s.host_call(None)),
        (typ, "whole number", lambda: aiocann.from_pointer("a", 1, d)),  # type: ignore[arg-type]
        (usage, "address must be", lambda: aiocann.from_pointer(0, 1, d)),
        (usage, "address must be", lambda: aiocann.from_pointer(-1, 1, d)),
        (usage, "address must be", lambda: aiocann.from_pointer(HUGE, 1, d)),
        (usage, "nbytes must be", lambda: aiocann.from_pointer(2**63, HUGE, d)),
        (usage, "nbytes must be", lambda: aiocann.from_pointer(8, 0, d)),
        (typ, "aiocann.Device", lambda: aiocann.from_pointer(8, 8, 0)),  # type: ignore[arg-type]
        (usage, "extent must be", lambda: rt.pinned_empty(-1)),
        (usage, "extent must be", lambda: rt.pinned_empty((2, HUGE))),
        (usage, "array's size", lambda: rt.pinned_empty((2**40, 2**40))),
        (typ, "extent must be", lambda: rt.pinned_empty(2.5)),  # type: ignore[arg-type]
        (usage, "Python objects", lambda: rt.pinned_empty(3, object)),
        (typ, "logical id must be", lambda: rt.device("0")),  # type: ignore[arg-type]
        (usage, "no device 9 is open", lambda: rt.device(9)),
        (usage, "extent must be", lambda: be.empty((4, -1), aiocann.F32)),
        (usage, "extent must be", lambda: be.empty(HUGE, aiocann.F32)),
        (usage, "tensor's size", lambda: be.empty((2**40, 2**40), aiocann.F32)),
        (usage, "tensor's size", lambda: be.empty((0, 2**40, 2**40), aiocann.F32)),
        (typ, "extent must be", lambda: be.empty((4, 2.5), aiocann.F32)),
        (typ, "extent must be", lambda: be.empty(("4",), aiocann.F32)),
        (usage, "do not lie in", lambda: be.set_tensor_async(t, b"1234", HUGE)),
        (usage, "do not lie in", lambda: be.set_tensor_async(t, b"1234", -4)),
        (typ, "offset must be a whole", lambda: be.set_tensor_async(t, b"1234", "1")),
        (typ, "must be an aiocann.Tensor", lambda: be.get_tensor_async(buf)),
        (typ, "must be an aiocann.Tensor", lambda: be.cpy_tensor_async(t, None)),
        (typ, "aiocann.Graph", lambda: be.graph_compute(t)),
        (typ, "aiocann.Graph", lambda: be.graph_compute(None)),
        (typ, "an event is needed", lambda: be.event_wait(None)),
    ]
    return {f"{n} {text}": (cls, text, fn) for n, (cls, text, fn) in enumerate(calls)}


async def test_wrong_arguments_are_told_in_words(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        backend = device.backend()
        tensor = await backend.empty(16, aiocann.F32)
        async with device.stream() as stream:
            await stream.synchronize()
            before = testing.counts(rt)
            for name, (cls, text, use) in uses(
                rt, stream, buffer, backend, tensor
            ).items():
                with pytest.raises(cls) as told:
                    use()
                assert text in str(told.value), name
                assert type(told.value).__module__ in ("builtins", "aiocann.errors")
                del told
            await until_counts_are(before, rt)
            for value in (256, -1, HUGE + 7, np.uint8(3), True):
                await stream.memset(buffer, value)
                out = np.zeros(64, np.uint8)
                await stream.memcpy(out, buffer)
                assert (out == int(value) % 256).all()


@pytest.mark.parametrize("priority", [-1, 8, HUGE, "1", 1.5])
async def test_priorities_that_there_are_not(opened: Any, priority: Any) -> None:
    async with opened() as rt:
        with pytest.raises((aiocann.UsageError, TypeError), match="priority must be"):
            async with rt.devices[0].stream(priority):
                pass


@pytest.mark.parametrize(
    "options",
    [
        {"devices": 0},
        {"devices": HUGE},
        {"devices": []},
        {"devices": [0, 0]},
        {"devices": [-1]},
        {"devices": [HUGE]},
        {"devices": ["0"]},
        {"devices": "0"},
        {"devices": 1.5},
        {"devices": True},
        {"driver": "gpu"},
        {"driver": 3},
        {"close_timeout": -1},
        {"close_timeout": "1"},
        {"close_timeout": None},
        {"close_timeout": float("nan")},
    ],
)
async def test_wrong_arguments_of_opening(options: dict[str, Any]) -> None:
    with pytest.raises((aiocann.UsageError, TypeError)) as told:
        async with aiocann.open_runtime(**({"driver": "sim"} | options)):
            pass
    assert not isinstance(told.value, OverflowError)
    assert any(
        word in str(told.value) for word in ("devices", "driver", "timeout", "id")
    )


async def test_a_close_timeout_without_end(opened: Any) -> None:
    async with opened(close_timeout=float("inf")) as rt:
        await rt.devices[0].memory_info()
