"""`Backend`: tensors and graphs on one device, in the order of one stream."""

# ruff: noqa: SLF001 - works on the insides of tensors, streams and graphs

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aiocann.arguments import require_int
from aiocann.completion import Operation
from aiocann.dtypes import DType, dtype_of
from aiocann.enqueue import enqueue, enqueue_allocation
from aiocann.errors import usage
from aiocann.graph import Graph, supports_node
from aiocann.memory import Block, device_span, host_side, require_open
from aiocann.native import NULL, ffi, last_error, lib
from aiocann.stream import Stream, device_side, side
from aiocann.tensor import Tensor, contiguous_nb, ne_of, require_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiocann.device import Device
    from aiocann.event import Event

__all__ = ["Backend"]

_DEFAULT_OFFLOAD_BATCH = 32
# aclnn's cubeMathType.
_CUBE_MATH_TYPES = {"float32": 0, "reduced": 1, "float16": 2, "hf32": 3}


class Backend:
    """Tensors and graphs on one device.

    Everything it enqueues runs on its device's one backend stream, in order.

    Parameters
    ----------
    device : Device
        Where it computes; `Device.backend` fills it in.
    matmul_precision : {"float32", "reduced", "float16", "hf32"}
        How matrix products of float32 are computed. "float32" keeps the precision; the
        others are faster where the SoC has them: whatever it likes best, float16, or
        the device's own HF32.
    """

    __slots__ = ("__weakref__", "_cube_math_type", "device", "stream")

    def __init__(self, device: Device, *, matmul_precision: str = "float32") -> None:
        if matmul_precision not in _CUBE_MATH_TYPES:
            choices = ", ".join(map(repr, _CUBE_MATH_TYPES))
            raise usage(
                f"matmul_precision is one of {choices}, not {matmul_precision!r}"
            )
        stream = device.main_stream
        assert stream is not None  # made when the runtime opened
        self._cube_math_type = _CUBE_MATH_TYPES[matmul_precision]
        #: The device it drives.
        self.device = device
        #: The stream that it enqueues on.
        self.stream = stream

    def __repr__(self) -> str:
        return f"<aiocann.Backend on {self.device!r}>"

    # ---- tensors -----------------------------------------------------------------

    def empty(
        self, shape: int | Sequence[int], dtype: object, name: str = ""
    ) -> Operation[Tensor]:
        """Allocate a tensor; its contents are whatever lies there.

        Parameters
        ----------
        shape : int or sequence of int
            In NumPy's order, 1 to 4 axes.
        dtype : DType
            As in `aiocann.F32`; NumPy's types are taken too.
        name : str, optional
            Shown in errors.

        Raises
        ------
        DeviceMemoryError
            From the await: there is not enough memory.
        """
        element = dtype_of(dtype)
        axes = (shape,) if isinstance(shape, int) else tuple(shape)
        ne = ne_of(axes)
        nb = contiguous_nb(element, ne)
        require_int(max(nb[3] * ne[3], *nb), "the tensor's size")
        tensor = Tensor(element, ne, nb, len(axes), device=self.device, name=name)
        # An empty tensor has an address too.
        nbytes = max(tensor.nbytes, 1)
        self.stream.native()  # refuses when closed

        def own(mem: Any) -> Tensor:
            tensor._block = Block(mem, nbytes, self.device)
            return tensor

        # Of no stream: any may use it, not only this backend's.
        return enqueue_allocation(
            self.device.native(), nbytes, NULL, nowait=False, kind="empty", own=own
        )

    def set_tensor_async(
        self, tensor: Tensor, array: Any, offset: int | None = None
    ) -> Operation[None]:
        """Write host data into a tensor.

        Parameters
        ----------
        tensor : Tensor
            Of this device, without gaps.
        array : NumPy array or C-contiguous buffer
            Either of the tensor's own element type, or plain bytes (`bytes`,
            `bytearray`, an array of uint8) that are taken as they are. It must not be
            written before the op is done. Of a quantized tensor: the bytes of its
            blocks, as ggml and GGUF files have them.
        offset : int, optional
            Where to write, in bytes from the tensor's start. Given, `array` may be
            any part of the tensor; left out, it must be the whole of it.

        Returns
        -------
        Operation
            Done when the tensor holds the data.

        Raises
        ------
        UsageError
            The size, element type or device does not fit.
        """
        self._own(tensor, "the tensor to write")
        block, base, room = device_side(tensor)
        span, export = host_side(array, writable=False)
        _check_dtype(tensor.dtype, array, "write")
        nbytes = len(export)
        if offset is None and nbytes != room:
            raise usage(
                f"{tensor.describe()} takes {room} bytes, the array has {nbytes}: give "
                "the whole tensor, or say with offset= where a part of it goes"
            )
        start = (
            0 if offset is None else require_int(offset, "offset", -(2**512), 2**512)
        )
        if start < 0 or start + nbytes > room:
            raise usage(
                f"bytes {start} to {start + nbytes} do not lie in {tensor.describe()}, "
                f"which has {room}"
            )
        if nbytes == 0:
            return Operation.completed("set_tensor", None)
        if tensor.dtype.is_quantized and nbytes != room:
            raise usage(
                f"{tensor.describe()} has another form on the device, and is written "
                f"whole: {room} bytes, not {nbytes}"
            )
        mem = require_open(block)
        to = device_span(block, base + start)
        keep = (tensor, array, mem, export)
        return self.stream.copy(
            "set_tensor", to, span, nbytes, keep, blocks=_blocks(tensor)
        )

    def get_tensor_async(
        self, tensor: Tensor, out: npt.NDArray[Any] | None = None
    ) -> Operation[npt.NDArray[Any]]:
        """Read a tensor into a NumPy array.

        Parameters
        ----------
        tensor : Tensor
            Of this device: a leaf, or an output of a computed graph.
        out : array, optional
            Filled instead of a new array: C-contiguous, of the tensor's element type
            (or uint8) and size. It must not be read before the op is done.

        Returns
        -------
        Operation
            Its result is the array. Of a view with gaps (`ops.permute`), a NumPy view
            of the same shape.

        Raises
        ------
        UsageError
            The tensor has no memory or is of another device, or `out` does not fit.
        """
        self._own(tensor, "the tensor to read")
        block, offset = tensor.storage()
        nbytes = tensor.span_bytes()
        if out is None:
            out, result = _array_for(tensor, nbytes)
        else:
            if not tensor.is_contiguous:
                raise usage(
                    f"{tensor.describe()} is a view with gaps and cannot fill out=: "
                    "leave out= away, or make it contiguous with ops.cont"
                )
            _check_dtype(tensor.dtype, out, "fill")
            result = out
        span, export = host_side(out, writable=True)
        if len(export) != nbytes:
            raise usage(
                f"{tensor.describe()} has {nbytes} bytes, out= has {len(export)}: they "
                "must be the same"
            )
        if nbytes == 0:
            return Operation.completed("get_tensor", result)
        mem = require_open(block)
        from_ = device_span(block, offset)
        keep = (out, tensor, mem, export)
        return self.stream.copy(
            "get_tensor", span, from_, nbytes, keep, result, blocks=_blocks(tensor)
        )

    def cpy_tensor_async(self, src: Tensor, dst: Tensor) -> Operation[None]:
        """Copy a tensor to another of the same shape and type, across devices too.

        Across devices it runs after everything enqueued so far on the backends of
        both, and before everything enqueued later on either.

        Parameters
        ----------
        src, dst : Tensor
            Without gaps; at least one of them of this device.

        Returns
        -------
        Operation
            ``op.path`` is "direct" on one device, "peer" or "staged" across two.
        """
        require_tensor(src, "src")
        require_tensor(dst, "dst")
        if src.dtype is not dst.dtype or src.shape != dst.shape:
            raise usage(
                f"{src.describe()} cannot be copied to {dst.describe()}: shapes and "
                "element types must be the same"
            )
        to, dst_mem, nbytes, there = side(dst, writable=True)
        from_, src_mem, _, here = side(src, writable=False)
        if self.device not in (here, there):
            raise usage(
                f"neither tensor is on device {self.device.index}, this backend's, but "
                f"on {here.index} and {there.index}: use the backend of one of them"
            )
        if nbytes == 0:
            return Operation.completed("cpy_tensor", None)
        keep = (dst, src, dst_mem, src_mem)
        if here is there:
            return self.stream.copy("cpy_tensor", to, from_, nbytes, keep)
        source, target = here.backend().stream, there.backend().stream
        # The copy is the source's command; the target's stream waits on both sides.
        _chain(target, source)
        op: Operation[None] = source.copy("cpy_tensor", to, from_, nbytes, keep)
        _chain(source, target)
        return op

    def _own(self, tensor: Tensor, what: str) -> None:
        require_tensor(tensor, what)
        if tensor.device is not self.device:
            where = "no device" if tensor.device is None else repr(tensor.device)
            raise usage(
                f"{what}, {tensor.describe()}, is on {where}, this backend on "
                f"{self.device!r}: use that device's backend, or bring it here with "
                "cpy_tensor_async()"
            )

    # ---- graphs ------------------------------------------------------------------

    def graph_compute(self, graph: Graph) -> Operation[None]:
        """Compute a graph.

        Returns
        -------
        Operation
            Done when all its outputs hold their values.

        Raises
        ------
        UnsupportedError
            An op cannot run on this device. Nothing was enqueued.
        UsageError
            An operand is of another device.
        """
        if not isinstance(graph, Graph):
            raise TypeError(
                f"an aiocann.Graph is needed, not {type(graph).__name__}: Graph([y])"
            )
        prepared = graph.native_for(self.device, self._cube_math_type)
        stream = self.stream.native()
        return enqueue(
            lib.aiocann_graph_compute,
            (prepared, stream),
            "graph",
            (graph, prepared),
            self.stream,
        )

    def supports_op(self, node: Tensor) -> bool:
        """Whether this device can compute a node, made by a function of `ops`."""
        require_tensor(node, "the node")
        made = node.node
        if made is not None and any(
            src is not None and src.device not in (None, self.device)
            for src in made.srcs
        ):
            return False
        return supports_node(node, self.device.soc_name)

    def offload_op(self, node: Tensor) -> bool:
        """Whether a node pays for moving its operands here: its batch is large enough.

        The threshold is ``GGML_OP_OFFLOAD_MIN_BATCH`` (32).
        """
        require_tensor(node, "the node")
        if node.node is None or node.node.op == "get_rows":
            return False
        raw = os.environ.get("GGML_OP_OFFLOAD_MIN_BATCH", "")
        least = int(raw) if raw.isdigit() else _DEFAULT_OFFLOAD_BATCH
        return node.ne[1] >= least

    # ---- order -------------------------------------------------------------------

    def event_record(self, event: Event | None = None) -> Event:
        """Record a point after everything enqueued so far; see `Stream.record`."""
        return self.stream.record(event)

    def event_wait(self, event: Event) -> Operation[None] | None:
        """Hold later work, on the device, until `event`; see `Stream.wait`."""
        return self.stream.wait(event)

    def synchronize(self) -> Operation[None]:
        """Return an op that is done when everything enqueued so far is."""
        return self.stream.synchronize()


