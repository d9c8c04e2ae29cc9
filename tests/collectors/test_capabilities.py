"""Which options each front end refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from npuprof.collectors import acl, capabilities, msprof_flags, tensorflow_options
from npuprof.collectors import mindspore_adapter as mindspore_settings
from npuprof.collectors import torch_npu_adapter as torch_npu_settings
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks
from npuprof.options.specification import FRONT_ENDS

# Another value than the default's for every option that some front end lacks, with what it needs.
_ASKED: dict[str, dict[str, Any]] = {
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


def test_every_option_that_a_front_end_lacks_is_asked_for_here() -> None:
    assert {name for name in SPECIFICATION if any(lacks(front_end, name) for front_end in FRONT_ENDS)} == set(_ASKED)


def test_the_defaults_suit_every_front_end() -> None:
    for collector in FRONT_ENDS:
        capabilities.check(collector, Options(collector=collector))


@pytest.mark.parametrize("collector", FRONT_ENDS)
@pytest.mark.parametrize("option", _ASKED)
def test_what_a_front_end_lacks_is_refused_with_the_reason_and_what_it_has_is_not(collector: str, option: str) -> None:
    activities = ("cpu", "npu") if has_value(collector, "activities", "npu") else ("cpu",)
    if activities == ("cpu",) and option not in ("level", "modules", "flops", "gc_detect_threshold", "record_op_args"):
        if lacks(collector, option) == "":
            return
        with pytest.raises(OptionsError):  # Options itself may refuse, for want of a device
            capabilities.check(collector, Options(activities=activities, collector=collector, **_ASKED[option]))
        return
    options = Options(activities=activities, collector=collector, **_ASKED[option])
    needed_too = {name for name in _ASKED[option] if name != option and lacks(collector, name)}
    if reason := lacks(collector, option):
        with pytest.raises(OptionsError, match=f"{collector} has no") as caught:
            capabilities.check(collector, options)
        assert needed_too or reason in str(caught.value)
    elif not needed_too:
        capabilities.check(collector, options)


def test_the_front_ends_that_have_an_option_are_named() -> None:
    with pytest.raises(OptionsError, match=r"--collector torch_npu, kineto"):
        capabilities.check("acl", Options(modules=True))


def test_flops_are_refused_where_nobody_estimates_them() -> None:
    for collector in set(FRONT_ENDS) - {"kineto", "torch_npu"}:
        with pytest.raises(OptionsError, match=r"has no flops: .*--collector torch_npu, kineto\)"):
            capabilities.check(collector, Options(flops=True, collector=collector))
    for collector in ("kineto", "torch_npu"):
        capabilities.check(collector, Options(flops=True, collector=collector))


@pytest.mark.parametrize(("collector", "activity"), [("kineto", "npu"), ("acl", "gpu"), ("torch_npu", "gpu")])
def test_an_activity_that_a_front_end_lacks_is_refused(collector: str, activity: str) -> None:
    with pytest.raises(OptionsError, match=f"{collector} has no {activity} among activities"):
        capabilities.check(collector, Options(activities=("cpu", activity), aic_metrics="none"))


def test_events_of_ones_own_are_counted_by_two_front_ends_only() -> None:
    options = Options(aic_metrics="Custom:0x8,0xa")
    capabilities.check("msprof", options)
    capabilities.check("tensorflow", options)
    with pytest.raises(OptionsError, match="tensorflow, msprof"):
        capabilities.check("acl", options)


@pytest.mark.parametrize("collector", ["mindspore", "tensorflow", "msprof"])
def test_numa_samples_are_refused_where_the_front_end_takes_none(collector: str) -> None:
    with pytest.raises(OptionsError, match=f"{collector} has no numa among host_sys.*--collector acl, torch_npu"):
        capabilities.check(collector, Options(host_sys=("cpu", "numa"), collector=collector))


def _lowered(collector: str, options: Options) -> object:
    """Return what a front end is asked for, as far as it does not need the front end itself."""
    match collector:
        case "acl":
            asked = (acl.data_type_config(options), acl.settings(options), options.aic_metrics)
            return *asked, options.devices  # the last two are arguments of create_config
        case "torch_npu":
            settings = torch_npu_settings
            return settings.profile_arguments(options), settings.experimental_arguments(options)
        case "mindspore":
            return mindspore_settings.profile_arguments(options), mindspore_settings.config_arguments(options)
        case "msprof":
            return msprof_flags.flags(options)
        case _:
            return tensorflow_options.build(options, training=False)


@pytest.mark.slow
@pytest.mark.parametrize("collector", ["acl", "torch_npu", "mindspore", "msprof", "tensorflow"])
@pytest.mark.parametrize("option", sorted(set(_ASKED) - {"level"}))
def test_what_a_front_end_has_is_handed_on(collector: str, option: str) -> None:
    asked = _ASKED[option] | {"collector": collector}
    refused = (collector, option) == ("msprof", "hccl")  # at level 0, and at the others it is there anyway
    if not refused and not any(lacks(collector, name) for name in _ASKED[option]):
        without = {name: value for name, value in asked.items() if name != option}
        assert _lowered(collector, Options(**asked)) != _lowered(collector, Options(**without))
