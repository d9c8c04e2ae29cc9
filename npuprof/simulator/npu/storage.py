"""What stands behind an array: its true values in the host's memory, and a block of the device's."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.device import Device
from npuprof.simulator.npu.streams import device_of

_Array = TypeVar("_Array", bound="DeviceArray")

_KINDS = "biufc"
_MAX_ITEM_BYTES = 16  # complex128; NumPy's extended precision has no counterpart on a device


# Blocks that nothing refers to any more. A destructor may run anywhere, in the midst of the device's own work too,
# so it only leaves a note here; the next allocation or synchronisation acts on it.
_dropped: deque[tuple[Device, int]] = deque()


def release_dropped() -> None:
    """Free the memory of arrays that are gone."""
    while _dropped:
        try:
            device, address = _dropped.popleft()
        except IndexError:  # another thread has been quicker
            return
        device.release(address)


class Block:
    """Memory of a device, to be released when nothing refers to it any more.

    Parameters
    ----------
    device
        Where.
    size_bytes
        How much; the device rounds it up.

    Raises
    ------
    MemoryError
        If the device has no room for it.
    """

    __slots__ = ("_address", "_device")

    def __init__(self, device: Device, size_bytes: int) -> None:
        self._device = device
        self._address = 0
        release_dropped()
        self._address = device.allocate(size_bytes)
        if not self._address:
            free_bytes = device.memory.size_bytes - device.memory.allocated_bytes
            raise MemoryError(
                f"simulated device {device.device_id} has no room for {size_bytes} bytes "
                f"({free_bytes} bytes are free): let go of arrays, or take them to the host with x.to_host()"
            )

    def __del__(self) -> None:
        if self._address:
            _dropped.append((self._device, self._address))


class DeviceArray:
    """An array of a simulated device, without what makes it an array for NumPy.

    Attributes
    ----------
    _values
        The true values. A view shares them with its base, as NumPy's views do.
    _block
        The memory of the device; a view keeps its base's.
    _device_id
        Number of the device.
    """

    __slots__ = ("__weakref__", "_block", "_device_id", "_values")

    _values: Records
    _block: Block
    _device_id: int

    @classmethod
    def _make(cls: type[_Array], values: Any, device_id: int, block: Block | None = None) -> _Array:
        """Make an array around values that nobody else changes, in a block of its own if none is given."""
        self = cls.__new__(cls)
        self._values = np.asarray(values)
        self._device_id = device_id
        check_dtype(self._values.dtype)
        self._block = Block(device_of(device_id), self._values.nbytes) if block is None else block
        return self


def wrap(like: _Array, values: Any, operands: Sequence[DeviceArray] = ()) -> _Array:
    """Make an array of the type and on the device of `like`; a view of it or of an operand shares the block."""
    values = np.asarray(values)
    bases: tuple[DeviceArray, ...] = (like, *operands)
    for base in bases:
        if np.may_share_memory(values, base._values):
            return like._make(values, like._device_id, base._block)
    return like._make(values, like._device_id)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse data types that devices do not have.

    Raises
    ------
    TypeError
        For anything but booleans, integers, floating point and complex numbers of up to 16 bytes, and bfloat16.
    """
    # A float of 16 bytes is NumPy's extended precision; complex128 has as many and is fine.
    if dtype.name == "bfloat16" or (
        dtype.kind in _KINDS and dtype.itemsize <= (_MAX_ITEM_BYTES if dtype.kind == "c" else _MAX_ITEM_BYTES // 2)
    ):
        return
    raise TypeError(f"an NPU has no data type {dtype}: convert the values on the host first, to float32 for example")
