"""Every error of aiocann, and the one function that makes those of the native half.

Rules of this file: classes are named by what the caller can do; codes map to classes
here and nowhere else; every message is built here; everything pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from aiocann._codes import CODE_NAMES, FAULT_CODES

__all__ = [
    "AclError",
    "AiocannError",
    "BusyResourceError",
    "CaptureError",
    "CleanupWarning",
    "ClosedResourceError",
    "DeviceFaultError",
    "DeviceMemoryError",
    "DeviceTimeoutError",
    "ForkError",
    "InternalError",
    "LibraryError",
    "NumericOverflowError",
    "ResourceExhaustedError",
    "SimulatorWarning",
    "SlowPathWarning",
    "UnsupportedError",
    "UsageError",
    "WouldBlock",
]

_E = TypeVar("_E", bound=BaseException)


class AiocannError(Exception):
    """Base of everything that aiocann raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only attributes and OSError's own __reduce__ both break the default.
        return _revive, (type(self), self.args, self.__dict__.copy())


def _revive(cls: type[_E], args: tuple[Any, ...], state: dict[str, Any]) -> _E:
    exc = cls(*args)
    exc.__dict__.update(state)
    return exc


def clone(exc: _E) -> _E:
    """Return a fresh copy, so that tasks that await one op do not share a traceback."""
    if not isinstance(exc, AiocannError):
        return exc
    copy = _revive(type(exc), exc.args, exc.__dict__.copy())
    copy.__cause__ = exc.__cause__
    return copy


class AclError(AiocannError):
    """The driver, or aiocann on its behalf, refused or failed a call.

    Attributes
    ----------
    code : int
        The ACL code (positive) or one of aiocann's own (negative).
    code_name : str
        The code's name in the ACL headers.
    call : str
        The ACL or aclnn function that failed; empty for aiocann's own checks.
    detail : str
        What the native half or the driver said.
    hint : str
        What to do about it, where that is known; else empty.
    origin : str
        For a failure that reached its awaiter later: the op that failed first and
        the line that enqueued it. Empty for a failure of the call itself.
    """

    code: int = 0
    code_name: str = ""
    call: str = ""
    detail: str = ""
    hint: str = ""
    origin: str = ""


class UsageError(AclError, ValueError):
    """The arguments make no sense; the message says what to do."""


class CaptureError(AclError):
    """A graph is being captured, or its capture failed."""


class UnsupportedError(AclError):
    """The device, its SoC or the CANN version cannot do it."""


class DeviceTimeoutError(AclError, TimeoutError):
    """The driver, or closing, gave up waiting."""


class NumericOverflowError(AclError):
    """The device detected a numeric overflow."""


class ResourceExhaustedError(AclError):
    """Streams, events or another countable resource of the device ran out."""


class DeviceMemoryError(ResourceExhaustedError, MemoryError):
    """Device or pinned memory ran out.

    Attributes
    ----------
    requested, free, total : int
        Bytes asked for, free on the device, and present on it.
    reserved, used : int
        Bytes that aiocann's pool holds, and those in use.
    """

    requested: int = 0
    free: int = 0
    total: int = 0
    reserved: int = 0
    used: int = 0


class DeviceFaultError(AclError):
    """The device failed while running an op, or an op it depended on.

    Attributes
    ----------
    op : str
        The op and the shapes of its operands.
    enqueued_at : str
        ``file:line in function`` of the Python line that enqueued it.
    is_device_lost : bool
        Whether the device itself is gone, so that only a reset or a new process helps.
    """

    op: str = ""
    enqueued_at: str = ""
    is_device_lost: bool = False


class LibraryError(AiocannError, OSError):
    """A driver library, or a symbol of one, was not found."""


class ForkError(AiocannError, RuntimeError):
    """The runtime was opened before a fork and used in the child."""


class ClosedResourceError(AiocannError, anyio.ClosedResourceError):
    """The runtime, device, stream or buffer is closed."""


class BusyResourceError(AiocannError, anyio.BusyResourceError):
    """It is in use in a way that conflicts with the request."""

    def __init__(self, message: str = "") -> None:
        # anyio builds its own sentence from a verb; ours says what conflicts.
        Exception.__init__(self, message)


class WouldBlock(AiocannError, anyio.WouldBlock):  # noqa: N818 - anyio's name
    """A ``*_nowait`` call cannot be answered at once."""


