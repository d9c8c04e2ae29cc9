"""The JSON object ``profiling_options``, which makes TensorFlow on Ascend collect a whole session.

All keys of the vendor's options page are checked as the collector checks them, before a session is created: the
collector itself would end the session, or use another value than the requested one.

Source: collectors/FRONTENDS.md sections 4 and 6; "Collection Operations".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from npuprof.collectors import capabilities
from npuprof.errors import OptionsError
from npuprof.options import HOST_SYS, Options, has_value, values

_SWITCH = ("on", "off")
_TASKS = ("on", "off", "l0", "l1", "l2", "l3")
_HOST = tuple(kind for kind in HOST_SYS if has_value("tensorflow", "host_sys", kind))
_LEAST_MB, _MOST_MB = 200, 4294967295

_OLDER_GROUPS = ("ArithmeticUtilization", "PipeUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio")
METRICS: Mapping[str, tuple[str, ...]] = {
    "910": _OLDER_GROUPS,
    "310P": _OLDER_GROUPS,
    "910B": (*_OLDER_GROUPS, "L2Cache", "MemoryAccess", "PipeUtilizationExct"),
    "310B": (*_OLDER_GROUPS, "L2Cache", "PipelineExecuteUtilization"),
}
"""The AI Core metric groups by chip family; that of 910B, A2 and A3 has ``Custom:`` events too."""

# The settings of each level; task_time l2 is not on the options page.
_LEVELS: Mapping[str | int, Mapping[str, str]] = {
    "none": {"task_time": "off"},
    0: {"task_time": "l0"},
    1: {"task_time": "l1"},
    2: {"task_time": "l1", "aicpu": "on", "runtime_api": "on"},
}
_RATES = {
    "memory_freq": "sys_hardware_mem_freq",
    "io_freq": "sys_io_sampling_freq",
    "interconnection_freq": "sys_interconnection_freq",
    "dvpp_freq": "dvpp_freq",
}


def build(options: Options, chip: str = "", *, training: bool = True) -> str:
    """Return the JSON text of the options.

    Parameters
    ----------
    chip
        The name of the chip, such as ``Ascend910B3``; without it, metrics of any chip are allowed.
    training
        Whether it is a training session, for which the vendor requires the iteration trace with task times.
    """
    capabilities.check("tensorflow", options)
    if "npu" not in options.activities:
        raise OptionsError("TensorFlow collects from the device: add npu to activities", "activities")
    if options.stacks:
        raise OptionsError(
            "stacks are sampled while a session of npuprof runs: leave them out of a whole session", "stacks"
        )
    if options.shapes and options.level in ("none", 0):
        raise OptionsError("CANN records shapes from level 1 on: set level 1 or 2, or leave shapes out", "shapes")
    asked: dict[str, Any] = {"output": str(options.output.absolute()), **_LEVELS[options.level]}
    traced = options.training_trace or (training and options.level != "none")
    asked["training_trace"] = "on" if traced or options.fp_point or options.bp_point else "off"
    if asked["training_trace"] == "on":
        asked |= {"fp_point": options.fp_point, "bp_point": options.bp_point}
    if options.aic_metrics != "none":
        asked["aic_metrics"] = options.aic_metrics
    switches = {"hccl": options.hccl, "aicpu": options.aicpu, "runtime_api": options.runtime_api, "l2": options.l2}
    switches |= {"task_memory": options.memory, "msproftx": options.marks}
    asked |= {key: "on" for key, is_wanted in switches.items() if is_wanted}
    asked |= {_RATES[name]: rate for name, rate in options.rates.items()} | _rest(options)
    return json.dumps(check(asked, chip, training=training))


def _rest(options: Options) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if options.ge_api != "off":
        asked["ge_api"] = options.ge_api
    if options.llc_profiling is not None:
        asked["llc_profiling"] = options.llc_profiling
    if options.storage_limit is not None:
        asked["storage_limit"] = f"{options.storage_limit}MB"
    if options.host_sys:
        asked["host_sys"] = ",".join(options.host_sys)
    if options.host_sys_usage:
        asked["host_sys_usage"] = ",".join(options.host_sys_usage)
        if options.host_sys_usage_freq is not None:
            asked["host_sys_usage_freq"] = options.host_sys_usage_freq
    return asked


def check(plain: str | Mapping[str, Any], chip: str = "", *, training: bool = True) -> dict[str, Any]:
    """Check a ``profiling_options`` object or JSON text, and return the object.

    `chip` and `training` are those of :func:`build`.
    """
    if isinstance(plain, str):
        try:
            plain = json.loads(plain)
        except (ValueError, RecursionError) as error:
            raise OptionsError(f"profiling_options is not valid JSON ({error})") from error
    if not isinstance(plain, Mapping):
        raise OptionsError(f"profiling_options must be a JSON object, not {type(plain).__name__}")
    for key, value in plain.items():
        if key in _KEYS:
            _KEYS[key](key, value)
        else:
            raise OptionsError(f"profiling_options has no {key}: {_reason(key)}; its keys are {values.listed(_KEYS)}")
    if "aic_metrics" in plain:
        _check_metrics(plain["aic_metrics"], chip)
    _check_combinations(plain, training)
    return dict(plain)


def _check_combinations(plain: Mapping[str, Any], training: bool) -> None:
    traced = plain.get("training_trace") == "on"
    for key in ("fp_point", "bp_point"):
        if plain.get(key) and not traced:
            raise OptionsError(f'{key} names an operator of the iteration trace: add "training_trace": "on"')
    if training and plain.get("task_trace", "off") != "off" and not traced:
        raise OptionsError('task_trace needs "training_trace": "on" while training, or give task_time in its place')
    needs = {"llc_profiling": "sys_hardware_mem_freq", "host_sys_usage_freq": "host_sys_usage"}
    needs["instr_profiling_freq"] = "instr_profiling"
    for key, needed in needs.items():
        if key in plain and needed not in plain:
            raise OptionsError(f"{key} goes with {needed}: add {needed}, or leave {key} out")


def family_of(chip: str) -> str:
    """Return the family of a chip name, a key of :data:`METRICS`; empty if unknown."""
    for pattern, family in ((r"310B", "310B"), (r"310P", "310P"), (r"910B\d|910_|A[23]\b", "910B"), (r"910", "910")):
        if re.search(pattern, chip):
            return family
    return ""


def _check_metrics(value: object, chip: str) -> None:
    family = family_of(chip)
    allowed = METRICS[family] if family else tuple(dict.fromkeys(group for has in METRICS.values() for group in has))
    if family in ("", "910B"):
        values.metrics("aic_metrics", value, allowed)
    else:
        _one_of(*allowed)("aic_metrics", value)


def _one_of(*allowed: str) -> Callable[[str, Any], None]:
    return lambda key, value: values.one_of(key, value, allowed)


def _words(*allowed: str) -> Callable[[str, Any], None]:
    def examine(key: str, value: object) -> None:
        if not isinstance(value, str) or not values.subset(key, value, allowed):
            raise OptionsError(f"{key} must be words of {values.listed(allowed)} joined by commas, not {value!r}")

    return examine


def _frequency(least: int, limit: int) -> Callable[[str, Any], None]:
    def examine(key: str, value: object) -> None:
        if type(value) is not int or not least <= value <= limit:
            raise OptionsError(f"{key} must be a JSON number, whole and from {least} to {limit}, not {value!r}")

    return examine


def _output(key: str, value: object) -> None:
    if not isinstance(value, str) or not value or re.search(r"[\x00-\x1f\x7f]", value):
        raise OptionsError(f"{key} must be the path of a directory without control characters, not {value!r}")
    if Path(value).is_file():
        raise OptionsError(f"{key} must be a directory, and {value} is a file")


def _storage_limit(key: str, value: object) -> None:
    match = re.fullmatch(r"(\d{1,10})MB", value) if isinstance(value, str) else None
    if match is None or not _LEAST_MB <= int(match[1]) <= _MOST_MB:
        raise OptionsError(f'{key} must be text from "{_LEAST_MB}MB" to "{_MOST_MB}MB", not {value!r}')


def _text(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise OptionsError(f"{key} must be text, not {value!r}")


_KEYS: Mapping[str, Callable[[str, Any], object]] = {
    "output": _output,
    "storage_limit": _storage_limit,
    "training_trace": _one_of(*_SWITCH),
    "task_trace": _one_of(*_TASKS),
    "task_time": _one_of(*_TASKS),
    **dict.fromkeys(("hccl", "aicpu", "msproftx", "task_memory", "runtime_api", "l2"), _one_of(*_SWITCH)),
    "fp_point": values.operator_name,
    "bp_point": values.operator_name,
    "aic_metrics": _text,
    "ge_api": _one_of("off", "l0", "l1"),
    "sys_hardware_mem_freq": _frequency(1, 100),
    "llc_profiling": _one_of("read", "write"),
    "sys_io_sampling_freq": _frequency(1, 100),
    "sys_interconnection_freq": _frequency(1, 50),
    "dvpp_freq": _frequency(1, 100),
    "host_sys": _words(*_HOST),
    "host_sys_usage": _words("cpu", "mem"),
    "host_sys_usage_freq": _frequency(1, 50),
    "sys_mem_serviceflow": _text,
    "instr_profiling": _one_of(*_SWITCH),
    "instr_profiling_freq": _frequency(300, 30000),
}

_OF_ACL_JSON = ("ascendcl", "switch", "aicore_shape")
_OF_MSPROF = ("delay", "duration", "power", "mstx_domain_include", "mstx_domain_exclude")


def _reason(key: str) -> str:
    if key in _OF_ACL_JSON:
        return "it is a key of acl.json"
    if key in _OF_MSPROF:
        return "only the msprof tool has it"
    if key in ("sys_cpu_freq", "sys_lp_freq"):
        return "the collector refuses it on the 910B family"
    return "the collector refuses unknown keys"
