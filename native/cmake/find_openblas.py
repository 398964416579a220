"""Print ``LIBRARY;LICENCE``: the files of scipy-openblas32 that the build copies."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import scipy_openblas32


def library() -> Path:
    """Return the shared library, which must stand on its own."""
    folder = Path(scipy_openblas32.get_lib_dir())
    bundled = folder.parent.with_name("scipy_openblas32.libs")
    if bundled.is_dir():
        # Such a copy would not find its Fortran run time: no release that the
        # build requirement admits has one.
        sys.exit(f"this scipy-openblas32 needs the libraries in {bundled}: use 0.3.34+")
    return folder / f"lib{scipy_openblas32.get_library()}.so"


def licence() -> Path:
    """Return the licence file of the installed distribution."""
    for file in metadata.files("scipy-openblas32") or []:
        if file.name.upper().startswith("LICENSE"):
            return Path(str(file.locate()))
    sys.exit("scipy-openblas32 is installed without its licence file")


print(f"{library().resolve()};{licence().resolve()}")