class InternalError(AiocannError):
    """A bug in aiocann. Please report it."""


class SimulatorWarning(UserWarning):
    """No NPU was found: the simulator is used."""


class SlowPathWarning(UserWarning):
    """It works, but slower than it could."""


class CleanupWarning(ResourceWarning):
    """Something could not be released where another error is being raised."""


@dataclass(frozen=True)
class NativeError:
    """The ``aiocann_error`` of the C ABI, as plain values."""

    code: int
    detail: str = ""
    call: str = ""
    device: int = -1
    node: int = -1
    is_fault: bool = False
    cause_op: int = 0
    cause_kind: str = ""
    cause_code: int = 0
    cause_is_fault: bool = False
    cause_detail: str = ""
    requested: int = 0
    free: int = 0
    total: int = 0
    reserved: int = 0
    used: int = 0


# The codes of aiocann.h; tests compare them with the compiled module.
E_USAGE = -1
E_UNSUPPORTED = -2
E_LIBRARY = -3
E_NO_MEMORY = -4
E_WOULD_BLOCK = -5
E_CLOSED = -6
E_PREDECESSOR = -7
E_TIMEOUT = -8
E_INTERNAL = -9

_OWN: dict[int, tuple[str, type[AiocannError]]] = {
    E_USAGE: ("AIOCANN_E_USAGE", UsageError),
    E_UNSUPPORTED: ("AIOCANN_E_UNSUPPORTED", UnsupportedError),
    E_LIBRARY: ("AIOCANN_E_LIBRARY", LibraryError),
    E_NO_MEMORY: ("AIOCANN_E_NO_MEMORY", DeviceMemoryError),
    E_WOULD_BLOCK: ("AIOCANN_E_WOULD_BLOCK", WouldBlock),
    E_CLOSED: ("AIOCANN_E_CLOSED", ClosedResourceError),
    E_PREDECESSOR: ("AIOCANN_E_PREDECESSOR", DeviceFaultError),
    E_TIMEOUT: ("AIOCANN_E_TIMEOUT", DeviceTimeoutError),
    E_INTERNAL: ("AIOCANN_E_INTERNAL", InternalError),
}


def _classes() -> dict[int, type[AclError]]:
    exact: dict[int, type[AclError]] = {}

    def put(cls: type[AclError], *codes: int) -> None:
        exact.update(dict.fromkeys(codes, cls))

    put(CaptureError, *range(107024, 107034 + 1), *range(107036, 107038 + 1))
    put(CaptureError, 107039, 107040, 107041, 107045, 507903)
    put(UnsupportedError, 100026, 100039, 148050, 148052)
    put(UnsupportedError, 200001, 200006, 200007, 207000, 207019, 207021)
    put(UnsupportedError, 507009, 561003, 561107, 561112)
    put(UsageError, 200002, 200003, 200004, 200005, 207002, 507910, 507911)
    put(DeviceTimeoutError, 100036, 107019, 107020, 207020)
    put(DeviceTimeoutError, 507012, 507046, 507047, 507905)
    put(DeviceMemoryError, 200000, 207001, 207018)
    put(ResourceExhaustedError, 300000, 507002)
    put(NumericOverflowError, 207003, 207016, 207017)
    # Whether they were seen while running or at a later call.
    put(DeviceFaultError, *FAULT_CODES)
    return exact


_EXACT = _classes()
# By leading digit where no exact code says otherwise: 1 the caller, 2 a resource,
# 3 storage, 5 the runtime or the device. 36xxxx is aclnn's "the runtime said no".
_FAMILY: dict[int, type[AclError]] = {
    1: UsageError,
    2: ResourceExhaustedError,
    3: ResourceExhaustedError,
}
_ACLNN_RUNTIME_ERROR = 361001

# The device does not come back by itself: a reset or a new process is needed.
_LOST = frozenset({507010, 507033, 507053, 507054, 507055, 507056, 507899, 507914})

