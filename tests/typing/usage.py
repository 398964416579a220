"""What type checkers must make of a program. Checked by tests/test_typing.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import aiocann
from aiocann import ops


async def program() -> None:
    async with aiocann.open_runtime("sim", devices=2) as rt:
        assert_type(rt, aiocann.Runtime)
        assert_type(rt.devices, list[aiocann.Device])
        assert_type(rt.statistics(), aiocann.Statistics)
        device, other = rt.devices
        assert_type(await rt.pinned_empty((3,), np.float32), NDArray[Any])
        buffer = await device.allocate(12)
        assert_type(buffer, aiocann.DeviceBuffer)
        assert_type(buffer[1:3], aiocann.DeviceBuffer)
        assert_type(device.allocate_nowait(12), aiocann.DeviceBuffer)
        assert_type(await device.memory_info(), aiocann.MemoryInfo)
        async with device.stream() as stream:
            assert_type(stream, aiocann.Stream)
            assert_type(stream.memset(buffer, 1), aiocann.Operation[None])
            assert_type(stream.memset(buffer, 1, notify=False), None)
            assert_type(stream.memcpy(buffer, b"x"), aiocann.Operation[None])
            assert_type(stream.memcpy(buffer, b"x", notify=False), None)
            assert_type(stream.record(), aiocann.Event)
            assert_type(await stream.host_call(len, b""), int)
            await stream.record()
            await stream.synchronize()
        assert_type(aiocann.current_stream(), aiocann.Stream | None)
        backend = other.backend()
        assert_type(backend, aiocann.Backend)
        x = await backend.empty((3, 4), aiocann.F32, name="x")
        assert_type(x, aiocann.Tensor)
        await backend.set_tensor_async(x, np.zeros((3, 4), np.float32), offset=0)
        y = ops.add(x, x)
        assert_type(y, aiocann.Tensor)
        await backend.graph_compute(aiocann.Graph([y]))
        assert_type(await backend.get_tensor_async(y), NDArray[Any])
        assert_type(backend.supports_op(y), bool)

        async def work(device: aiocann.Device, item: int) -> str:
            return f"{device.index} {item}"

        async with aiocann.DeviceGroup(rt.devices, max_in_flight=2) as group:
            group.start_soon(work, 3, device=device)
            async for result in group.map(work, [1, 2]):
                assert_type(result, str)
