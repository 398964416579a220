"""A few ACL calls through ctypes: what a program without aiocann would make.

The library is the one that aiocann has opened, so both drive the same devices.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_int32, c_size_t, c_uint64, c_void_p

_NO_BLOCK = 0
_HUGE_FIRST = 0
_REPORT_TIMEOUT = 507012
_Callback = CFUNCTYPE(None, c_void_p)

_SIGNATURES: dict[str, list[object]] = {
    "aclrtSetDevice": [c_int32],
    "aclrtResetDevice": [c_int32],
    "aclrtGetCurrentContext": [POINTER(c_void_p)],
    "aclrtSetCurrentContext": [c_void_p],
    "aclrtCreateStream": [POINTER(c_void_p)],
    "aclrtDestroyStream": [c_void_p],
    "aclrtSynchronizeStream": [c_void_p],
    "aclrtMalloc": [POINTER(c_void_p), c_size_t, c_int32],
    "aclrtFree": [c_void_p],
    "aclrtMemsetAsync": [c_void_p, c_size_t, c_int32, c_size_t, c_void_p],
    "aclrtSubscribeReport": [c_uint64, c_void_p],
    "aclrtUnSubscribeReport": [c_uint64, c_void_p],
    "aclrtLaunchCallback": [_Callback, c_void_p, c_int32, c_void_p],
    "aclrtProcessReport": [c_int32],
}


class Acl:
    """One stream of one device, driven from Python threads."""

    def __init__(self, library: str, device: int) -> None:
        self._lib = ctypes.CDLL(library)
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._lib, name)
            function.argtypes = arguments
            function.restype = c_int32
        self._device = device
        self._context, self._stream, self._block = c_void_p(), c_void_p(), c_void_p()
        self._call("aclrtSetDevice", device)
        self._call("aclrtGetCurrentContext", byref(self._context))
        self._call("aclrtCreateStream", byref(self._stream))
        self._call("aclrtMalloc", byref(self._block), 4096, _HUGE_FIRST)

    def close(self) -> None:
        """Give everything back."""
        self._call("aclrtSynchronizeStream", self._stream)
        self._call("aclrtDestroyStream", self._stream)
        self._call("aclrtFree", self._block)
        self._call("aclrtResetDevice", self._device)

    def memset(self) -> None:
        """Enqueue the smallest piece of device work. Thread: the opening one."""
        self._call("aclrtMemsetAsync", self._block, 4096, 0, 64, self._stream)

    def synchronize(self) -> None:
        """Block until the stream is empty. Thread: any."""
        self._call("aclrtSetCurrentContext", self._context)
        self._call("aclrtSynchronizeStream", self._stream)

    def launch_callback(self, callback: object, key: int) -> None:
        """Have `callback(key)` called once the stream gets here."""
        self._call("aclrtLaunchCallback", callback, key, _NO_BLOCK, self._stream)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} returned {code}")


class Reports:
    """A Python thread that runs the callbacks of a stream."""

    def __init__(self, acl: Acl, on_report: Callable[[int], object]) -> None:
        self.callback = _Callback(on_report)
        self._acl = acl
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        acl._call("aclrtSubscribeReport", self._thread.ident, acl._stream)
        self._ready.set()

    def _serve(self) -> None:
        self._ready.wait()
        process = self._acl._lib.aclrtProcessReport
        while not self._stop.is_set():
            code = process(100)
            if code not in (0, _REPORT_TIMEOUT):
                raise RuntimeError(f"aclrtProcessReport returned {code}")

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()
        self._acl._call("aclrtUnSubscribeReport", self._thread.ident, self._acl._stream)
