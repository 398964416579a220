"""``ASCEND_RT_VISIBLE_DEVICES`` of every wrong kind, and of the right one."""

from __future__ import annotations

import json

import pytest

from aiocann.visible import trouble_with, visible_ids
from helpers.programs import printed, run

OPEN = """
import json, logging, sys, anyio, aiocann
lines = []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("aiocann").addHandler(Keep())
async def main():
    found = {}
    try:
        async with aiocann.open_runtime(sys.argv[1]) as rt:
            found["physical"] = [d.physical_id for d in rt.devices]
            found["index"] = [d.index for d in rt.devices]
            found["unavailable"] = {one.index: str(one.error) for one in rt.unavailable}
            for d in rt.devices:
                await d.memory_info()
            try:
                rt.device(len(rt.devices))
            except aiocann.UsageError as exc:
                found["beyond"] = str(exc)
    except aiocann.AiocannError as exc:
        found["error"] = f"{type(exc).__name__}: {exc}"
    found["log"] = "\\n".join(lines)
    print(json.dumps(found))
anyio.run(main)
"""


@pytest.mark.parametrize(
    ("visible", "word"),
    [
        ("", "hides every device"),
        ("  ", "hides every device"),
        (",", "no device id"),
        ("0,,1", "no device id"),
        ("0,1,", "no device id"),
        ("a", "'a' is no device id"),
        ("0,1.5", "'1.5' is no device id"),
        ("-1", "'-1' is no device id"),
        ("0;1", "'0;1' is no device id"),
        ("0x1", "'0x1' is no device id"),
        ("٣", "no device id"),
        ("0,0", "device 0 twice"),
        ("1,0", "strictly ascending"),
        ("0,2,1", "strictly ascending"),
    ],
)
def test_lists_that_are_wrong_are_told(visible: str, word: str) -> None:
    assert word in trouble_with(visible)
    assert repr(visible) in trouble_with(visible)
    assert visible_ids(visible) is None


def test_lists_that_are_right() -> None:
    assert trouble_with(None) == ""
    assert visible_ids(None) is None
    assert trouble_with("0, 2,5") == ""
    assert visible_ids("0, 2,5") == [0, 2, 5]


@pytest.mark.parametrize(
    ("visible", "word"),
    [
        ("", "hides every device"),
        ("1,0", "strictly ascending"),
        ("0,0", "twice"),
        ("two", "no device id"),
    ],
)
def test_opening_says_what_is_wrong_with_the_list(visible: str, word: str) -> None:
    out = printed(
        OPEN, "sim", ASCEND_RT_VISIBLE_DEVICES=visible, AIOCANN_SIM_DEVICES="8"
    )
    found = json.loads(out)
    assert word in found.get("error", "") + found["log"], found


def test_logical_ids_count_what_is_visible() -> None:
    found = json.loads(
        printed(
            OPEN, "sim", ASCEND_RT_VISIBLE_DEVICES="0,1,2,5", AIOCANN_SIM_DEVICES="8"
        )
    )
    assert found["physical"] == [0, 1, 2, 5]
    assert found["index"] == [0, 1, 2, 3]
    assert "open are 0, 1, 2, 3" in found["beyond"]
    assert found["unavailable"] == {}


def test_ids_that_do_not_exist_are_listed() -> None:
    found = json.loads(
        printed(OPEN, "sim", ASCEND_RT_VISIBLE_DEVICES="0,7", AIOCANN_SIM_DEVICES="2")
    )
    assert found["physical"] == [0]
    assert "no device 7" in found["unavailable"]["1"]
    assert "no device 7" in found["log"]


def test_the_doctor_names_it() -> None:
    source = "import sys; from aiocann.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run(
        source,
        *("doctor", "--driver", "sim", "--json"),
        ASCEND_RT_VISIBLE_DEVICES="1,0",
        AIOCANN_SIM_DEVICES="2",
    )
    assert done.returncode == 1
    found = json.loads(done.stdout)
    (check,) = [c for c in found["checks"] if c["name"] == "visible devices"]
    assert "strictly ascending" in check["detail"]
