"""`Stream`: commands that a device runs in the order in which they were enqueued."""

# ruff: noqa: SLF001 - works on the insides of its operands and operations

from __future__ import annotations

import contextlib
import contextvars
import itertools
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from aiocann import debug, sites
from aiocann.aclnn import AclnnCall
from aiocann.arguments import require_int
from aiocann.completion import (
    HostCall,
    Interruption,
    Operation,
    settled,
)
from aiocann.enqueue import enqueue
from aiocann.errors import (
    E_TIMEOUT,
    AiocannError,
    ClosedResourceError,
    NativeError,
    clone,
    error_for,
    usage,
)
from aiocann.event import Event, require_event
from aiocann.ledger import in_flight
from aiocann.logs import log
from aiocann.loops import current_home, drain_here, raise_forked
from aiocann.memory import (
    DeviceBuffer,
    Operand,
    device_span,
    host_side,
    require_open,
)
from aiocann.native import NULL, ffi, last_error, lib
from aiocann.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from aiocann.device import Device
    from aiocann.dtypes import DType

__all__ = ["Stream", "StreamContext", "current_stream"]

T = TypeVar("T")

# Weak: contexts are copied all over, and a loop keeps those of cancelled timers until
# they would have been due. Who has entered a stream keeps it.
_current: contextvars.ContextVar[weakref.ref[Stream] | None] = contextvars.ContextVar(
    "aiocann_current_stream", default=None
)

_MARK_RECORD = lib.AIOCANN_MARK_RECORD
_MARK_SYNCHRONIZE = lib.AIOCANN_MARK_SYNCHRONIZE
_MARK_HOST_CALL = lib.AIOCANN_MARK_HOST_CALL
_MAX_FAILED = 64
_numbers = itertools.count()


def current_stream() -> Stream | None:
    """Return the stream of this task's innermost ``async with device.stream()``.

    None outside of any, and in a task that has outlived the one that it was started in.
    """
    current = _current.get()
    stream = None if current is None else current()
    return None if stream is None or stream._pointer is None else stream


