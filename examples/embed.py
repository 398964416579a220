"""Embed the lines of a file with all-MiniLM-L6-v2 on Ascend devices.

    python examples/embed.py --devices 4 --out emb.npy FILE

writes one L2-normalised float32 row for each line. The rows depend on the file
alone: any number of devices and any event loop give the same bits.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import numpy as np
from anyio.to_thread import run_sync as in_thread

import aiocann
from minilm import (
    Batch,
    Checkpoint,
    Embedder,
    Tokenizer,
    count_lines,
    find_model,
    read_lines,
    windows,
)
from progress import Progress, progress_bar

LOOPS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


async def embed_file(
    source: BinaryIO, out: BinaryIO, options: argparse.Namespace, progress: Progress
) -> int:
    """Write the embeddings of the lines of `source` to `out` as an .npy file.

    What is slow and no device's work runs in threads; and while one window of
    lines is embedded, the next is read and tokenised.

    Returns
    -------
    int
        The number of lines.

    Raises
    ------
    ValueError
        A line is not UTF-8. Found before anything is computed.
    """
    try:
        n_lines = await in_thread(count_lines, source)
    except ValueError as error:
        raise ValueError(f"{options.file}: {error}") from None
    source.seek(0)
    progress.set_total(n_lines)
    model = find_model(options.model)
    checkpoint = await in_thread(Checkpoint.load, model)
    tokenizer = await in_thread(Tokenizer, model)
    header = {
        "descr": "<f4",
        "fortran_order": False,
        "shape": (n_lines, checkpoint.hidden),
    }
    np.lib.format.write_array_header_1_0(out, header)

    send, receive = anyio.create_memory_object_stream[list[Batch]](1)

    async def tokenise() -> None:
        todo = windows(read_lines(source))
        async with send:
            while (lines := await in_thread(next, todo, None)) is not None:
                await send.send(await in_thread(tokenizer.batches, lines))

    async with aiocann.open_runtime(options.driver, devices=options.devices) as runtime:
        embedder = await Embedder.load(runtime.devices, checkpoint)
        async with anyio.create_task_group() as tasks, receive:
            tasks.start_soon(tokenise)
            async for batches in receive:
                rows = await embedder.embed(batches, progress.advance)
                await in_thread(out.write, rows.data)
    return n_lines


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = parse(arguments)
    partial_out = options.out.with_name(options.out.name + ".part")
    try:
        with (
            open_seekable(options.file) as source,
            partial_out.open("wb") as out,
            progress_bar("embedding") as progress,
        ):
            n_lines = anyio.run(
                embed_file, source, out, options, progress, **LOOPS[options.loop]
            )
        partial_out.replace(options.out)
    except (ValueError, OSError, aiocann.AiocannError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        partial_out.unlink(missing_ok=True)
    print(f"{options.out}: {n_lines} rows")
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="UTF-8 text, a line a row"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the .npy file to write"
    )
    parser.add_argument(
        "--devices", type=int, default=4, metavar="N", help="how many devices (4)"
    )
    parser.add_argument(
        "--loop", choices=LOOPS, default="asyncio", help="event loop (asyncio)"
    )
    parser.add_argument(
        "--driver", choices=["auto", "sim", "cann"], help="see aiocann.open_runtime"
    )
    parser.add_argument("--model", type=Path, help="folder of another BERT's files")
    options = parser.parse_args(arguments)
    if options.devices < 1:
        parser.error("--devices: at least one")
    if find_spec(options.loop) is None:
        parser.error(f"--loop: {options.loop} is not installed")
    if options.out.exists() and not options.out.is_file():
        parser.error(f"--out: {options.out} is not a regular file")
    return options


@contextmanager
def open_seekable(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read twice; what comes through a pipe is kept on disk."""
    with path.open("rb") as file:
        if file.seekable():
            yield file
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy


if __name__ == "__main__":
    sys.exit(main())
