"""Choosing a driver, forks, exits: each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import aiocann
from aiocann.lowlevel import sim_library
from helpers.programs import printed, run

OPEN = """
import sys, anyio, aiocann
async def main():
    try:
        async with aiocann.open_runtime(*sys.argv[1:]) as rt:
            print(rt.driver, len(rt.devices), rt.library)
    except aiocann.AiocannError as exc:
        print(type(exc).__name__, exc)
anyio.run(main)
"""


def test_cann_that_is_not_there_says_what_was_looked_for(tmp_path: Path) -> None:
    for arguments, environment in (
        (["cann"], {}),
        ([], {"AIOCANN_DRIVER": "cann"}),
    ):
        out = printed(
            OPEN, *arguments, HOME=str(tmp_path), LD_LIBRARY_PATH="", **environment
        )
        assert out.startswith("LibraryError")
        assert "libacl_rt.so" in out
        assert "libascendcl.so" in out
        assert "/usr/local/Ascend" in out
        assert "set_env.sh" in out
        assert "AIOCANN_CANN_PATH" in out


def test_cann_path_that_is_wrong_is_final(tmp_path: Path) -> None:
    out = printed(OPEN, "cann", AIOCANN_CANN_PATH=str(tmp_path / "nowhere"))
    assert out.startswith("LibraryError")
    assert str(tmp_path / "nowhere") in out
    wrong = tmp_path / "libascendcl.so"
    wrong.write_bytes(b"no library")
    out = printed(OPEN, "cann", AIOCANN_CANN_PATH=str(wrong))
    assert out.startswith("LibraryError")
    assert str(wrong) in out


@pytest.mark.parametrize("arguments", [["cann"], [], ["auto"]])
def test_cann_path_at_the_simulator(arguments: list[str]) -> None:
    out = printed(
        OPEN, *arguments, AIOCANN_CANN_PATH=sim_library(), AIOCANN_SIM_DEVICES="3"
    )
    assert out.split() == ["cann", "3", sim_library()]


def test_auto_without_cann_warns_once(tmp_path: Path) -> None:
    source = """
    import warnings, anyio, aiocann
    async def main():
        for _ in range(2):
            async with aiocann.open_runtime() as rt:
                print(rt.driver)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        anyio.run(main)
    for one in caught:
        print(one.category.__name__, one.filename)
    """
    out = printed(source, HOME=str(tmp_path)).split()
    assert out == ["sim", "sim", "SimulatorWarning", "<string>"]
    out = printed(source, HOME=str(tmp_path), AIOCANN_DRIVER="sim").split()
    assert out == ["sim", "sim"]


@pytest.mark.parametrize("value", ["banana", "0", "-3", "65", "2.5", "1 2"])
def test_bad_number_of_simulated_devices(value: str) -> None:
    out = printed(OPEN, "sim", AIOCANN_SIM_DEVICES=value)
    assert out.startswith("UsageError")
    assert "AIOCANN_SIM_DEVICES" in out
    assert repr(value) in out or f'"{value}"' in out or value in out
    assert "64" in out, "says what is accepted"


def test_good_number_of_simulated_devices() -> None:
    assert printed(OPEN, "sim", AIOCANN_SIM_DEVICES="7").split()[:2] == ["sim", "7"]


def test_bad_simulator_settings() -> None:
    for name, value in (("SOC", "Ascend9999"), ("MEMORY", "lots"), ("PEERS", "0:1")):
        out = printed(OPEN, "sim", **{f"AIOCANN_SIM_{name}": value})
        assert out.startswith("UsageError")
        assert f"AIOCANN_SIM_{name}" in out
    with pytest.raises(aiocann.UsageError, match="devices"):
        aiocann.sim.configure(devices="many")
    with pytest.raises(aiocann.UsageError, match="nonsense"):
        aiocann.sim.configure(nonsense=3)
    with pytest.raises(aiocann.UsageError, match="has no setting"):
        aiocann.sim.setting("nonsense")


def test_simulator_is_configured_while_closed_only() -> None:
    source = """
    import anyio, aiocann
    async def main():
        aiocann.sim.configure(devices=2, soc="Ascend310P3", memory="1G")
        async with aiocann.open_runtime("sim") as rt:
            print(len(rt.devices), rt.devices[0].soc_name)
            print((await rt.devices[0].memory_info()).total)
            try:
                aiocann.sim.configure(devices=3)
            except aiocann.BusyResourceError:
                print("busy")
        async with aiocann.open_runtime("sim", 5) as rt:
            print(len(rt.devices))
        async with aiocann.open_runtime("sim") as rt:
            print(len(rt.devices))
        aiocann.sim.configure(devices=None)
        print(aiocann.sim.setting("devices"))
    anyio.run(main)
    """
    out = printed(source).split()
    assert out == ["2", "Ascend310P3", str(1 << 30), "busy", "5", "2", "1"]


def test_fork_after_opening() -> None:
    source = """
    import os, sys, anyio, aiocann
    async def main():
        async with aiocann.open_runtime("sim") as rt:
            device, = rt.devices
            buffer = await device.allocate(64)
            async with device.stream() as stream:
                child = os.fork()
                if child == 0:
                    told = []
                    opening = aiocann.open_runtime("sim")
                    for use in (lambda: stream.memset(buffer, 1),
                                lambda: device.allocate(3),
                                rt.statistics,
                                lambda: opening.__aenter__().send(None)):
                        try:
                            use()
                        except aiocann.ForkError as exc:
                            told.append("spawn" in str(exc))
                    os._exit(0 if told == [True] * 4 else 1)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                await stream.memset(buffer, 2)  # the parent goes on
    anyio.run(main)
    """
    done = run(source)
    assert done.stdout.split() == ["0"], done.stderr


def test_a_forked_child_that_leaves_by_an_exit() -> None:
    """Blocks that cannot be left in order replace neither an exit nor an error."""
    source = """
    import os, sys, anyio, aiocann
    async def main():
        async with aiocann.open_runtime("sim") as rt:
            async with rt.devices[0].stream():
                child = os.fork()
                if child == 0:
                    sys.exit(7)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    anyio.run(main)
    """
    done = run(source)
    assert done.stdout.split() == ["7"], done.stderr


def test_every_method_in_a_forked_child() -> None:
    """It refuses with `ForkError`, or asks nothing of what the child has not."""
    source = """
    import os, sys, traceback, anyio, aiocann, numpy as np
    from aiocann import F32, Graph, ops
    async def main():
        async with aiocann.open_runtime("sim", 2) as rt:
            device, other = rt.devices
            buffer = await device.allocate(64)
            backend = device.backend()
            x = await backend.empty(4, F32)
            y = ops.add(x, x)
            event = backend.event_record()
            op = backend.stream.memset(buffer, 1)
            await backend.synchronize()
            async with device.stream() as stream:
                child = os.fork()
                if child == 0:
                    os._exit(in_child(locals()))
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    # What needs neither the device nor a thread of the parent's.
    PURE = {
        "Runtime": {"device", "version", "library", "note_available",
                    "note_unavailable"},
        "Device": {"backend"},
        "Stream": {"take_unretrieved", "raise_unretrieved", "note_failed"},
        "DeviceBuffer": {"address", "close", "describe", "device"},
        "Event": {"done", "recording", "elapsed_ms"},
        "Backend": {"supports_op", "offload_op"},
        "Operation": {"done", "failed", "path", "enqueued_at", "exception", "result",
                      "timestamp_us", "age", "stream", "is_settled", "has_known_cause",
                      "take_unretrieved", "completed"},
    }
    def in_child(have):
        b, array = have["buffer"], np.zeros(64, np.uint8)
        arguments = {
            ("Runtime", "note_available"): (have["device"],),
            ("Runtime", "note_unavailable"): (have["other"], ValueError()),
            ("Runtime", "pinned_empty"): (3,), ("Runtime", "device"): (0,),
            ("Device", "allocate"): (3,), ("Device", "allocate_nowait"): (3,),
            ("Device", "can_access_peer"): (have["other"],),
            ("Device", "stream"): (), ("Device", "adopt_stream"): (1,),
            ("Stream", "memcpy"): (b, array), ("Stream", "memset"): (b, 1),
            ("Stream", "wait"): (have["event"],), ("Stream", "host_call"): (int,),
            ("Stream", "aclnn"): ("aclnnAbs", None, None),
            ("Stream", "aclose"): (1.0,), ("Stream", "note_failed"): (have["op"],),
            ("Stream", "copy"): ("memcpy", None, None, 1, ()),
            ("Event", "elapsed_ms"): (have["event"],),
            ("Backend", "empty"): (3, F32),
            ("Backend", "set_tensor_async"): (have["x"], np.zeros(4, np.float32)),
            ("Backend", "get_tensor_async"): (have["x"],),
            ("Backend", "cpy_tensor_async"): (have["x"], have["x"]),
            ("Backend", "graph_compute"): (Graph([have["y"]]),),
            ("Backend", "supports_op"): (have["y"],),
            ("Backend", "offload_op"): (have["y"],),
            ("Backend", "event_wait"): (have["event"],),
            ("Operation", "completed"): ("x", 1),
        }
        wrong = 0
        for what in (have["rt"], have["device"], have["stream"], b, have["event"],
                     have["backend"], have["op"]):
            cls = type(what).__name__
            for name in sorted(n for n in dir(type(what)) if not n.startswith("_")):
                try:
                    found = getattr(what, name)
                    if callable(found) and not isinstance(found, type(what)):
                        if type(found).__name__ not in ("method", "function"):
                            continue
                        found = found(*arguments.get((cls, name), ()))
                        for step in ("__aenter__", "__await__"):
                            if hasattr(found, step) and name != "result":
                                found = getattr(found, step)()
                        if hasattr(found, "send"):
                            found.send(None)
                except (aiocann.ForkError, StopIteration):
                    continue
                except BaseException:
                    print(cls, name, traceback.format_exc(), file=sys.stderr)
                    wrong += 1
                    continue
                is_data = not callable(getattr(type(what), name, None)) and not (
                    isinstance(getattr(type(what), name, None), property))
                if name not in PURE.get(cls, ()) and not is_data:
                    print(cls, name, "did not refuse:", found, file=sys.stderr)
                    wrong += 1
        return wrong
    anyio.run(main)
    """
    done = run(source)
    assert done.stdout.split() == ["0"], done.stderr


def test_fork_before_opening() -> None:
    source = """
    import os, sys, anyio, aiocann
    async def main():
        async with aiocann.open_runtime("sim") as rt:
            await rt.devices[0].allocate(64)
    child = os.fork()
    anyio.run(main)
    if child == 0:
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert printed(source).split() == ["0"]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ["return", "exit", "raise"])
def test_exit_without_closing(loop: str, how: str) -> None:
    """With work in flight, on a device that will not finish it."""
    source = """
    import sys, anyio, aiocann, numpy as np
    opening = aiocann.open_runtime("sim")
    kept = []
    async def main():
        rt = await opening.__aenter__()
        device, = rt.devices
        buffer = await device.allocate(1 << 20)
        holding = aiocann.sim.hold(0)
        holding.__enter__()
        backend = device.backend()
        tensor = await backend.empty(10, aiocann.F32)
        op = backend.set_tensor_async(tensor, np.zeros(10, np.float32))
        kept.extend([rt, buffer, tensor, op, holding])
        print("leaving", flush=True)
        if sys.argv[2] == "exit":
            sys.exit(3)
        if sys.argv[2] == "raise":
            raise LookupError
    anyio.run(main, backend=sys.argv[1])
    """
    done = run(source, loop, how)
    assert done.stdout.split() == ["leaving"]
    assert done.returncode == {"return": 0, "exit": 3, "raise": 1}[how], done.stderr
    assert ("LookupError" in done.stderr) == (how == "raise")
    assert "ignored" not in done.stderr


