"""What is in flight: the owner of every op and its operands until it has settled.

An op that was enqueued is kept here by its id, and it keeps its operands: buffer
exports of host arrays, references on device and pinned memory. So dropping every
reference in the program, or cancelling whoever awaits, frees nothing that the device
still uses.

Additions come from enqueueing threads, removals from whoever drains the op's home loop;
each is one dict operation, atomic under the interpreter.
"""

from __future__ import annotations

import atexit
import ctypes
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiocann.completion import Operation

in_flight: dict[int, Operation[Any]] = {}


@atexit.register
def _keep_for_ever() -> None:
    # Native threads go on until the process is gone; the interpreter would free what
    # they still read and write, so it is given no chance to.
    if in_flight:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(in_flight))


# Exceptions of ops that failed first, so that ops that only followed can name them.
_failures: OrderedDict[int, BaseException] = OrderedDict()
_MAX_FAILURES = 1024


def note_failure(op_id: int, exc: BaseException) -> None:
    """Remember the failure of an op for those that depended on it."""
    _failures[op_id] = exc
    while len(_failures) > _MAX_FAILURES:
        _failures.popitem(last=False)


def failure_of(op_id: int) -> BaseException | None:
    """Return the failure of an op, whether or not its completion was taken yet."""
    exc = _failures.get(op_id)
    if exc is None:
        op = in_flight.get(op_id)
        if op is not None and op.done:
            exc = op.exception()
    return exc
