"""The vendor's options page as a table: what each key takes, what it refuses, and what ours become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npuprof.collectors.tensorflow_options import build, check, family_of
from npuprof.errors import OptionsError
from npuprof.options import Options

_SWITCH: tuple[list[Any], list[Any]] = (["on", "off"], ["On", True, "yes", "", 1])
_POINT: tuple[list[Any], list[Any]] = (["", "resnet/conv1"], [None, "a\nb", 3])

# Each key: values that the collector takes, and values that it refuses or takes for another.
PAGE: dict[str, tuple[list[Any], list[Any]]] = {
    "output": (["/data/prof", "relative"], ["", "a\tb", None, 3]),
    "storage_limit": (["200MB", "4294967295MB"], ["199MB", "4294967296MB", "200", 200, "1GB", "200 MB"]),
    "training_trace": _SWITCH,
    "task_time": (["on", "off", "l0", "l1", "l2", "l3"], ["l4", "L1", 1]),
    "task_trace": (["off"], ["l4", True]),
    **dict.fromkeys(("hccl", "aicpu", "msproftx", "task_memory", "runtime_api", "l2"), _SWITCH),
    "fp_point": _POINT,
    "bp_point": _POINT,
    "aic_metrics": (["PipeUtilization", "MemoryAccess", "Custom:0x8,0xa"], ["Pipe", None, "Custom:", 1]),
    "ge_api": (["off", "l0", "l1"], ["on", "l2"]),
    "sys_hardware_mem_freq": ([1, 100], ["50", 0, 101, 5.0, True]),
    "sys_io_sampling_freq": ([1, 100], ["50", 0, 101]),
    "sys_interconnection_freq": ([1, 50], ["50", 0, 51]),
    "dvpp_freq": ([1, 100], ["50", 0, 101]),
    "host_sys": (["cpu", "cpu,mem,disk,network,osrt"], ["numa", "", ["cpu"]]),
    "host_sys_usage": (["cpu,mem"], ["disk", ""]),
    "sys_mem_serviceflow": (["a"], [1]),
    "instr_profiling": _SWITCH,
}
_WITH: dict[str, dict[str, Any]] = {
    "llc_profiling": {"sys_hardware_mem_freq": 50},
    "host_sys_usage_freq": {"host_sys_usage": "cpu"},
    "instr_profiling_freq": {"instr_profiling": "on"},
    "task_trace": {"training_trace": "on"},
    "fp_point": {"training_trace": "on"},
    "bp_point": {"training_trace": "on"},
}
_TOGETHER: dict[str, tuple[Any, Any]] = {
    "llc_profiling": ("read", "both"),
    "host_sys_usage_freq": (50, 51),
    "instr_profiling_freq": (300, 299),
    "task_trace": ("on", "yes"),
}
_REFUSED = {
    "ascendcl": "acl.json",
    "switch": "acl.json",
    "aicore_shape": "acl.json",
    "power": "msprof tool",
    "delay": "msprof tool",
    "duration": "msprof tool",
    "mstx_domain_include": "msprof tool",
    "sys_cpu_freq": "910B family",
    "sys_lp_freq": "910B family",
    "nonsense": "unknown keys",
}


@pytest.mark.parametrize("key", PAGE)
def test_keys_take_only_the_pages_arguments(key: str) -> None:
    allowed, refused = PAGE[key]
    for value in allowed:
        plain = {**_WITH.get(key, {}), key: value}
        assert check(plain) == plain
    for value in refused:
        with pytest.raises(OptionsError, match=key):
            check({**_WITH.get(key, {}), key: value})


@pytest.mark.parametrize("key", _TOGETHER)
def test_keys_that_need_another_are_refused_alone(key: str) -> None:
    good, bad = _TOGETHER[key]
    assert check({**_WITH[key], key: good})[key] == good
    with pytest.raises(OptionsError, match=next(iter(_WITH[key]))):
        check({key: good})
    with pytest.raises(OptionsError, match=key):
        check({**_WITH[key], key: bad})


@pytest.mark.parametrize("key", _REFUSED)
def test_collector_refusals_have_a_reason(key: str) -> None:
    with pytest.raises(OptionsError, match=rf"has no {key}: .*{_REFUSED[key]}.*its keys are output, "):
        check({key: "on"})


def test_points_need_the_iteration_trace() -> None:
    with pytest.raises(OptionsError, match="fp_point names an operator of the iteration trace"):
        check({"fp_point": "conv1", "training_trace": "off"})
    with pytest.raises(OptionsError, match="while training"):
        check({"task_trace": "on"})
    assert check({"task_trace": "on"}, training=False) == {"task_trace": "on"}


@pytest.mark.parametrize(
    ("chip", "family", "counts", "not_counted"),
    [
        ("Ascend910A", "910", "MemoryUB", "L2Cache"),
        ("Ascend310P3", "310P", "MemoryUB", "MemoryAccess"),
        ("Ascend910B3", "910B", "MemoryAccess", "PipelineExecuteUtilization"),
        ("Ascend910_9382", "910B", "Custom:0x8", "PipelineExecuteUtilization"),
        ("Ascend310B4", "310B", "PipelineExecuteUtilization", "Custom:0x8"),
        ("", "", "PipelineExecuteUtilization", "Unknown"),
    ],
)
def test_metrics_are_those_of_the_chip(chip: str, family: str, counts: str, not_counted: str) -> None:
    assert family_of(chip) == family
    assert check({"aic_metrics": counts}, chip) == {"aic_metrics": counts}
    with pytest.raises(OptionsError, match="aic_metrics must be one of"):
        check({"aic_metrics": not_counted}, chip)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, "3"])
def test_what_is_no_object_of_json_is_refused(text: str) -> None:
    with pytest.raises(OptionsError, match="JSON"):
        check(text)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionsError, match="is a file"):
        check({"output": str(tmp_path / "file")})


@pytest.mark.parametrize(
    "text",
    [
        '{"output":"/tmp/profiling","training_trace":"on","task_trace":"on","aic_metrics":"PipeUtilization"}',
        '{"output":"/home/profiling", \t\t"training_trace":"on", "task_trace":"on", "fp_point":"", "bp_point":""}',
    ],
)
def test_the_examples_of_the_page_are_right(text: str) -> None:
    assert check(text)["task_trace"] == "on"


_TRACED = {"training_trace": "on", "fp_point": "", "bp_point": ""}
_BUILT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"task_time": "l1", **_TRACED, "aic_metrics": "PipeUtilization", "msproftx": "on"}),
    ({"level": 0, "marks": False}, {"task_time": "l0", **_TRACED}),
    ({"level": "none"}, {"task_time": "off", "training_trace": "off", "msproftx": "on"}),
    (
        {"level": 2, "aic_metrics": "none", "marks": False},
        {"task_time": "l1", "aicpu": "on", "runtime_api": "on", **_TRACED},
    ),
    (
        {"level": 0, "marks": False, "memory": True, "memory_freq": 20, "llc_profiling": "write"},
        {"task_time": "l0", **_TRACED, "task_memory": "on", "sys_hardware_mem_freq": 20, "llc_profiling": "write"},
    ),
    (
        {"level": 0, "marks": False, "sys_io": True, "sys_interconnection": True, "dvpp": True, "l2": True},
        {
            "task_time": "l0",
            **_TRACED,
            "sys_io_sampling_freq": 100,
            "sys_interconnection_freq": 50,
            "dvpp_freq": 50,
            "l2": "on",
        },
    ),
    (
        {"level": 0, "marks": False, "host_sys": "mem,cpu", "host_sys_usage": "cpu", "host_sys_usage_freq": 5},
        {"task_time": "l0", **_TRACED, "host_sys": "cpu,mem", "host_sys_usage": "cpu", "host_sys_usage_freq": 5},
    ),
    (
        {"level": 0, "marks": False, "storage_limit": 500, "ge_api": "l1", "hccl": True, "aicpu": True},
        {"task_time": "l0", **_TRACED, "storage_limit": "500MB", "ge_api": "l1", "hccl": "on", "aicpu": "on"},
    ),
    (
        {"level": 0, "marks": False, "fp_point": "conv1", "bp_point": "conv1_grad", "runtime_api": True},
        {
            "task_time": "l0",
            "training_trace": "on",
            "fp_point": "conv1",
            "bp_point": "conv1_grad",
            "runtime_api": "on",
        },
    ),
    (
        {"aic_metrics": "Custom:0x8,0xa", "marks": False},
        {"task_time": "l1", **_TRACED, "aic_metrics": "Custom:0x8,0xa"},
    ),
]


@pytest.mark.parametrize(("options", "built"), _BUILT)
def test_what_our_options_become(tmp_path: Path, options: dict[str, Any], built: dict[str, Any]) -> None:
    text = build(Options.from_dict({"output": tmp_path, **options}))
    assert json.loads(text) == {"output": str(tmp_path), **built}


def test_inference_records_iterations_on_request() -> None:
    assert json.loads(build(Options(), training=False))["training_trace"] == "off"
    assert json.loads(build(Options(training_trace=True), training=False))["training_trace"] == "on"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"activities": "cpu"}, "add npu to activities"),
        ({"stacks": True}, "while a session of npuprof runs"),
        ({"level": 0, "shapes": True}, "level 1"),
        ({"host_sys": "numa"}, "host_sys"),
        ({"modules": True}, "tensorflow has no modules"),
        ({"devices": [0]}, "tensorflow has no devices"),
    ],
)
def test_what_tensorflow_cannot_collect_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        build(Options.from_dict(options))


def test_the_chip_decides_what_our_metrics_may_be() -> None:
    with pytest.raises(OptionsError, match="aic_metrics must be one of"):
        build(Options(aic_metrics="MemoryAccess"), "Ascend910A")
