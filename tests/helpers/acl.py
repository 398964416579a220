"""Another user of ACL in this process: plain calls, by ctypes, as another library's."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiocann.lowlevel import sim_library

H2D, D2H = 1, 2
HUGE_FIRST = 0


@functools.cache
def library() -> ctypes.CDLL:
    """Return the simulator's library: the one that the core has loaded."""
    return ctypes.CDLL(sim_library())


def call(name: str, *arguments: Any) -> None:
    """Call a function that must succeed."""
    code = getattr(library(), name)(*arguments)
    assert code == 0, (name, code)


def current() -> tuple[int, int | None]:
    """Return this thread's device and context."""
    device, context = ctypes.c_int32(-1), ctypes.c_void_p()
    call("aclrtGetDevice", ctypes.byref(device))
    call("aclrtGetCurrentContext", ctypes.byref(context))
    return device.value, context.value


@contextmanager
def made(kind: str) -> Iterator[ctypes.c_void_p]:
    """Make a "Stream" or an "Event", and destroy it."""
    made = ctypes.c_void_p()
    call(f"aclrtCreate{kind}", ctypes.byref(made))
    try:
        yield made
    finally:
        call(f"aclrtDestroy{kind}", made)


def allocate(nbytes: int) -> ctypes.c_void_p:
    """Allocate device memory."""
    address = ctypes.c_void_p()
    call("aclrtMalloc", ctypes.byref(address), ctypes.c_size_t(nbytes), HUGE_FIRST)
    return address


@contextmanager
def memory(nbytes: int) -> Iterator[ctypes.c_void_p]:
    """Allocate device memory, and free it."""
    address = allocate(nbytes)
    try:
        yield address
    finally:
        call("aclrtFree", address)


def fill(address: ctypes.c_void_p, value: int, nbytes: int, stream: Any) -> None:
    """Enqueue a fill on a stream."""
    n = ctypes.c_size_t(nbytes)
    call("aclrtMemsetAsync", address, n, ctypes.c_int32(value), n, stream)


def read(address: ctypes.c_void_p, nbytes: int) -> bytes:
    """Copy memory of a device, at once."""
    out = ctypes.create_string_buffer(nbytes)
    n = ctypes.c_size_t(nbytes)
    call("aclrtMemcpy", out, n, address, n, D2H)
    return out.raw
