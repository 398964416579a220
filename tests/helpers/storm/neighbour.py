"""Another library, whose streams sailors use."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiocann
from helpers import acl


@asynccontextmanager
async def adopted(device: aiocann.Device) -> AsyncIterator[aiocann.Stream]:
    """Adopt a stream of another library, which destroys it afterwards."""
    handle = ctypes.c_void_p()
    with _current(device):
        _insist("aclrtCreateStream", ctypes.byref(handle))
    try:
        async with device.adopt_stream(handle.value or 0) as stream:
            yield stream
    finally:
        with _current(device):
            _insist("aclrtDestroyStream", handle)


def _insist(name: str, *arguments: object) -> None:
    """Call a function until it succeeds: the storm's faults hit whoever comes along."""
    function = getattr(acl.library(), name)
    codes = [function(*arguments)]
    while codes[-1] != 0:
        assert len(codes) < 20, (name, codes)
        codes.append(function(*arguments))


@contextmanager
def _current(device: aiocann.Device) -> Iterator[None]:
    """Have the device open on this thread, without a turn of the loop inside."""
    _insist("aclrtSetDevice", device.index)
    try:
        yield
    finally:
        _insist("aclrtResetDevice", device.index)
