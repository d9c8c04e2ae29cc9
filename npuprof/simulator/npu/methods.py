"""The methods that NumPy's arrays have, each by the function of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"Compute ``np.{function.__name__}`` of the array, with the same arguments."
    return method


class ArrayMethods:
    """Methods for an array type that NumPy's functions understand."""

    __slots__ = ()

    all = _method(np.all)
    any = _method(np.any)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    argsort = _method(np.argsort)
    clip = _method(np.clip)
    conj = _method(np.conjugate)
    copy = _method(np.copy)
    cumprod = _method(np.cumprod)
    cumsum = _method(np.cumsum)
    diagonal = _method(np.diagonal)
    dot = _method(np.dot)
    max = _method(np.max)
    mean = _method(np.mean)
    min = _method(np.min)
    nonzero = _method(np.nonzero)
    prod = _method(np.prod)
    ravel = _method(np.ravel)
    repeat = _method(np.repeat)
    round = _method(np.round)
    squeeze = _method(np.squeeze)
    std = _method(np.std)
    sum = _method(np.sum)
    swapaxes = _method(np.swapaxes)
    take = _method(np.take)
    trace = _method(np.trace)
    var = _method(np.var)

    def reshape(self, *shape: Any, order: Any = "C") -> Any:
        """Reshape the elements: a view where possible."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)  # type: ignore[call-overload]  # by protocol

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes, or reverse them when none are named."""
        order = axes[0] if len(axes) == 1 else axes or None
        return np.transpose(self, order)  # type: ignore[call-overload]  # by protocol

    def flatten(self) -> Any:
        """Return a copy with one axis."""
        return np.reshape(np.copy(self, order="C"), -1)  # type: ignore[call-overload]  # by protocol

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The array with its axes reversed."""
        return self.transpose()

    @property
    def real(self) -> Any:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)
