"""Whether the process has been told to end, by ctrl-C or `SystemExit`.

Leaving a runtime drains its work. Whoever presses ctrl-C wants the prompt back, though:
then work gets a moment, counted from when that was first noticed, and is aborted.

An event loop may hand ctrl-C to a task as a mere cancellation. What tells the two apart
has no public name; where none of it is found, a cancellation is a cancellation.
"""

from __future__ import annotations

import inspect
import math
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

#: Seconds that work may still take once the process was told to end.
GRACE = 0.05
#: Seconds, of the same start, after which closing goes on in the background.
PATIENCE = 0.2
# What is noticed so much later is another ctrl-C: the one before was survived.
_ANOTHER = 5.0

_ENDING = (KeyboardInterrupt, SystemExit)
_noticed = -math.inf


def seconds_left(because: BaseException | None, patience: float = GRACE) -> float:
    """Return how long may still be waited: for ever, unless it was told to end.

    Parameters
    ----------
    because
        What makes the caller leave, if anything.
    patience
        From when it is first noticed; leaving one thing after the other counts as one.
    """
    global _noticed
    if not (_is_ending(because) or _asyncio_is_ending() or _trio_is_ending()):
        return math.inf
    now = time.monotonic()
    if now - _noticed > _ANOTHER:
        _noticed = now
    return _noticed + patience - now


def _is_ending(exc: BaseException | None) -> bool:
    if isinstance(exc, BaseExceptionGroup):
        return any(map(_is_ending, exc.exceptions))
    return isinstance(exc, _ENDING)


def _asyncio_is_ending() -> bool:
    # `asyncio.Runner`, and what anyio has for Python 3.10, cancel the main task.
    handler = signal.getsignal(signal.SIGINT)
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    if getattr(runner, "_interrupt_count", 0):
        task: Any = getattr(handler, "keywords", {}).get("main_task")
        # A program may catch that, say so, and go on.
        return not hasattr(task, "cancelling") or task.done() or task.cancelling() > 0
    # When the main task has ended so, or where there is no runner, the others are
    # cancelled while the loop is given up.
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_cancel_all_tasks":
        frame = frame.f_back
    for _ in range(3):
        frame = None if frame is None else frame.f_back
        if frame is not None and _gives_up(frame.f_locals):
            return True
    return False


def _gives_up(variables: Any) -> bool:
    """Whether these are of a function that gives up a loop before its main task ended.

    They are of ``Runner.__exit__``, or of ``run`` where there is no runner.
    """
    why, main = variables.get("exc_type"), variables.get("main")
    if isinstance(why, type) and issubclass(why, _ENDING):
        return True
    return inspect.iscoroutine(main) and main.cr_frame is not None


def _trio_is_ending() -> bool:
    # Trio raises it in the main task: what waits in a nursery there is cancelled.
    lowlevel: Any = getattr(sys.modules.get("trio"), "lowlevel", None)
    if not hasattr(lowlevel, "in_trio_task") or not lowlevel.in_trio_task():
        return False
    nursery = lowlevel.current_task().parent_nursery
    while nursery is not None:
        if any(map(_is_ending, getattr(nursery, "_pending_excs", ()))):
            return True
        nursery = nursery.parent_task.parent_nursery
    return False
