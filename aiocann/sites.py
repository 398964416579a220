"""Which line of the user's program made a call: cheap to note, resolved if asked.

A site is a code object and an instruction offset. Taking one costs a walk over our
own frames; turning it into ``file:line in function`` waits for an error or a listing.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import CodeType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Several times faster than calling the class.
_new = tuple.__new__
# Whether a file is ours, by the file name that code objects share.
_ours: dict[str, bool] = {}


class Site(NamedTuple):
    """A line of the user's program."""

    code: CodeType
    lasti: int

    def __str__(self) -> str:
        """Return ``file:line in function``."""
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.lasti < end and number is not None:
                line = number
                break
        name = getattr(self.code, "co_qualname", self.code.co_name)
        return f"{self.code.co_filename}:{line} in {name}"


class Stack(NamedTuple):
    """A line of the user's program, and how it got there: debug mode."""

    sites: tuple[Site, ...]

    def __str__(self) -> str:
        """Return the lines, the innermost first."""
        return ", called from ".join(map(str, self.sites))


#: Whether debug mode is on.
is_debugging = False
_DEEPEST = 16


def here() -> Site | Stack | None:
    """Return the innermost frame outside aiocann; None when there is none."""
    if is_debugging:
        return _stack()
    frame = sys._getframe(1)  # noqa: SLF001 - the only cheap way
    while True:
        code = frame.f_code
        name = code.co_filename
        ours = _ours.get(name)
        if ours is None:
            ours = _ours[name] = name.startswith(_PACKAGE)
        if not ours:
            return _new(Site, (code, frame.f_lasti))
        back = frame.f_back
        if back is None:
            return None
        frame = back


def _stack() -> Stack | None:
    frame = sys._getframe(2)  # noqa: SLF001 - as above
    sites: list[Site] = []
    while frame is not None and len(sites) < _DEEPEST:  # type: ignore[redundant-expr]
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            sites.append(Site(frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
    return Stack(tuple(sites)) if sites else None
