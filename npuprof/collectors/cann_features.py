"""What the installed CANN can collect beyond the ordinary, as it advertises it to front ends.

Front ends drop, with at most a line in a log, what is not advertised. Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import ctypes
from typing import Any

MEMORY_ACCESS = "MemoryAccess"
ATTRIBUTES = "ATTR"

_LIBRARY = "libmsprofiler.so"
_CALLS = ("aclprofGetSupportedFeaturesV2", "aclprofGetSupportedFeatures")
_NAME_BYTES, _RECORD_BYTES = 64, 256  # a record begins with its name; versions and components follow
_MOST = 1024  # more is no list of features


def advertised() -> frozenset[str]:
    """Return the names of the features that CANN advertises; none where it cannot be asked."""
    try:
        return features_of(ctypes.CDLL(_LIBRARY))
    except OSError:
        return frozenset()


def features_of(library: Any) -> frozenset[str]:
    """Ask a loaded library, whose calls are its attributes, for its features."""
    for name in _CALLS:
        count, records = ctypes.c_size_t(), ctypes.c_void_p()
        try:
            code = getattr(library, name)(ctypes.byref(count), ctypes.byref(records))
        except AttributeError:
            continue
        if code == 0 and records.value and count.value <= _MOST:
            found = (ctypes.string_at(records.value + row * _RECORD_BYTES, _NAME_BYTES) for row in range(count.value))
            return frozenset(name.partition(b"\0")[0].decode(errors="replace") for name in found)
    return frozenset()


def can_load(library: str) -> bool:
    """Return whether the dynamic linker finds a library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
