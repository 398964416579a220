"""The only importer of the cffi module, and of the simulator's controls.

Bindings carry no policy: this file turns C values into Python ones and holds what every
caller needs. Nothing in it decides.
"""

from __future__ import annotations

import os
import sys
from ctypes import CDLL, POINTER, c_char_p, c_int32, c_uint64
from functools import cache
from pathlib import Path
from pkgutil import extend_path
from typing import Any

from aiocann.errors import AiocannError, LibraryError, NativeError, error_for

__all__ = ["NULL", "check", "ffi", "lib", "sim_control", "sim_library", "text"]


def _extension() -> Any:
    """Return the cffi module.

    When a checkout's folder is imported, as it is by programs started there, what is
    compiled still lies in the installed package: the path takes in both.
    """
    package = sys.modules["aiocann"]
    package.__path__ = extend_path(list(package.__path__), "aiocann")
    from aiocann import _cffi

    return _cffi


_cffi = _extension()
ffi: Any = _cffi.ffi
lib: Any = _cffi.lib
NULL: Any = ffi.NULL

# What is used of native/sim/aiocann_sim.h: the result, then the arguments.
_SIM_FUNCTIONS: dict[str, list[Any]] = {
    "aiocann_sim_configure": [c_int32, c_char_p, c_char_p],
    "aiocann_sim_setting": [c_char_p, c_char_p],
    "aiocann_sim_last_error": [c_char_p],
    "aiocann_sim_inject": [c_int32, c_char_p, c_char_p, c_uint64, c_int32],
    "aiocann_sim_clear_faults": [None],
    "aiocann_sim_let_go": [None],
    "aiocann_sim_lose": [c_int32, c_int32, c_int32, c_int32],
    "aiocann_sim_restore": [c_int32, c_int32],
    "aiocann_sim_reset": [None],
    "aiocann_sim_hold": [c_int32, c_int32, c_int32],
    "aiocann_sim_release": [c_int32, c_int32, c_int32],
    "aiocann_sim_counter": [c_uint64, c_char_p],
    "aiocann_sim_counter_name": [c_char_p, c_int32],
    "aiocann_sim_count_calls": [None, c_int32],
    "aiocann_sim_called": [c_char_p, c_int32, POINTER(c_uint64)],
    "aiocann_sim_last_misuse": [c_char_p],
}


def text(chars: Any) -> str:
    """Return a C string, NULL as the empty one."""
    return "" if chars == NULL else str(ffi.string(chars).decode("utf-8", "replace"))


__version__ = text(lib.aiocann_version())


def to_error(error: Any) -> NativeError:
    """Copy an ``aiocann_error``."""
    return NativeError(
        code=error.code,
        detail=text(error.detail),
        call=text(error.call),
        device=error.device,
        node=error.node,
        is_fault=bool(error.is_fault),
        cause_op=error.cause_op,
        cause_kind=text(error.cause_kind),
        cause_code=error.cause_code,
        cause_is_fault=bool(error.cause_is_fault),
        cause_detail=text(error.detail)[error.cause_at :] if error.cause_code else "",
        requested=error.requested,
        free=error.free_bytes,
        total=error.total,
        reserved=error.reserved,
        used=error.used,
    )


def last_error() -> AiocannError:
    """Make the exception for this thread's last failing call."""
    return error_for(to_error(lib.aiocann_last_error()))


def check(code: int) -> None:
    """Raise what the last call reported, unless it succeeded."""
    if code:
        raise last_error()


def cann_present() -> bool:
    """Look for an NPU, or CANN, on this machine."""
    answer = lib.aiocann_cann_present()
    if answer < 0:
        raise last_error()
    return bool(answer)


def statistics(runtime: Any) -> dict[str, int]:
    """Read the counters of a runtime."""
    out = ffi.new("aiocann_statistics *")
    lib.aiocann_runtime_statistics(runtime, out)
    return {name: getattr(out, name) for name, _ in ffi.typeof(out[0]).fields}


def sim_library() -> str:
    """Path of the simulator: the one beside the core, unless told otherwise."""
    override = os.environ.get("AIOCANN_SIM_LIBRARY")
    return override or str(Path(_cffi.__file__).with_name("libaiocann_sim.so"))


class SimControl:
    """The simulator's controls; the library is the one that the core loads too.

    With ctypes: cffi would parse declarations, 40 ms of the loop that opens a runtime.
    """

    def __init__(self, path: str) -> None:
        try:
            self.lib: Any = CDLL(path)
        except OSError as exc:
            raise error_for(NativeError(code=-3, detail=str(exc))) from exc
        for name, (result, *arguments) in _SIM_FUNCTIONS.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments

    def text(self, chars: bytes | None) -> str:
        """Return a C string, NULL as the empty one."""
        return (chars or b"").decode("utf-8", "replace")


@cache
def _sim_control(path: str) -> SimControl:
    return SimControl(path)


def sim_control() -> SimControl:
    """Load the simulator's controls.

    Raises
    ------
    LibraryError
        The simulator is not there.
    """
    path = sim_library()
    if not os.path.exists(path):
        raise LibraryError(
            f"the simulator was not found at {path}: reinstall aiocann, or set "
            "AIOCANN_SIM_LIBRARY"
        )
    return _sim_control(path)
