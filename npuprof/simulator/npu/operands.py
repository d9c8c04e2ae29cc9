"""The operands of one call: taken out of their arrays, and copied to the device where they are the host's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.npu.launches import cast, copy, launch, read_back, tensor
from npuprof.simulator.npu.operators import Rule
from npuprof.simulator.npu.storage import DeviceArray, check_dtype, wrap

_COUNT_BYTES = 8

_Array = TypeVar("_Array", bound=DeviceArray)


class Operands:
    """What one call computes with.

    Parameters
    ----------
    device_id
        The device it runs on; arrays of another one are refused.

    Attributes
    ----------
    arrays
        The arrays of the device, in the order taken.
    values
        Their values and those of host arrays, in the order taken.
    """

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.arrays: list[DeviceArray] = []
        self.values: list[Records] = []
        self._host: list[Records] = []

    def take(self, value: Any) -> Any:
        """Return the values of an array, or of the arrays in a list or tuple; anything else as it is.

        Raises
        ------
        ValueError
            If an array is on another device.
        """
        if isinstance(value, DeviceArray):
            return self._take_array(value)
        if isinstance(value, np.ndarray):
            return self._take_host(value)
        if type(value) in (list, tuple):
            return type(value)([self.take(each) for each in value])
        return value

    def take_operand(self, value: Any) -> Any:
        """Take one operand of a ufunc, of which a sequence is an array too."""
        return self.take(np.asarray(value) if isinstance(value, (list, tuple)) else value)

    def _take_array(self, array: DeviceArray) -> Records:
        check_device(array, self.device_id)
        self.arrays.append(array)
        self.values.append(array._values)
        return array._values

    def _take_host(self, values: Records) -> Any:
        if not values.ndim:
            return values[()]  # a scalar travels with the launch
        check_dtype(values.dtype)
        self._host.append(values)
        self.values.append(values)
        return values

    def upload(self) -> None:
        """Copy to the device what only the host has."""
        for values in self._host:
            copy("host_to_device", values.nbytes, self.device_id)


def run(rule: Rule, like: _Array, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute by NumPy and launch the one operator that stands for it.

    Nothing is launched when NumPy raises.

    Parameters
    ----------
    rule
        The operator.
    like
        An array of the call, for the type and the device of results.
    function, args, kwargs
        What NumPy is asked for.

    Returns
    -------
    NpuArray
        The result; a list or tuple of them where NumPy gives one; ``out`` where it was given.
    """
    operands = Operands(like._device_id)
    rest = dict(kwargs)
    out = rest.pop("out", None)
    out = out[0] if isinstance(out, tuple) else out
    arguments = [operands.take(value) for value in args]
    rest = {name: operands.take(value) for name, value in rest.items()}
    if out is not None:
        rest["out"] = target_of(out, like._device_id)
    result = function(*arguments, **rest)
    outputs = [np.asarray(each) for each in (result if isinstance(result, (list, tuple)) else [result])]
    made = wrapped(like, result, operands) if out is None else out
    operands.upload()
    _launch(rule, operands, outputs)
    if rule.reads_back:
        read_back(_COUNT_BYTES, like._device_id)
    return delivered(made, like._device_id)


def _launch(rule: Rule, operands: Operands, outputs: list[Records]) -> None:
    inputs = [tensor(values) for values in operands.values]
    if rule.promotes and outputs:
        inputs = [cast(values, outputs[0].dtype, operands.device_id) for values in operands.values]
    launch(rule.kernel, inputs, map(tensor, outputs), device_id=operands.device_id)


def wrapped(like: _Array, result: Any, operands: Operands) -> Any:
    """Make arrays of what NumPy gave; an operand that NumPy gave back stays itself."""
    if isinstance(result, (np.ndarray, np.generic)):
        for array in operands.arrays:
            if array._values is result:
                return array
        return wrap(like, result, operands.arrays)
    if isinstance(result, (list, tuple)):
        parts = [wrapped(like, each, operands) for each in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def check_device(array: DeviceArray, device_id: int) -> None:
    """Refuse an array of another device.

    Raises
    ------
    ValueError
        If it is on another device.
    """
    if array._device_id != device_id:
        raise ValueError(
            f"operands are on the devices {device_id} and {array._device_id}: bring them together with x.to_device(...)"
        )


def target_of(out: Any, device_id: int) -> Records:
    """Return the values that a result is to be written to.

    Raises
    ------
    TypeError
        If `out` is no array.
    ValueError
        If it is on another device.
    """
    if isinstance(out, DeviceArray):
        check_device(out, device_id)
    target = out._values if isinstance(out, DeviceArray) else out
    if not isinstance(target, np.ndarray):
        raise TypeError(f"out must be an array, not {type(out).__name__}")
    return target


def delivered(made: Any, device_id: int) -> Any:
    """Return a launched result; one for an array of the host has to be copied to it, and waited for."""
    if isinstance(made, np.ndarray):
        read_back(made.nbytes, device_id)
    return made


def unsupported(name: str) -> TypeError:
    """Make the error of a function that no operator computes."""
    return TypeError(
        f"{name} has no operator on the simulated NPU: take the values to the host with x.to_host(), "
        "compute there, and bring the result back with npu.array(...)"
    )
