"""``ASCEND_RT_VISIBLE_DEVICES``: what is wrong with it.

The driver uses such a list up to the first wrong entry, or not at all, without a word.
So it is read here too, to say what the driver will not.
"""

from __future__ import annotations

import itertools
import os

__all__ = ["trouble_with", "visible_devices", "visible_ids"]

_NAME = "ASCEND_RT_VISIBLE_DEVICES"


def visible_devices() -> str | None:
    """Return the variable; None where it is not set."""
    return os.environ.get(_NAME)


def visible_ids(visible: str | None) -> list[int] | None:
    """Return the ids of a list that is well formed; None otherwise, or without one."""
    if visible is None or trouble_with(visible):
        return None
    return [int(entry) for entry in visible.split(",")]


def trouble_with(visible: str | None) -> str:
    """Say what is wrong with a value of it; "" if nothing is."""
    if visible is None:
        return ""
    told = f"{_NAME} is {visible!r}"
    if not visible.strip():
        return f"{told}, which hides every device: unset it to see all of them"
    entries = [entry.strip() for entry in visible.split(",")]
    for entry in entries:
        if not (entry.isascii() and entry.isdigit()):
            return f"{told}, but {entry!r} is no device id: write them as in 0,1,2"
    for before, after in itertools.pairwise(map(int, entries)):
        if after == before:
            return f"{told}, which names device {after} twice: name each once"
        if after < before:
            return f"{told}, but ids must be strictly ascending: sort them"
    return ""
