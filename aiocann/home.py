"""Lay out a folder like a CANN installation, with the simulator behind its libraries.

A program that is compiled against CANN links and runs with it::

    aiocann sim-home cann
    gcc program.c -I cann/include -L cann/lib64 -lascendcl -lnnopbase -lopapi
    source cann/set_env.sh && ./a.out

Each library is a thin one that forwards to the one simulator of the process; the path
of that is written into it, so the folder works only where aiocann stays installed.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

from aiocann.errors import LibraryError, UsageError
from aiocann.native import sim_library

__all__ = ["CANN_VERSIONS", "make_home"]


class CannVersion(NamedTuple):
    """How a version of CANN calls itself."""

    #: As programs read it, e.g. "8.1.RC1".
    name: str
    #: Where the packages' ``version.info`` files lie.
    info: str


#: What the simulator plays; the newest comes last.
CANN_VERSIONS = {
    "8.1": CannVersion("8.1.RC1", "{package}/version.info"),
    "9.1": CannVersion("9.1.0", "share/info/{package}/version.info"),
}
_PACKAGES = ("runtime", "compiler", "opp", "toolkit")
# As native/sim/home/forward.c has them: the text, then the room that it has.
_PATH_MARK = (b"@aiocann-simulator@", 4096)
_CANN_MARK = (b"@aiocann-cann@", 64)
_SET_ENV = """\
# Source this file: programs that are linked with CANN then find the simulator.
ASCEND_TOOLKIT_HOME="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)"
export ASCEND_TOOLKIT_HOME
export ASCEND_HOME_PATH="$ASCEND_TOOLKIT_HOME"
export ASCEND_OPP_PATH="$ASCEND_TOOLKIT_HOME/opp"
export LD_LIBRARY_PATH="$ASCEND_TOOLKIT_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"""
_HEADERS = (
    *("acl/acl.h", "acl/acl_base.h", "acl/acl_base_rt.h", "acl/acl_rt.h"),
    *("acl/acl_rt_allocator.h", "acl/acl_mdl.h", "acl/acl_op.h"),
    *("acl/error_codes/rt_error_codes.h", "aclnn/acl_meta.h", "aclnn/aclnn_base.h"),
    *("aclnnop/aclnn_ops_math.h", "aclnnop/aclnn_ops_nn.h"),
    *("aclnnop/aclnn_ops_cv.h", "aclnnop/aclnn_ops_transformer.h"),
)


def make_home(folder: str | os.PathLike[str], cann: str = "9.1") -> Path:
    """Make `folder` look like an installation of CANN, played by the simulator.

    What is there of an earlier run is replaced; other files are left alone.

    Parameters
    ----------
    folder
        Where to; made if need be.
    cann
        Which CANN: a key of `CANN_VERSIONS`. Programs then run as with
        ``AIOCANN_SIM_CANN`` set to it, where that is not set otherwise.

    Returns
    -------
    Path
        The folder, absolute.

    Raises
    ------
    UsageError
        `cann` is not one that the simulator plays, or `folder` is a file.
    LibraryError
        The simulator or its forwarding libraries are not installed.
    """
    if cann not in CANN_VERSIONS:
        known = ", ".join(CANN_VERSIONS)
        raise UsageError(f"CANN {cann!r} is not one that the simulator plays: {known}")
    root = Path(folder).absolute()
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is not a folder")
    simulator = Path(sim_library()).absolute()
    libraries = sorted((simulator.parent / "home").glob("lib*.so"))
    if not simulator.is_file() or not libraries:
        raise LibraryError(
            f"the simulator and its forwarding libraries were not found in "
            f"{simulator.parent}: reinstall aiocann"
        )
    version = CANN_VERSIONS[cann]
    arch = f"{platform.machine()}-linux"
    lib64 = root / "lib64"
    lib64.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        image = _stamp(library.read_bytes(), _PATH_MARK, os.fsencode(simulator))
        _replace(lib64 / library.name, _stamp(image, _CANN_MARK, cann.encode()))
    for package in _PACKAGES:
        _write(
            root / version.info.format(package=package),
            f"Version={version.name}\nversion_dir={version.name}\n",
        )
    _write(
        root / arch / "ascend_toolkit_install.info",
        f"package_name=Ascend-cann-toolkit\nversion={version.name}\n"
        f"arch={platform.machine()}\nos=linux\npath={root / arch}\n",
    )
    _write(
        root / "version.cfg",
        "".join(
            f"{package}_running_version=[{version.name}:{version.name}]\n"
            for package in _PACKAGES
        ),
    )
    _link(root / arch / "lib64", lib64)
    _write(root / "set_env.sh", _SET_ENV)
    _write_headers(root / "include", simulator.parent / "home")
    _link(root / arch / "include", root / "include")
    return root


def _stamp(image: bytes, mark: tuple[bytes, int], value: bytes) -> bytes:
    """Put `value` where the mark is, filled up with zeros."""
    text, room = mark
    if len(value) >= room:
        raise UsageError(f"{os.fsdecode(value)} is too long a path")
    at = image.find(text + b"\0")
    assert at >= 0, "the forwarding libraries are of another version"
    return image[:at] + value.ljust(room, b"\0") + image[at + room :]


def _replace(path: Path, content: bytes) -> None:
    """Write a file that programs may have open: they keep the old one."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.chmod(0o755)
    new.replace(path)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(os.path.relpath(target, path.parent))


def _write_headers(include: Path, source: Path) -> None:
    """Write CANN's header names, each of which brings in the one that we have."""
    header = (source / "acl_abi.h").read_text(encoding="utf-8")
    _write(include / "acl_abi.h", header)
    names = set(re.findall(r"\baclnn(?:Inplace)?([A-Z]\w*?)GetWorkspaceSize\(", header))
    operators = {f"aclnnop/aclnn_{_snake_case(name)}.h" for name in names}
    for name in sorted({*_HEADERS, *operators}):
        up = "../" * name.count("/")
        _write(include / name, f'#pragma once\n#include "{up}acl_abi.h"\n')


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
