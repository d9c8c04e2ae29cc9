"""The configuration that ``acl.init`` takes as a file: which keys switch what on, and what is refused.

Source: collectors/FRONTENDS.md section 3.7. Its codes are this simulator's reading of the text codes:
EK0003 (a wrong value) is 100010, EK0005 (a key that is not supported) is 200006.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuprof.simulator import codes, settings
from npuprof.simulator import collection as bits
from npuprof.simulator.collection import METRIC_NONE

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
# Switches: the bits that they stand for, and whether they are on when they are not named.
_SWITCHES: Mapping[str, tuple[int, bool]] = {
    "ascendcl": (bits.ACL_API, True),
    "runtime_api": (bits.RUNTIME_API, True),
    "aicpu": (_AICPU, False),
    "l2": (bits.L2CACHE, False),
    "hccl": (_HCCL, False),
    "msproftx": (bits.MSPROFTX, False),
    "task_memory": (bits.TASK_MEMORY, False),
    "task_block": (0, False),
    "task_tsfw": (0, False),
    "instr_profiling": (0, False),
}
_LEVELS: Mapping[str, Mapping[str, int]] = {
    "task_time": {
        "on": bits.TASK_TIME,
        "off": 0,
        "l0": bits.TASK_TIME_L0,
        "l1": bits.TASK_TIME,
        "l2": bits.TASK_TIME | bits.TASK_TIME_L2,
    },
    "ge_api": {"off": 0, "l0": _GE_API_L0, "l1": _GE_API_L1},
}
_LEVEL_DEFAULTS = {"task_time": "on", "ge_api": "off"}
# Settings that are texts, and those that are whole numbers: the kind of the setting that they are.
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
    """What a file asks for: where to, the mask, the metric, and settings by kind."""

    output: Path
    mask: int
    metric: int
    settings: Mapping[int, str]


class _RefusedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def understand(plain: object) -> tuple[Configured | None, int]:
    """Return what a file's object asks for, and the code that ``acl.init`` answers with.

    Returns
    -------
    tuple
        None where profiling is not switched on or the file is refused.
    """
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
    if any(settings.check(kind, value) != codes.SUCCESS for kind, value in wanted.items()):
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    if int(_take(taken, "instr_profiling_freq", 1000, _number)) not in _INSTRUCTION_FREQUENCY:
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    output = Path(_take(taken, "output", "./", _text))
    if taken:  # task_trace, training_trace, fp_point ... and whatever nobody knows
        raise _RefusedError(codes.FEATURE_UNSUPPORTED)
    counts = bits.AICORE_METRICS if mask & bits.TASK_TIME else 0
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
    """Take a whole number, which in this file is no text."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _RefusedError(codes.INVALID_PROFILING_CONFIG)
    return str(value)
