"""The listing of what is in flight that a signal asks for: ``AIOCANN_DUMP_SIGNAL``.

The handler is native and only writes an eventfd; a thread of Python's waits for that,
and prints. So it works where the loop, or the main thread, is stuck, though not where
something holds the interpreter's lock.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

from aiocann.errors import usage
from aiocann.ledger import in_flight
from aiocann.native import check, lib

__all__ = ["listen", "listing"]

_listening: dict[int, threading.Thread] = {}


def listing() -> str:
    """Return a line for each op in flight of the process, the oldest first."""
    ops = list(in_flight.values())  # at once, as others change it meanwhile
    ops.sort(key=lambda op: -op.age)
    finished = sum(op.is_settled for op in ops)
    head = f"aiocann: {len(ops) - finished} ops in flight, "
    lines = [head + f"{finished} finished that their loop was not told of"]
    for op in ops:
        stream = op.stream
        where = (
            f"device {stream.device.index} stream {stream.number}" if stream else "-"
        )
        state = "finished" if op.is_settled else f"for {op.age:.3f} s"
        lines.append(
            f"  {op.kind} #{op.id}  {where}  {state}  enqueued at {op.enqueued_at}"
        )
    return "\n".join(lines) + "\n"


def listen() -> None:
    """Print it on each signal of the kind that ``AIOCANN_DUMP_SIGNAL`` names.

    Raises
    ------
    UsageError
        There is no such signal, or it cannot be caught.
    """
    name = os.environ.get("AIOCANN_DUMP_SIGNAL", "")
    if not name:
        return
    number = _number(name)
    if number in _listening:
        return
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    check(lib.aiocann_signal_watch(number, fd))
    thread = threading.Thread(
        target=_print_on, args=(fd,), name="aiocann dump", daemon=True
    )
    _listening[number] = thread
    thread.start()


def _number(name: str) -> int:
    text = name.strip().upper()
    if text.isdigit():
        number = int(text)
    else:
        text = text if text.startswith("SIG") else f"SIG{text}"
        number = int(getattr(signal, text, 0)) if text[3:4] != "_" else 0
    if number not in signal.valid_signals() or number in (
        signal.SIGKILL,
        signal.SIGSTOP,
    ):
        raise usage(
            f"AIOCANN_DUMP_SIGNAL is {name!r}, but must be the name or number of a "
            "signal that can be caught, such as USR1"
        )
    return number


def _print_on(fd: int) -> None:
    while True:
        os.eventfd_read(fd)
        text = listing()
        try:
            os.write(2, text.encode("utf-8", "replace"))
            faulthandler.dump_traceback(file=2, all_threads=True)
        except OSError:  # closed: nobody reads it
            pass
        if sys.is_finalizing():
            return
