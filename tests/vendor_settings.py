"""What each front end is asked for by an option: the vendor's settings by the vendor's names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from npuprof.collectors import acl, acl_codes, mindspore_adapter, msprof_flags, tensorflow_options, torch_npu_adapter
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, lacks

ASKED: dict[str, dict[str, Any]] = {
    "level": {"level": 2},
    "aic_metrics": {"aic_metrics": "Memory"},
    "modules": {"modules": True},
    "flops": {"flops": True},
    "gc_detect_threshold": {"gc_detect_threshold": 1.5},
    "record_op_args": {"record_op_args": True},
    "op_attr": {"op_attr": True},
    "mstx_domain_include": {"mstx_domain_include": ("a",)},
    "mstx_domain_exclude": {"mstx_domain_exclude": ("a",)},
    "llc_profiling": {"llc_profiling": "read", "memory": True},
    "sys_io": {"sys_io": True},
    "sys_interconnection": {"sys_interconnection": True},
    "dvpp": {"dvpp": True},
    "memory_freq": {"memory_freq": 20, "memory": True},
    "io_freq": {"io_freq": 20, "sys_io": True},
    "interconnection_freq": {"interconnection_freq": 20, "sys_interconnection": True},
    "host_sys": {"host_sys": ("cpu",)},
    "host_sys_usage": {"host_sys_usage": ("cpu",)},
    "dvpp_freq": {"dvpp_freq": 20, "dvpp": True},
    "host_sys_usage_freq": {"host_sys_usage_freq": 20, "host_sys_usage": ("cpu",)},
    "l2": {"l2": True},
    "hccl": {"hccl": True, "level": 0},
    "aicpu": {"aicpu": True},
    "runtime_api": {"runtime_api": True},
    "ge_api": {"ge_api": "l1"},
    "training_trace": {"training_trace": True},
    "fp_point": {"fp_point": "conv1"},
    "bp_point": {"bp_point": "conv1"},
    "data_process": {"data_process": True},
    "parallel_strategy": {"parallel_strategy": True},
    "sync_enable": {"sync_enable": False},
    "storage_limit": {"storage_limit": 500},
    "devices": {"devices": (0,)},
    "data_simplification": {"data_simplification": False},
    "export_type": {"export_type": ("db",)},
    "delay": {"delay": 1},
    "duration": {"duration": 1},
}
"""A value other than the default, with what it needs, of every option that some front end lacks."""

_BITS = ("AICPU", "L2CACHE", "HCCL_TRACE", "TRAINING_TRACE", "MSPROFTX", "RUNTIME_API", "GE_API_L0", "GE_API_L1")
_KINDS: Mapping[int, str] = {
    1: "STORAGE_LIMIT",
    3: "SYS_HARDWARE_MEM_FREQ",
    4: "LLC_MODE",
    5: "SYS_IO_FREQ",
    6: "SYS_INTERCONNECTION_FREQ",
    7: "DVPP_FREQ",
    8: "HOST_SYS",
    9: "HOST_SYS_USAGE",
    10: "HOST_SYS_USAGE_FREQ",
}
"""Source: collectors/FRONTENDS.md section 3.6."""


def _acl(options: Options) -> dict[str, Any]:
    mask = acl.data_type_config(options)
    bits = {f"ACL_PROF_{name}": bool(mask & getattr(acl_codes, name)) for name in (*_BITS, "TASK_MEMORY", "OP_ATTR")}
    kinds = {f"set_config(ACL_PROF_{_KINDS[kind]}, ...)": value for kind, value in acl.settings(options).items()}
    return {**bits, **kinds, "aicore_metrics": options.aic_metrics, "device_list": options.devices}


def _torch_npu(options: Options) -> dict[str, Any]:
    return {**torch_npu_adapter.profile_arguments(options), **torch_npu_adapter.experimental_arguments(options)}


def _mindspore(options: Options) -> dict[str, Any]:
    return {**mindspore_adapter.profile_arguments(options), **mindspore_adapter.config_arguments(options)}


def _tensorflow(options: Options) -> dict[str, Any]:
    return dict(json.loads(tensorflow_options.build(options, training=False)))


def _msprof(options: Options) -> dict[str, Any]:
    return dict(flag.split("=", 1) for flag in msprof_flags.flags(options))


_OF: Mapping[str, Callable[[Options], dict[str, Any]]] = {
    "acl": _acl,
    "torch_npu": _torch_npu,
    "mindspore": _mindspore,
    "tensorflow": _tensorflow,
    "msprof": _msprof,
}


def of(collector: str, options: Options) -> dict[str, Any]:
    """Return what a front end is asked for, as far as it does not need the front end itself."""
    return _OF[collector](options)


def set_by(collector: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each option that a front end has a setting for, with the names of what it sets."""
    for name in SPECIFICATION:
        changed: dict[str, None] = {}
        for asked in () if lacks(collector, name) else _asked(name):
            with suppress(OptionsError):  # a combination that the front end does not have
                changed |= dict.fromkeys(_changed(collector, name, asked))
        if changed:
            yield name, list(changed)


def _asked(name: str) -> list[dict[str, Any]]:
    option = SPECIFICATION[name]
    if name in ("level", "aic_metrics", "activities"):  # their values have names of their own
        return []
    if name == "shapes":  # of msprof a setting below level 1 only
        return [{name: True}, {name: True, "level": 0}]
    if option.is_switch:
        return [ASKED.get(name, {}) | {name: not option.usual}]
    if name not in ASKED or not isinstance(ASKED[name][name], str):
        return [ASKED[name]] if name in ASKED else []
    return [ASKED[name] | {name: value} for value in option.choices or [ASKED[name][name]]]


def _changed(collector: str, name: str, asked: dict[str, Any]) -> Iterator[str]:
    without = {key: value for key, value in asked.items() if key != name}
    before, after = (of(collector, Options(collector=collector, **values)) for values in (without, asked))
    return (key for key in {**before, **after} if (before.get(key) or None) != (after.get(key) or None))
