"""Enqueueing: the one way from a native call to an `Operation` in the ledger.

A native call that has succeeded has begun work on operands that nobody owns yet. An
exception between the call and the entry in the ledger (ctrl-C, at any instruction) must
not lose the op: `enqueue` then makes the entry before it lets the exception out.
"""

# ruff: noqa: SLF001 - finishes what an operation's constructor could not

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from aiocann import debug
from aiocann.completion import Operation
from aiocann.ledger import in_flight
from aiocann.loops import current_home, drain_here
from aiocann.native import NULL, ffi, last_error, lib
from aiocann.reactor import orphans

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiocann.reactor import Home
    from aiocann.stream import Stream

__all__ = ["enqueue", "enqueue_allocation"]


class Scratch:
    """C structures that a call fills; taken from a pool, given back after the call.

    A pool rather than one per thread: a signal handler may enqueue in the middle of an
    enqueueing call. Those in the pool hold no pointer.
    """

    __slots__ = ("mem", "op")

    def __init__(self) -> None:
        self.op = ffi.new("aiocann_op *[1]")
        self.mem = ffi.new("aiocann_mem *[1]")


_pool: list[Scratch] = []
_give = _pool.append


def _take() -> Scratch:
    try:
        return _pool.pop()
    except IndexError:
        return Scratch()


def enqueue(
    function: Callable[..., int],
    arguments: tuple[Any, ...],
    kind: str,
    operands: tuple[Any, ...] = (),
    stream: Stream | None = None,
    result: Any = None,
    finish: Callable[[Any], Any] | None = None,
    cls: type[Operation[Any]] = Operation,
) -> Operation[Any]:
    """Call a function of ``aiocann.h`` that makes an op, and enter the op.

    Parameters
    ----------
    function, arguments
        It is called with these, the home loop, and where the op goes.
    kind, operands, stream, result, finish
        As `Operation` has them. It owns the operands until it has settled.
    cls
        What to make of it.

    Raises
    ------
    AiocannError
        In blocking mode, what the op has failed with, if it is a command of a stream.
    """
    home = current_home()
    scratch = _take()
    op: Operation[Any] | None = None
    try:
        if function(*arguments, home.loop, scratch.op):
            raise last_error()
        op = cls(kind, scratch.op[0], home, operands, stream, result, finish)
        if home is orphans:
            orphans.adopt(op, scratch.op[0])
        scratch.op[0] = NULL
    except BaseException:
        _rescue(scratch, op, home, kind, operands, stream, result, finish, cls)
        raise
    _give(scratch)
    # Closing has a limit of its own, and what runs on the loop cannot be waited for.
    if (
        debug.is_blocking
        and stream is not None
        and cls is Operation
        and kind != "close"
    ):
        _wait_here(op)
    return op


def _wait_here(op: Operation[Any]) -> None:
    """Wait for an op as blocking mode does; raise its failure."""
    while not op.done:
        time.sleep(1e-4)
        drain_here()
    op.result()


def enqueue_allocation(
    device: Any,
    nbytes: int,
    stream: Any,
    *,
    nowait: bool,
    kind: str,
    own: Callable[[Any], Any],
) -> Operation[Any]:
    """Allocate device memory: `own` makes what owns an ``aiocann_mem *``.

    The result of the op is what `own` made; it has settled already where the pool had
    the memory.
    """
    home = current_home()
    scratch = _take()
    op: Operation[Any] | None = None
    made: Any = None
    try:
        if lib.aiocann_device_allocate(
            device, nbytes, stream, nowait, home.loop, scratch.mem, scratch.op
        ):
            raise last_error()
        made = own(scratch.mem[0])
        if scratch.op[0] == NULL:
            op = Operation.completed(kind, made)
        else:
            op = Operation(kind, scratch.op[0], home, (made,), result=made)
            if home is orphans:
                orphans.adopt(op, scratch.op[0])
            scratch.op[0] = NULL
    except BaseException:
        _rescue(scratch, op, home, kind, (made,), None, made, None, Operation)
        raise
    _give(scratch)
    return op


def _rescue(
    scratch: Scratch,
    op: Operation[Any] | None,
    home: Home,
    kind: str,
    operands: tuple[Any, ...],
    stream: Stream | None,
    result: Any,
    finish: Callable[[Any], Any] | None,
    cls: type[Operation[Any]],
) -> None:
    """Enter the op of an interrupted call, if it began one; nobody will await it."""
    pointer = scratch.op[0]
    if pointer != NULL:
        if op is None:
            # The constructor's last act may have been the entry.
            op = in_flight.get(lib.aiocann_op_id(pointer))
            op = op or cls(kind, pointer, home, operands, stream, result, finish)
            op._owns = True
        if home is orphans:
            orphans.adopt(op, pointer)
        lib.aiocann_op_abandon(pointer)
        scratch.op[0] = NULL
    _give(scratch)
