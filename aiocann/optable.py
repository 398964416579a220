"""The native op table as Python sees it, and its shape and dtype rules, remembered.

The table is native (``native/core/ops/op_rows_*.cpp``); nothing here knows an op. The
answers of its rules depend on the operands' layouts and the parameters alone, so each
is asked for once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from aiocann.dtypes import ALL, DType
from aiocann.native import NULL, check, ffi, lib, text

if TYPE_CHECKING:
    from aiocann.tensor import Tensor

__all__ = ["OPS", "Op", "Rule", "infer", "pack_layout", "supports"]

MAX_SRC = 5
MAX_PARAMS = 16
_MAX_REMEMBERED = 1 << 16

# aiocann_tensor up to its strides, and the rest; aiocann_node up to its parameters.
# Packing bytes is several times faster than setting the fields of C structs.
_LAYOUT = struct.Struct("=ii4q4q")
PLACE = struct.Struct("=QQii")
NODE_HEAD = struct.Struct(f"=ii{MAX_SRC}ii")


class Op:
    """A row of the table.

    Attributes
    ----------
    name : str
        As in `aiocann.ops`.
    index : int
        Its number in the C ABI.
    sources, params : tuple of str
        Names of operands and parameters, in order.
    min_src : int
        How many operands cannot be left out.
    kinds : str
        For each parameter, ``f`` (float) or ``i`` (integer).
    aclnn : tuple of str
        The functions of the driver that it needs.
    is_view : bool
        Whether it does no work: the result shares its operand's storage.
    """

    __slots__ = (
        "_pack",
        "aclnn",
        "dtypes",
        "index",
        "is_view",
        "kinds",
        "min_src",
        "name",
        "out_dtype",
        "params",
        "shape",
        "soc",
        "sources",
        "summary",
        "writes_dst",
    )

    def __init__(self, index: int) -> None:
        row = lib.aiocann_op_table_row(index)
        self.index = index
        self.name = text(row.name)
        self.summary = text(row.summary)
        self.min_src = int(row.min_src)
        names = text(row.sources).split()
        self.sources = tuple(name.rstrip("?") for name in names)
        params = [param.split(":") for param in text(row.param_names).split()]
        self.params = tuple(name for name, _ in params)
        self.kinds = "".join(kind for _, kind in params)
        self.aclnn = tuple(text(row.aclnn).split())
        self.dtypes = text(row.dtypes)
        self.out_dtype = text(row.out_dtype)
        self.shape = text(row.shape)
        self.soc = text(row.soc)
        self.is_view = bool(row.is_view)
        self.writes_dst = "dst" in self.sources
        padding = 8 * (MAX_PARAMS - len(self.params))
        codes = self.kinds.replace("f", "d").replace("i", "q")
        self._pack = struct.Struct(f"={codes}{padding}x").pack

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def pack(self, params: tuple[float, ...]) -> bytes:
        """Return parameters as ``aiocann_param[8]``."""
        return self._pack(*params)


def _read_table() -> dict[str, Op]:
    for name, size in (
        ("aiocann_tensor", _LAYOUT.size + PLACE.size),
        ("aiocann_node", NODE_HEAD.size + 8 * MAX_PARAMS),
    ):
        if ffi.sizeof(name) != size:
            raise AssertionError(f"{name} has {ffi.sizeof(name)} bytes, not {size}")
    ops = [Op(index) for index in range(lib.aiocann_op_table_size())]
    return {op.name: op for op in ops}


OPS: dict[str, Op] = _read_table()


class Rule:
    """What an op with certain parameters makes of operands of certain layouts."""

    __slots__ = ("dtype", "n_dims", "nb", "ne", "offset", "op", "packed", "params")

    def __init__(self, op: Op, params: tuple[float, ...], out: Any) -> None:
        self.op, self.params, self.packed = op, params, op.pack(params)
        self.dtype: DType = ALL[out.dtype]
        self.n_dims = int(out.n_dims)
        self.ne = (out.ne[0], out.ne[1], out.ne[2], out.ne[3])
        self.nb = (out.nb[0], out.nb[1], out.nb[2], out.nb[3])
        #: Of a view: bytes from its operand's first element.
        self.offset = int(out.offset)


_rules: dict[tuple[Any, ...], Rule] = {}
_packed: dict[tuple[Any, ...], bytes] = {}


def pack_layout(tensor: Tensor) -> bytes:
    """Return the first part of an ``aiocann_tensor``: dtype, axes, extents, strides."""
    key = (tensor.dtype, tensor.n_dims, tensor.ne, tensor.nb)
    packed = _packed.get(key)
    if packed is None:
        if len(_packed) >= _MAX_REMEMBERED:
            _packed.clear()
        packed = _packed[key] = _LAYOUT.pack(
            tensor.dtype.value, tensor.n_dims, *tensor.ne, *tensor.nb
        )
    return packed


_NOWHERE = PLACE.pack(0, 0, -1, 0)


def _ask(
    op: Op, srcs: tuple[Tensor | None, ...], packed: bytes, soc: Any
) -> tuple[int, Any]:
    """Ask the native rules; the code of the answer and the result's layout."""
    out = ffi.new("aiocann_tensor *")
    sources = [
        NULL if src is None else ffi.from_buffer("aiocann_tensor[1]", block)
        for src, block in (
            (src, b"" if src is None else pack_layout(src) + _NOWHERE) for src in srcs
        )
    ]
    table = ffi.new("aiocann_tensor *[]", sources)
    params = ffi.from_buffer("aiocann_param[]", packed)
    code = lib.aiocann_op_infer(op.index, table, len(srcs), params, soc, out)
    return code, out


def infer(op: Op, params: tuple[float, ...], srcs: tuple[Tensor | None, ...]) -> Rule:
    """Return what `op` makes of `srcs`.

    Raises
    ------
    UsageError
        Shapes or parameters make no sense.
    UnsupportedError
        The op does not take such operands.
    """
    key = (
        op,
        params,
        *[None if s is None else (s.dtype, s.n_dims, s.ne, s.nb) for s in srcs],
    )
    rule = _rules.get(key)
    if rule is None:
        code, out = _ask(op, srcs, op.pack(params), NULL)
        check(code)
        if len(_rules) >= _MAX_REMEMBERED:
            _rules.clear()
        rule = _rules[key] = Rule(op, params, out)
    return rule


def supports(
    op: Op,
    params: tuple[float, ...],
    srcs: tuple[Tensor | None, ...],
    soc_name: str,
) -> bool:
    """Whether a device of this SoC can compute `op` of `srcs`."""
    soc = ffi.new("char[]", soc_name.encode())
    return bool(_ask(op, srcs, op.pack(params), soc)[0] == 0)
