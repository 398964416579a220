"""Decoder blocks as language models have them, token after token, beside NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from aiocann import F16, F32, I32, I64, Q4_0, Q8_0, Graph, Tensor, ops
from aiocann.dtypes import DType
from helpers.op_runs import Array, OpRuns, check_close, rounded

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("driver", ["sim"], indirect=True),
]

HEADS, KV_HEADS, SIZE, HIDDEN = 4, 2, 64, 96
WIDTH, KV_WIDTH = HEADS * SIZE, KV_HEADS * SIZE
CONTEXT, TOKENS, LAYERS = 16, 6, 4
EPS, SCALE = 1e-5, SIZE**-0.5
SHAPES = {
    "q": (WIDTH, WIDTH),
    "k": (KV_WIDTH, WIDTH),
    "v": (KV_WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "gate": (HIDDEN, WIDTH),
    "up": (HIDDEN, WIDTH),
    "down": (WIDTH, HIDDEN),
}


@pytest.fixture
def anyio_backend() -> str:
    """Run on one loop: it has no part in what is computed."""
    return "asyncio"


def normed(x: Array, weight: Array) -> Array:
    result: Array = x / np.sqrt((x * x).mean() + EPS) * weight
    return result


def turned(x: Array, position: int) -> Array:
    """Return heads (n, SIZE) after rotary embedding, halves as pairs."""
    half = SIZE // 2
    angles = position * 10000.0 ** (-np.arange(half) / half)
    c, s = np.cos(angles), np.sin(angles)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * c - b * s, a * s + b * c], axis=1)


class Reference:
    """One block in float64, with a cache that holds float16."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.keys: list[Array] = []
        self.values: list[Array] = []

    def __call__(self, x: Array, position: int) -> Array:
        w = self.weights
        h = normed(x, w["norm 1"])
        q = turned((w["q"] @ h).reshape(HEADS, SIZE), position)
        k = turned((w["k"] @ h).reshape(KV_HEADS, SIZE), position)
        self.keys.append(rounded(k, F16).astype(np.float64))
        v = (w["v"] @ h).reshape(KV_HEADS, SIZE)
        self.values.append(rounded(v, F16).astype(np.float64))
        keys, values = np.array(self.keys), np.array(self.values)
        mixed = []
        for head in range(HEADS):
            at = head // (HEADS // KV_HEADS)
            scores = np.exp(keys[:, at] @ q[head] * SCALE)
            mixed.append(scores / scores.sum() @ values[:, at])
        x = x + w["o"] @ np.concatenate(mixed)
        h = normed(x, w["norm 2"])
        gate = w["gate"] @ h
        result: Array = x + w["down"] @ (gate / (1 + np.exp(-gate)) * (w["up"] @ h))
        return result


