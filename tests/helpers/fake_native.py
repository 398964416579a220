"""A scripted native half: ops that settle when the test says so.

It stands in for the functions that reactors and `aiocann.completion` call, and
keeps to the rules of ``aiocann.h``: each op is delivered once to its home, and once to
each loop that watches it; an eventfd is written only while its loop is armed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiocann import asyncio_reactor, completion, loops, reactor, trio_reactor
from aiocann.ledger import in_flight
from aiocann.native import NULL, ffi


class FakeLoop:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.ids: list[int] = []
        self.armed = fd >= 0
        self.wakes = 0
        self.heir: FakeLoop | None = None
        self.closed = False


class FakeOp:
    def __init__(self, op_id: int, home: FakeLoop | None) -> None:
        self.id = op_id
        self.home = home
        self.state = 0
        self.watchers: list[FakeLoop] = []
        self.abandoned = 0
        self.released = False
        self.error: Any = NULL


class FakeNative:
    """Implements the functions of ``aiocann.h`` that completions need."""

    first_op = 1 << 40

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loops: dict[int, FakeLoop] = {}
        self.ops: dict[int, FakeOp] = {}
        self.made: list[weakref.ref[completion.Operation[Any]]] = []
        self.next_loop = 1000
        # Never used twice, and far from the ids of a real native half.
        FakeNative.first_op += 1 << 20
        self.next_op = FakeNative.first_op

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (completion, reactor):
            monkeypatch.setattr(module, "lib", self)
        monkeypatch.setattr(reactor, "_loop_drain", self.aiocann_loop_drain)
        monkeypatch.setattr(completion, "_op_id", self.aiocann_op_id)
        monkeypatch.setattr(completion, "_op_state", self.aiocann_op_state)
        monkeypatch.setattr(completion, "_op_release", self.aiocann_op_release)
        orphans = reactor._Orphans()
        for module in (completion, loops, reactor):
            monkeypatch.setattr(module, "orphans", orphans)
        by_loop: dict[int, Any] = {}
        for module in (asyncio_reactor, loops):
            monkeypatch.setattr(module, "by_loop", by_loop)
        by_token: dict[Any, Any] = {}
        for module in (trio_reactor, loops):
            monkeypatch.setattr(module, "by_token", by_token)

    # ---- for tests -----------------------------------------------------------------

    def enqueue(self, kind: str = "test", **options: Any) -> completion.Operation[Any]:
        """Do what an enqueueing method does."""
        home, pointer = self._new_op()
        op: completion.Operation[Any] = completion.Operation(
            kind, pointer, home, **options
        )
        if home is reactor.orphans:
            reactor.orphans.adopt(op, pointer)
        self.made.append(weakref.ref(op))
        return op

    def host_call(self, fn: Callable[..., Any], *args: Any) -> completion.HostCall[Any]:
        """Do what `Stream.host_call` does."""
        home, pointer = self._new_op()
        stream: Any = SimpleNamespace(note_failed=lambda op: None)
        op: completion.HostCall[Any] = completion.HostCall(
            "host_call", pointer, home, (fn, args), stream
        )
        self.made.append(weakref.ref(op))
        return op

    def _new_op(self) -> tuple[reactor.Home, Any]:
        home = loops.current_home()
        with self.lock:
            self.next_op += 1
            op_id = self.next_op
            loop = None if home.loop == NULL else self.loops[_number(home.loop)]
            self.ops[op_id] = FakeOp(op_id, loop)
        return home, ffi.cast("aiocann_op *", op_id)

    def retire(self) -> None:
        """Keep what is left of its ops away from the real native half."""
        for ref in self.made:
            op = ref()
            if op is not None:
                op._pointer, op._state = NULL, op._state or 1
                in_flight.pop(op.id, None)

    def settle(self, op: completion.Operation[Any], *, error: Any = None) -> None:
        """Let an op settle; any thread."""
        with self.lock:
            fake = self.ops[op.id]
            assert fake.state == 0, "settled twice"
            if error is not None:
                fake.error, fake.state = error, 2
            else:
                fake.state = 1
            for loop in [*([fake.home] if fake.home else []), *fake.watchers]:
                self._push(loop, fake.id)

    def error(self, code: int, **values: Any) -> Any:
        """Make an ``aiocann_error``."""
        out = ffi.new("aiocann_error *")
        out.code, out.device, out.node = code, -1, -1
        for name, value in values.items():
            setattr(out, name, value)
        return out

    def _push(self, loop: FakeLoop, op_id: int) -> None:
        while loop.closed:
            if loop.heir is None:
                return
            loop = loop.heir
        loop.ids.append(op_id)
        if loop.armed:
            loop.armed = False
            loop.wakes += 1
            os.eventfd_write(loop.fd, 1)

    # ---- aiocann.h -----------------------------------------------------------------

    def aiocann_loop_create(self, fd: int) -> Any:
        with self.lock:
            self.next_loop += 1
            self.loops[self.next_loop] = FakeLoop(fd)
            return ffi.cast("aiocann_loop *", self.next_loop)

    def aiocann_loop_drain(self, loop: Any, ids: Any, most: int) -> int:
        with self.lock:
            fake = self.loops[_number(loop)]
            taken, fake.ids = fake.ids[:most], fake.ids[most:]
            for position, op_id in enumerate(taken):
                ids[position] = op_id
            if len(taken) < most and fake.fd >= 0:
                fake.armed = True
            return len(taken)

    def aiocann_loop_close(self, loop: Any, heir: Any) -> None:
        with self.lock:
            fake = self.loops[_number(loop)]
            fake.closed = True
            fake.armed = False
            fake.heir = None if heir == NULL else self.loops[_number(heir)]
            for op_id in fake.ids:
                self._push(fake, op_id)
            fake.ids = []

    def aiocann_loop_release(self, loop: Any) -> None:
        assert self.loops[_number(loop)].closed

    def aiocann_op_id(self, op: Any) -> int:
        return _number(op)

    def aiocann_op_state(self, op: Any) -> int:
        return self.ops[_number(op)].state

    def aiocann_op_watch(self, op: Any, loop: Any) -> int:
        with self.lock:
            fake = self.ops[_number(op)]
            if fake.state:
                return 1
            fake.watchers.append(self.loops[_number(loop)])
            return 0

    def aiocann_op_abandon(self, op: Any) -> None:
        fake = self.ops[_number(op)]
        if not fake.state:
            fake.abandoned = 1

    def aiocann_op_error(self, op: Any) -> Any:
        return self.ops[_number(op)].error

    def aiocann_op_path(self, op: Any) -> int:
        return 0

    def aiocann_op_timestamp_us(self, op: Any) -> int:
        return 0

    def aiocann_op_release(self, op: Any) -> None:
        fake = self.ops.get(_number(op))
        if fake is not None:
            assert not fake.released, "released twice"
            fake.released = True


def _number(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
