"""Every code of ACL becomes the class that DESIGN.md promises, however it comes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import anyio
import pytest

import aiocann
from aiocann import (
    AclError,
    CaptureError,
    DeviceFaultError,
    DeviceMemoryError,
    DeviceTimeoutError,
    NumericOverflowError,
    ResourceExhaustedError,
    UnsupportedError,
    UsageError,
)
from aiocann._codes import CODE_NAMES, FAULT_CODES

# By what the names of the codes say. The first that matches counts.
RULES: tuple[tuple[str, type[AclError]], ...] = (
    (r"CAPTUR|STREAM_UNJOINED|TASK_GROUP|MODEL_RUNNING", CaptureError),
    (r"MODEL_UPDATE_FAILED|INSUFFICIENT_INPUT_ARRAY", CaptureError),
    (r"UNSUPPORTED|NOT_SUPPORT|STUB_MODE|FIND_KERNEL", UnsupportedError),
    (r"OPP_PATH_NOT_FOUND|OPP_KERNEL_PKG_NOT_FOUND", UnsupportedError),
    (r"OVER_FLOW$", NumericOverflowError),
    (r"BAD_ALLOC|RT_MEMORY_ALLOCATION|RT_DEVICE_OOM", DeviceMemoryError),
    (r"HOST_MEMORY_(ALREADY|NOT)_REGISTERED", UsageError),
    (r"RT_MEMORY_FREE|INVALID_DEVICE$|ADDRESS_UNALIGNED", UsageError),
    (r"RESOURCE_NOT_MATCH|INVALID_RESOURCE_HANDLE", UsageError),
    # A core that hangs is a fault; that nobody waited any longer is not.
    (r"(CORE|CPU|FFTS_PLUS|CCU)_TIMEOUT", DeviceFaultError),
    (r"TIMEOUT$", DeviceTimeoutError),
    (r"STREAM_TASK_FULL|OVER_LIMIT", ResourceExhaustedError),
    (r"(CORE|CPU|FFTS_PLUS|CCU)_(TRAP_)?EXCEPTION", DeviceFaultError),
    (r"TRAP_(READ|WRITE)_OVERFLOW", DeviceFaultError),
    (r"TASK_ABORT|STREAM_ABORT|LOST_HEARTBEAT|SYS_DMA", DeviceFaultError),
    (r"RT_TS_ERROR|RT_MODEL_EXECUTE|SEND_MSG|COPY_DATA", DeviceFaultError),
    (r"DEVICE_MEM_ERROR|ECC_ERROR|LINK_ERROR|L3_PORT_ERROR", DeviceFaultError),
    (r"REMOTE_ERROR|COMM_OP_RETRY_FAIL", DeviceFaultError),
    (r"RT_(DRV|AICPU)_INTERNAL_ERROR", DeviceFaultError),
)
FAMILIES: dict[int, type[AclError]] = {
    1: UsageError,
    2: ResourceExhaustedError,
    3: ResourceExhaustedError,
}
LOST = {507010, 507033, 507053, 507054, 507055, 507056, 507899, 507914}


def expected(code: int) -> type[AclError]:
    name = CODE_NAMES[code]
    if name == "ACLNN_ERR_RUNTIME_ERROR":
        return AclError
    for pattern, cls in RULES:
        if re.search(pattern, name):
            return cls
    return FAMILIES.get(code // 100000, AclError)


@pytest.mark.parametrize("kind", ["call", "fault"])
def test_every_code_of_the_table(kind: str) -> None:
    # An overflow, or the end of somebody's patience, comes from running work too.
    running = {c for c in CODE_NAMES if expected(c) is NumericOverflowError}
    running |= FAULT_CODES | {107019, 107020}
    codes = sorted(CODE_NAMES if kind == "call" else running)
    wrong = {
        code: f"{type(exc).__name__}: {exc}"
        for code, exc in zip(codes, anyio.run(failures, kind, codes), strict=True)
        if type(exc) is not expected(code)
        or (exc.code, exc.code_name) != (code, CODE_NAMES[code])
        or (isinstance(exc, DeviceFaultError) and exc.is_device_lost != (code in LOST))
        or (kind == "call" and exc.call != "aclrtMemsetAsync")
    }
    assert wrong == {}


async def failures(kind: str, codes: Iterable[int]) -> list[Any]:
    """Let a fill fail with each of the codes: the call, or the work on the device."""
    found: list[Any] = []
    async with aiocann.open_runtime("sim", 1) as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        for code in codes:
            async with device.stream() as stream:
                if kind == "call":
                    aiocann.sim.fail_call("aclrtMemsetAsync", code)
                else:
                    aiocann.sim.fail_copy("memset", code)
                op = stream.memset(buffer, 1)
                with pytest.raises(AclError):
                    await op
                found.append(op.exception())
                aiocann.sim.clear_faults()
    return found
