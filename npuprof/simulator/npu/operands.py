"""Operands of a call: taken from arrays, copied to the device, launched, and read or written in part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.catalogue import CAST, Kernel
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.device_view import CopyKind
from npuprof.simulator.launches import Launch
from npuprof.simulator.npu.operators import Rule, kernel
from npuprof.simulator.npu.streams import DeviceArray, check_dtype, device_of, launch_stream, wrap


def tensor(values: Records | np.generic) -> Tensor:
    """Return the shape and data type of an operand."""
    return Tensor(values.shape, values.dtype.name)


def launch(
    kernel: Kernel, inputs: Iterable[Tensor], outputs: Iterable[Tensor], *, device_id: int, flops: int | None = None
) -> None:
    """Launch a kernel in the calling thread's stream; by default operations are counted per element."""
    device = device_of(device_id)
    launched = Launch.elementwise(kernel, inputs, outputs)
    (launched if flops is None else launched._replace(flops=flops)).run(device, launch_stream(device))


def launch_on(
    kernel: Kernel, inputs: Iterable[Records | np.generic], outputs: Sequence[Records], device_id: int
) -> None:
    """Launch a kernel on values."""
    launch(kernel, map(tensor, inputs), map(tensor, outputs), device_id=device_id)


def cast(values: Records, dtype: np.dtype[Any], device_id: int) -> Tensor:
    """Launch the cast of an operand to the computing type, if the cast is lossless; return the operand."""
    if values.dtype == dtype or not np.can_cast(values.dtype, dtype):
        return tensor(values)
    converted = Tensor(values.shape, dtype.name)
    launch(CAST, [tensor(values)], [converted], device_id=device_id)
    return converted


def copy(kind: CopyKind, size_bytes: int, device_id: int) -> None:
    """Copy in the calling thread's stream without waiting."""
    device = device_of(device_id)
    device.copy(kind, size_bytes, launch_stream(device))


def read_back(size_bytes: int, device_id: int) -> None:
    """Copy to the host and wait for the stream."""
    device = device_of(device_id)
    stream = launch_stream(device)
    device.copy("device_to_host", size_bytes, stream)
    device.synchronize(stream)


_COUNT_BYTES = 8

_Array = TypeVar("_Array", bound=DeviceArray)


class Operands:
    """The operands of one call, on one device.

    Attributes
    ----------
    arrays
        The arrays of the device, in order.
    values
        Their values and those of host arrays, in order.
    """

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.arrays: list[DeviceArray] = []
        self.values: list[Records] = []
        self._host: list[Records] = []

    def take(self, value: Any) -> Any:
        """Return the values of an array, or of the arrays in a list or tuple; other objects unchanged."""
        if isinstance(value, DeviceArray):
            return self._take_array(value)
        if isinstance(value, np.ndarray):
            return self._take_host(value)
        if type(value) in (list, tuple):
            return type(value)([self.take(each) for each in value])
        return value

    def take_operand(self, value: Any) -> Any:
        """Take an operand of a ufunc; a sequence is converted to an array."""
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
        """Copy the host arrays to the device."""
        for values in self._host:
            copy("host_to_device", values.nbytes, self.device_id)


