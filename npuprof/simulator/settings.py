"""Which ``set_config`` values the collector of a 910B takes.

Source: collectors/FRONTENDS.md section 3.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from npuprof.simulator import codes

_MAX_VALUE_BYTES = 256
_LAST_KIND = 16
_MAX_STORAGE_MB = 4294967295
_MIN_STORAGE_MB = 200
_HOST_RESOURCES = frozenset({"cpu", "mem", "disk", "network", "osrt", "numa"})
_UNKNOWN_ON_THIS_CHIP = 15


def _between(low: int, high: int) -> Callable[[str], bool]:
    return lambda value: value.isascii() and value.isdigit() and low <= int(value) <= high


def _is_storage(value: str) -> bool:
    match = re.fullmatch(r"([0-9]{1,10})MB", value)
    return match is not None and _MIN_STORAGE_MB <= int(match[1]) <= _MAX_STORAGE_MB


def _in_list(allowed: frozenset[str]) -> Callable[[str], bool]:
    return lambda value: not value or set(value.split(",")) <= allowed


def _anything(_value: str) -> bool:
    return True


_CHECKS: Mapping[int, Callable[[str], bool]] = {
    1: _is_storage,
    3: _between(1, 100),
    4: frozenset({"read", "write"}).__contains__,
    5: _between(1, 100),
    6: _between(1, 50),
    7: _between(1, 100),
    8: _in_list(_HOST_RESOURCES),
    9: _in_list(frozenset({"cpu", "mem"})),
    10: _between(1, 50),
    12: _anything,
    16: _anything,
}


def check(kind: int, value: str | None) -> int:
    """Return the code that ``aclprofSetConfig`` answers with."""
    if not isinstance(value, str) or not 0 < kind <= _LAST_KIND or len(value.encode()) > _MAX_VALUE_BYTES:
        return codes.INVALID_PARAM
    if kind == _UNKNOWN_ON_THIS_CHIP:
        return codes.INVALID_PARAM
    accepts = _CHECKS.get(kind)
    return codes.SUCCESS if accepts is not None and accepts(value) else codes.INVALID_PROFILING_CONFIG
