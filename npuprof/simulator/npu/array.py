"""The array type of the simulated NPU, and the functions that make arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from npuprof.arrays import Records
from npuprof.simulator.catalogue import CAST
from npuprof.simulator.machine import current
from npuprof.simulator.npu import functions, operands
from npuprof.simulator.npu.calls import called
from npuprof.simulator.npu.operands import copy, launch_on, read_back
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.streams import DeviceArray, Stream, check_dtype, device_of, release_dropped
from npuprof.simulator.npu.streams import stream as in_stream


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"Compute ``np.{function.__name__}`` of the array, with the same arguments."
    return method


class ArrayMethods:
    """Methods of an array type, implemented by NumPy's functions."""

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
        """The transposed array."""
        return self.transpose()

    @property
    def real(self) -> Any:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)


class NpuArray(DeviceArray, ArrayMethods, NDArrayOperatorsMixin):
    """An array in the memory of a simulated NPU, for ordinary NumPy code.

    Operators, ufuncs and functions of NumPy launch the operators of CANN in the calling thread's stream, and return
    NumPy's results. A function without an operator is a TypeError.

    Reading values (``print``, ``float(x)``, ``if x``, ``np.asarray(x)``, :meth:`to_host`) copies them to the host and
    waits for the stream, as on a real NPU.

    Arrays are made by :func:`array` and similar functions. Views share memory as in NumPy.
    """

    __slots__ = ()

    def __new__(cls, *_: Any, **__: Any) -> NpuArray:
        """Raise a TypeError: arrays are made by functions."""
        if cls is NpuArray and (_ or __):
            raise TypeError("make arrays with npu.array(...), npu.zeros(...) and similar functions")
        return super().__new__(cls)

    @classmethod
    @called
    def _from_host(cls, values: Records, device_id: int = 0) -> NpuArray:
        """Copy values to a device; the values must not be modified afterwards."""
        made = cls._make(values, device_id)
        copy("host_to_device", made.nbytes, device_id)
        return made

    # -- description ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of an element."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._values.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._values.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._values.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._values.nbytes

    @property
    def device(self) -> int:
        """Number of the simulated device."""
        return self._device_id

    # -- NumPy's protocols ---------------------------------------------------------------------------------

    @called
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return functions.apply_ufunc(self, ufunc, method, inputs, kwargs)

    @called
    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return functions.apply_function(self, func, types, args, kwargs)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Records:
        if copy is False:
            raise ValueError("the values are on the device: reading them needs a copy to the host")
        return np.asarray(self.to_host(), dtype)

    # -- to and from the host ------------------------------------------------------------------------------

    @called
    def to_host(self) -> Records:
        """Wait for the stream and copy the values into a NumPy array."""
        read_back(self.nbytes, self._device_id)
        return np.array(self._values)

    @called
    def to_device(self, device: int) -> NpuArray:
        """Copy to another simulated device; return the array itself if it is already there."""
        if device == self._device_id:
            return self
        moved = self._make(self._values.copy(), device)
        copy("device_to_device", self.nbytes, device)
        return moved

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number, after a wait."""
        return self.to_host().item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists, after a wait."""
        return self.to_host().tolist()

    @called
    def astype(self, dtype: npt.DTypeLike, *, copy: bool = True) -> NpuArray:
        """Convert to another data type by a cast on the device, or by a copy if the type is the same."""
        if np.dtype(dtype) == self.dtype:
            return self.copy() if copy else self
        values = self._values.astype(dtype)
        converted = self._make(values, self._device_id)
        launch_on(CAST, [self._values], [values], self._device_id)
        return converted

    def fill(self, value: Any) -> None:
        """Set all elements."""
        self[...] = value

    # -- parts ---------------------------------------------------------------------------------------------

    @called
    def __getitem__(self, index: Any) -> NpuArray:
        return operands.read_part(self, index)

    @called
    def __setitem__(self, index: Any, value: Any) -> None:
        operands.assign_part(self, index, value)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[NpuArray]:
        return (self[row] for row in range(len(self)))

    # -- Python's protocols --------------------------------------------------------------------------------

    @called
    def __pow__(self, exponent: Any) -> Any:
        # NumPy does not call np.power for these exponents either.
        if isinstance(exponent, (int, float)):
            return functions.power_of_scalar(self, exponent)
        return np.power(self, exponent)

    def __bool__(self) -> bool:
        return bool(self.to_host())

    def __int__(self) -> int:
        return int(self.to_host())

    def __float__(self) -> float:
        return float(self.to_host())

    def __complex__(self) -> complex:
        return complex(self.to_host())

    def __index__(self) -> int:
        return self.to_host().__index__()

    def __copy__(self) -> NpuArray:
        return self.__deepcopy__({})

    @called
    def __deepcopy__(self, _: dict[int, Any]) -> NpuArray:
        values = self._values.copy()
        launch_on(kernel("copy"), [self._values], [values], self._device_id)
        return self._make(values, self._device_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return NpuArray._from_host, (self.to_host(),)

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification) if specification and not self.ndim else repr(self)

    def __repr__(self) -> str:
        values = np.array2string(self.to_host(), separator=", ", prefix="NpuArray(")
        return f"NpuArray({values}, dtype={self.dtype}, device={self.device}, simulated)"


