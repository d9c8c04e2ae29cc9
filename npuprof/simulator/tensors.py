"""What an operator takes and gives, as the profiler describes it: shape, data type and storage format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# Name in NumPy's terms, code of the graph engine, bytes of an element. Source: raw/FORMAT.md section 4.2.
_DTYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "float32": (0, 4),
        "float16": (1, 2),
        "int8": (2, 1),
        "int32": (3, 4),
        "uint8": (4, 1),
        "int16": (6, 2),
        "uint16": (7, 2),
        "uint32": (8, 4),
        "int64": (9, 8),
        "uint64": (10, 8),
        "float64": (11, 8),
        "bool": (12, 1),
        "complex64": (16, 8),
        "complex128": (17, 16),
        "bfloat16": (27, 2),
    }
)
_UNDEFINED_DTYPE = (28, 0)
_FORMATS: Mapping[str, int] = MappingProxyType(
    {
        "NCHW": 0,
        "NHWC": 1,
        "ND": 2,
        "NC1HWC0": 3,
        "FRACTAL_Z": 4,
        "HWCN": 16,
        "NDHWC": 27,
        "FRACTAL_NZ": 29,
        "NCDHW": 30,
    }
)
_FORMAT_ND = 2


@dataclass(frozen=True)
class Tensor:
    """One operand of an operator.

    Attributes
    ----------
    shape
        Lengths of the axes; empty for a scalar. The raw format keeps the first eight.
    dtype
        NumPy's name of the type, or ``bfloat16``; others are written as undefined and count no bytes.
    format
        Storage format in the graph engine's terms.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    format: str = "ND"

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * _DTYPES.get(self.dtype, _UNDEFINED_DTYPE)[1]

    @property
    def dtype_code(self) -> int:
        """The graph engine's number of the data type."""
        return _DTYPES.get(self.dtype, _UNDEFINED_DTYPE)[0]

    @property
    def format_code(self) -> int:
        """The graph engine's number of the format; ND for one that is not known."""
        return _FORMATS.get(self.format, _FORMAT_ND)
