"""The contents of a recording: bits of the mask, settings, and the configuration file of ``acl.init``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from npuprof.simulator import codes

ACL_API = 0x1
TASK_TIME = 0x2
AICORE_METRICS = 0x4
L2CACHE = 0x10
HCCL_TRACE = 0x20
TRAINING_TRACE = 0x40
MSPROFTX = 0x80
RUNTIME_API = 0x100
TASK_TIME_L0 = 0x800
TASK_MEMORY = 0x1000
TASK_TIME_L2 = 0x2000
TASK_TIME_L3 = 0x8000
KNOWN_BITS = 0x4000000C0100FBFF

METRIC_NONE = 0xFF
SET_HARDWARE_MEMORY_FREQUENCY = 3


@dataclass(frozen=True)
class Collection:
    """A configuration of the collector: devices, ``aicoreMetrics``, ``data_type_config`` bits, and settings by kind.

    Source: collectors/FRONTENDS.md sections 3.3 and 3.6.
    """

    device_ids: tuple[int, ...]
    metric: int
    mask: int
    settings: Mapping[int, str] = field(default_factory=dict)

    def _asks(self, bits: int) -> bool:
        return bool(self.mask & bits)

    @cached_property
    def acl_api(self) -> bool:
        """Whether acl calls are recorded."""
        return self._asks(ACL_API)

    @cached_property
    def runtime_api(self) -> bool:
        """Whether runtime calls are recorded."""
        return self._asks(RUNTIME_API)

    @cached_property
    def tasks(self) -> bool:
        """Whether tasks and their times are recorded, at any level."""
        return self._asks(TASK_TIME | TASK_TIME_L0 | TASK_TIME_L2 | TASK_TIME_L3)

    @cached_property
    def operator_details(self) -> bool:
        """Whether types, shapes and block counts of operators are recorded: level 1 and above."""
        return self._asks(TASK_TIME | TASK_TIME_L2 | TASK_TIME_L3)

    @cached_property
    def communication(self) -> bool:
        """Whether the data of collectives and their steps is recorded."""
        return self._asks(HCCL_TRACE)

    @cached_property
    def counters(self) -> bool:
        """Whether hardware counters of kernels are recorded."""
        return self._asks(AICORE_METRICS) and self.metric != METRIC_NONE

    @cached_property
    def l2_cache(self) -> bool:
        """Whether L2 cache counters of kernels are recorded."""
        return self._asks(L2CACHE)

    @cached_property
    def marks(self) -> bool:
        """Whether markers and ranges are recorded."""
        return self._asks(MSPROFTX)

    @cached_property
    def steps(self) -> bool:
        """Whether step tags are recorded: with tasks, markers or the training trace."""
        return self.tasks or self._asks(MSPROFTX | TRAINING_TRACE)

    @cached_property
    def allocations(self) -> bool:
        """Whether allocations are recorded."""
        return self._asks(TASK_MEMORY)

    @cached_property
    def memory_hz(self) -> int:
        """Sampling frequency of device memory and its bandwidth; 0 for none."""
        return int(self.settings.get(SET_HARDWARE_MEMORY_FREQUENCY, "0"))

    @cached_property
    def level(self) -> str:
        """The level of task collection, ``l0`` to ``l3`` or ``off``."""
        levels = ((TASK_TIME_L3, "l3"), (TASK_TIME_L2, "l2"), (TASK_TIME, "l1"), (TASK_TIME_L0, "l0"))
        return next((level for bit, level in levels if self._asks(bit)), "off")


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


def _has_records(_value: str) -> bool:
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
    12: _has_records,
    16: _has_records,
}


def check(kind: int, value: str | None) -> int:
    """Return the code of ``aclprofSetConfig``."""
    if not isinstance(value, str) or not 0 < kind <= _LAST_KIND or len(value.encode()) > _MAX_VALUE_BYTES:
        return codes.INVALID_PARAM
    if kind == _UNKNOWN_ON_THIS_CHIP:
        return codes.INVALID_PARAM
    accepts = _CHECKS.get(kind)
    return codes.SUCCESS if accepts is not None and accepts(value) else codes.INVALID_PROFILING_CONFIG


_ON_OFF = {"on": True, "off": False}
_METRICS = {
    "ArithmeticUtilization": 0,
    "PipeUtilization": 1,
    "Memory": 2,
    "MemoryL0": 3,
    "ResourceConflictRatio": 4,
    "MemoryUB": 5,
    "L2Cache": 6,
    "MemoryAccess": 8,
}
_HCCL, _AICPU, _GE_API_L0, _GE_API_L1 = 0x20, 0x8, 0x200, 0x1000000
# Switches: the bits that they stand for, and whether they are on by default.
_SWITCHES: Mapping[str, tuple[int, bool]] = {
    "ascendcl": (ACL_API, True),
    "runtime_api": (RUNTIME_API, True),
    "aicpu": (_AICPU, False),
    "l2": (L2CACHE, False),
    "hccl": (_HCCL, False),
    "msproftx": (MSPROFTX, False),
    "task_memory": (TASK_MEMORY, False),
    "task_block": (0, False),
    "task_tsfw": (0, False),
    "instr_profiling": (0, False),
}
_LEVELS: Mapping[str, Mapping[str, int]] = {
    "task_time": {
        "on": TASK_TIME,
        "off": 0,
        "l0": TASK_TIME_L0,
        "l1": TASK_TIME,
        "l2": TASK_TIME | TASK_TIME_L2,
    },
    "ge_api": {"off": 0, "l0": _GE_API_L0, "l1": _GE_API_L1},
}
_LEVEL_DEFAULTS = {"task_time": "on", "ge_api": "off"}
# Text settings and integer settings: the setting kind of each.
_TEXTS = {"storage_limit": 1, "llc_profiling": 4, "host_sys": 8, "host_sys_usage": 9, "sys_mem_serviceflow": 12}
_FREQUENCIES = {
    "sys_hardware_mem_freq": 3,
    "sys_io_sampling_freq": 5,
    "sys_interconnection_freq": 6,
    "dvpp_freq": 7,
    "host_sys_usage_freq": 10,
}
_INSTRUCTION_FREQUENCY = range(300, 30_001)


@dataclass(frozen=True)
class Configured:
    """The content of a configuration file: output, mask, metric, and settings by kind."""

    output: Path
    mask: int
    metric: int
    settings: Mapping[int, str]


class _RefusedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def understand(plain: object) -> tuple[Configured | None, int]:
    """Parse a configuration file; return its content, None without profiling, and the code of ``acl.init``."""
    profiler = plain.get("profiler") if isinstance(plain, dict) else None
    if profiler is None and isinstance(plain, dict):
        return None, codes.SUCCESS
    if not isinstance(profiler, dict):
        return None, codes.INVALID_PROFILING_CONFIG
    try:
        configured = _understand(profiler)
    except _RefusedError as refused:
        return None, refused.code
    return configured, codes.SUCCESS


def _understand(profiler: Mapping[str, Any]) -> Configured | None:
    taken = dict(profiler)
    if not _take(taken, "switch", "off", _one_of(_ON_OFF)):
        return None
    mask = 0
    for name, (bit, default) in _SWITCHES.items():
        if _take(taken, name, "on" if default else "off", _one_of(_ON_OFF)):
            mask |= bit
    for name, levels in _LEVELS.items():
        mask |= _take(taken, name, _LEVEL_DEFAULTS[name], _one_of(levels))
    metric = _take(taken, "aic_metrics", "PipeUtilization", _one_of(_METRICS))
    wanted = {kind: _take(taken, name, None, _text) for name, kind in _TEXTS.items() if name in taken}
    wanted |= {kind: _take(taken, name, None, _number) for name, kind in _FREQUENCIES.items() if name in taken}
    if any(check(kind, value) != codes.SUCCESS for kind, value in wanted.items()):
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    if int(_take(taken, "instr_profiling_freq", 1000, _number)) not in _INSTRUCTION_FREQUENCY:
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    output = Path(_take(taken, "output", "./", _text))
    if taken:  # task_trace, training_trace, fp_point ... and unknown keys
        raise _RefusedError(codes.FEATURE_UNSUPPORTED)
    counts = AICORE_METRICS if mask & TASK_TIME else 0
    return Configured(output, mask | counts, metric if counts else METRIC_NONE, wanted)


def _take(taken: dict[str, Any], name: str, default: Any, read: Callable[[Any], Any]) -> Any:
    return read(taken.pop(name, default))


def _one_of(meanings: Mapping[str, Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in meanings:
            raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
        return meanings[value]

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    return value


def _number(value: Any) -> str:
    """Return an integer as text; in this file it must not be a string."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    return str(value)
