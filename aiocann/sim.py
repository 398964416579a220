"""The simulated machine: its configuration, faults to inject, and its counters.

There is one machine per process. What is configured here, or by the environment
variables ``AIOCANN_SIM_*``, takes effect when no device is open.
"""

from __future__ import annotations

from contextlib import contextmanager
from ctypes import c_uint64
from typing import TYPE_CHECKING

from aiocann.errors import E_USAGE, BusyResourceError, NativeError, error_for, usage
from aiocann.native import sim_control

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "clear_faults",
    "configure",
    "counted_calls",
    "counters",
    "delay_callback",
    "delay_copy",
    "delay_kernel",
    "drop_callback",
    "fail_call",
    "fail_copy",
    "fail_kernel",
    "hold",
    "last_misuse",
    "let_go",
    "lose_device",
    "release",
    "reset",
    "restore_device",
    "setting",
    "stall_copy",
    "stall_kernel",
]

_CONTEXT_RELEASE_ERROR = 507007

# What configure(devices=) said, and whether open_runtime(devices=n) put it aside.
_devices: str | None = None
_is_enlarged = False


def configure(**settings: object) -> None:
    """Change the machine to be; None takes a setting back to its default.

    Parameters
    ----------
    devices : int
        How many, 1 to 64.
    soc : str
        SoC name, as "Ascend910B2" or "Ascend310P3".
    memory : int or str
        Bytes of memory per device; "4G" works.
    threads : int
        Worker threads that all devices share.
    peers : str
        "all", "none", or pairs as "0-1,1-0": who reaches whose memory.
    max_streams, max_events, pinned_memory : int
        Limits.
    cann : str
        "9.1" or "8.1", which lacks many functions.
    hide : str
        Names of functions that are absent as well, with commas between.
    strict : int
        1: look for more misuse, and for what is left behind: see `last_misuse`. It
        costs time.

    Raises
    ------
    UsageError
        An unknown setting, or a value that it does not take.
    BusyResourceError
        A device is open. Where that is so because closing a runtime had to leak it,
        `reset` gives it up.
    """
    global _devices, _is_enlarged
    for key, value in settings.items():
        text = None if value is None else str(value)
        _configure(key, text)
        if key == "devices":
            _devices, _is_enlarged = text, False


def _configure(key: str, value: str | None) -> None:
    control = sim_control()
    text = None if value is None else value.encode()
    code = control.lib.aiocann_sim_configure(key.encode(), text)
    if code:
        detail = control.text(control.lib.aiocann_sim_last_error())
        if code == _CONTEXT_RELEASE_ERROR:
            raise BusyResourceError(
                f"the simulated machine cannot change while a device is open: {detail}"
            )
        raise error_for(NativeError(E_USAGE, detail))


def setting(key: str) -> str:
    """Return a setting that is in force, as text.

    Raises
    ------
    UsageError
        There is no such setting.
    """
    control = sim_control()
    value = control.lib.aiocann_sim_setting(key.encode())
    if value is None:
        raise usage(f"the simulator has no setting {key!r}: see aiocann.sim.configure")
    return control.text(value)


def ensure_devices(count: int | None) -> None:
    """Have at least `count` devices for one opening of a runtime; None: as configured.

    What it enlarges lasts until the next opening.
    """
    global _is_enlarged
    if _is_enlarged:
        _configure("devices", _devices)
        _is_enlarged = False
    if count is None:
        return
    current = setting("devices")
    if current.isdigit() and int(current) >= count:
        return
    _configure("devices", str(count))
    _is_enlarged = True


def fail_call(function: str, code: int, nth: int = 1) -> None:
    """Let the nth call of an ACL function from now on fail with `code`; 0: every call.

    ``fail_call("aclrtMalloc", 207001)`` fails the next allocation.
    """
    _inject("call", function, nth, code)


def fail_kernel(kernel: str = "*", code: int = 0, nth: int = 1) -> None:
    """Let the nth kernel of this name fault on the device, without effect.

    Parameters
    ----------
    kernel : str
        As in "aclnnAdd"; "*" is any.
    code : int
        What the device reports; 0 is an exception of a vector core, 507015.
    nth : int
        Counted from now on; 0 is every one.
    """
    _inject("kernel", kernel, nth, code)


def fail_copy(kind: str = "*", code: int = 0, nth: int = 1) -> None:
    """Let the nth asynchronous copy ("memcpy") or fill ("memset") fault."""
    _inject("copy", kind, nth, code)


def delay_kernel(ms: int, kernel: str = "*", nth: int = 1) -> None:
    """Let the nth kernel of this name take `ms` milliseconds longer; 0: every one."""
    _inject("kernel_delay", kernel, nth, ms)


def delay_copy(ms: int, kind: str = "*", nth: int = 1) -> None:
    """Let the nth asynchronous copy or fill take `ms` milliseconds longer."""
    _inject("copy_delay", kind, nth, ms)


def stall_kernel(kernel: str = "*", nth: int = 1, abort_code: int = 0) -> None:
    """Let the nth kernel of this name never end: its stream is stuck.

    It ends when the stream is aborted or the device reset, or by `let_go`.

    Parameters
    ----------
    kernel : str
        As in "aclnnAdd"; "*" is any.
    nth : int
        Counted from now on; 0 is every one.
    abort_code : int
        Other than 0: aborting the stream fails with it, and only a reset helps.
    """
    _inject("kernel_stall", kernel, nth, abort_code)