@pytest.mark.parametrize("direction", ["to the device", "from the device"])
def test_exit_while_ordinary_memory_is_copied(direction: str) -> None:
    """The arrays outlive the interpreter: native threads are still at them."""
    source = """
    import asyncio, sys, aiocann, numpy as np
    loop = asyncio.new_event_loop()
    opening = aiocann.open_runtime("sim", 1)
    async def main():
        rt = await opening.__aenter__()
        device, = rt.devices
        array = np.zeros(64 << 20, np.uint8)
        buffer = await device.allocate(array.nbytes)
        for _ in range(20):
            if sys.argv[1] == "to the device":
                device.main_stream.memcpy(buffer, array)
            else:
                device.main_stream.memcpy(array, buffer)
    loop.run_until_complete(main())
    print("leaving", flush=True)
    """
    done = run(source, direction)
    assert done.stdout.split() == ["leaving"]
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_waiting() -> None:
    source = """
    import asyncio, os, signal, threading, anyio, aiocann
    # A shell starts what it runs in the background with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    async def main():
        async with aiocann.open_runtime("sim", close_timeout=0.1) as rt:
            device, = rt.devices
            buffer = await device.allocate(64)
            stream = device.backend().stream
            with aiocann.sim.hold(0):
                op = stream.memset(buffer, 1)
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    await op
                finally:
                    print("interrupted", op.done, flush=True)
    try:
        anyio.run(main)
    except (KeyboardInterrupt, asyncio.CancelledError):  # Python 3.10: the latter
        print("gone")
    """
    assert printed(source).split() == ["interrupted", "False", "gone"]