def run(rule: Rule, like: _Array, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute with NumPy and launch the operator of the rule; nothing is launched if NumPy raises.

    Returns
    -------
    NpuArray
        The result; a list or tuple of results where NumPy returns one; ``out`` if it was passed.
    """
    operands = Operands(like._device_id)
    remainder = dict(kwargs)
    out = remainder.pop("out", None)
    out = out[0] if isinstance(out, tuple) else out
    arguments = [operands.take(value) for value in args]
    remainder = {name: operands.take(value) for name, value in remainder.items()}
    if out is not None:
        remainder["out"] = target_of(out, like._device_id)
    result = function(*arguments, **remainder)
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
    """Return NumPy's result as arrays; an operand that NumPy returned is returned itself."""
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
    """Raise a ValueError for an array of another device."""
    if array._device_id != device_id:
        raise ValueError(
            f"operands are on the devices {device_id} and {array._device_id}: bring them together with x.to_device(...)"
        )


def target_of(out: Any, device_id: int) -> Records:
    """Return the values of `out`; raise a TypeError if it is not an array, a ValueError if it is on another device."""
    if isinstance(out, DeviceArray):
        check_device(out, device_id)
    target = out._values if isinstance(out, DeviceArray) else out
    if not isinstance(target, np.ndarray):
        raise TypeError(f"out must be an array, not {type(out).__name__}")
    return target


def delivered(made: Any, device_id: int) -> Any:
    """Return a launched result; a host result is copied back, with a wait."""
    if isinstance(made, np.ndarray):
        read_back(made.nbytes, device_id)
    return made


def unsupported(name: str) -> TypeError:
    """Return the error of a function without an operator."""
    return TypeError(
        f"{name} has no operator on the simulated NPU: take the values to the host with x.to_host(), "
        "compute there, and bring the result back with npu.array(...)"
    )


_PUT = kernel("index_put")


def read_part(array: _Array, index: Any) -> _Array:
    """Compute ``x[index]``: no kernel for a view of the whole array, a slice or a gather for a part."""
    operands = Operands(array._device_id)
    plain = _plain(operands, index)
    part = np.asarray(array._values[plain])
    operands.upload()
    indices = _index_arrays(plain)
    if not indices:
        if not _is_whole(part, array._values):
            launch_on(kernel("slice"), [array._values], [part], array._device_id)
        return wrap(array, part)
    indices = _mask_indices(indices, array._device_id)
    launch_on(kernel("index"), [array._values, *indices], [part], array._device_id)
    return wrap(array, part)


def assign_part(array: DeviceArray, index: Any, value: Any) -> None:
    """Compute ``x[index] = value``: a fill for a scalar, a copy or a scatter for an array."""
    operands = Operands(array._device_id)
    plain = _plain(operands, index)
    indices = _index_arrays(plain)
    source = operands.take_operand(value)
    target = np.asarray(array._values[plain])
    if not indices and isinstance(source, np.ndarray) and _is_same(source, target):
        return  # the last step of ``x[a:b] += y``: the values are already written
    array._values[plain] = source
    operands.upload()
    if not isinstance(source, np.ndarray):
        masked = [each for each in indices if each.dtype == np.bool_]
        filled_names = kernel("masked_fill", scalar=True, in_place=True) if masked else _PUT
        launch_on(filled_names if indices else kernel("full"), indices, [target], array._device_id)
        return
    operand = cast(source, target.dtype, array._device_id)
    stored = _PUT if indices else kernel("copy_to_view")
    launch(stored, [operand, *map(tensor, indices)], [tensor(target)], device_id=array._device_id)


def _plain(operands: Operands, index: Any) -> Any:
    """Return an index with plain arrays; a list becomes an array of indices."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = tuple(operands.take_operand(part) for part in parts)
    return plain if isinstance(index, tuple) else plain[0]


def _index_arrays(plain: Any) -> list[Records]:
    return [part for part in (plain if isinstance(plain, tuple) else (plain,)) if isinstance(part, np.ndarray)]


def _mask_indices(indices: list[Records], device_id: int) -> list[Records]:
    """Convert masks into indices; wait for their number, which determines the result's shape."""
    counted = []
    for index in indices:
        if index.dtype == np.bool_:
            positions = np.empty((np.count_nonzero(index), index.ndim), np.int64)
            launch_on(kernel("nonzero"), [index], [positions], device_id)
            read_back(_COUNT_BYTES, device_id)
            counted.append(positions)
        else:
            counted.append(index)
    return counted


def _is_whole(part: Records, values: Records) -> bool:
    """Return whether a view keeps every element in place: only full slices and new axes."""
    return part.size == values.size and _start(part) == _start(values)


def _is_same(source: Records, target: Records) -> bool:
    return source.shape == target.shape and source.strides == target.strides and _start(source) == _start(target)


def _start(values: Records) -> int:
    return int(values.__array_interface__["data"][0])
