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


def here() -> Site | None:
    """Return the innermost frame outside aiocann; None when there is none."""
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
