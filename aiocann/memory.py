"""Device buffers, pinned arrays, and what may be the operand of a copy.

A block is one piece of memory with one owner; buffers and tensors are windows onto it.
Closing a block ends its use from Python at once; the native half keeps the memory until
every op that uses it has passed.
"""

# ruff: noqa: SLF001 - finishes operations

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union, final

import numpy as np
import numpy.typing as npt

from aiocann import debug, sites
from aiocann.arguments import require_int
from aiocann.errors import ClosedResourceError, usage
from aiocann.native import check, ffi, lib
from aiocann.tensor import Tensor

if TYPE_CHECKING:
    from aiocann.completion import Operation
    from aiocann.device import Device

__all__ = ["DeviceBuffer", "Operand", "from_pointer"]

_from_buffer = ffi.from_buffer
_new = ffi.new
_char_array = ffi.typeof("char[]")
_span = ffi.typeof("aiocann_span *")


class Block:
    """A piece of device memory. `mem` is None once it is closed."""

    __slots__ = ("__weakref__", "device", "mem", "nbytes", "owner")

    def __init__(
        self, mem: Any, nbytes: int, device: Device, owner: object = None
    ) -> None:
        #: Owns one native reference; whoever calls with it keeps a reference to it, so
        #: that closing from another thread cannot pull it away under the call.
        self.mem = ffi.gc(mem, lib.aiocann_mem_release)
        self.nbytes = nbytes
        self.device = device
        #: Kept alive for memory of another library.
        self.owner = owner

    def close(self) -> None:
        """Give it back. Idempotent."""
        self.mem = None
        self.owner = None


@final
class DeviceBuffer:
    """Bytes on a device: all of a block, or a window of it.

    ``buf[a:b]`` is a view, in bytes. `Device.allocate` makes buffers.
    """

    __slots__ = ("__weakref__", "_block", "_offset", "_span", "nbytes")

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self._block = block
        self._offset = offset
        self._span: Any = None
        #: Size in bytes.
        self.nbytes = nbytes

    def __repr__(self) -> str:
        state = " closed" if self._block.mem is None else ""
        return (
            f"<aiocann.DeviceBuffer of {self.nbytes} bytes on {self.device!r}{state}>"
        )

    def describe(self) -> str:
        """Say what it is, in an error."""
        return f"{self.nbytes} bytes on device {self.device.index}"

    @property
    def device(self) -> Device:
        """The device it lives on."""
        return self._block.device

    @property
    def address(self) -> int:
        """Device address of its first byte.

        Raises
        ------
        ClosedResourceError
            It is closed.
        """
        return int(lib.aiocann_mem_address(require_open(self._block))) + self._offset

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, window: slice) -> DeviceBuffer:
        if not isinstance(window, slice):
            raise TypeError("a buffer is cut by a slice of bytes: buf[a:b]")
        if window.step not in (None, 1):
            raise usage("a view of a buffer is without gaps: buf[a:b], with no step")
        start = _bound(window.start, 0)
        stop = _bound(window.stop, self.nbytes)
        start = start + self.nbytes if start < 0 else start
        stop = stop + self.nbytes if stop < 0 else stop
        if not 0 <= start <= stop <= self.nbytes:
            raise usage(
                f"bytes {start} to {stop} do not lie in a buffer of {self.nbytes} bytes"
            )
        return DeviceBuffer(self._block, self._offset + start, stop - start)

    def close(self) -> None:
        """Give the block back once all work that uses it has passed. Idempotent.

        Closes every view of it. A buffer that is dropped gives it back too.
        """
        self._block.close()

    def __enter__(self) -> DeviceBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(value: Any, default: int) -> int:
    if value is None:
        return default
    return require_int(value, "a bound of a slice of bytes", -(2**512), 2**512)


#: What a copy takes: device memory, a tensor, or any C-contiguous host buffer.
Operand = Union[DeviceBuffer, Tensor, "npt.NDArray[Any]", bytes, bytearray, memoryview]


def require_open(block: Block) -> Any:
    """Return the native memory of a block that is not closed."""
    mem = block.mem
    if mem is None:
        raise ClosedResourceError(
            f"this buffer of {block.nbytes} bytes on device {block.device.index} is "
            "closed: allocate another"
        )
    return mem


