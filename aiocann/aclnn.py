"""Calls of aclnn operators by name: what Python values become as arguments of C."""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from aiocann._codes import FORMATS
from aiocann.dtypes import DType
from aiocann.errors import error_for, usage
from aiocann.memory import require_open
from aiocann.native import NULL, ffi, lib, text, to_error
from aiocann.optable import PLACE, pack_layout
from aiocann.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiocann.device import Device

__all__ = ["AclnnCall"]

_ARRAYS: dict[type, tuple[int, Any]] = {
    bool: (lib.AIOCANN_ARG_BOOLS, np.bool_),
    int: (lib.AIOCANN_ARG_INTS, np.int64),
    float: (lib.AIOCANN_ARG_FLOATS, np.float32),
}
# What None leaves out; "" is what no table tells of.
_POINTERS = frozenset(["", "tensor", "tensors", "scalar", "ints", "text"])


class AclnnCall:
    """An operator with its arguments, ready to be enqueued.

    Attributes
    ----------
    native
        An ``aiocann_graph *``.
    """

    __slots__ = (
        "_arguments",
        "_data",
        "_formats",
        "_keep",
        "_laid",
        "_name",
        "native",
    )

    def __init__(
        self,
        device: Device,
        name: str,
        arguments: tuple[Any, ...],
        formats: Mapping[int, str],
    ) -> None:
        self._name = name
        self._arguments: list[dict[str, Any]] = []
        self._laid: list[bytes] = []
        self._formats: list[int] = []
        self._keep: list[Any] = []  # the tensors: the op owns what they lie in
        self._data: list[Any] = []
        encoded = name.encode()
        signature = lib.aiocann_aclnn_signature(encoded)
        if signature == NULL:
            kinds = [(f"argument {n}", "") for n in range(1, len(arguments) + 1)]
        else:
            told = [one.split(":") for one in text(signature).split()]
            kinds = [(of, kind) for of, kind in told]
        if len(kinds) != len(arguments):
            names = ", ".join(of for of, _ in kinds)
            raise usage(
                f"{name} takes {len(kinds)} arguments ({names}), not {len(arguments)}"
            )
        for number, value in enumerate(arguments):
            of, kind = kinds[number]
            before = len(self._laid)
            self._take(f"{of} of {name}", kind, value)
            if number in formats:
                self._formats[before:] = [_format(formats[number])] * (
                    len(self._laid) - before
                )
        self.native = self._make(device, encoded)
        self._data.clear()

    # What completion asks of a graph when its node fails.

    def describe_node(self, _: int) -> str:
        """Return the call, as an error has it."""
        return self.describe()

    def node_site(self, _: int) -> None:
        """Return None: it is the line that enqueued it."""

    def describe(self) -> str:
        """Return the operator and its tensors."""
        return f"{self._name}({', '.join(one.describe() for one in self._keep)})"

    def _make(self, device: Device, name: bytes) -> Any:
        out = ffi.new("aiocann_graph *[1]")
        tensors, formats = b"".join(self._laid), self._formats
        code = lib.aiocann_aclnn_create(
            device.native(),
            name,
            ffi.new("aiocann_aclnn_arg[]", self._arguments),
            len(self._arguments),
            ffi.from_buffer("aiocann_tensor[]", tensors) if tensors else NULL,
            ffi.new("int32_t[]", formats),
            len(formats),
            out,
        )
        if code:
            raise error_for(to_error(lib.aiocann_last_error()))
        return ffi.gc(out[0], lib.aiocann_graph_release)

    # ---- arguments ---------------------------------------------------------------

    def _take(self, what: str, kind: str, value: Any) -> None:
        if value is None and kind in _POINTERS:
            self._add(lib.AIOCANN_ARG_NULL)
            return
        convert: Callable[[str, Any], None] = getattr(self, f"_{kind or 'any'}")
        convert(what, value)

    def _add(self, kind: int, **fields: Any) -> None:
        self._arguments.append({"kind": kind, **fields})

    def _any(self, what: str, value: Any) -> None:
        """Take what no table tells of, by its type."""
        if isinstance(value, Tensor):
            self._tensor(what, value)
        elif isinstance(value, np.generic):
            self._scalar(what, value)
        elif isinstance(value, (list, tuple, np.ndarray)):
            is_tensors = len(value) > 0 and isinstance(value[0], Tensor)
            (self._tensors if is_tensors else self._array)(what, value)
        elif isinstance(value, ctypes.c_float):
            self._add(lib.AIOCANN_ARG_FLOAT, number=value.value)
        elif isinstance(value, float):
            self._double(what, value)
        elif isinstance(value, str):
            self._text(what, value)
        elif isinstance(value, DType):
            self._dtype(what, value)
        else:
            self._integer(what, value)

    def _tensor(self, what: str, value: Any) -> None:
        self._add(lib.AIOCANN_ARG_TENSOR, integer=len(self._laid))
        self._lay(what, value)

    def _tensors(self, what: str, value: Any) -> None:
        if isinstance(value, Tensor) or not isinstance(value, (list, tuple)):
            raise TypeError(f"{what} is a list of tensors, not {value!r}")
        self._add(lib.AIOCANN_ARG_TENSORS, integer=len(self._laid), count=len(value))
        for one in value:
            self._lay(what, one)

    def _lay(self, what: str, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} is a Tensor, not {tensor!r}")
        block, offset = tensor.storage()
        address = int(ffi.cast("uintptr_t", require_open(block)))
        place = PLACE.pack(address, offset, -1, 0)
        self._laid.append(pack_layout(tensor) + place)
        self._formats.append(FORMATS["ND"])
        self._keep.append(tensor)

    def _scalar(self, what: str, value: Any) -> None:
        # A number of Python is what a scalar of it is in C programs.
        if isinstance(value, float):
            value = np.float32(value)
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "fiub":
            raise TypeError(f"{what} is a number, not {value!r}")
        data = self._hold(array.tobytes())
        self._add(
            lib.AIOCANN_ARG_SCALAR,
            integer=ord(array.dtype.kind),
            count=array.dtype.itemsize,
            data=data,
        )

    def _ints(self, what: str, value: Any) -> None:
        self._values(what, value, int)

    def _array(self, what: str, value: Any) -> None:
        array = np.asarray(value)
        if not array.size and not isinstance(value, np.ndarray):
            raise usage(
                f"{what} is empty, so what it is a list of is not known: give an "
                "array, as np.array([], np.int64)"
            )
        of = {"b": bool, "i": int, "u": int, "f": float}.get(array.dtype.kind)
        if of is None:
            raise TypeError(f"{what} is a list of numbers or of tensors, not {value!r}")
        self._values(what, value, of)

    def _values(self, what: str, value: Any, of: type) -> None:
        kind, dtype = _ARRAYS[of]
        try:
            array = np.asarray(value)
            if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
                raise TypeError
            array = array.astype(dtype, casting="same_kind" if array.size else "unsafe")
        except (TypeError, ValueError):
            raise TypeError(
                f"{what} is a list of {of.__name__}s, not {value!r}"
            ) from None
        self._add(kind, count=len(array), data=self._hold(array.tobytes()))

    def _integer(self, what: str, value: Any) -> None:
        try:
            self._add(lib.AIOCANN_ARG_INTEGER, integer=operator.index(value))
        except TypeError:
            raise TypeError(f"{what} is a whole number, not {value!r}") from None

    def _bool(self, what: str, value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{what} is True or False, not {value!r}")
        self._integer(what, int(value))

    def _double(self, what: str, value: Any) -> None:
        try:
            self._add(lib.AIOCANN_ARG_DOUBLE, number=float(value))
        except (TypeError, ValueError):
            raise TypeError(f"{what} is a number, not {value!r}") from None

    def _dtype(self, what: str, value: Any) -> None:
        if isinstance(value, DType):
            self._add(lib.AIOCANN_ARG_DTYPE, integer=value.value)
        else:
            self._integer(f"{what}, a DType or an aclDataType,", value)

    def _text(self, what: str, value: Any) -> None:
        if isinstance(value, str):
            data = self._hold(value.encode() + b"\0")
            self._add(lib.AIOCANN_ARG_TEXT, data=data)
        else:
            raise TypeError(f"{what} is a string, not {value!r}")

    def _hold(self, data: bytes) -> Any:
        held = ffi.from_buffer(data)
        self._data.append(held)
        return held


def _format(name: str) -> int:
    try:
        return FORMATS[name.removeprefix("ACL_FORMAT_")]
    except (KeyError, AttributeError):
        raise usage(f"there is no format {name!r}, only {', '.join(FORMATS)}") from None
