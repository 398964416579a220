"""From a file to batches of token ids. No aiocann and no event loop here.

Everything in this module depends on the text alone: the same file gives the
same batches whatever will compute them, which is what makes the embeddings the
same, bit for bit, on one device or four.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as HuggingFaceTokenizer

MAX_TOKENS = 256
"""Ids kept of a text, [CLS] and [SEP] included."""
PAD_MULTIPLE = 16
"""Batches are padded to a multiple of this, so that few shapes occur."""
BATCH_TOKENS = 2048
"""Ids in a batch, padding included."""
HEAD_CHARS = 4096
"""Of a longer text only this much is tokenised, where that is enough."""
WINDOW_LINES = 2048
WINDOW_BYTES = 4 << 20
"""Lines are read, sorted and batched in windows of at most this much text."""


def read_lines(file: BinaryIO) -> Iterator[str]:
    r"""Yield the lines of `file`, which end at ``\n`` or ``\r\n`` and nowhere else.

    Raises
    ------
    ValueError
        A line is not UTF-8; the message names it.
    """
    for number, raw in enumerate(file, start=1):
        line = raw
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            bad = line[error.start]
            raise ValueError(
                f"line {number} is not UTF-8: byte 0x{bad:02x} at offset {error.start}"
            ) from None


def count_lines(file: BinaryIO) -> int:
    """Return how many lines `read_lines` yields, having checked them all."""
    return sum(1 for _ in read_lines(file))


def windows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield `lines` in lists that fit in memory, however many there are."""
    window: list[str] = []
    room = WINDOW_BYTES
    for line in lines:
        window.append(line)
        room -= len(line)
        if len(window) == WINDOW_LINES or room <= 0:
            yield window
            window, room = [], WINDOW_BYTES
    if window:
        yield window


@dataclass(frozen=True)
class Batch:
    """Texts of about one length, padded to one shape."""

    rows: NDArray[np.intp]
    """Which of the texts these are; the rows after them are filling."""
    ids: NDArray[np.int32]
    """Token ids, ``(size, length)``, zero where there is no token."""
    counts: NDArray[np.int32]
    """Tokens of each row, at least one."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return ``(size, length)``: batches of one shape share a graph."""
        size, length = self.ids.shape
        return size, length

    def mask(self) -> NDArray[np.float32]:
        """Return 1 for a token and 0 for padding, ``(size, length)``."""
        present = np.arange(self.ids.shape[1]) < self.counts[:, None]
        return present.astype(np.float32)


class Tokenizer:
    """The model's own tokenizer, truncating at `MAX_TOKENS` and not padding."""

    def __init__(self, model: Path) -> None:
        self._tokenizer = HuggingFaceTokenizer.from_file(str(model / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(2 * MAX_TOKENS)

    def batches(self, texts: Sequence[str]) -> list[Batch]:
        """Return `texts` as batches. Slow: keep it off the event loop."""
        return make_batches(self.encode(texts))

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Return the ids of each text. Slow: keep it off the event loop."""
        found = []
        # In pieces: the results are made with the interpreter locked.
        for start in range(0, len(texts), 64):
            piece = texts[start : start + 64]
            heads = [text[:HEAD_CHARS] for text in piece]
            encodings = self._tokenizer.encode_batch(heads)
            for text, encoding in zip(piece, encodings, strict=True):
                ids = encoding.ids
                # A head is enough when it gives more ids than are kept, and a word
                # more: cutting may have changed its last word, of 100 ids at most.
                if len(text) > HEAD_CHARS and len(ids) < 2 * MAX_TOKENS:
                    ids = self._tokenizer.encode(text).ids
                if len(ids) > MAX_TOKENS:
                    ids = [*ids[: MAX_TOKENS - 1], ids[-1]]
                found.append(np.array(ids, np.int32))
        return found


def make_batches(texts: Sequence[NDArray[np.int32]]) -> list[Batch]:
    """Put texts of about one length together, longest first.

    A length has one batch size; only the last batch may be smaller, by halves
    and filled up. So a long run meets a few dozen shapes, and a single question
    is not padded to a full batch.
    """
    lengths = np.array([len(ids) for ids in texts], np.int32)
    order = np.argsort(-lengths, kind="stable")
    batches = []
    while order.size:
        length = -(-int(lengths[order[0]]) // PAD_MULTIPLE) * PAD_MULTIPLE
        rows, order = np.split(order, [BATCH_TOKENS // length])
        size = BATCH_TOKENS // length
        while size >= 2 * len(rows):
            size //= 2
        ids = np.zeros((size, length), np.int32)
        counts = np.ones(size, np.int32)
        counts[: len(rows)] = lengths[rows]
        for i, row in enumerate(rows):
            ids[i, : lengths[row]] = texts[row]
        batches.append(Batch(rows, ids, counts))
    return batches