class Block:
    """One block on a device: weights, and a cache that its graph writes."""

    def __init__(
        self, weights: dict[str, Tensor], keys: Tensor, values: Tensor
    ) -> None:
        self.weights, self.keys, self.values = weights, keys, values

    @classmethod
    async def make(cls, runs: OpRuns, dtype: DType) -> tuple[Block, Reference]:
        """Return a block with random weights, and what it must agree with."""
        weights, exact = {}, {}
        for name, shape in SHAPES.items():
            if dtype.is_quantized:
                weights[name], exact[name] = await runs.weights(shape, dtype)
            else:
                array = runs.uniform(shape, dtype)
                weights[name] = await runs.leaf(array, dtype)
                exact[name] = array.astype(np.float64)
        for name in ("norm 1", "norm 2"):
            # Small: of large scores, softmax makes large differences of small ones.
            array = runs.uniform((WIDTH,), low=0.05, high=0.15)
            weights[name], exact[name] = await runs.leaf(array), array
        empty = np.zeros((CONTEXT, KV_WIDTH), np.float32)
        caches = [await runs.leaf(empty, F16) for _ in range(2)]
        return cls(weights, *caches), Reference(exact)

    def __call__(self, x: Tensor, place: Tensor, row: Tensor, mask: Tensor) -> Tensor:
        w = self.weights
        h = ops.mul(ops.rms_norm(x, eps=EPS), w["norm 1"])

        def heads(name: str, count: int) -> Tensor:
            return ops.reshape(ops.mul_mat(w[name], h), (1, 1, count, SIZE))

        def turn(of: Tensor) -> Tensor:
            return ops.rope(of, place, n_dims=SIZE, mode=2)

        def cached(new: Tensor, cache: Tensor) -> Tensor:
            line = ops.reshape(new, (1, KV_WIDTH))
            written = ops.set_rows(line, row, cache)
            split = ops.reshape(written, (1, CONTEXT, KV_HEADS, SIZE))
            return ops.permute(split, (0, 2, 1, 3))

        q = ops.permute(turn(heads("q", HEADS)), (0, 2, 1, 3))
        keys = cached(turn(heads("k", KV_HEADS)), self.keys)
        values = cached(heads("v", KV_HEADS), self.values)
        mixed = ops.flash_attn_ext(q, keys, values, mask, scale=SCALE)
        x = ops.add(x, ops.mul_mat(w["o"], ops.reshape(mixed, (1, WIDTH))))
        h = ops.mul(ops.rms_norm(x, eps=EPS), w["norm 2"])
        gated = ops.swiglu(ops.mul_mat(w["gate"], h), ops.mul_mat(w["up"], h))
        return ops.add(x, ops.mul_mat(w["down"], gated))


class Stage:
    """Neighbouring blocks on one device, one graph for all tokens."""

    def __init__(self, runs: OpRuns, blocks: Sequence[Block]) -> None:
        self.runs, self.blocks = runs, blocks

    async def prepare(self) -> None:
        empty = self.runs.backend.empty
        self.x = await empty((1, WIDTH), F32)
        self.place, self.row = await empty((1,), I32), await empty((1,), I64)
        self.mask = await empty((1, 1, 1, CONTEXT), F16)
        self.out = self.x
        for block in self.blocks:
            self.out = block(self.out, self.place, self.row, self.mask)
        self.graph = Graph([self.out])

    def step(self, position: int) -> None:
        """Enqueue the blocks for the token at `position`, whose x has been enqueued."""
        mask = np.where(np.arange(CONTEXT) <= position, 0, -np.inf).astype(np.float16)
        put = self.runs.backend.set_tensor_async
        put(self.mask, mask)
        put(self.place, np.array([position], np.int32))
        put(self.row, np.array([position], np.int64))
        self.runs.backend.graph_compute(self.graph)


@pytest.mark.parametrize("n_devices", [1, 2])
@pytest.mark.parametrize("dtype", [F16, Q4_0, Q8_0], ids=str)
async def test_decoder_blocks(opened: Any, dtype: DType, n_devices: int) -> None:
    async with opened(n_devices) as rt:
        random = np.random.default_rng(7)
        stages, references = [], []
        for device in rt.devices:
            runs = OpRuns(device.backend(), seed=device.index)
            made = [await Block.make(runs, dtype) for _ in range(LAYERS // n_devices)]
            stages.append(Stage(runs, [block for block, _ in made]))
            references += [reference for _, reference in made]
            await stages[-1].prepare()
        for position in range(TOKENS):
            x = random.uniform(-1, 1, WIDTH).astype(np.float32)
            stages[0].runs.backend.set_tensor_async(stages[0].x, x[None])
            stages[0].step(position)
            for before, after in itertools.pairwise(stages):
                before.runs.backend.cpy_tensor_async(before.out, after.x)
                after.step(position)
            got = await stages[-1].runs.read(stages[-1].out)
            want = x.astype(np.float64)
            for reference in references:
                want = reference(want, position)
            # Products with blocks round their inputs to float16.
            check_close(got[0], want, limit=1e-4 if dtype.is_quantized else 1e-5)
