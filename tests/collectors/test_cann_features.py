"""What CANN advertises, asked of a library of the same calls."""

from __future__ import annotations

import ctypes
from typing import Any

from npuprof.collectors.capabilities import can_load, features_of


class _Library:
    """Answers one call with records as CANN lays them out: a name of 64 bytes, then 192 that do not matter here."""

    def __init__(self, call: str, names: list[bytes], code: int = 0, count: int | None = None) -> None:
        self._records = b"".join(name.ljust(64, b"\0") + b"\xff" * 192 for name in names)
        self._buffer = ctypes.create_string_buffer(self._records, len(self._records))
        self._count = len(names) if count is None else count
        self._code = code
        setattr(self, call, self._answer)

    def _answer(self, count: Any, records: Any) -> int:
        count._obj.value = self._count
        records._obj.value = ctypes.addressof(self._buffer)
        return self._code


def test_the_names_of_the_features_are_read() -> None:
    library = _Library("aclprofGetSupportedFeaturesV2", [b"ATTR", b"MemoryAccess"])
    assert features_of(library) == {"ATTR", "MemoryAccess"}


def test_an_older_cann_has_the_older_call() -> None:
    assert features_of(_Library("aclprofGetSupportedFeatures", [b"ATTR"])) == {"ATTR"}


def test_a_call_that_fails_or_counts_wildly_advertises_nothing() -> None:
    assert features_of(_Library("aclprofGetSupportedFeaturesV2", [b"ATTR"], code=100000)) == frozenset()
    assert features_of(_Library("aclprofGetSupportedFeaturesV2", [b"ATTR"], count=1 << 40)) == frozenset()
    assert features_of(_Library("another", [])) == frozenset()


def test_missing_library_cannot_be_loaded() -> None:
    assert not can_load("libnpuprof_no_such_library.so")
