"""all-MiniLM-L6-v2 in float64 NumPy, one text at a time.

Written from the BERT paper and the checkpoint's own names, apart from the
examples and from ``aiocann.ops``: no batches, no padding and no mask, so that
none of their mistakes can be shared.  It agrees with the model's own
implementation (sentence-transformers) to about 1e-7.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_erf = np.frompyfunc(math.erf, 1, 1)


class ReferenceModel:
    """A sentence encoder read from a directory of Hugging Face files.

    Parameters
    ----------
    directory
        Holds ``config.json``, ``model.safetensors`` and ``tokenizer.json``.
    max_tokens
        Ids kept of a text, [CLS] and [SEP] included.
    """

    def __init__(self, directory: Path, max_tokens: int = 256) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        config: dict[str, Any] = json.loads((directory / "config.json").read_text())
        self.n_layers = int(config["num_hidden_layers"])
        self.n_heads = int(config["num_attention_heads"])
        self.eps = float(config["layer_norm_eps"])
        stored = load_file(directory / "model.safetensors")
        self.weights = {
            name: value.astype(np.float64)
            for name, value in stored.items()
            if value.dtype.kind == "f"
        }
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)

    def embed(self, text: str) -> Array:
        """Return the unit vector of `text`, shape ``(hidden,)``."""
        tokens = self.hidden(self.tokenizer.encode(text).ids)
        mean = tokens.mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12))

    def hidden(self, ids: list[int]) -> Array:
        """Return the last layer's states of one sequence, ``(n, hidden)``."""
        w = self.weights
        x = (
            w["embeddings.word_embeddings.weight"][ids]
            + w["embeddings.position_embeddings.weight"][: len(ids)]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm("embeddings.LayerNorm", x)
        for i in range(self.n_layers):
            layer = f"encoder.layer.{i}."
            mixed = self._attention(layer + "attention.self.", x)
            mixed = self._linear(layer + "attention.output.dense", mixed)
            x = self._norm(layer + "attention.output.LayerNorm", x + mixed)
            wide = _gelu(self._linear(layer + "intermediate.dense", x))
            wide = self._linear(layer + "output.dense", wide)
            x = self._norm(layer + "output.LayerNorm", x + wide)
        return x

    def _linear(self, name: str, x: Array) -> Array:
        y: Array = x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]
        return y

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.eps)
        y: Array = scaled * self.weights[name + ".weight"]
        return y + self.weights[name + ".bias"]

    def _attention(self, name: str, x: Array) -> Array:
        query = self._linear(name + "query", x)
        key = self._linear(name + "key", x)
        value = self._linear(name + "value", x)
        size = query.shape[-1] // self.n_heads
        heads = []
        for h in range(self.n_heads):
            part = slice(h * size, (h + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            heads.append(scores @ value[:, part])
        return np.concatenate(heads, axis=-1)


def _gelu(x: Array) -> Array:
    erf = np.asarray(_erf(x / math.sqrt(2.0)), np.float64)
    return 0.5 * x * (1.0 + erf)
