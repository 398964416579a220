"""A progress bar, with rich where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress:
    """Adds up what is done; a bar, if there is one, is drawn by another thread."""

    def __init__(self, bar: RichProgress | None) -> None:
        self._bar = bar

    def set_total(self, total: int) -> None:
        """Say how much there is to do."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=total)

    def advance(self, n: int) -> None:
        """Say that `n` more are done."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=n)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Show a bar on standard error, where that is a terminal and rich is there.

    Enter it outside the event loop: rich draws the bar once at the start and once at
    the end, and in between from a thread of its own.
    """
    if not sys.stderr.isatty():
        yield Progress(None)
        return
    try:
        from rich import progress as rich_progress
        from rich.console import Console
    except ImportError:
        print(f"{label} ...", file=sys.stderr)
        yield Progress(None)
        return
    columns = (
        *rich_progress.Progress.get_default_columns(),
        rich_progress.MofNCompleteColumn(),
    )
    console = Console(stderr=True)
    with rich_progress.Progress(*columns, console=console, refresh_per_second=4) as bar:
        bar.add_task(label, total=None)
        yield Progress(bar)
