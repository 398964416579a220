"""all-MiniLM-L6-v2, a sentence encoder, on Ascend devices with aiocann.

`find_model` and `Checkpoint` read the weights, `Tokenizer` turns texts into
`Batch` objects, an `Embedder` computes them on all devices.
"""

from __future__ import annotations

from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import find_model as find_model
from .embedder import Embedder as Embedder
from .embedder import Rows as Rows
from .text import Batch as Batch
from .text import Tokenizer as Tokenizer
from .text import count_lines as count_lines
from .text import read_lines as read_lines
from .text import windows as windows