def test_loop_closed_with_a_waiter_in_another_loop() -> None:
    """A closed loop drops only its own waiters."""
    source = """
    import asyncio, threading, anyio, aiocann, numpy as np
    ready, ops, out = threading.Event(), [], np.zeros(64, np.uint8)

    async def first(rt):
        stream = rt.devices[0].backend().stream
        buffer = await rt.devices[0].allocate(64)
        await stream.memset(buffer, 7)
        holding.__enter__()
        ops.append(stream.memcpy(out, buffer))
        asyncio.ensure_future(ops[0])
        await asyncio.sleep(0)

    def elsewhere(rt):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(first(rt))
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False
        loop.close()
        ready.set()

    holding = aiocann.sim.hold(0)
    async def main():
        async with aiocann.open_runtime("sim") as rt:
            thread = threading.Thread(target=elsewhere, args=(rt,))
            thread.start()
            await anyio.to_thread.run_sync(ready.wait)
            thread.join()
            async with anyio.create_task_group() as tasks:
                async def waits():
                    await ops[0]
                    print("woken", (out == 7).all())
                tasks.start_soon(waits)
                await anyio.lowlevel.checkpoint()
                holding.__exit__(None, None, None)
            stats = rt.statistics()
            print(stats.in_flight_ops, stats.abandoned == stats.reaped)
    anyio.run(main)
    """
    assert printed(source).split() == ["woken", "True", "0", "True"]


