"""The array type of the simulated NPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from npuprof.arrays import Records
from npuprof.simulator.catalogue import CAST
from npuprof.simulator.npu import functions, indexing, ufuncs
from npuprof.simulator.npu.launches import copy, launch_on, read_back
from npuprof.simulator.npu.methods import ArrayMethods
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.storage import DeviceArray


class NpuArray(DeviceArray, ArrayMethods, NDArrayOperatorsMixin):
    """An array in the memory of a simulated NPU, for ordinary NumPy code.

    Operators, ufuncs and functions of NumPy launch the operators that CANN would, in the calling thread's
    stream; what they give is exactly what NumPy gives. A function that no operator computes is a TypeError.

    Whatever looks at values (``print``, ``float(x)``, ``if x``, ``np.asarray(x)``, :meth:`to_host`)
    copies them to the host and waits for the stream, as it does on a real NPU.

    Made by :func:`array` and its neighbours, not by calling the class. Views share memory as NumPy's do.
    """

    __slots__ = ()

    def __new__(cls, *_: Any, **__: Any) -> NpuArray:
        """Refuse: an array is made by the functions of the package."""
        if cls is NpuArray and (_ or __):
            raise TypeError("make arrays with npu.array(...), npu.zeros(...) and their like")
        return super().__new__(cls)

    @classmethod
    def _from_host(cls, values: Records, device_id: int = 0) -> NpuArray:
        """Copy values that nobody else changes to a device."""
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

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufuncs.apply(self, ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return functions.apply(self, func, types, args, kwargs)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Records:
        if copy is False:
            raise ValueError("the values are on the device: they cannot be had without a copy to the host")
        return np.asarray(self.to_host(), dtype)

    # -- to and from the host ------------------------------------------------------------------------------

    def to_host(self) -> Records:
        """Wait for the stream, copy to the host, and give NumPy's own array."""
        read_back(self.nbytes, self._device_id)
        return np.array(self._values)

    def to_device(self, device: int) -> NpuArray:
        """Copy to another simulated device; the same array when it is there."""
        if device == self._device_id:
            return self
        moved = self._make(self._values.copy(), device)
        copy("device_to_device", self.nbytes, device)
        return moved

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number; the host waits for it."""
        return self.to_host().item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists; the host waits for them."""
        return self.to_host().tolist()

    def astype(self, dtype: npt.DTypeLike, *, copy: bool = True) -> NpuArray:
        """Convert to another data type: a cast on the device, or a copy where it is the same."""
        if np.dtype(dtype) == self.dtype:
            return self.copy() if copy else self
        values = self._values.astype(dtype)
        converted = self._make(values, self._device_id)
        launch_on(CAST, [self._values], [values], self._device_id)
        return converted

    def fill(self, value: Any) -> None:
        """Set every element."""
        self[...] = value

    # -- parts ---------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> NpuArray:
        return indexing.read(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        indexing.assign(self, index, value)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[NpuArray]:
        return (self[row] for row in range(len(self)))

    # -- Python's protocols --------------------------------------------------------------------------------

    def __pow__(self, exponent: Any) -> Any:
        # NumPy's own arrays do not go through np.power for these.
        if isinstance(exponent, (int, float)):
            return ufuncs.power_of_scalar(self, exponent)
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
