"""`Operation`: one enqueued command, which any number of tasks on any loop may await.

State: in flight → settled, once, well or failed; nothing leads back. An op is settled
by whoever notices first; its waiters are woken by the reactor of the loop that they
wait on. Each await has a waiter of its own, so cancelling one touches nothing else.
"""

from __future__ import annotations

import contextvars
import threading
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    Protocol,
    TypeVar,
    cast,
)

import anyio

from aiocann import ending, sites
from aiocann.errors import (
    E_PREDECESSOR,
    AiocannError,
    ClosedResourceError,
    NativeError,
    clone,
    error_for,
)
from aiocann.ledger import failure_of, in_flight, note_failure
from aiocann.logs import log
from aiocann.loops import current_reactor, drain_here
from aiocann.native import NULL, lib, to_error
from aiocann.reactor import Home, Reactor, orphans
from aiocann.trio_reactor import TrioReactor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aiocann.stream import Stream

__all__ = ["Operation"]

T = TypeVar("T")

_op_id = lib.aiocann_op_id
_op_state = lib.aiocann_op_state
_op_release = lib.aiocann_op_release
_monotonic = time.monotonic
_here = sites.here
_PATHS = ("", "direct", "staged", "peer")
# While something is drained, seconds between looks whether the process is to end.
_LOOK = 0.1
# Serialises what must happen once at settling, where it is more than setting a state.
settle_lock = threading.RLock()


class Describable(Protocol):
    """An operand that says what it is in an error."""

    def describe(self) -> str:
        """Return a few words: type, shape, place."""