def test_command_line() -> None:
    source = "import sys; from aiocann.cli import main; sys.exit(main(sys.argv[1:]))"
    out = printed(source, "info", "--json", "--driver", "sim", "--devices", "2")
    found = json.loads(out)
    assert found["driver"] == "sim"
    assert [device["index"] for device in found["devices"]] == [0, 1]
    assert found["devices"][0]["peers"] == [1]
    assert found["devices"][0]["memory_total"] > 0
    assert found["devices"][0]["soc"].startswith("Ascend")
    assert found["unavailable"] == []
    table = printed(source, "info", "--driver", "sim", "--devices", "2")
    assert "Ascend910B2" in table
    assert "GiB" in table
    done = run(source, "--version")
    assert done.stdout == f"aiocann {aiocann.__version__}\n"
    done = run(source, "info", "--driver", "cann")
    assert done.returncode == 1
    assert done.stderr.startswith("aiocann: ")
    assert "libascendcl" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor() -> None:
    source = "import sys; from aiocann.cli import main; sys.exit(main(sys.argv[1:]))"
    out = printed(source, "doctor", "--json", "--driver", "sim", "--devices", "2")
    found = json.loads(out)
    assert found["ok"] is True
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["hardware"]["state"] == "warning"
    for name in ("driver", "pinned memory", "copies 0", "copies 1", "copy 0 to 1"):
        assert checks[name]["state"] == "ok", checks[name]
    table = printed(source, "doctor", "--driver", "sim")
    assert "pinned memory" in table
    done = run(source, "doctor", "--driver", "cann", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert "libascendcl" in found["checks"][-1]["detail"]


def test_doctor_finds_what_is_broken() -> None:
    source = """
    import sys, aiocann
    from aiocann.cli import main
    aiocann.sim.fail_copy("memcpy", nth=0)
    sys.exit(main(["doctor", "--driver", "sim", "--json"]))
    """
    done = run(source)
    assert done.returncode == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["copies 0"]["state"] == "failed"
    assert "memcpy" in checks["copies 0"]["detail"]


def test_command_line_without_rich() -> None:
    source = """
    import sys
    sys.modules["rich.console"] = None
    from aiocann.cli import main
    sys.exit(main(["info", "--driver", "sim"]))
    """
    out = printed(source).splitlines()
    assert out[2].split() == [
        "device",
        "physical",
        "SoC",
        "memory",
        "free",
        "of",
        "peers",
    ]
    assert "Ascend910B2" in out[3]


def test_python_m_aiocann() -> None:
    source = """
    import runpy, sys
    sys.argv = ["aiocann", "--version"]
    runpy.run_module("aiocann", run_name="__main__", alter_sys=True)
    """
    assert run(source).stdout == f"aiocann {aiocann.__version__}\n"


def test_import_does_little() -> None:
    """No loop, no cffi parser, no device, no thread."""
    source = """
    import sys, threading, aiocann
    heavy = ("trio", "uvloop", "pycparser", "rich")
    print([name for name in heavy if name in sys.modules])
    print(threading.active_count())
    """
    assert printed(source).split() == ["[]", "1"]


def test_debug_is_logged(caplog: Any) -> None:
    source = """
    import logging, anyio, aiocann
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    async def main():
        async with aiocann.open_runtime("sim"):
            pass
    anyio.run(main)
    """
    done = run(source, AIOCANN_DEBUG="1")
    assert "aiocann [sim] opened " in done.stderr
    assert run(source).stderr == ""