def from_pointer(
    address: int, nbytes: int, device: Device, owner: object = None
) -> DeviceBuffer:
    """Wrap device memory of another library.

    Parameters
    ----------
    address : int
        Device address.
    nbytes : int
        Size in bytes.
    device : Device
        Where it lives.
    owner : object, optional
        Kept alive as long as the buffer and the work that uses it.

    Returns
    -------
    DeviceBuffer
        Closing it forgets the memory and frees nothing.
    """
    address = require_int(address, "address", 1, 2**64 - 1)
    nbytes = require_int(nbytes, "nbytes", 1, 2**64 - address)
    native = getattr(device, "native", None)
    if native is None:
        raise TypeError(f"device must be an aiocann.Device, not {device!r}")
    out = ffi.new("aiocann_mem *[1]")
    check(lib.aiocann_mem_wrap(native(), address, nbytes, out))
    return DeviceBuffer(Block(out[0], nbytes, device, owner), 0, nbytes)


class PinnedBlock:
    """Pinned host memory: the base object of the arrays made from it."""

    __slots__ = ("__array_interface__", "__weakref__", "_mem")

    def __init__(self, mem: Any, nbytes: int) -> None:
        self._mem = ffi.gc(mem, lib.aiocann_mem_release)
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (int(lib.aiocann_mem_address(mem)), False),
        }


def pinned_array(op: Operation[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Make the array of a finished allocation of pinned memory."""
    shape, dtype, nbytes = op._operands
    mem = lib.aiocann_op_take_result(op._pointer)
    raw = np.asarray(PinnedBlock(mem, max(nbytes, 1)))
    array: npt.NDArray[Any] = raw[:nbytes].view(dtype).reshape(shape)
    return array


def host_span(value: object, *, writable: bool) -> Any:
    """Export a host buffer: it can be neither resized nor freed while that lives.

    Returns
    -------
    cdata
        ``char[n]``; its length is the buffer's size in bytes.

    Raises
    ------
    UsageError
        It is not C-contiguous, holds Python objects, or is read-only where it must be
        written.
    TypeError
        It is no buffer at all.
    """
    if _holds_objects(value):
        raise usage(
            "the array holds Python objects, whose addresses mean nothing to a device: "
            "convert it to a numeric dtype first"
        )
    try:
        return _from_buffer(_char_array, value, writable)
    except (BufferError, ValueError, TypeError):
        pass
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise usage(
                f"the array {value.dtype}{list(value.shape)} is not C-contiguous: copy "
                + ("into" if writable else "from")
                + " numpy.ascontiguousarray(array)"
            )
        if writable and not value.flags.writeable:
            raise usage(
                f"the array {value.dtype}{list(value.shape)} is read-only: "
                "it cannot be a destination"
            )
        # A type unknown to the buffer protocol (bfloat16): its bytes will do.
        return _from_buffer(_char_array, value.reshape(-1).view(np.uint8), writable)
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{type(value).__name__} is no operand of a copy: pass a DeviceBuffer, a "
            "Tensor, or a C-contiguous host buffer such as a NumPy array"
        ) from None
    if writable and view.readonly:
        raise usage(f"{type(value).__name__} is read-only and cannot be a destination")
    raise usage("the buffer is not C-contiguous: make a contiguous copy of it")


def _holds_objects(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype.hasobject)
    if isinstance(value, (bytes, bytearray)):
        return False
    try:
        return "O" in memoryview(value).format  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False  # no buffer, or of a type without a format: its export tells


def device_span(block: Block, offset: int) -> Any:
    """Make the ``aiocann_span`` of device memory; `require_open` keeps it valid."""
    span = _new(_span)
    span.mem, span.offset = block.mem, offset
    return span


def host_side(value: object, *, writable: bool) -> tuple[Any, Any]:
    """Return the ``aiocann_span`` of a host buffer, and its export; see `host_span`."""
    guarded = sites.is_debugging
    thawed = guarded and writable and debug.writable_again(value)
    try:
        export = host_span(value, writable=writable)
    finally:
        if thawed:
            debug.protect(value)
    span = _new(_span)
    span.host = export
    if guarded:
        return span, debug.Guard(value, export, writable=writable)
    return span, export