class Operation(Generic[T]):
    """Work on a device, enqueued when it was made.

    ``await op`` returns when the device and any host part of it have finished, with
    the op's result, and raises if it failed. Any number of tasks on any loops may
    await it, each for itself: cancelling one leaves the op and the others alone. There
    is no way to cancel the work; what it uses is kept until the device is past it.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_finish",
        "_foreign",
        "_home",
        "_operands",
        "_owns",
        "_pointer",
        "_result",
        "_retrieved",
        "_site",
        "_state",
        "_stream",
        "_time",
        "_waiters",
        "id",
        "kind",
    )

    #: 0 in flight, 1 settled well, 2 failed.
    _state: int
    # Whether it is the one that fails in place of commands without notification.
    _tells_of_silent_ones = False

    def __init__(
        self,
        kind: str,
        pointer: Any,
        home: Home,
        operands: tuple[Any, ...] = (),
        stream: Stream | None = None,
        result: Any = None,
        finish: Callable[[Operation[T]], T] | None = None,
    ) -> None:
        self.kind = kind
        self.id: int = _op_id(pointer)
        self._pointer = pointer
        self._home = home
        self._operands = operands
        self._stream = stream
        self._result = result
        self._finish = finish
        self._state = 0
        self._error: BaseException | None = None
        self._retrieved = False
        self._waiters: list[Any] | None = None
        self._foreign: dict[Reactor, list[Any]] | None = None
        self._site = _here()
        self._time = _monotonic()
        in_flight[self.id] = self
        # Last: whatever interrupts this (ctrl-C), `enqueue` sees what is still missing.
        self._owns = True

    @classmethod
    def completed(cls, kind: str, result: T) -> Operation[T]:
        """Make an op that needed no work."""
        self = cls.__new__(cls)
        self.kind, self.id, self._pointer, self._home = kind, 0, NULL, orphans
        self._operands, self._stream, self._result = (), None, result
        self._finish, self._state, self._error = None, 1, None
        self._retrieved, self._waiters, self._foreign = True, None, None
        self._site, self._time, self._owns = None, 0.0, False
        return self

    def __del__(self) -> None:
        if getattr(self, "_owns", False) and self._pointer:
            _op_release(self._pointer)

    def __reduce__(self) -> NoReturn:
        # A copy would give the native op back a second time.
        raise TypeError("an Operation cannot be copied or pickled")

    def __repr__(self) -> str:
        state = ("in flight", "done", "failed")[self._state if self._poll() else 0]
        return f"<aiocann.Operation {self.kind} #{self.id} {state}>"

    # ---- what users see ----------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether it has finished, well or not."""
        done = self._state != 0 or self._poll()
        if done and sites.is_debugging:
            drain_here()
        return done

    @property
    def failed(self) -> bool:
        """Whether it has finished, and not well."""
        return self.done and self._error is not None

    @property
    def path(self) -> str:
        """How a copy went: "direct", "staged" or "peer"; "" when it was no copy."""
        return _PATHS[lib.aiocann_op_path(self._pointer)] if self._pointer else ""

    @property
    def enqueued_at(self) -> str:
        """``file:line in function`` of the line that enqueued it."""
        return str(self._site) if self._site is not None else ""

    def exception(self) -> BaseException | None:
        """Return the failure of a finished op; None when it went well.

        Raises
        ------
        RuntimeError
            It has not finished.
        """
        self._require_done()
        return self._error

    def result(self) -> T:
        """Return the result of a finished op, or raise its failure.

        Raises
        ------
        RuntimeError
            It has not finished.
        """
        self._require_done()
        if self._error is not None:
            self._retrieved = True
            raise clone(self._error)
        return cast("T", self._result)

    def _require_done(self) -> None:
        if not self.done:
            raise RuntimeError(f"{self!r} has not finished: await it first")

    def __await__(self) -> Generator[Any, Any, T]:
        if self._state or self._poll():
            return self._after_turn()
        return self._wait()

    # ---- awaiting ----------------------------------------------------------------

    def _after_turn(self) -> Generator[Any, Any, T]:
        reactor = current_reactor()
        if sites.is_debugging:
            # Whoever knows that this is done may take what came before for done.
            drain_here()
        if reactor.needs_turn():
            yield from reactor.turn()
        return self.result()

    def _wait(self) -> Generator[Any, Any, T]:
        reactor = current_reactor()
        if self._home is reactor:
            reactor.linger()
            if self._state:
                return (yield from self._after_turn())
        waiter = reactor.waiter()
        if not self._enlist(reactor, waiter):
            return (yield from self._after_turn())
        try:
            if reactor.is_asyncio:
                yield from waiter
            else:
                assert isinstance(reactor, TrioReactor)
                yield from reactor.block(lambda: self._withdraw(reactor, waiter))
        except BaseException:
            # Cancellation, as a rule. The op goes on; its operands are the ledger's.
            self._withdraw(reactor, waiter)
            # Woken, but cancelled before it could be told: better told twice than not.
            self._retrieved = False
            raise
        reactor.spins = 0
        return self.result()

    def _enlist(self, reactor: Reactor, waiter: Any) -> bool:
        """Add a waiter. False: it has settled, nobody would wake it."""
        if self._home is reactor:
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            return True
        if self._foreign is None:
            with settle_lock:
                if self._foreign is None:
                    self._foreign = {}
        self._foreign.setdefault(reactor, []).append(waiter)
        if self._watch(reactor):
            return True
        self._poll()
        # Only its own: others of this loop may be about to be woken.
        self._withdraw(reactor, waiter)
        return False

    def _watch(self, reactor: Reactor) -> bool:
        return reactor.watch(self, self._pointer)

    def _withdraw(self, reactor: Reactor, waiter: Any) -> None:
        if self._home is reactor:
            waiters = self._waiters
        else:
            waiters = (self._foreign or {}).get(reactor)
        if waiters is None or waiter not in waiters:
            return
        waiters.remove(waiter)
        if not waiters and self._foreign is not None:
            self._foreign.pop(reactor, None)
        if not self._waiters and not self._foreign and not self._state:
            lib.aiocann_op_abandon(self._pointer)

    def _forget_reactor(self, reactor: Reactor) -> None:
        if self._foreign is not None:
            self._foreign.pop(reactor, None)

    # ---- settling ----------------------------------------------------------------

    def _poll(self) -> bool:
        """Look whether it has settled; any thread."""
        if self._state:
            return True
        state = _op_state(self._pointer)
        if state:
            self._settle(state)
        return self._state != 0

    def _settle(self, state: int) -> None:
        """Take the outcome over from the native op, once; any thread."""
        if state == 1 and self._finish is None:
            # The hot path; setting these twice, from two threads, does no harm.
            self._operands = ()
            self._state = 1
            return
        with settle_lock:
            if self._state:
                return
            if state == 1:
                self._finish_up()
            else:
                self._fail(lib.aiocann_op_error(self._pointer))
            self._operands = ()
            self._finish = None

    def _finish_up(self) -> None:
        assert self._finish is not None
        try:
            self._result = self._finish(self)
        except Exception as exc:
            # Without our frames: a memoryview that a collection takes before what
            # exports its memory crashes the interpreter.
            self._set_error(exc.with_traceback(None))
        except BaseException:
            # It may have taken the result over, which can be done once.
            self._set_error(RuntimeError(f"{self.kind} was interrupted"))
            raise
        else:
            self._state = 1

    def _fail(self, error: Any) -> None:
        native = to_error(error)
        known = failure_of(native.cause_op)
        op, site = self._describe(native)
        self._result = None
        exc = error_for(
            native,
            op=op,
            enqueued_at=site,
            cause=silent_failure(native) if known is None else known,
        )
        # Not those of Python: no other op follows from them, and they keep frames.
        note_failure(self.id, exc)
        self._set_error(
            exc,
            followed=native.code == E_PREDECESSOR
            and not (self._tells_of_silent_ones and known is None),
        )

    def _set_error(self, exc: BaseException, *, followed: bool = False) -> None:
        self._error = exc
        self._state = 2
        # Those that only followed are reported by the first failure.
        if self._stream is not None and not followed:
            self._stream.note_failed(self)

    def _describe(self, native: NativeError) -> tuple[str, str]:
        """Return the op with its operands, and where it was enqueued."""
        operands = [text for text in map(_describe, self._operands) if text]
        node = native.node
        if node >= 0 and self._operands and hasattr(self._operands[0], "node_site"):
            graph = self._operands[0]
            built = graph.node_site(node)
            where = f"{built}, computed at {self.enqueued_at}" if built else None
            return graph.describe_node(node), where or self.enqueued_at
        if not (operands or self._stream or native.is_fault):
            return "", ""  # opening or closing: the detail says it all
        return f"{self.kind}({', '.join(operands)})", self.enqueued_at

    # A delivery that ctrl-C interrupts is made again from its start.

    def _delivered(self, reactor: Reactor | None) -> None:
        """Its home has it; `reactor` is None where that is the orphans."""
        if not self._state:
            self._settle(_op_state(self._pointer))
        waiters = self._waiters
        if waiters is not None:
            if reactor is not None and reactor is self._home:
                self._retrieved |= bool(waiters)
                reactor.wake(waiters)
            self._waiters = None

    def _delivered_foreign(self, reactor: Reactor) -> None:
        self._poll()
        if self._foreign is not None:
            waiters = self._foreign.get(reactor)
            if waiters:
                self._retrieved = True
                reactor.wake(waiters)
            self._foreign.pop(reactor, None)

    # ---- for streams -------------------------------------------------------------

    @property
    def has_known_cause(self) -> bool:
        """Whether it failed only because an op had that somebody can be told of."""
        error = lib.aiocann_op_error(self._pointer)
        return bool(
            error != NULL
            and error.code == E_PREDECESSOR
            and failure_of(error.cause_op) is not None
        )

    @property
    def timestamp_us(self) -> int:
        """When the device passed it, in microseconds of its clock; 0: not known."""
        return int(lib.aiocann_op_timestamp_us(self._pointer)) if self._pointer else 0

    @property
    def stream(self) -> Stream | None:
        """The stream it runs on, where it has one."""
        return self._stream

    @property
    def is_settled(self) -> bool:
        """Whether its outcome was taken over; unlike `done`, asks nobody."""
        return self._state != 0

    @property
    def age(self) -> float:
        """Seconds since it was enqueued."""
        return _monotonic() - self._time

    def take_unretrieved(self) -> BaseException | None:
        """Return its failure, if nobody was told of it yet, and count as told."""
        if self._error is None or self._retrieved:
            return None
        self._retrieved = True
        stream = self._stream
        log.error(
            "%s, and nobody awaited it",
            self._error,
            extra={
                "op": self.kind,
                "device": None if stream is None else stream.device.index,
                "stream": None if stream is None else stream.number,
            },
        )
        return clone(self._error)


