#!/usr/bin/env python3
"""Write aiocann/_codes.py from native/acl/abi/acl_enums.tsv.

Run it after the table changed; tests/unit/test_codes.py fails until then.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "native" / "acl" / "abi" / "acl_enums.tsv"
MODULE = ROOT / "aiocann" / "_codes.py"

HEADER = '''"""Names of ACL's status codes; by scripts/gen_codes.py: do not edit."""

from __future__ import annotations

'''


def render(table: str) -> str:
    """Return the module's text for the text of the table."""
    names: dict[int, str] = {}
    for line in table.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        group, name, value = line.split("\t")[:3]
        if group == "const" and name.startswith(("ACL_ERROR_", "ACLNN_ERR_")):
            code = int(value, 0)
            if code > 0:
                names.setdefault(code, name)
    rows = "".join(f'    {code}: "{name}",\n' for code, name in sorted(names.items()))
    return f"{HEADER}CODE_NAMES: dict[int, str] = {{\n{rows}}}\n"


if __name__ == "__main__":
    MODULE.write_text(render(TABLE.read_text()))
