"""Every op of the table beside NumPy's way of doing it: how many times as fast.

Run as a program it measures in its own process, so that the number of threads can be
chosen before anything starts: ``operators.py ROUNDS``, with as many as it may use.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

import aiocann
from aiocann import F16, F32, I32, I64, Tensor, ops
from aiocann.optable import OPS
from harness import Row, Run, compare, computed

Array = Any
#: op or its variant -> operands, how a graph has it, how NumPy has it
Case = tuple[list[Any], Callable[..., Tensor], Callable[..., Any]]

N = 1 << 20
#: In a row, so that what a graph costs by itself does not count.
REPEATS = 8
_random = np.random.default_rng(0)


def _floats(*shape: int, low: float = 0.1, high: float = 1.0) -> Array:
    return _random.uniform(low, high, shape).astype(np.float32)


def _halves(*shape: int) -> Array:
    return _floats(*shape).astype(np.float16)


def _ids(count: int, below: int) -> Array:
    return _random.integers(0, below, count).astype(np.int32)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))


def _rms_norm(x: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)


def _norm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, -1, keepdims=True) + 1e-5)


def _rotated(x: Array, positions: Array) -> Array:
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-np.arange(half) / half)
    c, s = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(np.float32)


def _attention(q: Array, k: Array, v: Array) -> Array:
    scores = q @ np.swapaxes(k.astype(np.float32), -1, -2) * 0.125
    return _softmax(scores) @ v.astype(np.float32)


def _windows(x: Array, size: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(-2, -1))


def _half(x: Array) -> tuple[Array, Array]:
    middle = x.shape[-1] // 2
    return x[..., :middle], x[..., middle:]


def _gated(gate: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        a, b = _half(x)
        return gate(a) * b

    return run


def _written(x: Array, ids: Array, dst: Array) -> Array:
    dst[ids] = x
    return dst


def _with_part(x: Array, part: Array) -> Array:
    out = x.copy()
    out[: len(part)] = part
    return out


def _linear_attention(k: Array, v: Array, q: Array, g: Array, state: Array) -> Array:
    out = np.empty_like(k)
    for t in range(len(k)):
        state = g[t][:, :, None] * state + k[t][:, :, None] * v[t][:, None, :]
        out[t] = (q[t][:, None, :] @ state)[:, 0]
    return out


def _solved(a: Array, b: Array) -> Array:
    return np.linalg.solve(np.tril(a), b)


def _step_embedding(x: Array) -> Array:
    angles = x[:, None] * np.exp(-math.log(10000) * np.arange(160) / 160)
    return np.concatenate([np.cos(angles), np.sin(angles)], -1)


def _conv_transpose(k: Array, x: Array) -> Array:
    taps = np.einsum("iok,it->okt", k, x, optimize=True)
    _, channels, size = k.shape
    out = np.zeros((channels, x.shape[1] + size - 1), np.float32)
    for tap in range(size):
        out[:, tap : tap + x.shape[1]] += taps[:, tap]
    return out


def cases() -> dict[str, Case]:
    """Return what is compared. A suffix tells variants of an op apart."""
    x, y = _floats(1024, 1024), _floats(1024, 1024)
    large = _floats(1024, 4096)
    image = _floats(1, 16, 256, 256)
    unary: dict[str, Callable[[Array], Array]] = {
        "abs": np.abs,
        "neg": np.negative,
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "sin": np.sin,
        "cos": np.cos,
        "sqr": np.square,
        "tanh": np.tanh,
        "sigmoid": _sigmoid,
        "relu": lambda a: np.maximum(a, 0),
        "gelu": _gelu,
        "gelu_quick": lambda a: a * _sigmoid(1.702 * a),
        "elu": lambda a: np.where(a > 0, a, np.expm1(a)),
        "softplus": lambda a: np.logaddexp(0, a),
        "step": lambda a: (a > 0).astype(np.float32),
        "sgn": np.sign,
        "hardsigmoid": lambda a: np.clip(a / 6 + 0.5, 0, 1),
        "hardswish": lambda a: a * np.clip(a / 6 + 0.5, 0, 1),
        "sum": np.sum,
        "sum_rows": lambda a: a.sum(-1, keepdims=True),
        "mean": lambda a: a.mean(-1, keepdims=True),
        "cumsum": lambda a: a.cumsum(-1),
        "argmax": lambda a: a.argmax(-1),
        "argsort": lambda a: a.argsort(-1),
        "cont": np.copy,
        "dup": np.copy,
        "reglu": _gated(lambda a: np.maximum(a, 0)),
        "geglu": _gated(_gelu),
        "geglu_erf": _gated(_gelu),
        "geglu_quick": _gated(lambda a: a * _sigmoid(1.702 * a)),
        "swiglu": _gated(lambda a: a * _sigmoid(a)),
        "gelu_erf": _gelu,
    }
    found: dict[str, Case] = {
        name: ([x], getattr(ops, name), run) for name, run in unary.items()
    }
    for name, function in (
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("div", np.divide),
    ):
        found[name] = ([x, y], getattr(ops, name), function)
    found |= {
        "silu of 4 M": ([large], ops.silu, lambda a: a * _sigmoid(a)),
        "soft_max of 4 M": ([large], ops.soft_max, _softmax),
        "rms_norm of 4 M": (
            [large],
            functools.partial(ops.rms_norm, eps=1e-5),
            _rms_norm,
        ),
        "norm": ([x], functools.partial(ops.norm, eps=1e-5), _norm),
        "l2_norm": (
            [x],
            functools.partial(ops.l2_norm, eps=1e-5),
            lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True)),
        ),
        "group_norm": (
            [image],
            lambda a: ops.group_norm(a, n_groups=4, eps=1e-5),
            lambda a: _norm(a.reshape(1, 4, -1)).reshape(a.shape),
        ),
        "scale": ([x], lambda a: ops.scale(a, 2.0, 1.0), lambda a: a * 2 + 1),
        "clamp": ([x], lambda a: ops.clamp(a, 0.3, 0.6), lambda a: a.clip(0.3, 0.6)),
        "leaky_relu": (
            [x],
            lambda a: ops.leaky_relu(a, 0.1),
            lambda a: np.where(a > 0, a, 0.1 * a),
        ),
        "add1": ([x, y[:1, :1].copy()], ops.add1, np.add),
        "fill": ([x], lambda a: ops.fill(a, 2.0), lambda a: np.full_like(a, 2)),
        "arange": ([], lambda: ops.arange(0, N), lambda: np.arange(N, dtype="f4")),
        "cast to f16": (
            [x],
            lambda a: ops.cast(a, F16),
            lambda a: a.astype(np.float16),
        ),
        "cast from f16": (
            [_halves(1024, 1024)],
            lambda a: ops.cast(a, F32),
            lambda a: a.astype(np.float32),
        ),
        "cont of transposed": (
            [x],
            lambda a: ops.cont(ops.transpose(a)),
            lambda a: np.ascontiguousarray(a.T),
        ),
        "cpy": ([x, y.copy()], ops.cpy, lambda a, b: np.copyto(b, a)),
        "concat": (
            [x, y],
            lambda a, b: ops.concat(a, b, 0),
            lambda a, b: np.concatenate([a, b]),
        ),
        "repeat": (
            [_floats(1024, 256)],
            lambda a: ops.repeat(a, (1024, 1024)),
            lambda a: np.tile(a, (1, 4)),
        ),
        "pad": ([x], lambda a: ops.pad(a, [(8, 8)]), lambda a: np.pad(a, 8)),
        "pad_reflect_1d": (
            [x],
            lambda a: ops.pad_reflect_1d(a, 8, 8),
            lambda a: np.pad(a, ((0, 0), (8, 8)), "reflect"),
        ),
        "upscale": (
            [image],
            lambda a: ops.upscale(a, 512, 512),
            lambda a: a.repeat(2, -1).repeat(2, -2),
        ),
        "tri": ([x], lambda a: ops.tri(a, "lower"), np.tril),
        "diag": (
            [_floats(1, 1024)],
            ops.diag,
            lambda a: np.diag(a[0]),
        ),
        "diag_mask_inf": (
            [x],
            lambda a: ops.diag_mask_inf(a, 0),
            lambda a: np.where(np.tri(1024, dtype=bool), a, -np.inf),
        ),
        "timestep_embedding": (
            [_floats(4096)],
            lambda a: ops.timestep_embedding(a, 320, 10000),
            _step_embedding,
        ),
        "get_rows": (
            [x, _ids(2048, 1024)],
            ops.get_rows,
            lambda a, i: a[i],
        ),
        "set_rows": (
            [_floats(512, 1024), _random.permutation(1024)[:512].astype(np.int64), x],
            ops.set_rows,
            _written,
        ),
        "set": (
            [x, _floats(512, 1024)],
            ops.set,
            _with_part,
        ),
        "acc": (
            [x, _floats(512, 1024)],
            ops.acc,
            lambda a, b: _with_part(a, a[:512] + b),
        ),
        "count_equal": (
            [_ids(N, 3), _ids(N, 3)],
            ops.count_equal,
            lambda a, b: np.count_nonzero(a == b),
        ),
        "cross_entropy_loss": (
            [x, y],
            ops.cross_entropy_loss,
            lambda a, b: -(b * np.log(_softmax(a))).sum() / 1024,
        ),
        "mul_mat": ([x, y], ops.mul_mat, lambda a, b: b @ a.T),
        "mul_mat f16": (
            [_halves(1024, 1024), y],
            ops.mul_mat,
            lambda a, b, wide=x: b @ wide.T,
        ),
        "out_prod": ([x, y], ops.out_prod, lambda a, b: b.T @ a),
        "mul_mat_id": (
            [_floats(4, 512, 512), _floats(64, 1, 512), _ids(128, 4).reshape(64, 2)],
            ops.mul_mat_id,
            lambda w, a, i: (w[i] @ a[..., None])[..., 0],
        ),
        "solve_tri": (
            [
                np.tril(_floats(512, 512)) + 8 * np.eye(512, dtype="f4"),
                _floats(512, 64),
            ],
            ops.solve_tri,
            _solved,
        ),
        "rope": (
            [_floats(512, 8, 128), np.arange(512, dtype=np.int32)],
            lambda a, p: ops.rope(ops.view(a, (1, 512, 8, 128)), p, n_dims=128, mode=2),
            _rotated,
        ),
        "flash_attn_ext": (
            [_floats(1, 8, 256, 64), _halves(1, 8, 256, 64), _halves(1, 8, 256, 64)],
            lambda q, k, v: ops.flash_attn_ext(q, k, v, scale=0.125),
            _attention,
        ),
        "gated_linear_attn": (
            [*(_floats(32, 8, 64) for _ in range(4)), _floats(8, 64, 64)],
            lambda *a: ops.gated_linear_attn(*a, scale=1.0),
            _linear_attention,
        ),
        "im2col": (
            [_floats(1, 16, 3, 3), image],
            lambda k, a: ops.im2col(k, a, dtype=F32),
            lambda k, a: np.ascontiguousarray(
                _windows(a, 3).transpose(0, 2, 3, 1, 4, 5)
            ),
        ),
        "pool_2d": (
            [image],
            lambda a: ops.pool_2d(a, (2, 2)),
            lambda a: a.reshape(1, 16, 128, 2, 128, 2).max((3, 5)),
        ),
        "conv_transpose_1d": (
            [_floats(64, 32, 8), _floats(64, 512)],
            lambda k, a: ops.conv_transpose_1d(k, a),
            _conv_transpose,
        ),
        "ssm_conv": (
            [_floats(1, 1024, 515), _floats(1024, 4)],
            ops.ssm_conv,
            lambda a, k: np.einsum(
                "nctk,ck->ntc",
                np.lib.stride_tricks.sliding_window_view(a, 4, axis=-1),
                k,
            ),
        ),
    }
    return found


_DTYPES = {"f4": F32, "f2": F16, "i4": I32, "i8": I64}


async def measure(device: aiocann.Device, rounds: int) -> list[Row]:
    """Compare every op; ratios are the device's speed over NumPy's."""
    backend = device.backend()
    rows: list[Row] = []
    compared = set()
    for name, (arrays, build, run) in cases().items():
        leaves = []
        for array in arrays:
            leaf = await backend.empty(array.shape, _DTYPES[array.dtype.str[1:]])
            await backend.set_tensor_async(leaf, np.ascontiguousarray(array))
            leaves.append(leaf)
        compared.add(name.split()[0])
        graph = aiocann.Graph([build(*leaves)])
        ways = {"NumPy": _numpy(run, arrays), "op": computed(backend, graph, REPEATS)}
        rows += await compare(name, "1/ms", ways, rounds)
    left = {name for name, op in OPS.items() if not op.is_view} - compared
    if left:
        raise AssertionError(f"operators.py compares nothing of {sorted(left)}")
    return rows


def _numpy(run: Callable[..., Any], arrays: list[Array]) -> Run:
    return _timed(lambda: run(*arrays))


def _timed(run: Callable[[], Any]) -> Run:
    async def timed() -> float:
        start = time.perf_counter()
        for _ in range(REPEATS):
            run()
        return 1e-3 * REPEATS / (time.perf_counter() - start)

    return timed


def table(rows: list[Row], threads: str) -> str:
    """Return the ratios, slowest first."""
    ratios = sorted((row.ratio, row.thing) for row in rows if row.way == "op")
    lines = [f"\nops, {threads}: times NumPy's speed, slowest first"]
    lines += [f"  {thing:<24} x{ratio:.2f}" for ratio, thing in ratios]
    return "\n".join(lines)


def measure_apart(rounds: int, threads: int) -> list[Row]:
    """Measure in another process that may use so many threads."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    done = subprocess.run(
        [sys.executable, __file__, str(rounds)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": str(threads)},
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [Row(**row) for row in json.loads(done.stdout)]


async def _main(rounds: int) -> list[Row]:
    async with aiocann.open_runtime("sim", devices=1) as runtime:
        return await measure(runtime.devices[0], rounds)


if __name__ == "__main__":
    found = asyncio.run(_main(int(sys.argv[1])))
    print(json.dumps([asdict(row) for row in found]))
