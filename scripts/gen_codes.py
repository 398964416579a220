#!/usr/bin/env python3
"""Write aiocann/_codes.py from acl_enums.tsv and acl_faults.tsv of native/acl/abi.

Run it after a table changed; tests/unit/test_errors.py fails until then.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABI = ROOT / "native" / "acl" / "abi"
MODULE = ROOT / "aiocann" / "_codes.py"

HEADER = '''"""Codes and formats of ACL; by scripts/gen_codes.py: do not edit."""

from __future__ import annotations

'''


def rows(table: str) -> list[list[str]]:
    """Return the rows of a table, comments left out."""
    text = (ABI / f"{table}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]


def render() -> str:
    """Return the module's text."""
    names: dict[int, str] = {}
    formats: dict[str, int] = {}
    for group, name, value in rows("acl_enums"):
        if group == "aclFormat" and int(value) >= 0:
            formats[name.removeprefix("ACL_FORMAT_")] = int(value)
        if group == "const" and name.startswith(("ACL_ERROR_", "ACLNN_ERR_")):
            code = int(value, 0)
            if code > 0:
                names.setdefault(code, name)
    faults = {row[0] for row in rows("acl_faults")}
    named = sorted(names.items())
    return (
        HEADER
        + "CODE_NAMES: dict[int, str] = {\n"
        + "".join(f'    {code}: "{name}",\n' for code, name in named)
        + "}\n\n# The device has failed, at some work or altogether.\n"
        + "FAULT_CODES = frozenset(\n    {\n"
        + "".join(f"        {code},\n" for code, name in named if name in faults)
        + "    }\n)\n\n# As aclFormat has them.\nFORMATS: dict[str, int] = {\n"
        + "".join(f'    "{name}": {value},\n' for name, value in formats.items())
        + "}\n"
    )


if __name__ == "__main__":
    MODULE.write_text(render(), encoding="utf-8")
