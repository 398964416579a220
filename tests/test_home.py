"""`aiocann sim-home`: programs made for CANN link and run with the simulator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiocann.cli import main
from aiocann.errors import UsageError
from aiocann.home import make_home

ABI = Path(__file__).resolve().parent.parent / "native" / "acl" / "abi"
LIBRARIES = {
    *("ascendcl", "acl_rt", "acl_rt_impl", "nnopbase", "acl_op_compiler"),
    *("opapi", "opapi_math", "opapi_nn", "opapi_cv", "opapi_transformer"),
}
PROGRAM = r"""
#include <stdio.h>
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"

#define TRY(call) do { int code = (call); if (code) { \
  printf("%s: %d\n", #call, code); return 1; } } while (0)

int main(void) {
  float host[4] = {1, 2, 3, 4}, one = 1;
  int64_t shape[1] = {4}, stride[1] = {1};
  void *x, *y;
  aclrtStream stream;
  uint64_t need;
  aclOpExecutor *executor;
  TRY(aclInit(NULL));
  TRY(aclrtSetDevice(0));
  TRY(aclrtCreateStream(&stream));
  TRY(aclrtMalloc(&x, 16, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY(aclrtMalloc(&y, 16, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY(aclrtMemcpy(x, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE));
  aclTensor *tx = aclCreateTensor(shape, 1, ACL_FLOAT, stride, 0, ACL_FORMAT_ND,
                                  shape, 1, x);
  aclTensor *ty = aclCreateTensor(shape, 1, ACL_FLOAT, stride, 0, ACL_FORMAT_ND,
                                  shape, 1, y);
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  TRY(aclnnAddGetWorkspaceSize(tx, tx, alpha, ty, &need, &executor));
  TRY(aclnnAdd(NULL, 0, executor, stream));
  TRY(aclrtSynchronizeStream(stream));
  TRY(aclrtMemcpy(host, 16, y, 16, ACL_MEMCPY_DEVICE_TO_HOST));
  printf("%g %g %g %g on %s\n", host[0], host[1], host[2], host[3], aclrtGetSocName());
  TRY(aclrtResetDevice(0));
  TRY(aclFinalize());
  return 0;
}
"""

TIDY_PROGRAM = r"""
#include "acl/acl.h"

int main(void) {
  aclrtContext context;
  aclrtStream stream;
  int code = aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateContext(&context, 0) ||
             aclrtCreateStream(&stream) || aclrtSynchronizeStream(stream) ||
             aclrtDestroyStream(stream) || aclrtDestroyContext(context) ||
             aclrtResetDevice(0) || aclFinalize();
  return code ? 3 : 0;
}
"""

needs_tools = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("nm") is None, reason="no C compiler"
)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("cann"))


def build(
    home: Path, folder: Path, *libraries: str, text: str = PROGRAM, option: str = "-O1"
) -> Path:
    (folder / "program.c").write_text(text)
    program = folder / "program"
    link = [f"-L{home / 'lib64'}", *(f"-l{name}" for name in libraries)]
    source = [str(folder / "program.c"), f"-I{home / 'include'}"]
    done = run(["cc", "-Wall", "-Werror", option, *source, *link, "-o", str(program)])
    assert done.returncode == 0, done.stderr
    return program


@needs_tools
@pytest.mark.parametrize(
    "libraries",
    [
        ("ascendcl", "nnopbase", "opapi"),
        ("acl_rt", "nnopbase", "opapi_math", "acl_op_compiler"),
        ("opapi", "acl_rt_impl", "nnopbase"),
    ],
    ids="-".join,
)
def test_a_program_made_for_cann_runs(
    home: Path, tmp_path: Path, libraries: tuple[str, ...]
) -> None:
    program = build(home, tmp_path, *libraries)
    done = run(["bash", "-c", f"source {home}/set_env.sh && exec {program}"])
    assert done.stdout == "2 4 6 8 on Ascend910B2\n"
    assert done.returncode == 0, done.stderr


@needs_tools
def test_a_leak_detector_finds_nothing_in_a_tidy_program(
    home: Path, tmp_path: Path
) -> None:
    asan = "-fsanitize=address"
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }")
    empty = str(tmp_path / "empty")
    if (
        run(["cc", asan, f"{empty}.c", "-o", empty]).returncode
        or run([empty]).returncode
    ):
        pytest.skip("no AddressSanitizer")
    program = build(home, tmp_path, "ascendcl", text=TIDY_PROGRAM, option=asan)
    done = run([str(program)], LD_LIBRARY_PATH=str(home / "lib64"))
    assert done.returncode == 0, done.stderr


def exports(library: Path) -> set[str]:
    done = run(["nm", "-D", "--defined-only", str(library)])
    assert done.returncode == 0, done.stderr
    return {line.split()[2].split("@")[0] for line in done.stdout.splitlines()}


def table(name: str) -> set[str]:
    lines = (ABI / f"{name}.tsv").read_text().splitlines()
    return {line.split("\t")[0] for line in lines if not line.startswith("#")}


@needs_tools
def test_the_libraries_export_the_tables_and_nothing_else(home: Path) -> None:
    files = {file.stem.removeprefix("lib"): file for file in home.glob("lib64/lib*.so")}
    assert set(files) == LIBRARIES
    found = {library: exports(file) for library, file in files.items()}
    union = set().union(*found.values())
    ours = {name for name in union if name.startswith("aiocann_sim_")}
    union -= ours
    assert union == table("acl_functions") | table("aclnn_functions")
    assert "aclrtMalloc" in found["acl_rt"] & found["ascendcl"]
    assert "aclCreateTensor" in found["nnopbase"]
    assert "aclCreateTensor" not in found["ascendcl"]
    assert "aclnnAdd" in found["opapi"] & found["opapi_math"]
    assert "aclnnAdd" not in found["opapi_nn"]
    split = [found[name] for name in LIBRARIES if name.startswith("opapi_")]
    assert set().union(*split) - ours == found["opapi"] - ours


@needs_tools
def test_each_library_has_its_own_soname(home: Path) -> None:
    for library in LIBRARIES:
        file = home / "lib64" / f"lib{library}.so"
        done = run(["readelf", "-d", str(file)])
        assert f"Library soname: [lib{library}.so]" in done.stdout


OPEN = """
import anyio, numpy as np, aiocann
async def main():
    async with aiocann.open_runtime() as rt:
        (device,) = rt.devices
        async with device.stream() as stream:
            buffer = await device.allocate(4000)
            back = np.zeros(1000, np.float32)
            stream.memcpy(buffer, np.arange(1000, dtype=np.float32))
            await stream.memcpy(back, buffer)
        backend = device.backend()
        x = await backend.empty((4,), aiocann.F32)
        await backend.set_tensor_async(x, np.arange(4, dtype=np.float32))
        y = aiocann.ops.add(x, x)
        await backend.graph_compute(aiocann.Graph([y]))
        computed = await backend.get_tensor_async(y)
        print(rt.driver, rt.version, rt.library, back.sum(), computed)
anyio.run(main)
"""


@pytest.mark.parametrize(("cann", "acl"), [("9.1", "1.17.0"), ("8.1", "1.13.0")])
def test_aiocann_takes_it_for_cann(tmp_path: Path, cann: str, acl: str) -> None:
    home = make_home(tmp_path, cann)
    done = run(
        [sys.executable, "-c", OPEN],
        ASCEND_TOOLKIT_HOME=str(home),
        AIOCANN_DRIVER="cann",
        AIOCANN_CANN_PATH="",
    )
    library = home / "lib64" / "libacl_rt.so"
    assert done.stdout == f"cann {acl} {library} 499500.0 [0. 2. 4. 6.]\n", done.stderr


def test_the_versions_are_where_programs_read_them(tmp_path: Path) -> None:
    old, new = make_home(tmp_path / "old", "8.1"), make_home(tmp_path / "new")
    assert "Version=8.1.RC1" in (old / "runtime" / "version.info").read_text()
    info = new / "share" / "info" / "runtime" / "version.info"
    assert "Version=9.1.0" in info.read_text()
    (install,) = new.glob("*-linux/ascend_toolkit_install.info")
    assert "version=9.1.0\n" in install.read_text()


def test_a_second_run_replaces_what_the_first_wrote(tmp_path: Path) -> None:
    make_home(tmp_path, "8.1")
    (tmp_path / "mine.txt").write_text("kept")
    library = tmp_path / "lib64" / "libascendcl.so"
    before = library.read_bytes()
    make_home(tmp_path)
    assert library.read_bytes() != before
    assert (tmp_path / "mine.txt").read_text() == "kept"
    assert not list(tmp_path.glob("lib64/*.new"))


@needs_tools
def test_a_simulator_that_has_gone_is_an_error_code(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "lib64"
    shutil.copytree(home / "lib64", broken)
    for file in broken.iterdir():
        image = file.read_bytes()
        file.write_bytes(image.replace(b"libaiocann_sim.so", b"libaiocann_xxx.so"))
    program = build(home, tmp_path, "ascendcl", "nnopbase", "opapi")
    done = run([str(program)], LD_LIBRARY_PATH=str(broken))
    assert done.returncode == 1
    assert done.stdout == "aclInit(NULL): 500000\n"
    assert "run `aiocann sim-home` again" in done.stderr


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim-home", str(tmp_path / "cann"), "--cann", "8.1"]) == 0
    assert "CANN 8.1.RC1, simulated" in capsys.readouterr().out
    (tmp_path / "file").touch()
    assert main(["sim-home", str(tmp_path / "file")]) == 1
    assert "is not a folder" in capsys.readouterr().err


def test_an_unknown_cann_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"8\.1, 9\.1"):
        make_home(tmp_path, "7.0")
    assert not list(tmp_path.iterdir())
