"""A BERT small enough to make up on the spot, in the files of a real one."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HIDDEN = 48
LAYERS = 2
HEADS = 4
WIDE = 112
POSITIONS = 256


def write_tiny_model(directory: Path) -> None:
    """Write ``config.json``, ``tokenizer.json`` and random ``model.safetensors``."""
    from safetensors.numpy import save_file

    directory.mkdir(parents=True, exist_ok=True)
    n_words = _write_tokenizer(directory / "tokenizer.json")
    config = {
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": HIDDEN,
        "layer_norm_eps": 1e-12,
    }
    (directory / "config.json").write_text(json.dumps(config))
    save_file(_weights(n_words), directory / "model.safetensors")


def _write_tokenizer(path: Path) -> int:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = string.ascii_lowercase + string.digits
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words += list(letters) + ["##" + c for c in letters] + list(string.punctuation)
    words += ["the", "and", "##ing", "##er"]
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    # As the real one ships: whoever loads it has to replace both.
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(path))
    return len(words)


def _weights(n_words: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(7)

    def normal(*shape: int) -> NDArray[np.float32]:
        scale = 1.5 / np.sqrt(shape[-1])
        return np.asarray(random.standard_normal(shape) * scale, np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(n_words, HIDDEN),
        "embeddings.position_embeddings.weight": normal(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": normal(2, HIDDEN),
        "pooler.dense.weight": normal(HIDDEN, HIDDEN),
        "pooler.dense.bias": normal(HIDDEN),
    }

    def add_linear(name: str, n: int, k: int) -> None:
        weights[name + ".weight"] = normal(n, k)
        weights[name + ".bias"] = normal(n)

    def add_norm(name: str) -> None:
        weights[name + ".weight"] = 1 + normal(HIDDEN)
        weights[name + ".bias"] = normal(HIDDEN)

    add_norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            add_linear(f"{layer}attention.self.{part}", HIDDEN, HIDDEN)
        add_linear(layer + "attention.output.dense", HIDDEN, HIDDEN)
        add_norm(layer + "attention.output.LayerNorm")
        add_linear(layer + "intermediate.dense", WIDE, HIDDEN)
        add_linear(layer + "output.dense", HIDDEN, WIDE)
        add_norm(layer + "output.LayerNorm")
    return weights
