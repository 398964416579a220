"""`open_runtime`: one native runtime per process, shared by those who have it open."""

# ruff: noqa: SLF001 - finishes operations

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from aiocann import debug, ending
from aiocann.arguments import require_int, require_number
from aiocann.completion import (
    Interruption,
    Operation,
    settle_lock,
    settled,
)
from aiocann.device import Device
from aiocann.dump import listen
from aiocann.enqueue import enqueue
from aiocann.errors import (
    E_TIMEOUT,
    AclError,
    AiocannError,
    BusyResourceError,
    CleanupWarning,
    NativeError,
    SimulatorWarning,
    clone,
    error_for,
    usage,
)
from aiocann.logs import log, set_driver
from aiocann.loops import raise_forked, watch_forks
from aiocann.native import (
    NULL,
    cann_present,
    ffi,
    lib,
    sim_library,
    to_error,
)
from aiocann.runtime import Runtime, Unavailable, warn_unpinned_again
from aiocann.sim import ensure_devices
from aiocann.stream import create_stream
from aiocann.visible import trouble_with, visible_devices, visible_ids

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["open_runtime"]


@dataclass(frozen=True)
class _Config:
    driver: str
    #: None: all visible; else the ids, or how many.
    devices: int | tuple[int, ...] | None


class _Shared:
    """The one native runtime of the process, and how many have it open."""

    def __init__(self, config: _Config) -> None:
        self.config = config
        self.references = 1
        self.runtime: Runtime | None = None
        self.opening: Operation[Runtime] | None = None
        self.closing: Operation[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is closed, or has failed to open and nobody cares any more."""
        if self.closing is not None:
            return self.closing.done
        failed = self.opening is not None and self.opening.failed
        return self.references == 0 and bool(failed)


# The same lock: settling an opening looks at what is shared, and the reverse.
_lock = settle_lock
_MAX_ID = 2**31 - 2
_shared: _Shared | None = None
_warned = False


class open_runtime:  # noqa: N801 - used like a function
    """Open a driver and its devices: ``async with open_runtime() as rt``.

    Opening it again, with the same configuration, shares what is open; the last to
    leave closes it. Leaving waits for all work, shielded from cancellation; but on
    ctrl-C, or `SystemExit`, only for a moment: then what is left is aborted.

    Parameters
    ----------
    driver : {"auto", "cann", "sim"}, optional
        Default: ``AIOCANN_DRIVER``, or "auto": CANN where an NPU or a CANN library is
        found, else the simulator, with a `SimulatorWarning`.
    devices : int or sequence of int, optional
        The first so many, or those with these logical ids; all visible by default. The
        simulator makes as many as asked for.
    close_timeout : float
        Seconds to wait for work when leaving this, or a stream. What is stuck then is
        leaked, counted and raised.
    debug : bool or "blocking", optional
        Guard host arrays while they are in flight, note whole enqueueing stacks, report
        what holds a loop, log what is opened and closed; see `aiocann.debug`. With
        "blocking", each command is waited for, and fails, in the call that enqueues it:
        the loop is held meanwhile. Default: ``AIOCANN_DEBUG``.

    Raises
    ------
    LibraryError
        The driver was not found; the message names what was looked for.
    BusyResourceError
        It is open with another configuration.
    UsageError
        A parameter or an environment variable makes no sense.
    """

    def __init__(
        self,
        driver: str | None = None,
        devices: int | Sequence[int] | None = None,
        *,
        close_timeout: float = 30.0,
        debug: bool | Literal["blocking"] | None = None,
    ) -> None:
        self._driver = driver
        self._devices = _check_devices(devices)
        # A day of milliseconds fits anywhere; a device that takes longer is stuck.
        self._close_timeout = min(require_number(close_timeout, "close_timeout"), 1e6)
        if debug is None:
            self._debug = os.environ.get("AIOCANN_DEBUG", "") not in ("", "0")
            self._is_blocking = os.environ.get("AIOCANN_DEBUG") == "blocking"
        elif debug in (True, False, "blocking"):
            self._debug, self._is_blocking = bool(debug), debug == "blocking"
        else:
            raise usage(f'debug is True, False or "blocking", not {debug!r}')
        self._entered: _Shared | None = None

    async def __aenter__(self) -> Runtime:
        if self._entered is not None:
            raise RuntimeError("this open_runtime() is entered already: call it again")
        raise_forked()
        listen()
        config = _Config(await _choose_driver(self._driver), self._devices)
        shared = await _acquire(config, self._close_timeout)
        assert shared.opening is not None
        try:
            runtime = await shared.opening
            await _make_streams(runtime)
        except BaseException as exc:
            _explain(exc)
            # Cancelled, or failed: the last one to give up closes what may yet open.
            closing = _drop(shared)
            if closing is not None and await settled(closing, self._close_timeout):
                failure = closing.exception()
                if failure is not None:
                    warnings.warn(
                        f"a runtime that did not open could not be closed: {failure}",
                        CleanupWarning,
                        stacklevel=2,
                    )
            raise
        self._entered = shared
        if self._debug:
            debug.enable(blocking=self._is_blocking)
            log.info("opened %s", runtime.library)
        return runtime

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shared, self._entered = self._entered, None
        if shared is None:
            return
        runtime = shared.runtime
        assert runtime is not None
        timeout = self._close_timeout
        try:
            closing = _drop(shared, timeout)
            if closing is not None:
                await _finish_closing(runtime, closing, timeout, exc)
        except AiocannError as failure:
            if exc is None:
                raise
            # Neither an error nor a cancellation or exit may be replaced by it.
            log.error("%s; while leaving because of another error", failure)
        finally:
            if self._debug:
                debug.disable(blocking=self._is_blocking)
                log.info("left %s", runtime.library)


def _explain(exc: BaseException) -> None:
    """Add what is wrong with the list of visible devices, where that may be why."""
    trouble = trouble_with(visible_devices())
    if trouble and isinstance(exc, AclError):
        exc.args = (f"{exc.args[0]} [{trouble}]",)


async def _finish_closing(
    runtime: Runtime,
    closing: Operation[None],
    seconds: float,
    because: BaseException | None,
) -> None:
    interruption = Interruption(because)
    # The native half keeps to the timeout by itself; this one is for when it does not.
    done = await settled(closing, seconds + 5.0, interruption)
    why = f"closing took over {seconds} s"
    if not done and interruption.seconds_left() <= 0:
        lib.aiocann_runtime_close(runtime._pointer, 0, NULL, NULL)  # no more waiting
        done = await settled(closing, ending.PATIENCE, interruption, ending.PATIENCE)
        why = "the process is to end, and closing goes on in the background"
    if not done:
        late = error_for(NativeError(E_TIMEOUT, why))
        interruption.release(late)
        try:
            raise late
        finally:
            del late  # its traceback has this frame: a cycle
    untold: BaseException | None = None
    for device in runtime.devices:
        if device.main_stream is not None:
            device.main_stream.settle_all()
            untold = device.main_stream.take_unretrieved() or untold
    failure = closing.exception()
    interruption.release(failure or untold)
    if failure is not None:
        raise clone(failure) from untold
    if untold is not None:
        try:
            raise untold
        finally:
            del untold  # its traceback has this frame: a cycle


def _check_devices(
    devices: int | Sequence[int] | None,
) -> int | tuple[int, ...] | None:
    if devices is None:
        return None
    if isinstance(devices, int) and not isinstance(devices, bool):
        return require_int(devices, "the number of devices", 1, _MAX_ID + 1)
    if isinstance(devices, (str, bytes)) or not isinstance(devices, Sequence):
        raise TypeError(
            f"devices is a number or a list of logical ids, not {devices!r}"
        )
    ids = tuple(
        require_int(index, "a device's logical id", 0, _MAX_ID) for index in devices
    )
    if not ids or len(set(ids)) != len(ids):
        raise usage(f"devices must be distinct ids from 0 up, not {list(devices)!r}")
    return ids


async def _choose_driver(driver: str | None) -> str:
    global _warned
    name = driver or os.environ.get("AIOCANN_DRIVER") or "auto"
    if name not in ("auto", "cann", "sim"):
        source = "driver" if driver else "AIOCANN_DRIVER"
        raise usage(f'{source} is {name!r}, but must be "auto", "cann" or "sim"')
    if name != "auto":
        return name
    # It may load CANN's library, and whatever that does at its start.
    if await anyio.to_thread.run_sync(cann_present):
        return "cann"
    if not _warned:
        _warned = True
        warnings.warn(
            "no NPU and no CANN were found: aiocann runs on its simulator. Ask for it "
            'with driver="sim" or AIOCANN_DRIVER=sim to silence this',
            SimulatorWarning,
            stacklevel=3,
        )
    return "sim"


async def _acquire(config: _Config, close_timeout: float) -> _Shared:
    """Join what is open, or begin to open it; waits for what is just closing."""
    global _shared
    while True:
        with _lock:
            shared = _shared
            if shared is None or shared.is_over:
                _shared = shared = _Shared(config)
                try:
                    shared.opening = _begin(shared, close_timeout)
                except BaseException:
                    _shared = None
                    raise
                return shared
            if shared.closing is None and shared.config == config:
                shared.references += 1
                return shared
            if shared.references > 0:
                raise BusyResourceError(
                    f"a runtime is open with driver {shared.config.driver!r} and "
                    f"devices {_say(shared.config.devices)}; asked for was "
                    f"{config.driver!r} and {_say(config.devices)}. A process has "
                    "one runtime: use the same arguments, or close it first"
                )
            # Closing, or about to: whoever opened it gave up before it was open.
            ending: Operation[Any] | None = shared.closing or shared.opening
        assert ending is not None
        try:
            await ending
        except AiocannError:
            log.debug("the previous runtime ended with an error", exc_info=True)


def _say(devices: int | tuple[int, ...] | None) -> str:
    return "all" if devices is None else repr(devices)


def _begin(shared: _Shared, close_timeout: float) -> Operation[Runtime]:
    config = shared.config
    watch_forks()
    wanted = config.devices if config.driver == "sim" else None
    ensure_devices(max(wanted) + 1 if isinstance(wanted, tuple) else wanted)
    native = ffi.new("aiocann_config *")
    name = ffi.new("char[]", config.driver.encode())
    library = ffi.new("char[]", os.fsencode(sim_library()))
    native.driver, native.sim_library = name, library
    native.devices, native.n_devices = NULL, -1
    ids = NULL
    if isinstance(config.devices, int):
        native.n_devices = config.devices
    elif config.devices is not None:
        ids = ffi.new("int32_t[]", list(config.devices))
        native.devices, native.n_devices = ids, len(config.devices)
    out = ffi.gc(ffi.new("aiocann_runtime *[1]"), _release)

    def open_native(home: Any, op: Any) -> int:
        return int(lib.aiocann_runtime_open(native, home, out, op))

    return enqueue(
        open_native,
        (),
        "open_runtime",
        (shared, out, config.driver, close_timeout),
        finish=_opened,
    )


def _release(holder: Any) -> None:
    if holder[0] != NULL:
        lib.aiocann_runtime_release(holder[0])


def _opened(op: Operation[Runtime]) -> Runtime:
    """Fill in the runtime once it is open; runs once, where that is noticed."""
    shared, out, driver, close_timeout = op._operands
    warn_unpinned_again()
    runtime = Runtime(out, driver, close_timeout)
    pointer = runtime._pointer
    for position in range(lib.aiocann_runtime_device_count(pointer)):
        native = lib.aiocann_runtime_device(pointer, position)
        error = lib.aiocann_device_open_error(native)
        if error != NULL:
            index = lib.aiocann_device_index(native)
            runtime.unavailable.append(Unavailable(index, error_for(to_error(error))))
        else:
            runtime.devices.append(Device(native, runtime))
    if shared.config.devices is None:
        _note_missing(runtime)
    shared.runtime = runtime
    set_driver(driver)
    for one in runtime.unavailable:
        log.warning(
            "device %d is not available: %s",
            one.index,
            one.error,
            extra={"device": one.index},
        )
    with _lock:
        if shared.references == 0:  # everyone gave up while it opened
            _close(shared, runtime.close_timeout)
    return runtime


def _note_missing(runtime: Runtime) -> None:
    """List the visible devices that do not exist: the driver leaves them out."""
    visible = visible_devices()
    found = len(runtime.devices) + len(runtime.unavailable)
    trouble = trouble_with(visible)
    if trouble:
        log.warning("%s", trouble)
    for index, physical in enumerate(visible_ids(visible) or ()):
        if index >= found:
            missing = usage(
                f"ASCEND_RT_VISIBLE_DEVICES is {visible!r}, but the machine has no "
                f"device {physical}"
            )
            runtime.unavailable.append(Unavailable(index, missing))


async def _make_streams(runtime: Runtime) -> None:
    """Make the stream of each device's backend, unless another opener has."""
    for device in runtime.devices:
        if device.main_stream is None:
            stream = await create_stream(device, None)
            if device.main_stream is None:
                device.main_stream = stream


def _drop(shared: _Shared, timeout: float = 0.0) -> Operation[None] | None:
    """Give one reference back. Returns the closing that the last one starts."""
    global _shared
    with _lock:
        shared.references -= 1
        if shared.references > 0:
            return None
        opening = shared.opening
        if opening is None or (opening.done and shared.runtime is None):
            if _shared is shared:  # it failed to open: nothing to close
                _shared = None
            return None
        if shared.runtime is None:
            return None  # still opening: `_opened` closes it
        return _close(shared, timeout)


def _close(shared: _Shared, timeout: float) -> Operation[None]:
    runtime = shared.runtime
    assert runtime is not None
    runtime.closed = True
    shared.closing = enqueue(
        lib.aiocann_runtime_close,
        (runtime._pointer, int(timeout * 1000)),
        "close_runtime",
        (runtime,),
    )
    return shared.closing