_HINTS: dict[int, str] = {
    100001: "open the runtime first: async with aiocann.open_runtime()",
    100039: "the libraries found are link-time stubs: put those of the installed "
    "driver first (source set_env.sh)",
    107001: "valid ids run from 0 to the number of visible devices, less one; see "
    "`aiocann info` and ASCEND_RT_VISIBLE_DEVICES",
    207001: "free buffers, use smaller batches, or use a device of your own",
    207004: "see `npu-smi info`; in a container, /dev/davinci* must be passed through",
    207006: "the user must belong to the group of /dev/davinci* (HwHiAiUser)",
    207007: "close events that are no longer needed",
    207008: "close streams that are no longer needed; other processes count too",
    207018: "free buffers, use smaller batches, or use a device of your own",
    507008: "the driver and the CANN toolkit may not match: compare `npu-smi info` "
    "with the toolkit's version",
    507033: "the device could not be opened: see `npu-smi info`, and whether another "
    "process or a container holds it",
}
for _code in (507014, 507015, 507016, 507034, 507035, 507036):
    _HINTS[_code] = "an operand of the op may be out of bounds or already freed"


def code_name(code: int) -> str:
    """Name of an ACL code or of one of aiocann's own; the number when unknown."""
    if code in _OWN:
        return _OWN[code][0]
    return CODE_NAMES.get(code, str(code))


def class_for(code: int, *, is_fault: bool = False) -> type[AiocannError]:
    """Class that a code raises: exact codes win, then faults, then the family."""
    if code in _OWN:
        return _OWN[code][1]
    if code in _EXACT:
        return _EXACT[code]
    if is_fault:
        return DeviceFaultError
    if code == _ACLNN_RUNTIME_ERROR:
        return AclError
    return _FAMILY.get(code // 100000, AclError)


def error_for(
    native: NativeError,
    *,
    op: str = "",
    enqueued_at: str = "",
    cause: BaseException | None = None,
) -> AiocannError:
    """Make the exception for a native failure. Nothing else makes an `AclError`.

    Parameters
    ----------
    native
        What the core, or a check of ours, reported.
    op, enqueued_at
        For a failure that reaches its awaiter later: which op, enqueued where.
    cause
        The exception of the op that failed first, when this one only followed.
    """
    cls = class_for(native.code, is_fault=native.is_fault)
    name = code_name(native.code)
    hint = _HINTS.get(native.code, "")
    exc = cls(_message(native, name, hint, op, enqueued_at, cls))
    if isinstance(exc, AclError):
        exc.code, exc.code_name, exc.hint = native.code, name, hint
        exc.call, exc.detail = native.call, native.detail
        if op or enqueued_at:
            exc.origin = f"{op} enqueued at {enqueued_at}" if enqueued_at else op
        if isinstance(cause, AclError) and cause.origin:
            exc.origin = cause.origin
    if isinstance(exc, DeviceMemoryError):
        exc.requested, exc.free, exc.total = native.requested, native.free, native.total
        exc.reserved, exc.used = native.reserved, native.used
    if isinstance(exc, DeviceFaultError):
        exc.op, exc.enqueued_at = op, enqueued_at
        exc.is_device_lost = native.code in _LOST or (
            isinstance(cause, DeviceFaultError) and cause.is_device_lost
        )
    exc.__cause__ = cause
    return exc


def _message(
    native: NativeError,
    name: str,
    hint: str,
    op: str,
    enqueued_at: str,
    cls: type[AiocannError],
) -> str:
    parts = []
    if op:
        where = f", enqueued at {enqueued_at}" if enqueued_at else ""
        on = f" on device {native.device}" if native.device >= 0 else ""
        parts.append(f"{op}{on}{where}:")
    if native.call:
        parts.append(f"{native.call} failed with {native.code} ({name}):")
    elif native.code > 0:
        parts.append(f"{native.code} ({name}):")
    parts.append(native.detail or _DEFAULT_DETAIL.get(native.code, name))
    if cls is DeviceMemoryError and native.requested:
        parts.append(
            f"({_size(native.requested)} asked for, {_size(native.free)} of "
            f"{_size(native.total)} free; the pool holds {_size(native.reserved)}, "
            f"{_size(native.used)} in use)"
        )
    if hint:
        parts.append(f"[{hint}]")
    if cls is InternalError:
        parts.append("[this is a bug in aiocann; please report it]")
    return " ".join(parts)


_DEFAULT_DETAIL = {E_PREDECESSOR: "not run, because an earlier op failed"}


def _size(nbytes: int) -> str:
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def usage(detail: str) -> AiocannError:
    """Refuse arguments: `detail` says what is wrong and what to do."""
    return error_for(NativeError(E_USAGE, detail))
