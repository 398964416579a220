"""The BERT encoder as a graph of `aiocann.ops`: from token ids to unit vectors.

Shapes are in NumPy order; b texts, n tokens each, h heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import aiocann
from aiocann import ops

from .checkpoint import Checkpoint
from .text import Batch

Tensors = Mapping[str, aiocann.Tensor]

# A score of a padded position: exp() of it is exactly 0, and it is finite.
_MASKED = np.float32(-1e9)


@dataclass(frozen=True)
class Inputs:
    """What one batch writes before the graph is computed."""

    ids: aiocann.Tensor
    """Token ids, int32 ``(b, n)``."""
    positions: aiocann.Tensor
    """0 to n - 1, int32 ``(n,)``; the same for every batch."""
    bias: aiocann.Tensor
    """Added to attention scores: 0, or far below for padding ``(b, 1, 1, n)``."""
    share: aiocann.Tensor
    """What a token counts in the mean of its text: 1/tokens or 0 ``(b, 1, n)``."""

    @classmethod
    async def empty(cls, backend: aiocann.Backend, shape: tuple[int, int]) -> Inputs:
        """Allocate inputs for batches of ``shape = (b, n)``."""
        b, n = shape
        inputs = cls(
            ids=await backend.empty((b, n), aiocann.I32, name="ids"),
            positions=await backend.empty((n,), aiocann.I32, name="positions"),
            bias=await backend.empty((b, 1, 1, n), aiocann.F32, name="bias"),
            share=await backend.empty((b, 1, n), aiocann.F32, name="share"),
        )
        await backend.set_tensor_async(inputs.positions, np.arange(n, dtype=np.int32))
        return inputs

    def values(
        self, batch: Batch
    ) -> Iterator[tuple[aiocann.Tensor, NDArray[np.generic]]]:
        """Yield each tensor with what `batch` writes into it."""
        mask = batch.mask()
        yield self.ids, batch.ids
        yield self.bias, (1 - mask) * _MASKED
        yield self.share, mask / batch.counts[:, None].astype(np.float32)


class Encoder:
    """Builds the graph's nodes; `weights` are the checkpoint's, on one device."""

    def __init__(self, model: Checkpoint, weights: Tensors) -> None:
        self._model = model
        self._weights = weights

    def embed_tokens(self, inputs: Inputs) -> aiocann.Tensor:
        """Return the sum of word, position and type embeddings ``(b, n, hidden)``."""
        w = self._weights
        x = ops.get_rows(w["embeddings.word_embeddings.weight"], inputs.ids)
        places = ops.get_rows(
            w["embeddings.position_embeddings.weight"], inputs.positions
        )
        x = ops.add(x, places)
        # Every token of a text on its own has type 0: its row is added to all.
        types = w["embeddings.token_type_embeddings.weight"]
        x = ops.add(x, ops.view(types, (self._model.hidden,)))
        return self._norm("embeddings.LayerNorm", x)

    def layer(self, i: int, x: aiocann.Tensor, inputs: Inputs) -> aiocann.Tensor:
        """Return `x` after transformer layer `i`."""
        at = f"encoder.layer.{i}."
        mixed = self._attention(at + "attention.self.", x, inputs.bias)
        mixed = self._linear(at + "attention.output.dense", mixed)
        x = self._norm(at + "attention.output.LayerNorm", ops.add(mixed, x))
        wide = ops.gelu_erf(self._linear(at + "intermediate.dense", x))
        wide = self._linear(at + "output.dense", wide)
        return self._norm(at + "output.LayerNorm", ops.add(wide, x))

    def pool(self, x: aiocann.Tensor, inputs: Inputs) -> aiocann.Tensor:
        """Return the unit mean of each text's tokens ``(b, 1, hidden)``."""
        mean = ops.mul_mat(ops.transpose(x), inputs.share)
        return ops.l2_norm(mean, eps=1e-12)

    def _attention(
        self, name: str, x: aiocann.Tensor, bias: aiocann.Tensor
    ) -> aiocann.Tensor:
        b, n, hidden = x.shape
        h = self._model.n_heads
        size = hidden // h

        def heads(part: str) -> aiocann.Tensor:
            return ops.reshape(self._linear(name + part, x), (b, n, h, size))

        query = ops.permute(heads("query"), (0, 2, 1, 3))  # (b, h, n, size)
        key = ops.permute(heads("key"), (0, 2, 1, 3))
        value = ops.permute(heads("value"), (0, 2, 3, 1))  # (b, h, size, n)
        scores = ops.mul_mat(key, query)  # (b, h, n, n)
        shares = ops.soft_max(scores, bias, scale=size**-0.5)
        mixed = ops.mul_mat(value, shares)  # (b, h, n, size)
        mixed = ops.cont(ops.permute(mixed, (0, 2, 1, 3)))
        return ops.reshape(mixed, (b, n, hidden))

    def _linear(self, name: str, x: aiocann.Tensor) -> aiocann.Tensor:
        w = self._weights
        return ops.add(ops.mul_mat(w[name + ".weight"], x), w[name + ".bias"])

    def _norm(self, name: str, x: aiocann.Tensor) -> aiocann.Tensor:
        w = self._weights
        x = ops.norm(x, eps=self._model.norm_eps)
        return ops.add(ops.mul(x, w[name + ".weight"]), w[name + ".bias"])