def array(
    values: Any, dtype: npt.DTypeLike | None = None, *, device: int = 0, stream: Stream | None = None
) -> NpuArray:
    """Copy values from the host to a simulated NPU."""
    with in_stream(stream):
        if isinstance(values, NpuArray):
            moved = values.to_device(device)
            return moved.astype(moved.dtype if dtype is None else dtype, copy=moved is values)
        return NpuArray._from_host(np.array(values, dtype=dtype), device)


def asarray(
    values: Any, dtype: npt.DTypeLike | None = None, *, device: int = 0, stream: Stream | None = None
) -> NpuArray:
    """Return the array itself if it has this type and device, else a copy by :func:`array`."""
    if isinstance(values, NpuArray) and values.device == device and (dtype is None or values.dtype == np.dtype(dtype)):
        return values
    return array(values, dtype, device=device, stream=stream)


@called
def synchronize(device: int | None = None) -> None:
    """Wait for all streams of a device, or of all devices in use, and release the memory of deleted arrays."""
    release_dropped()
    if device is None:
        current().synchronize()
    else:
        device_of(device).synchronize()


def to_host(values: Any) -> Records:
    """Return the values as a NumPy array, copied from the device if they are there."""
    return values.to_host() if isinstance(values, NpuArray) else np.asarray(values)


@called
def empty(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array with uninitialised values."""
    return NpuArray._make(np.empty(shape, dtype), device)


@called
def zeros(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of zeros, by default in single precision, as is usual on NPUs."""
    return _generate("zeros", np.zeros(shape, dtype), device)


@called
def ones(shape: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array of ones, by default in single precision."""
    return _generate("ones_like", np.ones(shape, dtype), device)


@called
def full(shape: Any, value: Any, dtype: npt.DTypeLike = np.float32, *, device: int = 0) -> NpuArray:
    """Make an array with the same value in all elements, by default in single precision."""
    return _generate("full", np.full(shape, value, dtype), device)


@called
def arange(*bounds: Any, dtype: npt.DTypeLike | None = None, device: int = 0) -> NpuArray:
    """Make a range, like ``np.arange``."""
    return _generate("arange", np.arange(*bounds, dtype=dtype), device)


class Generator:
    """Random numbers on a simulated NPU, equal to those of ``np.random.default_rng(seed)``."""

    def __init__(self, seed: Any = None, device: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._device_id = device_of(device).device_id

    @called
    def standard_normal(self, size: Any = None, dtype: npt.DTypeLike = np.float32) -> NpuArray:
        """Draw from the normal distribution of mean 0 and deviation 1; single or double precision."""
        return _generate("normal", self._generator.standard_normal(size, dtype), self._device_id)  # type: ignore[arg-type]  # checked by NumPy

    @called
    def random(self, size: Any = None, dtype: npt.DTypeLike = np.float32) -> NpuArray:
        """Draw uniformly from 0 to 1; single or double precision."""
        return _generate("uniform", self._generator.random(size, dtype), self._device_id)  # type: ignore[arg-type]  # checked by NumPy

    @called
    def integers(self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64) -> NpuArray:
        """Draw integers from `low` (or 0) to below `high`."""
        return _generate("randint", self._generator.integers(low, high, size, dtype), self._device_id)


def default_rng(seed: Any = None, *, device: int = 0) -> Generator:
    """Make a generator of random numbers on a simulated NPU."""
    return Generator(seed, device)


def _generate(operator: str, values: Any, device_id: int) -> NpuArray:
    """Make an array and launch the operator that writes its values."""
    values = np.asarray(values)
    check_dtype(values.dtype)
    made = NpuArray._make(values, device_id)
    launch_on(kernel(operator), [], [values], device_id)
    return made
