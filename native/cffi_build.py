"""Write the C source of the cffi module from the marked part of ``aiocann.h``.

Usage: ``cffi_build.py OUTPUT.c``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

HEADER = Path(__file__).resolve().parent / "include" / "aiocann.h"


def cdef() -> str:
    """Return the declarations between the two markers."""
    text = HEADER.read_text(encoding="utf-8")
    _, _, rest = text.partition("/* cdef-begin */")
    declarations, marker, _ = rest.partition("/* cdef-end */")
    if not marker:
        sys.exit(f"{HEADER} lacks its cdef markers")
    return declarations


def main() -> None:
    """Write the source to the path of the command line."""
    builder = FFI()
    builder.cdef(cdef())
    builder.set_source("aiocann._cffi", '#include "aiocann.h"')
    builder.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
