"""`Device`: one NPU, or one simulated one."""

# ruff: noqa: SLF001 - finishes operations

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from aiocann.arguments import require_int
from aiocann.backend import Backend
from aiocann.completion import Interruption, settled
from aiocann.enqueue import enqueue, enqueue_allocation
from aiocann.errors import (
    AiocannError,
    BusyResourceError,
    ClosedResourceError,
    clone,
    usage,
)
from aiocann.loops import raise_forked
from aiocann.memory import Block, DeviceBuffer
from aiocann.native import NULL, lib, text
from aiocann.stream import Stream, StreamContext, adopt_stream, create_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiocann.completion import Operation
    from aiocann.runtime import Runtime

__all__ = ["Device", "MemoryInfo"]


class MemoryInfo(NamedTuple):
    """Memory of a device, in bytes."""

    free: int
    total: int


class Device:
    """One NPU of a runtime. `Runtime.devices` lists them."""

    __slots__ = (
        "__weakref__",
        "_backend",
        "_is_resetting",
        "_pointer",
        "index",
        "main_stream",
        "physical_id",
        "runtime",
        "soc_name",
    )

    def __init__(self, pointer: Any, runtime: Runtime) -> None:
        self._pointer = pointer
        #: The runtime that opened it.
        self.runtime = runtime
        #: Logical id: what ``ASCEND_RT_VISIBLE_DEVICES`` leaves, counted from 0.
        self.index: int = lib.aiocann_device_index(pointer)
        #: Id on this machine; -1 when not known.
        self.physical_id: int = lib.aiocann_device_physical_id(pointer)
        #: As in "Ascend910B2".
        self.soc_name: str = text(lib.aiocann_device_soc_name(pointer))
        # The stream of the device's backend; made when the runtime opens.
        self.main_stream: Stream | None = None
        self._backend: Backend | None = None
        self._is_resetting = False

    def __repr__(self) -> str:
        return f"<aiocann.Device {self.index} {self.soc_name}>"

    def native(self) -> Any:
        """Return the native device.

        Raises
        ------
        ClosedResourceError
            The runtime is closed.
        """
        raise_forked()
        if self.runtime.closed:
            raise ClosedResourceError(
                f"device {self.index} belongs to a runtime that is closed: open "
                "another with `async with aiocann.open_runtime()`"
            )
        return self._pointer

    @property
    def poisoned(self) -> bool:
        """Whether it has faulted since it was opened."""
        return bool(lib.aiocann_device_poisoned(self.native()))

    def can_access_peer(self, other: Device) -> bool:
        """Whether it can reach the memory of `other` without the host."""
        if not isinstance(other, Device):
            raise TypeError(f"a Device of the same runtime is needed, not {other!r}")
        if other.runtime is not self.runtime:
            raise usage("the devices are of two runtimes, one of which is closed")
        if other is self:
            return True
        return bool(lib.aiocann_device_can_access_peer(self.native(), other.native()))

    def memory_info(self) -> Operation[MemoryInfo]:
        """Ask for free and total memory, in bytes.

        Notes
        -----
        **Source:** aclrtGetMemInfo.
        """
        return enqueue(
            lib.aiocann_device_memory_info,
            (self.native(),),
            "memory_info",
            finish=_memory_info,
        )

    def stream(self, priority: int | None = None) -> StreamContext:
        """Open a stream: ``async with device.stream() as s``.

        It is the current stream of the task inside. Leaving waits, shielded from
        cancellation, until its work is done, at most the runtime's `close_timeout`, and
        raises the first failure that nobody was told of.

        Parameters
        ----------
        priority : int, optional
            0 (highest) to 7; the driver's default otherwise.
        """
        return StreamContext(self, partial(create_stream, self, priority))

    def adopt_stream(
        self, handle: int, before: Callable[[], object] | None = None
    ) -> StreamContext:
        """Use another library's stream: ``async with device.adopt_stream(h) as s``.

        It must be of the device's primary context. It is never destroyed, aborted or
        subscribed to; leaving waits for what was enqueued here, and lets go of it.
        ``await s.synchronize()`` also covers what the other library has enqueued.

        Parameters
        ----------
        handle : int
            The ``aclrtStream``; it must stay valid until this is left.
        before : callable, optional
            Called before each enqueueing here, to hand over what the other library
            holds back in a queue on the host; else this work would overtake that. (What
            is enqueued here is submitted a little later: await it before the other
            library enqueues what must follow it.)
        """
        handle = require_int(handle, "handle", 0, 2**64 - 1)
        if before is not None and not callable(before):
            raise TypeError(f"before must be a function or None, not {before!r}")
        return StreamContext(self, partial(adopt_stream, self, handle, before))

    def allocate(
        self, nbytes: int, *, stream: Stream | None = None
    ) -> Operation[DeviceBuffer]:
        """Allocate device memory from the device's pool.

        Parameters
        ----------
        nbytes : int
            Size in bytes.
        stream : Stream, optional
            Where it will be used first: memory whose last uses are all on that stream
            can be had before they are done.

        Raises
        ------
        DeviceMemoryError
            From the await: there is not enough memory; the numbers are in it.
        """
        return self._allocate(nbytes, stream, nowait=False)

    def allocate_nowait(
        self, nbytes: int, *, stream: Stream | None = None
    ) -> DeviceBuffer:
        """Allocate device memory that the pool can give at once.

        Raises
        ------
        WouldBlock
            It cannot: use `allocate`.
        """
        return self._allocate(nbytes, stream, nowait=True).result()

    def _allocate(
        self, nbytes: int, stream: Stream | None, *, nowait: bool
    ) -> Operation[DeviceBuffer]:
        nbytes = require_int(nbytes, "nbytes", 1)
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"stream must be a Stream of the device, not {stream!r}")
        if stream is not None and stream.device is not self:
            raise usage(
                f"the stream is of device {stream.device.index}, not of device "
                f"{self.index}, where the memory would be"
            )
        return enqueue_allocation(
            self.native(),
            nbytes,
            NULL if stream is None else stream.native(),
            nowait=nowait,
            kind="allocate",
            own=lambda mem: DeviceBuffer(Block(mem, nbytes, self), 0, nbytes),
        )

    async def reset(self) -> None:
        """Start the device anew: after a fault, or to be rid of all that is on it.

        Everything of the device is closed at once: its streams, buffers, tensors,
        events and graphs, here and in other tasks; their further use raises
        `ClosedResourceError`. What is in flight on it fails; what other devices copy
        from or to it at this moment is waited for. Then `poisoned` is False,
        `backend()` gives a new backend, and other devices were not disturbed.

        It is the whole process's device that is reset: what other libraries of this
        process have on it is gone as well.

        Cancelling the await does not stop it.

        Raises
        ------
        AclError
            The driver cannot: the message says what it said. The device is then out of
            use, and listed in `Runtime.unavailable`, until another reset succeeds. Of
            a device whose memory or link has failed (507053 to 507056, 507914) or that
            does not answer (507010, 507033) that is to be expected now and then: a new
            process, or ``npu-smi set -t reset``, is needed.
        BusyResourceError
            It is being reset already.

        Notes
        -----
        **Source:** aclrtStreamAbort, aclrtResetDeviceForce.
        """
        if self._is_resetting:
            raise BusyResourceError(f"device {self.index} is being reset already")
        self._is_resetting = True
        interruption = Interruption()
        try:
            failure = await self._reset(interruption)
        finally:
            self._is_resetting = False
        interruption.release(failure)
        if failure is not None:
            raise failure

    async def _reset(self, interruption: Interruption) -> BaseException | None:
        op: Operation[None] = enqueue(
            lib.aiocann_device_reset, (self.native(),), "reset", (self,)
        )
        # The native half keeps to limits of its own.
        if not await settled(op, math.inf, interruption):
            return None  # ctrl-C: it goes on, but nobody will use the device
        # Until there is another, whoever asks for the backend hears that it is closed.
        old = self.main_stream
        if old is not None:
            old.settle_all()
            old.take_unretrieved()
        failure = op.exception()
        if failure is None:
            making = create_stream(self, None)
            if not await settled(making, math.inf, interruption):
                return None
            failure = making.exception()
            if failure is None:
                self.main_stream, self._backend = making.result(), None
                self.runtime.note_available(self)
                return None
        assert isinstance(failure, AiocannError)
        self.runtime.note_unavailable(self, failure)
        return clone(failure)

    def backend(self) -> Backend:
        """Return the backend of this device; the same one each time."""
        self.native()
        if self._backend is None:
            self._backend = Backend(self)
        return self._backend


def _memory_info(op: Operation[MemoryInfo]) -> MemoryInfo:
    value = lib.aiocann_op_value
    return MemoryInfo(int(value(op._pointer, 0)), int(value(op._pointer, 1)))
