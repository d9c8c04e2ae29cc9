"""Reading and writing parts of an array."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.npu.launches import cast, launch, launch_on, read_back, tensor
from npuprof.simulator.npu.operands import Operands
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.storage import DeviceArray, wrap

_PUT = kernel("index_put")
_COUNT_BYTES = 8

_Array = TypeVar("_Array", bound=DeviceArray)


def read(array: _Array, index: Any) -> _Array:
    """Compute ``x[index]``: nothing for a view of the whole, a slice or a gather for a part."""
    operands = Operands(array._device_id)
    plain = _plain(operands, index)
    part = np.asarray(array._values[plain])
    operands.upload()
    indices = _index_arrays(plain)
    if not indices:
        if not _is_whole(part, array._values):
            launch_on(kernel("slice"), [array._values], [part], array._device_id)
        return wrap(array, part)
    indices = _counted(indices, array._device_id)
    launch_on(kernel("gather_index"), [array._values, *indices], [part], array._device_id)
    return wrap(array, part)


def assign(array: DeviceArray, index: Any, value: Any) -> None:
    """Compute ``x[index] = value``: a fill for a scalar, a copy or a scatter for an array."""
    operands = Operands(array._device_id)
    plain = _plain(operands, index)
    indices = _index_arrays(plain)
    source = operands.take_operand(value)
    target = np.asarray(array._values[plain])
    if not indices and isinstance(source, np.ndarray) and _is_same(source, target):
        return  # what ``x[a:b] += y`` ends with: it is written already
    array._values[plain] = source
    operands.upload()
    if not isinstance(source, np.ndarray):
        masked = [each for each in indices if each.dtype == np.bool_]
        filled = kernel("masked_fill", scalar=True, in_place=True) if masked else _PUT
        launch_on(filled if indices else kernel("full"), indices, [target], array._device_id)
        return
    operand = cast(source, target.dtype, array._device_id)
    stored = _PUT if indices else kernel("copy_to_view")
    launch(stored, [operand, *map(tensor, indices)], [tensor(target)], device_id=array._device_id)


def _plain(operands: Operands, index: Any) -> Any:
    """Take the arrays out of an index; a list in it is an array of indices."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = tuple(operands.take_operand(part) for part in parts)
    return plain if isinstance(index, tuple) else plain[0]


def _index_arrays(plain: Any) -> list[Records]:
    return [part for part in (plain if isinstance(plain, tuple) else (plain,)) if isinstance(part, np.ndarray)]


def _counted(indices: list[Records], device_id: int) -> list[Records]:
    """Turn masks into indices; how many there are decides the result's shape, so the host waits for it."""
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
    """Return whether a view shows every element in place: full slices and new axes only."""
    return part.size == values.size and _start(part) == _start(values)


def _is_same(source: Records, target: Records) -> bool:
    return source.shape == target.shape and source.strides == target.strides and _start(source) == _start(target)


def _start(values: Records) -> int:
    return int(values.__array_interface__["data"][0])
