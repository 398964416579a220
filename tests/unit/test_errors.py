"""The error tree, its codes, and pickling."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path

import anyio
import pytest

import aiocann
from aiocann import errors
from aiocann._codes import CODE_NAMES
from aiocann.errors import NativeError, class_for, clone, error_for
from aiocann.native import lib

ROOT = Path(__file__).resolve().parents[2]


def test_codes_module_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "gen_codes.py"))
    assert script["render"]() == script["MODULE"].read_text()


def test_own_codes_are_those_of_the_header() -> None:
    for code, (name, _) in errors._OWN.items():
        assert getattr(lib, name) == code


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (107000, aiocann.UsageError),
        (100000, aiocann.UsageError),
        (161002, aiocann.UsageError),
        (107027, aiocann.CaptureError),
        (107030, aiocann.CaptureError),
        (107041, aiocann.CaptureError),
        (507903, aiocann.CaptureError),
        (107020, aiocann.DeviceTimeoutError),
        (507046, aiocann.DeviceTimeoutError),
        (507047, aiocann.DeviceTimeoutError),
        (200000, aiocann.DeviceMemoryError),
        (207001, aiocann.DeviceMemoryError),
        (207018, aiocann.DeviceMemoryError),
        (207000, aiocann.UnsupportedError),
        (200001, aiocann.UnsupportedError),
        (207003, aiocann.NumericOverflowError),
        (207005, aiocann.ResourceExhaustedError),
        (207007, aiocann.ResourceExhaustedError),
        (207008, aiocann.ResourceExhaustedError),
        (507015, aiocann.DeviceFaultError),
        (507035, aiocann.DeviceFaultError),
        (507011, aiocann.DeviceFaultError),
        (507014, aiocann.DeviceFaultError),
        (507008, aiocann.AclError),
        (-1, aiocann.UsageError),
        (-2, aiocann.UnsupportedError),
        (-3, aiocann.LibraryError),
        (-4, aiocann.DeviceMemoryError),
        (-5, aiocann.WouldBlock),
        (-6, aiocann.ClosedResourceError),
        (-7, aiocann.DeviceFaultError),
        (-8, aiocann.DeviceTimeoutError),
        (-9, aiocann.InternalError),
    ],
)
def test_class_of_a_code(code: int, cls: type[Exception]) -> None:
    assert class_for(code) is cls
    assert type(error_for(NativeError(code, "why"))) is cls


def test_every_code_has_a_class_and_a_name() -> None:
    for code, name in CODE_NAMES.items():
        exc = error_for(NativeError(code, "why", call="aclrtSomething"))
        assert isinstance(exc, aiocann.AclError)
        assert (exc.code, exc.code_name) == (code, name)
        assert name in str(exc)
        assert "aclrtSomething" in str(exc)


def test_unknown_codes_follow_their_family() -> None:
    assert class_for(199999) is aiocann.UsageError
    assert class_for(299999) is aiocann.ResourceExhaustedError
    assert class_for(399999) is aiocann.ResourceExhaustedError
    assert class_for(599999) is aiocann.AclError
    assert class_for(599999, is_fault=True) is aiocann.DeviceFaultError
    assert class_for(912345) is aiocann.AclError


@pytest.mark.parametrize(
    ("cls", "standard"),
    [
        (aiocann.UsageError, ValueError),
        (aiocann.DeviceMemoryError, MemoryError),
        (aiocann.DeviceTimeoutError, TimeoutError),
        (aiocann.LibraryError, OSError),
        (aiocann.ClosedResourceError, anyio.ClosedResourceError),
        (aiocann.BusyResourceError, anyio.BusyResourceError),
        (aiocann.WouldBlock, anyio.WouldBlock),
    ],
)
def test_standard_bases(cls: type[Exception], standard: type[Exception]) -> None:
    assert issubclass(cls, standard)
    assert issubclass(cls, aiocann.AiocannError)


@pytest.mark.parametrize("code", [*errors._OWN, *CODE_NAMES])
def test_pickles(code: int) -> None:
    native = NativeError(code, "detail", "aclrtCall", requested=7, free=3, total=9)
    exc = error_for(native, op="memcpy(x)", enqueued_at="a.py:3 in f")
    again = pickle.loads(pickle.dumps(exc))
    assert type(again) is type(exc)
    assert str(again) == str(exc)
    assert again.__dict__ == exc.__dict__


def test_every_exported_error_pickles() -> None:
    for name in errors.__all__:
        cls = getattr(errors, name)
        again = pickle.loads(pickle.dumps(cls("message")))
        assert type(again) is cls
        assert str(again) == "message"


def test_memory_error_has_the_numbers() -> None:
    native = NativeError(
        -4, "no room", requested=3 << 30, free=1 << 20, total=2 << 30, used=5
    )
    exc = error_for(native)
    assert isinstance(exc, aiocann.DeviceMemoryError)
    assert (exc.requested, exc.free, exc.total) == (3 << 30, 1 << 20, 2 << 30)
    assert "3.0 GiB asked for" in str(exc)


def test_fault_names_op_line_and_origin() -> None:
    first = error_for(
        NativeError(507015, "vector core", device=1, is_fault=True),
        op="mul_mat(f32[4])",
        enqueued_at="model.py:12 in run",
    )
    assert isinstance(first, aiocann.DeviceFaultError)
    assert first.op == "mul_mat(f32[4])"
    assert first.enqueued_at == "model.py:12 in run"
    assert "mul_mat(f32[4]) on device 1, enqueued at model.py:12 in run" in str(first)
    follower = error_for(NativeError(-7, cause_op=3), op="memcpy()", cause=first)
    assert isinstance(follower, aiocann.DeviceFaultError)
    assert follower.__cause__ is first
    assert follower.origin == first.origin


def test_lost_device() -> None:
    exc = error_for(NativeError(507010, is_fault=True))
    assert isinstance(exc, aiocann.DeviceFaultError)
    assert exc.is_device_lost


def test_clone_shares_no_traceback() -> None:
    exc = error_for(NativeError(507015, "x"))
    try:
        raise exc
    except aiocann.AclError:
        copy = clone(exc)
    assert copy is not exc
    assert copy.__traceback__ is None
    assert copy.__dict__ == exc.__dict__


def test_hints_say_what_to_do() -> None:
    exc = error_for(NativeError(207006, "no permission"))
    assert isinstance(exc, aiocann.AclError)
    assert "HwHiAiUser" in exc.hint
    assert exc.hint in str(exc)
