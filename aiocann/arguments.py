"""Checks of arguments whose failure would otherwise be said in C's words."""

from __future__ import annotations

import operator
from typing import Any

from aiocann.errors import usage

__all__ = ["LARGEST", "require_int", "require_number"]

#: What sizes and offsets may be at most.
LARGEST = 2**63 - 1


def require_int(value: Any, what: str, low: int = 0, high: int = LARGEST) -> int:
    """Return `value` as an int.

    Raises
    ------
    TypeError
        It is no whole number.
    UsageError
        It is not from `low` to `high`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{what} must be a whole number, not {value!r} ({type(value).__name__})"
        ) from None
    if not low <= number <= high:
        raise usage(f"{what} must be from {low} to {high}, not {number}")
    return number


def require_number(value: Any, what: str) -> float:
    """Return `value`, a number of seconds that is not negative, as a float."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{what} is a number of seconds, not {value!r}") from None
    if not number >= 0:
        raise usage(f"{what} is in seconds and cannot be {value!r}")
    return number
