"""The element types of tensors: `F32` … `Q8_0`."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiocann.errors import usage

__all__ = [
    "BF16",
    "F16",
    "F32",
    "I8",
    "I16",
    "I32",
    "I64",
    "Q4_0",
    "Q8_0",
    "DType",
    "dtype_of",
]


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:  # the bits, for programs that do without the package
        return np.dtype(np.uint16)
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


class DType:
    """An element type.

    Attributes
    ----------
    name : str
        As in ``aiocann.F32``.
    value : int
        Its number in the C ABI.
    block_size : int
        Elements that are stored together; 1 but for the quantized types.
    block_bytes : int
        Bytes that such a block takes.
    """

    __slots__ = ("_numpy", "block_bytes", "block_size", "name", "value")

    def __init__(
        self, name: str, value: int, numpy: str | None, block: tuple[int, int]
    ) -> None:
        self.name, self.value, self._numpy = name, value, numpy
        self.block_size, self.block_bytes = block

    def __repr__(self) -> str:
        return f"aiocann.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    @property
    def is_quantized(self) -> bool:
        """Whether elements are stored in blocks with a common scale."""
        return self.block_size > 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that arrays of it have; bytes for quantized types."""
        if self._numpy is not None:
            return np.dtype(self._numpy)
        return np.dtype(np.uint8) if self.is_quantized else _bfloat16()

    def row_bytes(self, n: int) -> int:
        """Bytes of `n` elements in a row; `n` must be whole blocks."""
        if n % self.block_size:
            raise usage(
                f"a row of {n} elements cannot be stored as {self.name}, which packs "
                f"{self.block_size} together: pad the last axis"
            )
        return n // self.block_size * self.block_bytes


F32 = DType("F32", 0, "float32", (1, 4))
F16 = DType("F16", 1, "float16", (1, 2))
BF16 = DType("BF16", 2, None, (1, 2))
I8 = DType("I8", 3, "int8", (1, 1))
I16 = DType("I16", 4, "int16", (1, 2))
I32 = DType("I32", 5, "int32", (1, 4))
I64 = DType("I64", 6, "int64", (1, 8))
Q4_0 = DType("Q4_0", 7, None, (32, 18))
Q8_0 = DType("Q8_0", 8, None, (32, 34))

ALL: tuple[DType, ...] = (F32, F16, BF16, I8, I16, I32, I64, Q4_0, Q8_0)


def dtype_of(dtype: object) -> DType:
    """Return the `DType` for one of ours or anything that NumPy calls a dtype."""
    if isinstance(dtype, DType):
        return dtype
    try:
        wanted = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        wanted = None
    for ours in ALL:
        if wanted is not None and not ours.is_quantized and ours.numpy == wanted:
            return ours
    names = ", ".join(f"aiocann.{ours.name}" for ours in ALL)
    raise usage(f"{dtype!r} is no element type of a tensor: use one of {names}")
