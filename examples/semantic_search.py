"""Search a text by meaning: a real model on four NPUs, fed by one event loop.

    python examples/semantic_search.py --question "How do I sort a list?" [FILE ...]

Embeds every passage of the text, by default the language-reference topics that
ship inside Python, finds those nearest to a question, and reports what the
event loop had to bear meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
import numpy as np
from anyio.to_thread import run_sync as in_thread

import aiocann
from loopmeter import Callbacks, Ticks, measuring_callbacks, ticking
from minilm import Checkpoint, Embedder, Rows, Tokenizer, find_model
from progress import Progress, progress_bar

QUESTION = "How can I make sure that a file is closed when an error occurs?"


@dataclass(frozen=True)
class Report:
    """What one run found, and what it cost."""

    devices: str
    n_passages: int
    seconds: float
    h2d_bytes: int
    peer_bytes: int
    best: list[tuple[float, str]]
    ticks: Ticks
    ticks_alone: Ticks


def passages(files: list[Path]) -> list[str]:
    """Return the texts between blank lines, each once. Slow: it may read files."""
    if files:
        texts = [read(file) for file in files]
    else:
        from pydoc_data.topics import topics

        texts = list(topics.values())
    parts = (part.strip() for text in texts for part in re.split(r"\n\s*\n", text))
    found = list(dict.fromkeys(part for part in parts if part))
    if not found:
        raise ValueError("there is no text to search")
    return found


def read(file: Path) -> str:
    """Return the text of a file; an error names it."""
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error.reason}") from None


def nearest(rows: Rows, asked: Rows, n: int = 3) -> list[tuple[float, int]]:
    """Return the `n` best scores, with the rows that have them."""
    scores = rows @ asked
    best = np.argsort(-scores, kind="stable")[:n]
    return [(float(scores[i]), int(i)) for i in best]


async def search(
    options: argparse.Namespace, tokenizer: Tokenizer, progress: Progress
) -> Report:
    """Embed the passages and answer the question."""
    with ticking() as ticks_alone:
        await anyio.sleep(1)
    with ticking() as ticks:
        texts = await in_thread(passages, options.files)
        checkpoint = await in_thread(Checkpoint.load, options.model)
        batches = await in_thread(tokenizer.batches, texts)
        question = await in_thread(tokenizer.batches, [options.question])
        progress.set_total(len(texts))
        async with aiocann.open_runtime(
            options.driver, devices=options.devices
        ) as runtime:
            embedder = await Embedder.load(runtime.devices, checkpoint)
            # Giving back 90 MB takes milliseconds, so this is for a thread too.
            await in_thread(checkpoint.weights.clear)
            start = time.perf_counter()
            rows = await embedder.embed(batches, progress.advance)
            seconds = time.perf_counter() - start
            [asked] = await embedder.embed(question)
            names = sorted({device.soc_name for device in runtime.devices})
            devices = f"{len(runtime.devices)} x {', '.join(names)} ({runtime.driver})"
            statistics = runtime.statistics()
        best = await in_thread(nearest, rows, asked)
    return Report(
        devices=devices,
        n_passages=len(texts),
        seconds=seconds,
        h2d_bytes=statistics.h2d_bytes,
        peer_bytes=statistics.peer_bytes,
        best=[(score, texts[i]) for score, i in best],
        ticks=ticks,
        ticks_alone=ticks_alone,
    )


def show(report: Report, question: str, seen: Callbacks) -> None:
    """Print what a run found, and what it cost."""
    rate = report.n_passages / report.seconds

    def late(ticks: Ticks) -> str:
        return "p50 {:.2f}  p99 {:.2f}  max {:.2f} ms".format(*ticks.lateness_ms())

    print(f"devices           {report.devices}")
    print(
        f"passages          {report.n_passages} in {report.seconds:.1f} s,"
        f" {rate:.0f} per second"
    )
    print(f"host to device    {report.h2d_bytes / 1e6:.1f} MB")
    print(f"between peers     {report.peer_bytes / 1e6:.1f} MB")
    print(
        f"longest callback  {seen.longest_ms:.2f} ms of the loop's thread,"
        f" of {seen.count} ({seen.longest_name})"
    )
    print(f"1 ms ticker late  {late(report.ticks)}")
    print(f"  the same alone  {late(report.ticks_alone)}")
    print(f"\n{question}")
    for score, passage in report.best:
        print(f"\n{score:.3f}  " + passage.replace("\n", "\n       "))


def run(options: argparse.Namespace) -> tuple[Report, Callbacks]:
    """Run the search in an event loop that is watched."""
    options.model = find_model(options.model)
    # Before the loop starts, as it holds the interpreter for some 50 ms: a thread
    # would not help.
    tokenizer = Tokenizer(options.model)
    # The garbage collector runs on whatever thread allocates, the loop's too: what
    # has been made so far stays anyway and need not be looked through each time.
    gc.freeze()
    with progress_bar("embedding") as progress, measuring_callbacks() as seen:
        report = anyio.run(search, options, tokenizer, progress)
    return report, seen


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="UTF-8 text to search"
    )
    parser.add_argument("--question", default=QUESTION, help=f"({QUESTION})")
    parser.add_argument("--devices", type=int, default=4, metavar="N", help="(4)")
    parser.add_argument(
        "--driver", choices=["auto", "sim", "cann"], default="sim", help="(sim)"
    )
    parser.add_argument("--model", type=Path, help="folder of another BERT's files")
    options = parser.parse_args(arguments)
    if options.devices < 1:
        parser.error("--devices: at least one")
    try:
        report, seen = run(options)
    except (ValueError, OSError, aiocann.AiocannError) as error:
        print(error, file=sys.stderr)
        return 1
    show(report, options.question, seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