class Stream:
    """Commands that run one after the other, beside those of other streams.

    ``async with device.stream() as s`` makes one. Every method enqueues at once, from
    any thread, and returns an `Operation`; with ``notify=False`` it returns None, and
    the work costs nothing more than itself.
    """

    __slots__ = ("__weakref__", "_before", "_failed", "_pointer", "device", "number")

    def __init__(
        self, pointer: Any, device: Device, before: Callable[[], object] | None = None
    ) -> None:
        self._pointer: Any = ffi.gc(pointer, lib.aiocann_stream_release)
        # Called before each enqueueing, on a stream of another library.
        self._before = before
        #: The device it belongs to.
        self.device = device
        #: Tells streams of a process apart in listings.
        self.number = next(_numbers)
        # Ops that failed of themselves, until someone is told.
        self._failed: deque[Operation[Any]] = deque()

    def __repr__(self) -> str:
        state = " closed" if self._pointer is None else ""
        return f"<aiocann.Stream on {self.device!r}{state}>"

    def native(self) -> Any:
        """Return the native stream, to enqueue on it.

        Raises
        ------
        ClosedResourceError
            It is closed.
        """
        pointer = self._open()
        if self._before is not None:
            self._before()
        return pointer

    def _open(self) -> Any:
        raise_forked()
        pointer = self._pointer
        if pointer is None:
            raise ClosedResourceError(
                f"this stream of device {self.device.index} is closed: open another "
                "with `async with device.stream() as stream`"
            )
        return pointer

    @property
    def handle(self) -> int:
        """The ``aclrtStream``, for other libraries.

        Raises
        ------
        ClosedResourceError
            The stream is closed, or a reset of its device has taken it.
        """
        handle = int(lib.aiocann_stream_handle(self._open()))
        if not handle:
            raise ClosedResourceError(
                f"device {self.device.index} was reset, which closed this stream"
            )
        return handle

    @property
    def idle(self) -> bool:
        """Whether everything that was enqueued has finished, host parts included.

        What another library enqueued on a stream of its own does not count.
        """
        return bool(lib.aiocann_stream_idle(self._open()))

    # ---- commands ----------------------------------------------------------------

    @overload
    def memcpy(
        self, dst: Operand, src: Operand, *, notify: Literal[True] = ...
    ) -> Operation[None]: ...
    @overload
    def memcpy(self, dst: Operand, src: Operand, *, notify: Literal[False]) -> None: ...
    @overload
    def memcpy(
        self, dst: Operand, src: Operand, *, notify: bool
    ) -> Operation[None] | None: ...
    def memcpy(
        self, dst: Operand, src: Operand, *, notify: bool = True
    ) -> Operation[None] | None:
        """Copy `src` to `dst`; the direction follows from where they live.

        Parameters
        ----------
        dst, src : DeviceBuffer, Tensor, or C-contiguous host buffer
            Of the same size. Until the op is done, `src` must not be written and `dst`
            not be read.
        notify : bool
            False: return None.

        Returns
        -------
        Operation
            Done when `dst` holds the data. Cancelling an await leaves the copy to
            finish. ``op.path`` says how it went.

        Raises
        ------
        UsageError
            The sizes differ, an operand is not contiguous or read-only, or none of them
            is of this stream's device.
        ClosedResourceError
            The stream or a buffer is closed.

        Notes
        -----
        **Source:** aclrtMemcpyAsync; ordinary host memory goes through pinned chunks.
        """
        to, dst_keep, dst_bytes, dst_device = side(dst, writable=True)
        from_, src_keep, src_bytes, src_device = side(src, writable=False)
        if dst_bytes != src_bytes:
            raise usage(
                f"the sizes differ: {dst_bytes} bytes to write, {src_bytes} to read. "
                "Copy between views of one size: buf[a:b]"
            )
        self._check_devices(dst_device, src_device)
        if not notify and dst_device is not None and src_device is not None:
            arguments = self.native(), to, from_, dst_bytes
            self._enqueue_silently("memcpy", lib.aiocann_stream_memcpy, arguments)
            return None
        op: Operation[None] = self.copy(
            "memcpy", to, from_, dst_bytes, (dst, src, dst_keep, src_keep)
        )
        # A host array needs an op to own it, asked for or not.
        return op if notify else None

    def _check_devices(self, dst: Device | None, src: Device | None) -> None:
        device = self.device
        if dst is device or src is device:
            other = src if dst is device else dst
            if other is None or other is device or other.runtime is device.runtime:
                return
            raise usage("an operand belongs to a runtime that was closed since")
        if dst is None and src is None:
            return
        places = sorted({d.index for d in (dst, src) if d is not None})
        raise usage(
            f"no operand is on device {device.index}, this stream's, but on device "
            f"{' and '.join(map(str, places))}: use a stream of that device"
        )

    def copy(
        self,
        kind: str,
        to: Any,
        from_: Any,
        nbytes: int,
        operands: tuple[Any, ...],
        result: Any = None,
        *,
        blocks: DType | None = None,
    ) -> Operation[Any]:
        """Enqueue a copy between spans that were checked; for backends.

        `blocks` is the element type of a quantized tensor, which has another form on
        the host than on the device.
        """
        call = lib.aiocann_stream_memcpy
        arguments: tuple[Any, ...] = (self.native(), to, from_, nbytes)
        if blocks is not None:
            call, arguments = lib.aiocann_stream_copy_blocks, (*arguments, blocks.value)
        return enqueue(
            call,
            arguments,
            kind,
            operands,
            self,
            result,
            debug.verify_all if sites.is_debugging else None,
        )

    @overload
    def memset(
        self, buf: DeviceBuffer | Tensor, value: int, *, notify: Literal[True] = ...
    ) -> Operation[None]: ...
    @overload
    def memset(
        self, buf: DeviceBuffer | Tensor, value: int, *, notify: Literal[False]
    ) -> None: ...
    @overload
    def memset(
        self, buf: DeviceBuffer | Tensor, value: int, *, notify: bool
    ) -> Operation[None] | None: ...
    def memset(
        self, buf: DeviceBuffer | Tensor, value: int, *, notify: bool = True
    ) -> Operation[None] | None:
        """Set every byte of `buf` to the low 8 bits of `value`.

        Raises
        ------
        UsageError
            `buf` is of another device, or a tensor with gaps.
        """
        stream = self.native()
        if type(value) is not int or not -256 < value < 256:
            # Only the low 8 bits count, of numbers that C cannot hold too.
            value = require_int(value, "value", -(2**512), 2**512) & 0xFF
        block, offset, nbytes = device_side(buf)
        if block.device is not self.device:
            raise usage(
                f"the buffer is on device {block.device.index}, this stream on device "
                f"{self.device.index}: use a stream of the buffer's device"
            )
        arguments = (stream, require_open(block), offset, value, nbytes)
        if notify:
            return enqueue(lib.aiocann_stream_memset, arguments, "memset", (buf,), self)
        self._enqueue_silently("memset", lib.aiocann_stream_memset, arguments)
        return None

    def _enqueue_silently(
        self, kind: str, function: Callable[..., int], arguments: tuple[Any, ...]
    ) -> None:
        """Enqueue without an op: all operands are the native half's own."""
        raise_forked()
        if debug.is_blocking:
            enqueue(function, arguments, kind, stream=self)
        elif function(*arguments, NULL, NULL):
            raise last_error()

    def _mark(
        self, kind: int, name: str, cls: type[Operation[None]] = Operation
    ) -> Operation[None]:
        return enqueue(
            lib.aiocann_stream_mark,
            (self.native(), kind),
            name,
            stream=self,
            cls=cls,
        )

    def record(self, event: Event | None = None) -> Event:
        """Record a point after everything enqueued so far.

        Parameters
        ----------
        event : Event, optional
            The event to record again; a new one by default.
        """
        event = Event() if event is None else require_event(event)
        event._record(self._mark(_MARK_RECORD, "record"), self.device.index)
        return event

    def wait(self, event: Event, *, notify: bool = True) -> Operation[None] | None:
        """Hold the stream, on the device, until `event` has been reached.

        Refers to the latest recording enqueued before this call, on whichever device.

        Raises
        ------
        UsageError
            The event was never recorded.
        """
        stream = self.native()
        mark = require_event(event).recording()
        if mark._stream is not None and (
            mark._stream.device.runtime is not self.device.runtime
        ):
            raise usage("the event belongs to a runtime that was closed since")
        arguments = (stream, mark._pointer)
        if notify:
            return enqueue(lib.aiocann_stream_wait, arguments, "wait", stream=self)
        self._enqueue_silently("wait", lib.aiocann_stream_wait, arguments)
        return None

    def aclnn(
        self, name: str, *args: Any, formats: Mapping[int, str] | None = None
    ) -> Operation[None]:
        """Enqueue an aclnn operator by name, one of the vendor's or your own.

        ``await stream.aclnn("aclnnAdd", x, y, 1.0, out)`` calls both phases of
        ``aclnnAdd`` on a thread of the runtime; its workspace comes from the pool.

        Parameters
        ----------
        name : str
            As it is exported, without ``GetWorkspaceSize``.
        *args
            What phase 1 takes, in its order, up to the workspace size: a `Tensor` that
            has memory, or a view of one; None for a pointer that is left out; lists of
            tensors, or of numbers (an ``aclIntArray``, ``aclFloatArray`` or
            ``aclBoolArray``); numbers, bool, str, `DType`. Of operators in CANN's own
            documentation it is known where a number is an ``aclScalar``: a float
            becomes one of float32, an int of int64, a NumPy scalar one of its dtype.
            Of others, a NumPy scalar is an ``aclScalar``, an int an integer of any
            width, a float a double, and ``ctypes.c_float`` a float.
        formats : mapping of int to str, optional
            By position: a tensor's format where it is not ``"ND"``, as ``"NCHW"``.

        Returns
        -------
        Operation
            Done when the operator has run. It owns the tensors until then.

        Raises
        ------
        UnsupportedError
            No library of this CANN has the operator, or a tensor is quantized.
        UsageError, TypeError
            Arguments that are too few, of a wrong kind, or of another device.
        AclError
            From the await: what phase 1 refused (161001, 161002), with its text.
        DeviceFaultError
            From the await: it failed on the device.

        Notes
        -----
        **Source:** ``NAMEGetWorkspaceSize`` and ``NAME`` of the operator libraries.
        """
        stream = self.native()
        call = AclnnCall(self.device, name, args, formats or {})
        return enqueue(
            lib.aiocann_graph_compute, (call.native, stream), name, (call,), self
        )

    def host_call(self, fn: Callable[..., T], *args: Any) -> Operation[T]:
        """Run ``fn(*args)`` on the running loop once the stream gets there.

        Later work of the stream does not wait for it. Its result, or its exception, is
        the op's.

        Raises
        ------
        RuntimeError
            No loop runs in this thread.
        """
        stream = self.native()
        if not callable(fn):
            raise TypeError(f"host_call takes a function and its arguments, not {fn!r}")
        if not current_home().is_live:
            raise RuntimeError(
                "host_call runs its function on the running loop, and none runs here"
            )
        return enqueue(
            lib.aiocann_stream_mark,
            (stream, _MARK_HOST_CALL),
            "host_call",
            (fn, args),
            self,
            cls=HostCall,
        )

    def synchronize(self) -> Operation[None]:
        """Return an op that is done when everything enqueued so far is.

        Awaiting it raises the first failure on this stream that nobody was told of.
        """
        return self._mark(_MARK_SYNCHRONIZE, "synchronize", Synchronization)

    # ---- closing -----------------------------------------------------------------

    async def aclose(
        self, seconds: float, because: BaseException | None = None
    ) -> None:
        """Drain and destroy it, whatever happens to this task. Idempotent.

        Parameters
        ----------
        seconds : float
            How long to wait for its work; less where the process is to end.
        because : BaseException, optional
            What makes the caller leave it.

        Raises
        ------
        DeviceTimeoutError
            There was still work after `seconds`. It goes on; the stream is
            destroyed once it is done.
        AclError
            The first failure of an op that nobody awaited.
        """
        pointer, self._pointer = self._pointer, None
        if pointer is None:
            return
        op = enqueue(lib.aiocann_stream_close, (pointer,), "close", stream=self)
        interruption = Interruption(because)
        failure: BaseException | None = None
        if not await settled(op, seconds, interruption):
            in_haste = interruption.seconds_left() <= 0
            after = "when the process was to end" if in_haste else f"after {seconds} s"
            failure = error_for(
                NativeError(
                    E_TIMEOUT,
                    f"the stream still had work {after}; it is destroyed once that is "
                    "done",
                    device=self.device.index,
                )
            )
        else:
            self.settle_all()
            failure = self.take_unretrieved()
            closing = op.exception()
            # What follows from a failure that somebody was told of is no news.
            if failure is None and closing is not None:
                failure = None if op.has_known_cause else clone(closing)
        interruption.release(failure)
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame: a cycle

    def settle_all(self) -> None:
        """Look at every op of this stream, whoever's loop will be told of it."""
        drain_here()
        for op in list(in_flight.values()):
            if op._stream is self:
                op._poll()

    def note_failed(self, op: Operation[Any]) -> None:
        """Keep a failed op until someone is told of it."""
        if len(self._failed) < _MAX_FAILED:
            self._failed.append(op)
        else:  # the first ones count
            op.take_unretrieved()

    def take_unretrieved(self) -> BaseException | None:
        """Return the first failure that nobody was told of; log them all."""
        first: BaseException | None = None
        while self._failed:
            exc = self._failed.popleft().take_unretrieved()
            first = first or exc
        return first

    def raise_unretrieved(self) -> None:
        """Raise the first failure that nobody was told of; log them all."""
        first = self.take_unretrieved()
        if first is not None:
            try:
                raise first
            finally:
                del first  # its traceback has this frame: a cycle


