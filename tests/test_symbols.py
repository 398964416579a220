"""The ABI: the generated header against the tables, the libraries against both."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
ABI = NATIVE / "acl" / "abi"

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("c++") is None, reason="no C compiler"
)
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")


def rows(table: str) -> list[list[str]]:
    text = (ABI / f"{table}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


def function_names() -> set[str]:
    return {row[0] for row in rows("acl_functions") + rows("aclnn_functions")}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    generator = str(NATIVE / "acl" / "generate.py")
    subprocess.run([sys.executable, generator, str(folder)], check=True, timeout=60)
    return folder


def compile_text(text: str, language: str, include: Path, folder: Path) -> None:
    """Compile a program as strict C or C++ and fail with the compiler's words."""
    if language == "c":
        command = ["cc", "-std=c11", "-x", "c"]
    else:
        command = ["c++", "-std=c++17", "-x", "c++"]
    source = folder / f"program.{language}"
    source.write_text(text, encoding="utf-8")
    command += ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include}"]
    command += ["-c", str(source), "-o", str(folder / "program.o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@needs_compiler
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_header_has_the_values_and_sizes_of_the_tables(
    language: str, generated: Path, tmp_path: Path
) -> None:
    check = "_Static_assert" if language == "c" else "static_assert"
    lines = ['#include "acl_abi.h"']
    for _enum, name, value in rows("acl_enums"):
        literal = f"{value}ULL" if int(value) > 2**63 - 1 else value
        lines.append(f'{check}({name} == {literal}, "{name}");')
    enums = {row[0] for row in rows("acl_enums")} - {"const"}
    lines += [f'{check}(sizeof({enum}) == 4, "{enum}");' for enum in enums]
    for what, size, _fields in rows("acl_structs"):
        kind, name = what.split()
        if kind != "typedef":
            lines.append(f'{check}(sizeof({name}) == {size}, "{name}");')
    compile_text("\n".join(lines) + "\n", language, generated, tmp_path)


@needs_compiler
def test_header_lays_structs_out_as_the_tables_say(
    generated: Path, tmp_path: Path
) -> None:
    # Each field's type from the table, and its place from the types before it.
    lines = [
        '#include "acl_abi.h"',
        "#include <type_traits>",
        "constexpr size_t up(size_t at, size_t to) { return (at + to - 1) / to * to; }",
    ]
    fields = 0
    for what, _size, text in rows("acl_structs"):
        kind, name = what.split()
        if kind == "typedef":
            lines.append(f'static_assert(std::is_same_v<{name}, {text}>, "{name}");')
            continue
        end = "size_t{0}"
        for number, field in enumerate(text.split("; ")):
            if field.startswith("union ") and field.count(" ") == 1:
                # Anonymous: its members are those of a union of the table.
                typ, member = field.split()[1], ""
            else:
                typ, member = field.rsplit(" ", 1)
            place = f"{name}_{number}"
            start = f"up({end}, alignof({typ}))" if kind == "struct" else "size_t{0}"
            lines.append(f"constexpr size_t {place} = {start};")
            if member:
                fields += 1
                own = f"{name}.{member}"
                same = f"std::is_same_v<decltype({name}::{member}), {typ}>"
                lines += [
                    f'static_assert(offsetof({name}, {member}) == {place}, "{own}");',
                    f'static_assert({same}, "{own}");',
                ]
            end = f"{place} + sizeof({typ})"
    assert fields > 150
    compile_text("\n".join(lines) + "\n", "cpp", generated, tmp_path)


@needs_compiler
def test_header_declares_every_function_as_the_tables_say(
    generated: Path, tmp_path: Path
) -> None:
    # A second declaration that differs is an error. Written here from the table alone.
    lines = ['#include "acl_abi.h"']
    for name, returns, params, *_rest in rows("acl_functions") + rows(
        "aclnn_functions"
    ):
        types = []
        for param in filter(None, (p.strip() for p in params.split(";"))):
            words = re.sub(r"\b\w+$", "", param) if param != "..." else param
            types.append(words.replace("[][2]", " (*)[2]"))
        lines.append(f"{returns} {name}({', '.join(types) or 'void'});")
    compile_text("\n".join(lines) + "\n", "c", generated, tmp_path)


@needs_compiler
@pytest.mark.parametrize("language", ["c", "cpp"])
@pytest.mark.parametrize("header", ["include/aiocann.h", "sim/aiocann_sim.h"])
def test_public_headers_stand_alone(header: str, language: str, tmp_path: Path) -> None:
    compile_text(f'#include "{header}"\n', language, NATIVE, tmp_path)


def test_tables_name_everything_once() -> None:
    names = [row[0] for row in rows("acl_functions") + rows("aclnn_functions")]
    assert len(names) == len(set(names))
    constants = [row[1] for row in rows("acl_enums")]
    assert len(constants) == len(set(constants))
    types = [row[0].split()[1] for row in rows("acl_structs")]
    assert len(types) == len(set(types))


def test_operators_come_in_pairs() -> None:
    names = {row[0] for row in rows("aclnn_functions")}
    first = {n for n in names if n.endswith("GetWorkspaceSize")}
    unpaired = {n.removesuffix("GetWorkspaceSize") for n in first} ^ (names - first)
    # These are no operators: they have one phase.
    assert unpaired <= {
        "aclnnInit",
        "aclnnFinalize",
        "aclnnCalculateMatmulWeightSizeV2",
    }


def test_symbol_lists_hold_every_function(generated: Path) -> None:
    text = (generated / "acl_symbols.inc").read_text(encoding="utf-8")
    listed = re.findall(
        r"^(?:ACL|ACL_REQUIRED|ACLNN)_SYMBOL\((\w+)", text, re.MULTILINE
    )
    assert sorted(listed) == sorted(function_names())


def test_required_functions_are_in_the_oldest_cann() -> None:
    required = [row for row in rows("acl_functions") if "R" in row[3]]
    assert len(required) > 40
    assert {row[4] for row in required} == {"8.1"}


# ---- the installed libraries ----


@pytest.fixture(scope="module")
def installed() -> Path:
    spec = find_spec("aiocann._cffi")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def exports(library: Path) -> set[str]:
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    )
    return {line.split()[0].partition("@")[0] for line in done.stdout.splitlines()}


def declared_functions(header: Path, prefix: str) -> set[str]:
    text = header.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"typedef[^;{]*\([^;]*;", "", text)
    return set(re.findall(rf"\b({prefix}\w+)\s*\(", text))


@needs_nm
def test_simulator_exports_the_abi_and_its_controls(installed: Path) -> None:
    names = exports(installed / "libaiocann_sim.so")
    controls = declared_functions(NATIVE / "sim" / "aiocann_sim.h", "aiocann_sim_")
    assert {n for n in names if n.startswith("aiocann_sim_")} == controls
    assert names - controls == function_names()


@needs_nm
def test_core_exports_its_header_and_nothing_else(installed: Path) -> None:
    declared = declared_functions(NATIVE / "include" / "aiocann.h", "aiocann_")
    assert exports(installed / "libaiocann_core.so") == declared


def test_package_holds_its_libraries(installed: Path) -> None:
    names = {file.name for file in installed.iterdir()}
    assert {
        "_cffi.abi3.so",
        "libaiocann_core.so",
        "libaiocann_sim.so",
        "libaiocann_openblas.so",
        "libaiocann_openblas.LICENSE.txt",
        "py.typed",
    } <= names