def _describe(operand: Any) -> str:
    """Say what an operand is; nothing for what is only kept alive."""
    describe = getattr(operand, "describe", None)
    if describe is not None:
        return str(describe())
    dtype, shape = getattr(operand, "dtype", None), getattr(operand, "shape", None)
    if dtype is not None and shape is not None:
        return f"host {dtype}{list(shape)}"
    if isinstance(operand, (bytes, bytearray, memoryview)):
        return f"{type(operand).__name__} of {memoryview(operand).nbytes} bytes"
    return ""


class HostCall(Operation[T]):
    """A Python function that runs on the enqueueing loop when its stream gets there.

    Natively it is a mark; in Python it settles only once the function has run, so the
    home reactor, not the native half, tells other loops.
    """

    __slots__ = ("_call", "_context")

    def __init__(
        self,
        kind: str,
        pointer: Any,
        home: Home,
        operands: tuple[Any, ...],
        stream: Stream | None = None,
        result: Any = None,
        finish: Callable[[Operation[T]], T] | None = None,
    ) -> None:
        # The function and its arguments come as the operands.
        self._call: tuple[Any, ...] | None = operands
        self._context = contextvars.copy_context()
        super().__init__(kind, pointer, home, (), stream, result, finish)

    def _poll(self) -> bool:
        return self._state != 0

    def _watch(self, reactor: Reactor) -> bool:
        if self.id in reactor.foreign:
            return True  # another task of this loop waits: both get the delivery
        reactor.foreign[self.id] = self
        if self._state:
            reactor.foreign.pop(self.id, None)
            return False
        return True

    def _delivered(self, reactor: Reactor | None) -> None:
        try:
            if not self._state:
                self._run(reactor)
        finally:  # whatever the function raised, nobody is left waiting
            if self._state:
                super()._delivered(reactor)
                for other in list(self._foreign or ()):
                    other.post(self)

    def _run(self, reactor: Reactor | None) -> None:
        call, self._call = self._call, None
        state = _op_state(self._pointer)
        with settle_lock:
            if state == 2:
                self._fail(lib.aiocann_op_error(self._pointer))
                return
        if reactor is None or reactor is not self._home:
            self._set_error(
                ClosedResourceError(
                    "the event loop that enqueued this host_call has closed, so the "
                    "function was not run"
                )
            )
            return
        if call is None:
            self._set_error(
                RuntimeError("host_call: it was interrupted, so it was not run")
            )
            return
        function, args = call
        try:
            self._result = self._context.run(function, *args)
        except Exception as exc:
            self._set_error(exc)
        except BaseException as exc:
            # In an awaiter it would pass for the awaiter's own cancellation or exit.
            error = RuntimeError(f"host_call: {function!r} raised {exc!r}")
            error.__cause__ = exc
            self._set_error(error)
            if reactor.is_asyncio and isinstance(exc, (KeyboardInterrupt, SystemExit)):
                raise  # the loop's business, as in any callback; trio would only crash
        else:
            self._state = 1


