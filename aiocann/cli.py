"""The ``aiocann`` command."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio

import aiocann
from aiocann import AiocannError, Runtime, SimulatorWarning, open_runtime
from aiocann.doctor import examine
from aiocann.home import CANN_VERSIONS, make_home

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="aiocann", description="Drive Ascend NPUs from asyncio and trio."
    )
    parser.add_argument(
        "--version", action="version", version=f"aiocann {aiocann.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("info", "show the driver and its devices"),
        ("doctor", "find out what works; the exit status is 1 if something does not"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--json", action="store_true", help="as JSON")
        command.add_argument(
            "--driver", choices=("auto", "cann", "sim"), help="default: AIOCANN_DRIVER"
        )
        command.add_argument("--devices", type=int, metavar="N", help="the first N")
    home = commands.add_parser(
        "sim-home",
        help="lay out a folder like a CANN installation, with the simulator behind it",
    )
    home.add_argument("folder", metavar="DIR")
    home.add_argument(
        "--cann", choices=tuple(CANN_VERSIONS), default="9.1", help="(9.1)"
    )
    options = parser.parse_args(argv)
    if options.command == "sim-home":
        return _make_home(options.folder, options.cann)
    if options.command == "doctor":
        return _doctor(options.driver, options.devices, as_json=options.json)
    try:
        found = anyio.run(_collect, options.driver, options.devices)
    except (AiocannError, ValueError) as exc:
        print(f"aiocann: {exc}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    return 0


def _make_home(folder: str, cann: str) -> int:
    try:
        root = make_home(folder, cann)
    except (AiocannError, OSError) as exc:
        print(f"aiocann: {exc}", file=sys.stderr)
        return 1
    print(f"CANN {CANN_VERSIONS[cann].name}, simulated: {root}")
    print(f"  source {root / 'set_env.sh'}")
    print("  link with -I include -L lib64 -lascendcl -lnnopbase -lopapi")
    return 0


def _doctor(driver: str | None, devices: int | None, *, as_json: bool) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatorWarning)  # it is one of the checks
        checks = anyio.run(examine, driver, devices)
    is_well = all(check.state != "failed" for check in checks)
    if as_json:
        found = {"ok": is_well, "checks": [asdict(check) for check in checks]}
        print(json.dumps(found, indent=2))
    else:
        _print_table(
            ["check", "", "found"],
            [[check.name, check.state, check.detail] for check in checks],
        )
    return 0 if is_well else 1


async def _collect(driver: str | None, devices: int | None) -> dict[str, Any]:
    with warnings.catch_warnings():
        # The output names the driver.
        warnings.simplefilter("ignore", SimulatorWarning)
        opening = open_runtime(driver, devices)
        runtime = await opening.__aenter__()
    try:
        return await _describe(runtime)
    finally:
        await opening.__aexit__(None, None, None)


async def _describe(runtime: Runtime) -> dict[str, Any]:
    devices = []
    for device in runtime.devices:
        memory = await device.memory_info()
        peers = [
            other.index
            for other in runtime.devices
            if other is not device and device.can_access_peer(other)
        ]
        devices.append(
            {
                "index": device.index,
                "physical_id": device.physical_id,
                "soc": device.soc_name,
                "memory_free": memory.free,
                "memory_total": memory.total,
                "peers": peers,
                "poisoned": device.poisoned,
            }
        )
    return {
        "aiocann": aiocann.__version__,
        "driver": runtime.driver,
        "library": runtime.library,
        "acl": runtime.version,
        "devices": devices,
        "unavailable": [
            {"index": one.index, "reason": str(one.error)}
            for one in runtime.unavailable
        ],
    }


def _show(found: dict[str, Any]) -> None:
    head = f"aiocann {found['aiocann']} · driver {found['driver']} · ACL {found['acl']}"
    print(head)
    print(found["library"])
    columns = ["device", "physical", "SoC", "memory free", "of", "peers"]
    rows = [
        [
            str(device["index"]),
            str(device["physical_id"]) if device["physical_id"] >= 0 else "-",
            device["soc"] + (" (faulted)" if device["poisoned"] else ""),
            _gib(device["memory_free"]),
            _gib(device["memory_total"]),
            ", ".join(map(str, device["peers"])) or "none",
        ]
        for device in found["devices"]
    ]
    _print_table(columns, rows)
    for one in found["unavailable"]:
        print(f"device {one['index']} is not available: {one['reason']}")


def _gib(nbytes: int) -> str:
    return f"{nbytes / 2**30:.1f} GiB"


def _print_table(columns: list[str], rows: list[list[str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            line = "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            print(line.rstrip())
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
