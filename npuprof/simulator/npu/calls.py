"""Calls of array functions: emulated, so that the clock stands still, and recorded as calls of a framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from npuprof.simulator.calls import recorded
from npuprof.simulator.clock import emulating
from npuprof.simulator.machine import current

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_PASSED_ON = frozenset({"__array_ufunc__", "__array_function__"})
_NAMES = {"_from_host": "npu.array", "to_host": "npu.to_host"}


def called(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function or method that computes arrays."""
    function_name = function.__name__
    name = _NAMES.get(function_name, f"npu.{function_name.strip('_')}")

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        machine = current()
        with emulating(machine.clock), recorded(machine, _numpys(args) if function_name in _PASSED_ON else name):
            return function(*args, **kwargs)

    return call


def _numpys(args: tuple[Any, ...]) -> str:
    """Return the name of the NumPy function that an array was passed to: ``np.add``."""
    return f"np.{args[1].__name__}"
