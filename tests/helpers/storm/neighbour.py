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
        acl.call("aclrtCreateStream", ctypes.byref(handle))
    try:
        async with device.adopt_stream(handle.value or 0) as stream:
            yield stream
    finally:
        with _current(device):
            acl.call("aclrtDestroyStream", handle)


@contextmanager
def _current(device: aiocann.Device) -> Iterator[None]:
    """Have the device open on this thread, without a turn of the loop inside."""
    acl.call("aclrtSetDevice", device.index)
    try:
        yield
    finally:
        acl.call("aclrtResetDevice", device.index)
