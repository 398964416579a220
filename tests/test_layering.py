"""Imports and includes point down only (DESIGN of the project, section 2)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "aiocann"
NATIVE = ROOT / "native"

# From the bottom up. A module imports its own layer and those below; what only a type
# checker reads (`if TYPE_CHECKING:`) may point anywhere.
LAYERS = [
    ["_codes"],
    ["errors"],
    ["arguments", "dtypes", "ending", "ledger", "logs", "sites", "visible"],
    ["_cffi"],
    ["native"],
    ["reactor"],
    ["asyncio_reactor", "trio_reactor"],
    ["loops"],
    ["completion"],
    ["debug", "dump", "enqueue"],
    ["tensor"],
    ["memory", "event", "optable"],
    ["aclnn", "node"],
    ["stream", "ops", "graph"],
    ["backend"],
    ["device"],
    ["home", "sim", "lowlevel"],
    ["runtime"],
    ["opening"],
    ["results"],
    ["doctor", "group", "pipeline"],
    ["testing"],
    ["__init__"],
    ["cli"],
    ["__main__"],
]
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}

# Folder under native/ -> the folders, or files, whose headers it may include.
INCLUDES = {
    "include": set(),
    "acl": {"acl", "acl_abi.h", "acl_symbols.inc", "acl_errors.inc"},
    "core": {
        "core",
        "acl",
        "aiocann.h",
        "acl_abi.h",
        "acl_symbols.inc",
        "acl_errors.inc",
        "acl_signatures.inc",
    },
    "sim": {"sim", "acl_abi.h", "acl_symbols.inc", "acl_errors.inc"},
}
GENERATED = {
    "acl_abi.h",
    "acl_symbols.inc",
    "acl_errors.inc",
    "acl_signatures.inc",
}


def python_modules() -> dict[str, list[Path]]:
    """Return the files of each module; a package has several."""
    found: dict[str, list[Path]] = {}
    for file in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.glob("*.pyi")]):
        module = file.relative_to(PACKAGE).parts[0].partition(".")[0]
        found.setdefault(module, []).append(file)
    return found


def imports_of(module: str) -> set[str]:
    """Return the other aiocann modules that a module imports when it runs."""
    found: set[str] = set()
    for file in python_modules()[module]:
        found |= imported_modules(file.read_text(encoding="utf-8"))
    return found - {module}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def walk_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that can run: the bodies of functions too."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            for other in getattr(child, "orelse", []):
                yield other
                yield from walk_run_time(other)
        else:
            yield child
            yield from walk_run_time(child)


def imported_modules(source: str) -> set[str]:
    """Return the aiocann modules that a source file imports when it runs."""
    found = set()
    for node in walk_run_time(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = f"aiocann.{base}".rstrip(".")
            names = [base]
            if base == "aiocann":
                names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top != "aiocann":
                continue
            module = rest.partition(".")[0]
            # `from aiocann import Stream` takes it from the package itself.
            known = (PACKAGE / f"{module}.py").exists() or module in RANK
            found.add(module if module and known else "__init__")
    return found


@pytest.mark.parametrize("module", list(python_modules()))
def test_python_imports_point_down(module: str) -> None:
    assert module in RANK, f"aiocann/{module}.py is new: put it into its layer"
    upward = {
        other
        for other in imports_of(module)
        if RANK.get(other, len(LAYERS)) > RANK[module]
    }
    assert not upward


def test_python_import_graph_has_no_cycle() -> None:
    graph = {module: imports_of(module) for module in python_modules()}
    assert not find_cycle(graph)


def test_only_native_imports_the_extension() -> None:
    files = [*PACKAGE.rglob("*.py"), *ROOT.glob("examples/**/*.py")]
    importers = {
        file.relative_to(ROOT).as_posix()
        for file in files
        if "_cffi" in imported_modules(file.read_text(encoding="utf-8"))
    }
    assert importers == {"aiocann/native.py"}


def native_files() -> list[Path]:
    return sorted(
        file
        for folder in INCLUDES
        for file in (NATIVE / folder).rglob("*")
        if file.suffix in {".c", ".cpp", ".h", ".hpp"}
    )


def quoted_includes(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE)


@pytest.mark.parametrize("folder", list(INCLUDES))
def test_native_includes_point_down(folder: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)} includes {include}"
        for file in native_files()
        if file.relative_to(NATIVE).parts[0] == folder
        for include in quoted_includes(file)
        if include.partition("/")[0] not in INCLUDES[folder]
    ]
    assert not wrong


def test_native_includes_are_paths_from_native() -> None:
    wrong = []
    for file in native_files():
        text = file.read_text(encoding="utf-8")
        for include in quoted_includes(file):
            known = (NATIVE / include).exists() or (
                NATIVE / "include" / include
            ).exists()
            if not known and include not in GENERATED:
                wrong.append(f"{file.relative_to(ROOT)} includes {include}")
        angled = re.findall(r"^\s*#\s*include\s+<([^>]+)>", text, re.MULTILINE)
        wrong += [
            f"{file.relative_to(ROOT)} includes <{include}>"
            for include in angled
            if (NATIVE / include).exists() or include in GENERATED
        ]
    assert not wrong


def test_native_headers_include_each_other_in_one_direction() -> None:
    graph = {
        file.relative_to(NATIVE).as_posix(): set(quoted_includes(file))
        for file in native_files()
        if file.suffix in {".h", ".hpp"}
    }
    assert not find_cycle(graph)


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the nodes of one cycle, or nothing. A node may name itself."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        for other in sorted(graph.get(node, set()) - {node}):
            if cycle := visit(other, [*path, node]):
                return cycle
        done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), [])


def test_the_checks_can_fail() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c"]
    source = """
from typing import TYPE_CHECKING
from aiocann import native
if TYPE_CHECKING:
    from aiocann.runtime import Runtime
def late():
    from aiocann.group import DeviceGroup
from aiocann import open_runtime
import aiocann.errors
"""
    assert imported_modules(source) == {"native", "group", "__init__", "errors"}