class Synchronization(Operation[None]):
    """A mark whose await also raises what nobody was told of."""

    __slots__ = ()

    _tells_of_silent_ones = True

    def result(self) -> None:
        if self.done and self._stream is not None:
            # What this loop has not been told of yet may have failed: its host calls.
            drain_here()
            self._stream.raise_unretrieved()
        return super().result()


class StreamContext:
    """What `Device.stream` returns: opens the stream, drains and closes it."""

    __slots__ = ("_create", "_device", "_stream", "_token")

    def __init__(self, device: Device, create: Callable[[], Operation[Stream]]) -> None:
        self._device = device
        self._create = create
        self._stream: Stream | None = None
        self._token: contextvars.Token[weakref.ref[Stream] | None] | None = None

    async def __aenter__(self) -> Stream:
        if self._stream is not None:
            raise RuntimeError("device.stream() opens one stream: call it again")
        self._stream = stream = await self._create()
        self._token = _current.set(weakref.ref(stream))
        return stream

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stream, token = self._stream, self._token
        if stream is None or token is None:
            return  # left already
        self._token = None
        # Left in another context than entered (a fixture): that one is gone anyway.
        with contextlib.suppress(ValueError):
            _current.reset(token)
        try:
            await stream.aclose(self._device.runtime.close_timeout, exc)
        except AiocannError as failure:
            if exc is None:
                raise
            # Neither an error nor a cancellation or exit may be replaced by it.
            log.error("%s; while the stream was left because of another error", failure)


