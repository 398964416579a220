"""Each row of the table of what ACL promises names checks that exist and are run."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent
TABLE = TESTS / "native" / "acl_semantics.tsv"


def rows() -> list[list[str]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@cache
def is_run(place: str, case: str) -> bool:
    """Whether the case is defined in its program, and used there."""
    if place.endswith(".py"):
        text = (TESTS.parent / place).read_text(encoding="utf-8")
        return re.search(rf"^(async )?def {case}\(", text, re.MULTILINE) is not None
    text = (TESTS / "native" / f"{place}.cpp").read_text(encoding="utf-8")
    if case == "main":
        return "int main(" in text
    defined = re.search(rf"^void {case}\(", text, re.MULTILINE) is not None
    return defined and len(re.findall(rf"\b{case}\b", text)) > 1


def test_each_promise_has_a_check_or_a_reason() -> None:
    missing = []
    for row, promise, checks in rows():
        assert promise, row
        if checks.startswith("- "):
            continue
        for check in checks.split(","):
            place, case = check.split(":")
            if not is_run(place, case):
                missing.append((row, check))
    assert missing == []


def test_rows_are_named_once_and_complete() -> None:
    names = Counter(row[0] for row in rows())
    assert [name for name, times in names.items() if times > 1] == []
    assert {f"9.{trap}" for trap in range(1, 26)} <= names.keys()
    sections = Counter(name.split(".")[0] for name in names)
    assert set(sections) == {str(number) for number in range(1, 11)}
    assert sum(sections.values()) > 150
