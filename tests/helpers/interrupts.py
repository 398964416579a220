"""Ctrl-C wherever the interpreter looks for it, one place after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import aiocann

_PACKAGE = str(Path(aiocann.__file__).parent)
# After these, signals are handled.
_LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "FOR_ITER")


def interrupted_at(n: int, fn: Callable[[], Any]) -> bool:
    """Call `fn`, with ctrl-C at the nth place in aiocann's code that it comes by.

    Returns whether it came that far.
    """
    left = n
    reached = False
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, reached
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not reached:
            before = last.get(frame)
            last[frame] = frame.f_lasti
            if before is None or _looks(frame, before):
                left -= 1
                if left < 0:
                    last.clear()
                    reached = True
                    raise KeyboardInterrupt
        return trace

    other = sys.gettrace()
    # CPython 3.12.1 tells of opcodes only if a frame had asked when tracing began.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        fn()
    except KeyboardInterrupt:
        assert reached
    finally:
        last.clear()
        sys.settrace(other)
    return reached


def _looks(frame: FrameType, at: int) -> bool:
    return dis.opname[frame.f_code.co_code[at]].startswith(_LOOKS)