def stall_copy(kind: str = "*", nth: int = 1, abort_code: int = 0) -> None:
    """Let the nth asynchronous copy or fill never end; see `stall_kernel`."""
    _inject("copy_stall", kind, nth, abort_code)


def drop_callback(
    family: str = "*", nth: int = 1, *, holds_stream: bool = False
) -> None:
    """Let the nth callback never fire.

    Parameters
    ----------
    family : str
        "no_block" or "block" (aclrtLaunchCallback), "host_func", or "*" for any.
    nth : int
        Counted from now on; 0 is every one.
    holds_stream : bool
        A stream that waits for the callback to return (block, host_func) is stuck as
        by `stall_copy`; otherwise it goes on.
    """
    _inject("callback_drop", family, nth, int(holds_stream))


def delay_callback(ms: int | None = None, family: str = "*", nth: int = 1) -> None:
    """Let the nth callback come late: by `ms` milliseconds, None until `let_go`.

    A stream that waits for the callback to return waits on. See `drop_callback`.
    """
    _inject("callback_delay", family, nth, -1 if ms is None else ms)


def let_go() -> None:
    """Let everything that faults hold back go on.

    Delayed and stalled tasks run, late callbacks come, and streams stop waiting for
    callbacks that were dropped.
    """
    sim_control().lib.aiocann_sim_let_go()


def lose_device(device: int, code: int = 0, *, for_ever: bool = False) -> None:
    """Lose a device: what it has fails, and every call that concerns it too.

    Parameters
    ----------
    device : int
        Its index.
    code : int
        What calls answer; 0 is a lost heartbeat, 507010.
    for_ever : bool
        Otherwise a reset of the device (aclrtResetDeviceForce) brings it back.
    """
    control = sim_control()
    if control.lib.aiocann_sim_lose(device, code, int(for_ever)):
        raise usage(control.text(control.lib.aiocann_sim_last_error()))


def restore_device(device: int) -> None:
    """Let a device that was lost for ever be brought back by a reset."""
    control = sim_control()
    if control.lib.aiocann_sim_restore(device):
        raise usage(control.text(control.lib.aiocann_sim_last_error()))


def reset() -> None:
    """Make all devices as new, whoever has them open; faults, holds and losses end.

    The way out when closing a runtime timed out and leaked its devices: afterwards
    `configure` works again. A runtime that is still open has lost its devices.
    """
    sim_control().lib.aiocann_sim_reset()


def _inject(kind: str, target: str, nth: int, value: int) -> None:
    control = sim_control()
    if control.lib.aiocann_sim_inject(kind.encode(), target.encode(), nth, value):
        raise usage(control.text(control.lib.aiocann_sim_last_error()))


def clear_faults() -> None:
    """Disarm every fault; what has struck goes on, see `let_go`."""
    sim_control().lib.aiocann_sim_clear_faults()


@contextmanager
def hold(device: int, stream: int = -1) -> Iterator[None]:
    """Keep a device, or one of its streams, from starting tasks while inside.

    Enqueueing goes on, so that what overlaps can be arranged.
    """
    control = sim_control()
    if control.lib.aiocann_sim_hold(device, stream):
        raise usage(control.text(control.lib.aiocann_sim_last_error()))
    try:
        yield
    finally:
        control.lib.aiocann_sim_release(device, stream)


def release(device: int, stream: int = -1) -> None:
    """Let a held device go on before its `hold` is left."""
    sim_control().lib.aiocann_sim_release(device, stream)


def counters() -> dict[str, int]:
    """Return what the machine has counted since the process started."""
    control = sim_control()
    found: dict[str, int] = {}
    while True:
        name = control.lib.aiocann_sim_counter_name(len(found))
        if name is None:
            return found
        found[control.text(name)] = int(control.lib.aiocann_sim_counter(name))


@contextmanager
def counted_calls() -> Iterator[dict[str, int]]:
    """Count the calls of ACL functions inside: what `fail_call` could strike.

    The dict is filled when this is left; `counted_so_far` tells before.
    """
    found: dict[str, int] = {}
    sim_control().lib.aiocann_sim_count_calls(1)
    try:
        yield found
    finally:
        sim_control().lib.aiocann_sim_count_calls(0)
        found.update(counted_so_far())


def counted_so_far() -> dict[str, int]:
    """Return what `counted_calls` has counted by now."""
    control = sim_control()
    found: dict[str, int] = {}
    times = c_uint64()
    while name := control.lib.aiocann_sim_called(len(found), times):
        found[control.text(name)] = int(times.value)
    return found


def last_misuse() -> str:
    """Return the last misuse that hardware would have punished silently; "" if none.

    Memory used after it was freed or out of its bounds, freed twice; work on what was
    destroyed. With ``strict`` also memory freed while queued tasks use it, copies
    between ranges that overlap, device memory read that was never written, and what a
    program leaves behind. They are counted in `counters`: "misuse", and "leaks" of what
    was left behind.
    """
    control = sim_control()
    return control.text(control.lib.aiocann_sim_last_misuse())
