"""Waiting without sleeping."""

from __future__ import annotations

from collections.abc import Callable

import anyio


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Give other tasks turns until `condition()` holds."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.lowlevel.checkpoint()
