"""`Graph`: what a set of outputs needs, in execution order, ready to be computed.

Nodes run in the order in which they were built. A graph is checked and planned natively
once, when it is first computed, and never changes after that.
"""

# ruff: noqa: SLF001 - a graph places tensors: it reads and sets their storage

from __future__ import annotations

import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from aiocann.errors import NativeError, error_for, usage
from aiocann.memory import Block, require_open
from aiocann.native import check, ffi, lib, to_error
from aiocann.optable import MAX_SRC, NODE_HEAD, OPS, PLACE, pack_layout, supports
from aiocann.tensor import Tensor, require_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiocann.device import Device
    from aiocann.node import Node
    from aiocann.sites import Site, Stack

__all__ = ["Graph", "supports_node"]

_MUL_MAT = OPS["mul_mat"]
_ABSENT = -1


def supports_node(tensor: Tensor, soc_name: str) -> bool:
    """Whether a device of this SoC can compute `tensor`; True for a leaf."""
    node = require_tensor(tensor, "a node").node
    return node is None or supports(node.rule.op, node.rule.params, node.srcs, soc_name)


class Graph:
    """Everything that must be computed for some tensors.

    Parameters
    ----------
    outputs : iterable of Tensor
        What is wanted. Those that have no memory get it when the graph is first
        computed; the values in between share scratch memory and cannot be read.

    Raises
    ------
    UsageError
        There are no outputs, or tensors of several devices.

    Notes
    -----
    `Backend.graph_compute` computes it, any number of times. A graph keeps its tensors
    alive, not its results: they are those of the last time.
    """

    __slots__ = ("__weakref__", "_device", "_lock", "_native", "_nodes", "_outputs")

    def __init__(self, outputs: Iterable[Tensor]) -> None:
        if isinstance(outputs, Tensor):
            raise usage("the outputs of a graph come in a list: Graph([y])")
        self._outputs = tuple(require_tensor(t, "an output") for t in outputs)
        if not self._outputs:
            raise usage("a graph needs an output: Graph([y])")
        #: Tensors with device work, as they run.
        self._nodes = _collect(self._outputs)
        self._device = _common_device(self._outputs)
        self._native: dict[int, Any] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<aiocann.{self.describe()}>"

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that it computes."""
        return self._outputs

    @property
    def nodes(self) -> tuple[Tensor, ...]:
        """Every tensor with device work, as they run; views are not among them."""
        return tuple(self._nodes)

    def describe(self) -> str:
        """Say what it is, in an error."""
        outputs = ", ".join(output.describe() for output in self._outputs)
        return f"Graph of {len(self._nodes)} nodes -> {outputs}"

    def describe_node(self, index: int) -> str:
        """Return a node's op with its operands, by its native number."""
        node: Node = self._nodes[index].node
        return node.describe()

    def node_site(self, index: int) -> Site | Stack | None:
        """Return the line that built a node, by its native number."""
        node: Node = self._nodes[index].node
        return node.site

    def native_for(self, device: Device, cube_math_type: int = 0) -> Any:
        """Return the checked and planned ``aiocann_graph *``.

        Parameters
        ----------
        device
            Must be that of its tensors.
        cube_math_type
            For matrix products that do not say.

        Raises
        ------
        UnsupportedError
            The device does not support a node. Nothing has run.
        """
        native = self._native.get(cube_math_type)
        if native is not None and self._device is device:
            return native
        with self._lock:
            native = self._native.get(cube_math_type)
            if native is None or self._device is not device:
                native = self._make_native(device, cube_math_type)
                self._native[cube_math_type] = native
            return native

    def _make_native(self, device: Device, cube_math_type: int) -> Any:
        if self._device not in (device, None):
            raise _elsewhere(self._device, device)
        # One without operands is the device's that computes it first.
        self._device = device
        for output in self._outputs:
            owner = _owner(output)[0]
            if owner._block is None:
                owner._block = _allocate_lazily(owner, device)
                owner._device = device
        tensors, nodes, n_tensors = self._pack(device, cube_math_type)
        out = ffi.new("aiocann_graph *[1]")
        code = lib.aiocann_graph_create(
            device.native(),
            ffi.from_buffer("aiocann_tensor[]", tensors) if n_tensors else ffi.NULL,
            n_tensors,
            ffi.from_buffer("aiocann_node[]", nodes) if nodes else ffi.NULL,
            len(self._nodes),
            out,
        )
        if code:
            raise self._refusal(to_error(lib.aiocann_last_error()))
        return ffi.gc(out[0], lib.aiocann_graph_release)

    def _refusal(self, native: NativeError) -> Exception:
        if 0 <= native.node < len(self._nodes):
            site = self.node_site(native.node)
            return error_for(
                native,
                op=self.describe_node(native.node),
                enqueued_at=str(site) if site else "",
            )
        return error_for(native)

    def _pack(self, device: Device, cube_math_type: int) -> tuple[bytes, bytes, int]:
        """Return tensors and nodes as the C ABI has them."""
        indices: dict[Tensor, int] = {}
        tensors: list[bytes] = []

        def index(tensor: Tensor) -> int:
            found = indices.get(tensor)
            if found is not None:
                return found
            if tensor._view_of is None:
                block = tensor._block
                address = 0
                if block is not None:
                    if block.device is not device:  # placed since the node was built
                        raise _elsewhere(block.device, device)
                    address = int(ffi.cast("uintptr_t", require_open(block)))
                place = PLACE.pack(address, tensor._offset, -1, 0)
            else:
                owner, offset = _owner(tensor)
                place = PLACE.pack(0, offset, index(owner), 0)
            tensors.append(pack_layout(tensor) + place)
            number = indices[tensor] = len(tensors) - 1
            return number

        nodes: list[bytes] = []
        for tensor in self._nodes:
            node: Node = tensor.node
            rule = node.rule
            srcs = [_ABSENT if src is None else index(src) for src in node.srcs]
            n_src = len(srcs)
            srcs += [_ABSENT] * (MAX_SRC - n_src)
            packed = rule.packed
            if cube_math_type and rule.op is _MUL_MAT and rule.params[0] == 0:
                packed = rule.op.pack((cube_math_type,))
            nodes.append(NODE_HEAD.pack(rule.op.index, n_src, *srcs, index(tensor)))
            nodes.append(packed)
        # index() refers to itself: without this, the tensors would live, and keep their
        # memory, until the collector comes by.
        indices.clear()
        return b"".join(tensors), b"".join(nodes), len(tensors)


