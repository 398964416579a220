"""Ops that compute each element from the like elements of their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiocann.node import build
from aiocann.optable import OPS

if TYPE_CHECKING:
    from aiocann.tensor import Tensor

__all__ = [
    "abs",
    "add",
    "add1",
    "clamp",
    "cos",
    "div",
    "elu",
    "exp",
    "geglu",
    "geglu_erf",
    "geglu_quick",
    "gelu",
    "gelu_erf",
    "gelu_quick",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log",
    "mul",
    "neg",
    "reglu",
    "relu",
    "scale",
    "sgn",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "sqr",
    "sqrt",
    "step",
    "sub",
    "swiglu",
    "tanh",
]

_ABS = OPS["abs"]
_NEG = OPS["neg"]
_EXP = OPS["exp"]
_LOG = OPS["log"]
_SQRT = OPS["sqrt"]
_SIN = OPS["sin"]
_COS = OPS["cos"]
_SQR = OPS["sqr"]
_TANH = OPS["tanh"]
_SIGMOID = OPS["sigmoid"]
_RELU = OPS["relu"]
_SILU = OPS["silu"]
_GELU = OPS["gelu"]
_GELU_ERF = OPS["gelu_erf"]
_ADD = OPS["add"]
_SUB = OPS["sub"]
_MUL = OPS["mul"]
_DIV = OPS["div"]
_SCALE = OPS["scale"]
_CLAMP = OPS["clamp"]
_ADD1 = OPS["add1"]
_STEP = OPS["step"]
_ELU = OPS["elu"]
_SGN = OPS["sgn"]
_HARDSIGMOID = OPS["hardsigmoid"]
_HARDSWISH = OPS["hardswish"]
_SOFTPLUS = OPS["softplus"]
_LEAKY_RELU = OPS["leaky_relu"]
_GELU_QUICK = OPS["gelu_quick"]
_GEGLU_QUICK = OPS["geglu_quick"]
_REGLU = OPS["reglu"]
_GEGLU = OPS["geglu"]
_GEGLU_ERF = OPS["geglu_erf"]
_SWIGLU = OPS["swiglu"]


# ---- element by element ----


def add(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b; `b` repeats a whole number of times into `a` along every axis."""
    return build(_ADD, (a, b))


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Return a - b; `b` repeats into `a`."""
    return build(_SUB, (a, b))


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Return a * b, element by element; `b` repeats into `a`."""
    return build(_MUL, (a, b))


def div(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b; `b` repeats into `a`."""
    return build(_DIV, (a, b))


def add1(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b, where `b` has one element."""
    return build(_ADD1, (a, b))


def sqr(x: Tensor) -> Tensor:
    """Return x * x."""
    return build(_SQR, (x,))


def scale(x: Tensor, scale: float, bias: float = 0.0) -> Tensor:
    """Return scale * x + bias."""
    return build(_SCALE, (x,), (float(scale), float(bias)))


def clamp(x: Tensor, min: float, max: float) -> Tensor:  # noqa: A002 - the op's names
    """Return `x`, but at least `min` and at most `max`."""
    return build(_CLAMP, (x,), (float(min), float(max)))


def abs(x: Tensor) -> Tensor:  # noqa: A001 - the op's name
    """Return the absolute value of `x`."""
    return build(_ABS, (x,))


def neg(x: Tensor) -> Tensor:
    """Return -x."""
    return build(_NEG, (x,))


def exp(x: Tensor) -> Tensor:
    """Return e to the power `x`."""
    return build(_EXP, (x,))


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm of `x`."""
    return build(_LOG, (x,))


def sqrt(x: Tensor) -> Tensor:
    """Return the square root of `x`."""
    return build(_SQRT, (x,))


def sin(x: Tensor) -> Tensor:
    """Return the sine of `x`."""
    return build(_SIN, (x,))


def cos(x: Tensor) -> Tensor:
    """Return the cosine of `x`."""
    return build(_COS, (x,))


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of `x`."""
    return build(_TANH, (x,))


def sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return build(_SIGMOID, (x,))


def relu(x: Tensor) -> Tensor:
    """Return max(x, 0)."""
    return build(_RELU, (x,))


def silu(x: Tensor) -> Tensor:
    """Return x * sigmoid(x)."""
    return build(_SILU, (x,))


def gelu(x: Tensor) -> Tensor:
    """Return x * Phi(x), by its usual approximation with tanh."""
    return build(_GELU, (x,))


def gelu_erf(x: Tensor) -> Tensor:
    """Return x * Phi(x), with the error function."""
    return build(_GELU_ERF, (x,))


def gelu_quick(x: Tensor) -> Tensor:
    """Return x * sigmoid(1.702 * x)."""
    return build(_GELU_QUICK, (x,))


def hardsigmoid(x: Tensor) -> Tensor:
    """Return (x + 3) / 6, but at least 0 and at most 1."""
    return build(_HARDSIGMOID, (x,))


def hardswish(x: Tensor) -> Tensor:
    """Return x * hardsigmoid(x)."""
    return build(_HARDSWISH, (x,))


def sgn(x: Tensor) -> Tensor:
    """Return the sign of `x`: 1, 0 or -1."""
    return build(_SGN, (x,))


def step(x: Tensor) -> Tensor:
    """Return 1 where `x` is more than 0, else 0."""
    return build(_STEP, (x,))


def elu(x: Tensor) -> Tensor:
    """Return `x` where it is more than 0, else exp(x) - 1."""
    return build(_ELU, (x,))


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x))."""
    return build(_SOFTPLUS, (x,))


def leaky_relu(x: Tensor, negative_slope: float) -> Tensor:
    """Return `x` where it is more than 0, else `negative_slope` times `x`."""
    return build(_LEAKY_RELU, (x,), (float(negative_slope),))


# ---- gated linear units ----


def reglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return relu(a) * b.

    Without `b`, the two are the halves of the last axis of `a`, the first of them
    under the activation, or the second where they are `swapped`. So it is with all
    these units.
    """
    return build(_REGLU, (a, b), (int(swapped),))


def geglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu(a) * b, operands as in `reglu`."""
    return build(_GEGLU, (a, b), (int(swapped),))


def geglu_erf(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu_erf(a) * b, operands as in `reglu`."""
    return build(_GEGLU_ERF, (a, b), (int(swapped),))


def geglu_quick(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return gelu_quick(a) * b, operands as in `reglu`."""
    return build(_GEGLU_QUICK, (a, b), (int(swapped),))


def swiglu(a: Tensor, b: Tensor | None = None, *, swapped: bool = False) -> Tensor:
    """Return silu(a) * b, operands as in `reglu`."""
    return build(_SWIGLU, (a, b), (int(swapped),))