class Interruption:
    """A cancellation, or ctrl-C, that is held back while something is drained.

    Parameters
    ----------
    because
        The exception that makes the caller leave what is drained, if one does.
    """

    __slots__ = ("_because", "_exc")

    def __init__(self, because: BaseException | None = None) -> None:
        self._because = because
        self._exc: BaseException | None = None

    def hold(self, exc: BaseException) -> None:
        """Keep it for later."""
        if not isinstance(self._exc, KeyboardInterrupt):
            self._exc = exc

    def seconds_left(self, patience: float = ending.GRACE) -> float:
        """Return how long draining may go on; see `ending.seconds_left`."""
        return ending.seconds_left(self._exc or self._because, patience)

    def release(self, failure: BaseException | None = None) -> None:
        """Raise what is held back, if anything; then `failure` is only logged."""
        exc, self._exc = self._exc, None
        if exc is None:
            return
        if failure is not None:
            log.error("%s; while leaving because of a cancellation", failure)
        try:
            raise exc
        finally:
            del exc  # its traceback has this frame: a cycle


async def settled(
    op: Operation[Any],
    seconds: float,
    interruption: Interruption | None = None,
    patience: float = ending.GRACE,
) -> bool:
    """Wait until `op` has settled, whatever happens to this task. False: timed out.

    For draining. Cancellation of the task, asyncio's own too, is held back until then,
    as is ctrl-C, which leaves it no more than `patience`; it is raised at the end, or
    left in `interruption` for the caller to raise when it has finished. The outcome of
    the op is left to the caller.
    """
    held = Interruption() if interruption is None else interruption
    cancelled = anyio.get_cancelled_exc_class()
    deadline = anyio.current_time() + seconds
    while not op.done:
        now = anyio.current_time()
        left = min(deadline - now, held.seconds_left(patience))
        if left <= 0:
            break
        # Of a ctrl-C that reaches another task nothing is told to this one: look.
        with anyio.CancelScope(deadline=now + min(left, _LOOK), shield=True) as scope:
            try:
                await op
            except KeyboardInterrupt as exc:
                held.hold(exc)
            except cancelled as exc:
                if scope.cancel_called:
                    raise
                held.hold(exc)
            except Exception:
                pass
    if interruption is None:
        held.release()
    return op.done


def silent_failure(native: NativeError) -> AiocannError | None:
    """Make the failure of a command without an op, for one that only followed."""
    if not native.cause_code:
        return None
    cause = NativeError(
        native.cause_code, native.cause_detail, is_fault=native.cause_is_fault
    )
    return error_for(cause, op=native.cause_kind)
