"""Copies: every place, both directions, what they refuse."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest

import aiocann
from aiocann import ClosedResourceError, UsageError, WouldBlock

pytestmark = pytest.mark.anyio


def pattern(nbytes: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


@pytest.mark.parametrize("nbytes", [1, 4097, 65536, 65537, (4 << 20) + 3, 21 << 20])
async def test_ordinary_memory_there_and_back(opened: Any, nbytes: int) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        source, target = pattern(nbytes), np.zeros(nbytes, np.uint8)
        buffer = await device.allocate(nbytes)
        async with device.stream() as stream:
            up = stream.memcpy(buffer, source)
            down = stream.memcpy(target, buffer)
            assert await up is None
            await down
        assert up.path == "staged"
        assert down.path == "staged"
        np.testing.assert_array_equal(target, source)


async def test_pinned_memory_is_copied_directly(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        source = await rt.pinned_empty((300, 1000), np.float32)
        assert source.shape == (300, 1000)
        assert source.dtype == np.float32
        assert source.ctypes.data % 64 == 0
        source[:] = np.arange(source.size, dtype=np.float32).reshape(source.shape)
        target = await rt.pinned_empty(source.shape, source.dtype)
        buffer = await device.allocate(source.nbytes)
        async with device.stream() as stream:
            up = stream.memcpy(buffer, source)
            # A part of a pinned array is pinned too.
            down = [
                stream.memcpy(target[100 * i : 100 * i + 100], view)
                for i, view in enumerate(
                    buffer[400_000 * i : 400_000 * i + 400_000] for i in range(3)
                )
            ]
            for op in (up, *down):
                await op
                assert op.path == "direct"
        np.testing.assert_array_equal(target, source)


async def test_views_of_buffers(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(100)
        assert len(buffer) == buffer.nbytes == 100
        assert buffer[10:20].address == buffer.address + 10
        assert buffer[10:20][2:5].address == buffer.address + 12
        assert buffer[-10:].nbytes == 10
        out = np.zeros(100, np.uint8)
        async with device.stream() as stream:
            stream.memset(buffer, 0, notify=False)
            stream.memset(buffer[20:30], 0x1AB, notify=False)
            stream.memcpy(buffer[50:52], b"\x01\x02", notify=False)
            await stream.memcpy(out, buffer)
        expected = np.zeros(100, np.uint8)
        expected[20:30] = 0xAB
        expected[50:52] = 1, 2
        np.testing.assert_array_equal(out, expected)
        for bad in (slice(0, 101), slice(60, 50), slice(-101, None)):
            with pytest.raises(UsageError, match="do not lie in a buffer of 100"):
                buffer[bad]
        with pytest.raises(UsageError, match="without gaps"):
            buffer[::2]
        with pytest.raises(TypeError):
            buffer[3]


async def test_every_kind_of_host_buffer(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(16)
        data = bytes(range(16))
        async with device.stream() as stream:
            for source in (data, bytearray(data), memoryview(data)):
                await stream.memset(buffer, 0)
                await stream.memcpy(buffer, source)
                target = bytearray(16)
                await stream.memcpy(target, buffer)
                assert target == data
                await stream.memcpy(memoryview(target)[:8], buffer[8:])
                assert target[:8] == data[8:]


async def test_host_to_host_in_stream_order(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(1 << 20)
        first, second = pattern(1 << 20), np.zeros(1 << 20, np.uint8)
        third = bytearray(1 << 20)
        async with device.stream() as stream:
            stream.memcpy(buffer, first)
            stream.memcpy(second, buffer)
            await stream.memcpy(third, second)
        np.testing.assert_array_equal(np.frombuffer(third, np.uint8), first)


async def test_bfloat16_arrays_are_copied_as_they_are(opened: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    async with opened() as rt:
        (device,) = rt.devices
        source = np.arange(64).astype(ml_dtypes.bfloat16).reshape(8, 8)
        target = np.zeros_like(source)
        buffer = await device.allocate(source.nbytes)
        async with device.stream() as stream:
            await stream.memcpy(buffer, source)
            await stream.memcpy(target, buffer)
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("peers", ["all", "none"])
async def test_between_devices(opened: Any, driver: str, peers: str) -> None:
    aiocann.sim.configure(peers=peers)
    try:
        async with opened(2) as rt:
            d0, d1 = rt.devices
            assert d0.can_access_peer(d1) is (peers == "all")
            nbytes = (9 << 20) + 5
            source, target = pattern(nbytes), np.zeros(nbytes, np.uint8)
            a, b, c = [await d.allocate(nbytes) for d in (d0, d1, d0)]
            async with d0.stream() as s, d1.stream() as t:
                s.memcpy(a, source)
                t.wait(s.record())
                over = t.memcpy(b, a)
                s.wait(t.record())
                back = s.memcpy(c, b)
                last = s.memcpy(target, c)
                for op in (over, back, last):
                    await op
            assert over.path == back.path == ("peer" if peers == "all" else "staged")
            np.testing.assert_array_equal(target, source)
    finally:
        aiocann.sim.configure(peers=None)


async def test_sizes_must_match(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(100)
        async with device.stream() as stream:
            for wrong in (np.zeros(99, np.uint8), np.zeros(101, np.uint8)):
                with pytest.raises(
                    UsageError, match="sizes differ: 100 bytes to write"
                ):
                    stream.memcpy(buffer, wrong)
                with pytest.raises(UsageError, match="100 to read"):
                    stream.memcpy(wrong, buffer)
            assert stream.idle


async def test_refuses_what_it_cannot_copy(opened: Any) -> None:
    async with opened(2) as rt:
        device, other = rt.devices
        buffer = await device.allocate(64)
        elsewhere = await other.allocate(64)
        grid = np.zeros((16, 16), np.uint8)
        frozen = np.zeros(64, np.uint8)
        frozen.flags.writeable = False
        async with device.stream() as stream:
            with pytest.raises(UsageError, match=r"not C-contiguous.*ascontiguous"):
                stream.memcpy(buffer, grid[:8, :8])
            with pytest.raises(UsageError, match="not C-contiguous"):
                stream.memcpy(buffer, np.asfortranarray(np.zeros((8, 8), np.uint8)))
            with pytest.raises(UsageError, match="read-only"):
                stream.memcpy(frozen, buffer)
            with pytest.raises(UsageError, match="read-only"):
                stream.memcpy(bytes(64), buffer)
            with pytest.raises(TypeError, match="no operand of a copy"):
                stream.memcpy(buffer, [1, 2, 3])
            objects = np.array([None] * 8, object)
            records = np.zeros(4, [("count", "i8"), ("name", object)])
            for pointers in (objects, records, memoryview(objects.data)):
                with pytest.raises(UsageError, match="holds Python objects"):
                    stream.memcpy(pointers, buffer)
            with pytest.raises(TypeError, match="no device memory"):
                stream.memset(grid, 0)
            with pytest.raises(UsageError, match=r"no operand is on device 0.*on dev"):
                stream.memcpy(elsewhere, np.zeros(64, np.uint8))
            with pytest.raises(UsageError, match="use a stream of the buffer's"):
                stream.memset(elsewhere, 0)


async def test_closed_buffer(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(1 << 20)
        view = buffer[:100]
        target = np.zeros(1 << 20, np.uint8)
        async with device.stream() as stream:
            await stream.memset(buffer, 7)
            op = stream.memcpy(target, buffer)
            buffer.close()
            buffer.close()
            with pytest.raises(ClosedResourceError, match="is closed: allocate"):
                stream.memcpy(target[:100], view)
            with pytest.raises(ClosedResourceError):
                _ = view.address
            await op  # was enqueued before: keeps the memory
        assert (target == 7).all()


async def test_without_notification(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        a, b = await device.allocate(1000), await device.allocate(1000)
        source, target = pattern(1000), np.zeros(1000, np.uint8)
        async with device.stream() as stream:
            assert stream.memcpy(a, source, notify=False) is None
            del source  # owned until it is copied, all the same
            assert stream.memcpy(b, a, notify=False) is None
            assert stream.wait(stream.record(), notify=False) is None
            await stream.memcpy(target, b)
        np.testing.assert_array_equal(target, pattern(1000))


async def test_allocation(opened: Any) -> None:
    async with opened(2) as rt:
        device, other = rt.devices
        for bad in (0, -5):
            with pytest.raises(UsageError, match="nbytes must be from 1"):
                device.allocate(bad)
        async with other.stream() as stream:
            with pytest.raises(UsageError, match="the stream is of device 1"):
                device.allocate(10, stream=stream)
        with pytest.raises(WouldBlock):
            device.allocate_nowait(1 << 30)
        (await device.allocate(1 << 20)).close()
        buffer = device.allocate_nowait(1 << 20)
        assert buffer.address % 64 == 0
        assert buffer.device is device
        info = await device.memory_info()
        assert 0 < info.free < info.total


async def test_memory_of_another_library(opened: Any) -> None:
    class Owner:
        pass

    async with opened() as rt:
        (device,) = rt.devices
        theirs = await device.allocate(64)
        buffer = aiocann.from_pointer(theirs.address, 64, device, Owner())
        assert buffer.address == theirs.address
        out = np.zeros(64, np.uint8)
        async with device.stream() as stream:
            await stream.memset(theirs, 9)
            await stream.memcpy(out, buffer)
        assert (out == 9).all()
        buffer.close()
        with pytest.raises(UsageError, match="address must be from 1"):
            aiocann.from_pointer(0, 64, device)


async def test_host_array_cannot_be_resized_while_in_flight(opened: Any) -> None:
    async with opened() as rt:
        (device,) = rt.devices
        buffer = await device.allocate(64)
        async with device.stream() as stream:
            with aiocann.sim.hold(device.index):
                source = bytearray(64)
                op = stream.memcpy(buffer, source)
                target = bytearray(64)
                down = stream.memcpy(target, buffer)
                with pytest.raises(BufferError):
                    target.extend(b"x")
            await op
            await down
            source.extend(b"x")
            target.extend(b"x")


async def test_many_copies_at_once_on_many_tasks(opened: Any) -> None:
    async with opened(2) as rt:
        results: list[Any] = []

        async def one(device: aiocann.Device, n: int) -> None:
            nbytes = 1000 * n + 1
            source, target = pattern(nbytes, n), np.zeros(nbytes, np.uint8)
            buffer = await device.allocate(nbytes)
            async with device.stream() as stream:
                stream.memcpy(buffer, source)
                await stream.memcpy(target, buffer)
            results.append(np.array_equal(source, target))

        async with anyio.create_task_group() as tasks:
            for n in range(40):
                tasks.start_soon(one, rt.devices[n % 2], n)
        assert results == [True] * 40
