"""``aiocann doctor``: what was found, whether it works, what to do if it does not."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np

from aiocann.errors import AiocannError
from aiocann.native import __version__
from aiocann.opening import open_runtime
from aiocann.visible import trouble_with, visible_devices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiocann.device import Device
    from aiocann.runtime import Runtime

__all__ = ["Check", "examine"]

_NODES = ("/dev/davinci*", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_VARIABLES = (
    "AIOCANN_DRIVER",
    "AIOCANN_CANN_PATH",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_HOME_PATH",
    "LD_LIBRARY_PATH",
)
_TEST_BYTES = 8 << 20
_SECONDS = 30


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    #: "ok", "warning" or "failed".
    state: str
    detail: str


async def examine(driver: str | None, devices: int | None) -> list[Check]:
    """Look at the machine, open the driver, and try every device."""
    checks = [Check("aiocann", "ok", f"{__version__}, Python {sys.version.split()[0]}")]
    checks += _environment()
    checks += _nodes()
    opening = open_runtime(driver, devices, close_timeout=_SECONDS)
    try:
        runtime = await opening.__aenter__()
    except (AiocannError, ValueError, TypeError) as exc:
        checks.append(Check("driver", "failed", str(exc)))
        return checks
    try:
        checks += await _try_runtime(runtime)
    finally:
        await opening.__aexit__(None, None, None)
    return checks


def _environment() -> list[Check]:
    found = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    checks = [Check("environment", "ok", "; ".join(found) or "nothing is set")]
    trouble = trouble_with(visible_devices())
    if trouble:
        checks.append(Check("visible devices", "failed", trouble))
    return checks


def _nodes() -> list[Check]:
    found = sorted({path for pattern in _NODES for path in glob.glob(pattern)})
    if not found:
        return [Check("device nodes", "ok", "no /dev/davinci*: this host has no NPU")]
    refused = [path for path in found if not os.access(path, os.R_OK | os.W_OK)]
    if refused:
        return [
            Check(
                "device nodes",
                "failed",
                f"no permission for {', '.join(refused)}: the user must be of their "
                "group (HwHiAiUser)",
            )
        ]
    return [Check("device nodes", "ok", ", ".join(found))]


async def _try_runtime(runtime: Runtime) -> list[Check]:
    checks = [
        Check("driver", "ok", f"{runtime.driver}: {runtime.library}"),
        Check("ACL", "ok", runtime.version),
    ]
    if runtime.driver == "sim":
        detail = "this is the simulator: nothing here says that an NPU works"
        checks.append(Check("hardware", "warning", detail))
    checks += [
        Check(f"device {one.index}", "failed", str(one.error))
        for one in runtime.unavailable
    ]
    await _try(checks, "pinned memory", lambda: _pinned(runtime))
    for device in runtime.devices:
        await _try(checks, f"device {device.index}", lambda d=device: _about(d))  # type: ignore[misc]
        await _try(
            checks,
            f"copies {device.index}",
            lambda d=device: _copies(runtime, d),  # type: ignore[misc]
        )
    for source in runtime.devices:
        for target in runtime.devices:
            if source is not target:
                await _try(
                    checks,
                    f"copy {source.index} to {target.index}",
                    lambda s=source, t=target: _peer(s, t),  # type: ignore[misc]
                )
    return checks


async def _try(
    checks: list[Check], name: str, look: Callable[[], Awaitable[tuple[str, str]]]
) -> None:
    try:
        with anyio.fail_after(_SECONDS):
            checks.append(Check(name, *await look()))
    except TimeoutError:
        checks.append(Check(name, "failed", f"no answer within {_SECONDS} s"))
    except (AiocannError, MemoryError) as exc:
        checks.append(Check(name, "failed", str(exc)))


async def _pinned(runtime: Runtime) -> tuple[str, str]:
    array = await runtime.pinned_empty(_TEST_BYTES, np.uint8)
    array[:] = 7
    held = runtime.statistics().pinned_bytes
    if held < _TEST_BYTES:
        return "warning", "none was had: copies go through ordinary memory"
    return "ok", f"{_TEST_BYTES >> 20} MiB"


async def _about(device: Device) -> tuple[str, str]:
    free, total = await device.memory_info()
    physical = "" if device.physical_id < 0 else f", physical {device.physical_id}"
    detail = f"{device.soc_name}{physical}, {free >> 20} of {total >> 20} MiB free"
    return ("failed" if device.poisoned else "ok"), detail


def _pattern(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, _TEST_BYTES, np.uint8)


async def _copies(runtime: Runtime, device: Device) -> tuple[str, str]:
    pattern = _pattern(device.index)
    pinned = await runtime.pinned_empty(_TEST_BYTES, np.uint8)
    pinned[:] = pattern
    one, other = [await device.allocate(_TEST_BYTES) for _ in range(2)]
    async with device.stream() as stream:
        for source in (pattern, pinned):
            back = np.zeros_like(pattern)
            stream.memset(other, 0, notify=False)
            stream.memcpy(one, source)
            stream.memcpy(other, one)
            await stream.memcpy(back, other)
            if not np.array_equal(back, pattern):
                return "failed", "what came back is not what was sent"
    return "ok", f"{_TEST_BYTES >> 20} MiB there and back, pinned and ordinary"


async def _peer(source: Device, target: Device) -> tuple[str, str]:
    pattern = _pattern(source.index)
    here = await source.allocate(_TEST_BYTES)
    there = await target.allocate(_TEST_BYTES)
    async with source.stream() as stream:
        stream.memcpy(here, pattern)
        op = stream.memcpy(there, here)
        await op
    back = np.zeros_like(pattern)
    async with target.stream() as stream:
        await stream.memcpy(back, there)
    if not np.array_equal(back, pattern):
        return "failed", f"wrong data by way of {op.path}: see npu-smi info -t topo"
    return "ok", op.path