def _chain(first: Stream, then: Stream) -> None:
    """Order what `then` gets from now on after what `first` has got so far."""
    out = ffi.new("aiocann_op *[1]")
    pointer = first.native()
    if lib.aiocann_stream_mark(pointer, lib.AIOCANN_MARK_RECORD, NULL, out):
        raise last_error()
    try:
        if lib.aiocann_stream_wait(then.native(), out[0], NULL, NULL):
            raise last_error()
    finally:
        lib.aiocann_op_release(out[0])


def _blocks(tensor: Tensor) -> DType | None:
    """Return the type of a quantized tensor: copies to and from the host change it."""
    return tensor.dtype if tensor.dtype.is_quantized else None


def _check_dtype(dtype: DType, array: Any, verb: str) -> None:
    """Refuse an array of another element type; plain bytes are taken as they are."""
    theirs = getattr(array, "dtype", None)
    if theirs is None:
        if not isinstance(array, memoryview) or array.format in ("B", "b", "c"):
            return
        theirs = np.dtype(array.format)
    if theirs == dtype.numpy or theirs == np.uint8:
        return
    raise usage(
        f"an array of {theirs} cannot {verb} a tensor of {dtype.name.lower()}: convert "
        f"it with array.astype({dtype.numpy.name!r}), or pass its bytes, "
        "array.view(numpy.uint8)"
    )


def _array_for(
    tensor: Tensor, nbytes: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Make an array to read into, and the view of it that shows the tensor."""
    element = tensor.dtype.numpy
    if tensor.dtype.is_quantized:
        raw = np.empty(nbytes, np.uint8)
        return raw, raw
    if tensor.is_contiguous:
        array = np.empty(tensor.shape, element)
        return array, array
    raw = np.empty(nbytes, np.uint8)
    strides = tuple(reversed(tensor.nb[: tensor.n_dims]))
    first = raw[: nbytes - nbytes % element.itemsize].view(element)
    return raw, np.lib.stride_tricks.as_strided(first, tensor.shape, strides)
