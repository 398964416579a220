"""What an installation looks like from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_python(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_programs_started_in_a_checkout_find_the_compiled_half() -> None:
    code = (
        "import aiocann; print(aiocann.__file__); print(aiocann.native.sim_library())"
    )
    package, simulator = run_python("-c", code, cwd=ROOT).splitlines()
    assert Path(package) == ROOT / "aiocann" / "__init__.py"
    assert Path(simulator).exists()


def test_installed_package_is_whole(tmp_path: Path) -> None:
    code = (
        "import aiocann; print(aiocann.__file__); print(aiocann.native.sim_library())"
    )
    package, simulator = run_python("-c", code, cwd=tmp_path).splitlines()
    assert Path(package).parent == Path(simulator).parent


def test_versions_agree(tmp_path: Path) -> None:
    version = metadata.version("aiocann")
    assert (
        run_python("-m", "aiocann", "--version", cwd=tmp_path) == f"aiocann {version}"
    )
    code = "from aiocann.native import lib, text; print(text(lib.aiocann_version()))"
    assert run_python("-c", code, cwd=tmp_path) == version


def test_one_wheel_serves_every_python() -> None:
    wheel = metadata.distribution("aiocann").read_text("WHEEL")
    assert wheel is not None
    assert "Tag: cp310-abi3-linux_" in wheel or "Tag: cp310-abi3-manylinux_" in wheel


def test_the_readmes_program_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert program is not None
    (tmp_path / "program.py").write_text(program[1], encoding="utf-8")
    assert run_python("-W", "error", "program.py", cwd=tmp_path) == "(8, 256) staged"
