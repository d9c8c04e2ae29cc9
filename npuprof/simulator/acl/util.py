"""``acl.util``: addresses of Python objects."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


def numpy_to_ptr(array: np.ndarray[Any, Any]) -> int:
    """Give the address of an array's contents; the array must be kept alive."""
    return int(array.ctypes.data)


def bytes_to_ptr(data: bytes) -> int:
    """Give the address of the contents of `data`, which must be kept alive."""
    return int(np.frombuffer(data, dtype=np.uint8).ctypes.data)


def ptr_to_bytes(address: int, size: int) -> bytes:
    """Give a copy of host memory."""
    return ctypes.string_at(address, size)
