"""What an Options allows, and what it says when it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.errors import OptionsError
from npuprof.options import ACTIVITIES, AIC_METRICS, DEFAULT_OUTPUT, HOST_SYS, LEVELS, Options


def test_the_default_counts_pipes_at_level_1() -> None:
    options = Options()
    assert (options.level, options.aic_metrics, options.activities) == (1, "PipeUtilization", ("cpu", "npu"))


@pytest.mark.parametrize(
    ("level", "metrics"), [("none", "none"), (0, "none"), (1, "PipeUtilization"), (2, "PipeUtilization")]
)
def test_metrics_not_given_follow_the_level(level: str | int, metrics: str) -> None:
    assert Options(level=level).aic_metrics == metrics


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"level": 3}, "none, 0, 1, 2"),
        ({"level": "high"}, "none, 0, 1, 2"),
        ({"level": True}, "none, 0, 1, 2"),
        ({"aic_metrics": "Pipes"}, "PipeUtilization, ArithmeticUtilization, Memory"),
        ({"activities": "tpu"}, "cpu, npu, gpu"),
        ({"activities": ()}, "cpu, npu"),
        ({"host_sys": "cpu,ram"}, "cpu, mem, disk, network, osrt, numa"),
        ({"memory": "yes"}, "True or False"),
        ({"collector": "nvprof"}, "auto, acl, torch_npu, mindspore, tensorflow, msprof, kineto, simulator"),
        ({"aic_metrics": "Custom:8"}, "Custom:0x8,0xa"),
        ({"aic_metrics": "Custom:" + ",".join(["0x1"] * 9)}, "at most 8"),
        ({"host_sys_usage": "disk"}, "cpu, mem"),
        ({"export_type": "csv"}, "text, db"),
        ({"llc_profiling": "both", "memory": True}, "read, write"),
        ({"ge_api": "on"}, "off, l0, l1"),
        ({"memory_freq": 101, "memory": True}, "from 1 to 100"),
        ({"memory_freq": "50", "memory": True}, "whole number"),
        ({"interconnection_freq": 51, "sys_interconnection": True}, "from 1 to 50"),
        ({"storage_limit": 199}, "from 200 to"),
        ({"storage_limit": True}, "whole number"),
        ({"delay": 0}, "from 1 to"),
        ({"gc_detect_threshold": -1}, "at least 0"),
        ({"gc_detect_threshold": float("nan")}, "at least 0"),
        ({"fp_point": "a\nb"}, "name of an operator"),
        ({"devices": "0,x"}, "ids of devices"),
        ({"devices": [-1]}, "ids of devices"),
        ({"mstx_domain_include": "d" * 256}, "1 to 255 bytes"),
        ({"mstx_domain_include": 5}, "words joined by commas"),
        ({"flops": 1}, "True or False"),
        ({"name": "a/b"}, "100 characters"),
        ({"name": "x" * 101}, "100 characters"),
        ({"output": ""}, "path of a directory"),
        ({"output": "a\0b"}, "path of a directory"),
    ],
)
def test_a_wrong_value_is_refused_with_the_allowed_ones(wrong: dict[str, Any], allowed: str) -> None:
    with pytest.raises(OptionsError, match=allowed):
        Options(**wrong)


@pytest.mark.parametrize(
    ("combination", "reason"),
    [
        ({"level": 0, "aic_metrics": "Memory"}, "needs level 1 or 2"),
        ({"level": "none", "aic_metrics": "Memory"}, "needs level 1 or 2"),
        ({"level": "none", "marks": False}, "needs marks"),
        ({"level": "none", "l2": True}, "set level 0, 1 or 2"),
        ({"activities": "npu", "modules": True}, "add cpu"),
        ({"activities": "cpu", "sys_io": True}, "add npu"),
        ({"memory_freq": 50}, "add memory"),
        ({"host_sys_usage_freq": 5}, "add host_sys_usage"),
        ({"llc_profiling": "read"}, "add memory"),
        ({"mstx_domain_include": "a", "mstx_domain_exclude": "b"}, "exclude each other"),
        ({"mstx_domain_include": "a", "marks": False}, "turn marks on"),
        ({"activities": "cpu", "memory": True}, "add npu"),
        ({"activities": "cpu", "l2": True}, "add npu"),
        ({"activities": "cpu", "aic_metrics": "Memory"}, "add npu"),
        ({"activities": "cpu", "host_sys": "cpu"}, "add npu"),
        ({"activities": "npu", "stacks": True}, "add cpu"),
    ],
)
def test_a_forbidden_combination_says_what_to_change(combination: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        Options(**combination)


def test_lists_are_accepted_in_any_order() -> None:
    assert Options.from_dict({"activities": "npu, cpu,npu"}).activities == ("cpu", "npu")
    assert Options.from_dict({"host_sys": ["mem", "cpu"]}).host_sys == ("cpu", "mem")


@given(
    st.builds(
        dict,
        level=st.sampled_from(LEVELS),
        activities=st.sets(st.sampled_from(ACTIVITIES), min_size=1),
        aic_metrics=st.sampled_from([None, "none", *AIC_METRICS]),
        host_sys=st.sets(st.sampled_from(HOST_SYS)),
        **dict.fromkeys(("memory", "stacks", "shapes", "l2", "marks"), st.booleans()),
    )
)
def test_what_is_allowed_survives_json(plain: dict[str, Any]) -> None:
    try:
        options = Options(**plain)
    except OptionsError:
        return
    assert Options.from_json(options.to_json()) == options
    assert json.loads(options.to_json())["output"] == str(Path("npuprof-recordings"))


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "[" * 100_000])
def test_json_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(OptionsError, match="JSON"):
        Options.from_json(text)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionsError, match=r"unknown option stack \(did you mean stacks\?\): .*stacks"):
        Options.from_dict({"stack": True})


def test_the_levels_calls_of_the_device_need_the_device() -> None:
    with pytest.raises(OptionsError, match="level 2 adds AI CPU and runtime calls of the device: add npu"):
        Options(level=2, activities=("cpu",))
    assert Options(level=0, activities=("cpu",)).level == 0


def test_the_directory_of_canns_tools_is_the_default_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    assert Options().output == Options.from_dict({"level": 0}).output == tmp_path / "profiling_data"
    assert Options(output="mine").output == Path("mine")  # type: ignore[arg-type]  # as a user might
    monkeypatch.setenv("ASCEND_WORK_PATH", "relative")
    assert Options().output == Path.cwd() / "relative" / "profiling_data"
    monkeypatch.setenv("ASCEND_WORK_PATH", "")
    assert Options().output == DEFAULT_OUTPUT
