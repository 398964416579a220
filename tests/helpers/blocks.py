"""Quantized blocks as ggml has them: 32 numbers with a common scale, a float16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import aiocann
from aiocann.dtypes import DType

Array = NDArray[Any]


def quantize(values: Array, dtype: DType) -> Array:
    """Return the bytes of the blocks of an array, whose last axis is whole blocks."""
    groups = values.astype(np.float32).reshape(-1, 32)
    if dtype is aiocann.Q8_0:
        scales = (np.abs(groups).max(axis=1) / 127).astype(np.float16)
        quants = np.rint(groups / _nonzero(scales)).astype(np.int8).view(np.uint8)
    else:
        largest = np.take_along_axis(groups, np.abs(groups).argmax(1)[:, None], 1)[:, 0]
        scales = (largest / -8).astype(np.float16)
        levels = np.clip(np.rint(groups / _nonzero(scales)) + 8, 0, 15).astype(np.uint8)
        quants = levels[:, :16] | levels[:, 16:] << 4
    return np.concatenate([scales[:, None].view(np.uint8), quants], axis=1).ravel()


def dequantize(blocks: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return what blocks stand for, in float64."""
    groups = blocks.reshape(-1, dtype.block_bytes)
    scales = groups[:, :2].copy().view(np.float16).astype(np.float64)
    quants = groups[:, 2:]
    if dtype is aiocann.Q8_0:
        values = quants.copy().view(np.int8).astype(np.float64)
    else:
        values = np.concatenate([quants & 15, quants >> 4], axis=1).astype(float) - 8
    exact: Array = (values * scales).reshape(shape)
    return exact


def _nonzero(scales: Array) -> Array:
    wide = scales.astype(np.float32)[:, None]
    return np.where(wide == 0, 1, wide)
