"""Making arrays on the simulated NPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Records
from npuprof.simulator.machine import current
from npuprof.simulator.npu.array import NpuArray
from npuprof.simulator.npu.launches import launch_on
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.storage import check_dtype, release_dropped
from npuprof.simulator.npu.streams import Stream, device_of
from npuprof.simulator.npu.streams import stream as in_stream


def array(
    values: Any, dtype: npt.DTypeLike | None = None, *, device: int = 0, stream: Stream | None = None
) -> NpuArray:
    """Copy values from the host to a simulated NPU.

    Parameters
    ----------
    values
        What ``np.array`` takes; an array of the device is copied there.
    dtype
        Converted to on the host, before the copy.
    device
        Number of the device.
    stream
        Where the copy is enqueued; by default the calling thread's stream.

    Raises
    ------
    TypeError
        For data types that devices do not have.
    ValueError
        If there is no such device.
    """
    with in_stream(stream):
        if isinstance(values, NpuArray):
            moved = values.to_device(device)
            return moved.astype(moved.dtype if dtype is None else dtype, copy=moved is values)
        return NpuArray._from_host(np.array(values, dtype=dtype), device)


def asarray(
    values: Any, dtype: npt.DTypeLike | None = None, *, device: int = 0, stream: Stream | None = None
) -> NpuArray:
    """Return the array itself if it is on the device already with this type, or :func:`array` of it."""
    if isinstance(values, NpuArray) and values.device == device and (dtype is None or values.dtype == np.dtype(dtype)):
        return values
    return array(values, dtype, device=device, stream=stream)


def synchronize(device: int | None = None) -> None:
    """Wait until every stream of a device, or of all devices in use, has run what it holds.

    Memory of arrays that are gone is given back then, too.
    """
    release_dropped()
    if device is None:
        current().synchronize()
    else:
        device_of(device).synchronize()


def to_host(values: Any) -> Records:
    """Return NumPy's own array: the values of a device's, waited for and copied, or what is on the host."""
    return values.to_host() if isinstance(values, NpuArray) else np.asarray(values)


def empty(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of whatever values."""
    return NpuArray._make(np.empty(shape, dtype), device)


def zeros(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of zeros; single precision, as NPUs prefer it, unless told otherwise."""
    return _generated("zeros", np.zeros(shape, dtype), device)


def ones(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of ones; single precision unless told otherwise."""
    return _generated("ones_like", np.ones(shape, dtype), device)


def full(shape: Any, value: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of one value; single precision unless told otherwise."""
    return _generated("full", np.full(shape, value, dtype), device)


def arange(*bounds: Any, dtype: npt.DTypeLike | None = None, device: int = 0) -> NpuArray:
    """Make a range, as ``np.arange`` does."""
    return _generated("arange", np.arange(*bounds, dtype=dtype), device)


class Generator:
    """Random numbers made on a simulated NPU, the same as those of NumPy's generator.

    Parameters
    ----------
    seed
        As ``np.random.default_rng`` takes it.
    device
        Number of the device.
    """

    def __init__(self, seed: Any = None, device: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._device_id = device_of(device).device_id

    def standard_normal(self, size: Any = None, dtype: npt.DTypeLike = np.float32) -> NpuArray:
        """Draw from the normal distribution of mean 0 and deviation 1; single or double precision."""
        return _generated("normal", self._generator.standard_normal(size, dtype), self._device_id)  # type: ignore[arg-type]  # checked by NumPy

    def random(self, size: Any = None, dtype: npt.DTypeLike = np.float32) -> NpuArray:
        """Draw uniformly from 0 to 1; single or double precision."""
        return _generated("uniform", self._generator.random(size, dtype), self._device_id)  # type: ignore[arg-type]  # checked by NumPy

    def integers(self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64) -> NpuArray:
        """Draw integers from `low` (or 0) to below `high`."""
        return _generated("integers", self._generator.integers(low, high, size, dtype), self._device_id)


def default_rng(seed: Any = None, *, device: int = 0) -> Generator:
    """Make a generator of random numbers on a simulated NPU."""
    return Generator(seed, device)


def _generated(operator: str, values: Any, device_id: int) -> NpuArray:
    """Make an array whose values an operator of the device writes."""
    values = np.asarray(values)
    check_dtype(values.dtype)
    made = NpuArray._make(values, device_id)
    launch_on(kernel(operator), [], [values], device_id)
    return made
