"""Progress bars, with rich where it is installed.

Enter it outside the event loop: a bar is drawn when it starts and stops, and by
a thread of rich's own in between, so that the loop only adds numbers up.
"""

from __future__ import annotations

import sys
from types import TracebackType

try:
    from rich import progress as rich_progress
    from rich.console import Console
except ImportError:
    rich_progress = None  # type: ignore[assignment]


class Progress:
    """One bar on standard error; silent where that is not a terminal."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: rich_progress.Progress | None = None
        self._shown = sys.stderr.isatty()
        self._total = self._done = 0

    def __enter__(self) -> Progress:
        if self._shown and rich_progress is not None:
            self._bar = rich_progress.Progress(
                *rich_progress.Progress.get_default_columns(),
                rich_progress.MofNCompleteColumn(),
                console=Console(stderr=True),
                refresh_per_second=4,
            )
            self._bar.add_task(self._label, total=None)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown and self._total:
            print(file=sys.stderr)

    def set_total(self, total: int) -> None:
        """Say how much there is to do."""
        self._total = total
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=total)

    def advance(self, n: int) -> None:
        """Say that `n` more are done."""
        before, self._done = self._done, self._done + n
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=n)
        elif self._shown and self._total:
            percent = 100 * self._done // self._total
            if percent > 100 * before // self._total:
                print(f"\r{self._label} {percent}%", end="", file=sys.stderr)
