"""The public names: all there, each from one place, none by accident."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import types
from pathlib import Path

import pytest

import aiocann

CONTRACT = [
    "open_runtime",
    "Runtime",
    "Device",
    "DeviceBuffer",
    "Stream",
    "Event",
    "Operation",
    "Statistics",
    "from_pointer",
    "current_stream",
    "Backend",
    "Tensor",
    "Graph",
    "DeviceGroup",
    "Pipeline",
    "Stage",
    "F32",
    "F16",
    "BF16",
    "I8",
    "I16",
    "I32",
    "I64",
    "Q4_0",
    "Q8_0",
    "ops",
    "sim",
    "testing",
    "lowlevel",
    "AiocannError",
    "AclError",
    "UsageError",
    "CaptureError",
    "UnsupportedError",
    "DeviceTimeoutError",
    "NumericOverflowError",
    "ResourceExhaustedError",
    "DeviceMemoryError",
    "DeviceFaultError",
    "LibraryError",
    "ForkError",
    "ClosedResourceError",
    "BusyResourceError",
    "WouldBlock",
    "InternalError",
    "SimulatorWarning",
    "SlowPathWarning",
    "CleanupWarning",
]

SIDE_DOORS = {"lowlevel", "ops", "sim", "testing"}


def reexports() -> dict[str, str]:
    """Return the names that ``__init__`` imports, with their modules."""
    source = Path(aiocann.__file__).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr):
            continue  # the docstring
        assert isinstance(node, ast.ImportFrom), "it re-exports and does nothing else"
        for alias in node.names:
            assert alias.asname == alias.name, "a redundant alias marks a re-export"
            assert alias.name not in found, "each name once"
            found[alias.name] = node.module or ""
    return found


@pytest.mark.parametrize("name", CONTRACT)
def test_contract(name: str) -> None:
    assert name in reexports()
    assert hasattr(aiocann, name)


def test_reexports_come_from_where_they_are_defined() -> None:
    for name, module in reexports().items():
        value = getattr(aiocann, name)
        if isinstance(value, types.ModuleType):
            assert name in SIDE_DOORS
        elif isinstance(value, (type, types.FunctionType)):
            assert value.__module__ == module


def test_modules_say_what_is_public() -> None:
    """What a module lists is there; what the package exports of it is listed."""
    exported = reexports()
    for info in pkgutil.iter_modules(aiocann.__path__):
        if info.name.startswith(("_", "lib")):
            continue
        module = importlib.import_module(f"aiocann.{info.name}")
        listed = getattr(module, "__all__", None)
        for name in listed or ():
            assert hasattr(module, name), f"{info.name}.{name}"
        for name, origin in exported.items():
            if listed is not None and origin == module.__name__ and name[0] != "_":
                assert name in listed


def test_every_public_thing_has_a_docstring() -> None:
    for name in reexports():
        value = getattr(aiocann, name)
        if isinstance(value, type):
            assert value.__doc__
            for attribute, member in vars(value).items():
                if attribute[0] != "_" and callable(member):
                    assert member.__doc__, f"{name}.{attribute}"


def test_typed_marker_is_there() -> None:
    folders = [Path(folder) for folder in aiocann.__path__]
    assert any((folder / "py.typed").exists() for folder in folders)