def _collect(outputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Return every tensor with device work that `outputs` need, in building order."""
    seen: set[Tensor] = set()
    found: list[Tensor] = []
    to_visit = list(outputs)
    while to_visit:
        tensor = to_visit.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if tensor._view_of is not None:
            to_visit.append(tensor._view_of)
        node: Node | None = tensor.node
        if node is None:
            continue
        to_visit.extend(src for src in node.srcs if src is not None)
        if not node.rule.op.is_view:
            found.append(tensor)
    found.sort(key=attrgetter("node.number"))
    return found


def _owner(tensor: Tensor) -> tuple[Tensor, int]:
    """Return the tensor that owns the storage, and the bytes from its first element."""
    offset = 0
    while tensor._view_of is not None:
        offset += tensor._offset
        tensor = tensor._view_of
    return tensor, offset


def _common_device(outputs: tuple[Tensor, ...]) -> Device | None:
    """Return the device of all outputs: those of their operands agree by building."""
    first, device = None, None
    for output in outputs:
        if device is None:
            first, device = output, output.device
        elif output.device not in (device, None):
            assert first is not None
            raise usage(
                f"the outputs of a graph must be on one device; {output.describe()} is "
                f"on {output.device!r}, {first.describe()} on {device!r}"
            )
    return device


def _elsewhere(found: Device | None, wanted: Device) -> Exception:
    return usage(
        f"the graph's tensors are on {found!r} and cannot be computed on {wanted!r}: "
        "bring them there with Backend.cpy_tensor_async()"
    )


def _allocate_lazily(tensor: Tensor, device: Device) -> Block:
    nbytes = max(tensor.span_bytes(), 1)
    out = ffi.new("aiocann_mem *[1]")
    check(lib.aiocann_device_allocate_lazy(device.native(), nbytes, out))
    return Block(out[0], nbytes, device)
