"""The logger ``aiocann``: every line names the driver, every record has the fields.

The fields are ``driver``, ``device``, ``stream`` and ``op``; None where they mean
nothing. So a formatter may use ``%(driver)s``, and a handler that writes JSON finds
them as attributes.
"""

from __future__ import annotations

import logging

__all__ = ["log", "set_driver"]

log = logging.getLogger("aiocann")
_driver: str | None = None


def set_driver(name: str) -> None:
    """Say which driver the process runs on, from now on."""
    global _driver
    _driver = name


def _complete(record: logging.LogRecord) -> bool:
    if not hasattr(record, "driver"):
        record.driver = _driver
        record.msg = f"[{_driver or 'no driver'}] {record.msg}"
    for field in ("device", "stream", "op"):
        if not hasattr(record, field):
            setattr(record, field, None)
    return True


log.addFilter(_complete)