def create_stream(device: Device, priority: int | None) -> Operation[Stream]:
    """Make a stream; nobody but its maker closes it."""
    return enqueue(
        lib.aiocann_stream_create,
        (
            device.native(),
            -1 if priority is None else require_int(priority, "priority", 0, 7),
        ),
        "create_stream",
        (device,),
        finish=_stream_made,
    )


def adopt_stream(
    device: Device, handle: int, before: Callable[[], object] | None
) -> Operation[Stream]:
    """Make a stream of another library's ``aclrtStream``."""
    return enqueue(
        lib.aiocann_stream_adopt,
        (device.native(), handle),
        "adopt_stream",
        (device, before),
        finish=_stream_made,
    )


def _stream_made(op: Operation[Stream]) -> Stream:
    return Stream(lib.aiocann_op_take_result(op._pointer), *op._operands)


def device_side(value: DeviceBuffer | Tensor) -> tuple[Any, int, int]:
    """Return block, offset and size of device memory without gaps."""
    if isinstance(value, DeviceBuffer):
        return value._block, value._offset, value.nbytes
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{type(value).__name__} is no device memory: pass a DeviceBuffer or a "
            "Tensor"
        )
    if not value.is_contiguous:
        raise usage(
            f"{value.describe()} is a view with gaps: make it contiguous first, with "
            "ops.cont"
        )
    block, offset = value.storage()
    return block, offset, value.nbytes


def side(value: object, *, writable: bool) -> tuple[Any, Any, int, Any]:
    """Return one side of a copy: its span, what keeps that valid, size and device."""
    if isinstance(value, DeviceBuffer):
        block = value._block
        mem = require_open(block)
        span = value._span
        if span is None:
            span = value._span = device_span(block, value._offset)
        return span, mem, value.nbytes, block.device
    if isinstance(value, Tensor):
        block, offset, nbytes = device_side(value)
        mem = require_open(block)
        return device_span(block, offset), mem, nbytes, block.device
    span, export = host_side(value, writable=writable)
    return span, export, len(export), None
