"""The files of torch_npu and MindSpore: what each key becomes, and which are refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from npuprof.collectors import capabilities
from npuprof.dynamic import keys
from npuprof.dynamic.requests import NOW, Request, understand
from npuprof.errors import NpuprofError, OptionsError
from npuprof.options import COLLECTORS, Options, mindspore

# A file as torch_npu documented it first, and as MindSpore did before 2.5.
FIRST_TORCH_NPU: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "experimental_config": {
        "profiler_level": "Level0",
        "aic_metrics": "AiCoreNone",
        "l2_cache": False,
        "op_attr": False,
        "data_simplification": True,
        "record_op_args": False,
        "export_type": "text",
        "msprof_tx": False,
    },
}
OLD_MINDSPORE: dict[str, Any] = {
    "start_step": 10,
    "stop_step": 10,
    "aicore_metrics": -1,
    "profiler_level": -1,
    "profile_framework": -1,
    "analyse_mode": 0,
    "profile_communication": False,
    "parallel_strategy": True,
    "with_stack": True,
    "data_simplification": False,
}


def special(**changes: Any) -> dict[str, Any]:
    return {"start_step": 1, "experimental_config": changes}


def steps(**changes: Any) -> dict[str, Any]:
    return {"start_step": 4, "stop_step": 6, **changes}


@pytest.mark.parametrize("dialect", list(keys.DIALECTS))
def test_a_template_is_understood_and_asks_for_nothing(dialect: str) -> None:
    request = understand(keys.template(dialect))
    assert request.first is None
    assert request.options == Options(level=0, marks=False, output=Path("./"))


@pytest.mark.parametrize(
    ("plain", "option", "value"),
    [
        ({"activities": ["NPU"]}, "activities", ("npu",)),
        ({"record_shapes": True}, "shapes", True),
        ({"profile_memory": True}, "memory", True),
        ({"with_stack": True}, "stacks", True),
        ({"with_flops": True}, "flops", True),
        ({"with_modules": True}, "modules", True),
        ({"prof_dir": "here"}, "output", Path("here")),
        (special(profiler_level="Level2"), "level", 2),
        (special(profiler_level="Level_none", mstx=True), "level", "none"),
        (special(profiler_level="Level1", aic_metrics="Memory"), "aic_metrics", "Memory"),
        (special(profiler_level="Level1", aic_metrics="ACL_AICORE_MEMORY_BANDWIDTH"), "aic_metrics", "Memory"),
        (special(profiler_level="Level1"), "aic_metrics", "none"),
        (special(l2_cache=True), "l2", True),
        (special(op_attr=True), "op_attr", True),
        (special(gc_detect_threshold=2), "gc_detect_threshold", 2.0),
        (special(data_simplification=False), "data_simplification", False),
        (special(record_op_args=True), "record_op_args", True),
        (special(export_type="db"), "export_type", ("db",)),
        (special(export_type=["text", "db"]), "export_type", ("text", "db")),
        (special(msprof_tx=True), "marks", True),
        (special(mstx=True), "marks", True),
        (special(host_sys=["cpu", "numa"]), "host_sys", ("cpu", "numa")),
        (special(mstx=True, mstx_domain_include=["a"]), "mstx_domain_include", ("a",)),
        (special(mstx=True, mstx_domain_exclude=["b"]), "mstx_domain_exclude", ("b",)),
        (special(sys_io=True), "sys_io", True),
        (special(sys_interconnection=True), "sys_interconnection", True),
        (steps(aic_metrics="AiCoreNone", profiler_level="Level1"), "aic_metrics", "PipeUtilization"),
        (steps(aic_metrics="MemoryUB", profiler_level="Level1"), "aic_metrics", "MemoryUB"),
        (steps(aicore_metrics=0, profiler_level=1), "aic_metrics", "ArithmeticUtilization"),
        (steps(aicore_metrics=-1, profiler_level=2), "aic_metrics", "PipeUtilization"),
        (steps(profiler_level="LevelNone", mstx=True), "level", "none"),
        (steps(profiler_level=-1), "level", 0),
        (steps(export_type=["db"]), "export_type", ("db",)),
        (steps(parallel_strategy=True), "parallel_strategy", True),
        (steps(profile_communication=True), "level", 1),
        (steps(profile_communication=True, profiler_level=2), "level", 2),
        (steps(l2_cache=True), "l2", True),
        (steps(host_sys=["mem"]), "host_sys", ("mem",)),
        (steps(prof_path="there"), "output", Path("there")),
        ({"npuprof": {"dvpp": True}}, "dvpp", True),
        ({"npuprof": {"collector": "acl"}}, "collector", "acl"),
    ],
)
def test_each_key_becomes_its_option(plain: dict[str, Any], option: str, value: Any) -> None:
    before = getattr(understand({"start_step": 1}).options, option)
    assert getattr(understand(plain).options, option) == value
    assert before != value or option in ("aic_metrics", "level", "hccl")


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({"start_step": 0}, (None, 0, 1, "")),
        ({"start_step": -1}, (NOW, 0, 1, "")),
        ({"start_step": 7, "warmup": 2, "active": 3, "analyse": True}, (7, 2, 3, "sync")),
        ({"start_step": 7, "analyse": True, "async_mode": True}, (7, 0, 1, "async")),
        ({"start_step": 7, "is_valid": False}, (None, 0, 1, "")),
        (FIRST_TORCH_NPU, (NOW, 0, 1, "")),
        (steps(), (3, 0, 3, "")),
        (steps(start_step=1, stop_step=1, analyse_mode=1), (0, 0, 1, "async")),
        (OLD_MINDSPORE, (9, 0, 1, "sync")),
    ],
)
def test_start_length_and_successor_are_known(plain: dict[str, Any], expected: tuple[Any, ...]) -> None:
    request = understand(plain)
    assert (request.first, request.warmup, request.active, request.analyse) == expected


def test_unchanged_file_without_start_asks_nothing() -> None:
    assert understand(FIRST_TORCH_NPU, changed=False).first is None


def test_loops_front_end_is_used_by_default() -> None:
    assert understand({}, collector="simulator").options.collector == "simulator"
    assert understand({"npuprof": {"collector": "acl"}}, collector="simulator").options.collector == "acl"


@pytest.mark.parametrize("collector", COLLECTORS)
@pytest.mark.parametrize("dialect", list(keys.DIALECTS))
def test_a_template_asks_nothing_that_a_front_end_lacks(collector: str, dialect: str) -> None:
    start = {"torch_npu": {"start_step": 1}, "mindspore": {"start_step": 1, "stop_step": 1}}[dialect]
    options = understand({**keys.template(dialect), **start}, collector=collector).options
    assert options.collector == collector
    if collector != "auto":
        capabilities.check(collector, options)


def test_lacking_requests_are_not_dropped() -> None:
    options = understand(special(profiler_level="Level2"), collector="kineto").options
    with pytest.raises(OptionsError, match="kineto has no"):
        capabilities.check("kineto", options)


@pytest.mark.parametrize(
    ("plain", "meant"),
    [
        ({}, {0, 1, 8}),
        ({"rank_list": [1]}, {0, 1, 8}),
        ({"is_rank": True, "rank_list": [1, 8]}, {1, 8}),
        ({"is_rank": True}, set()),
    ],
)
def test_the_ranks_that_are_meant(plain: dict[str, Any], meant: set[int]) -> None:
    request: Request = understand(plain)
    assert {rank for rank in (0, 1, 8) if request.means(rank)} == meant


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ({"with_stacks": True}, "unknown key with_stacks: did you mean with_stack"),
        (special(l2cache=True), r"experimental_config.l2cache: did you mean experimental_config.l2_cache"),
        ({"npuprof": {"levels": 1}}, "npuprof.levels: did you mean npuprof.level"),
        ({"active": 1, "stop_step": 3}, "stop_step is of MindSpore's file and active of torch_npu's"),
        ({"active": 1, "profiler_level": "Level1"}, "profiler_level belongs into experimental_config"),
        ({"active": 0}, "active must be a whole number of at least 1, not 0"),
        ({"active": True}, "active must be a whole number"),
        ({"start_step": -2}, "start_step must be a whole number of at least -1"),
        ({"start_step": "5"}, "start_step must be a whole number"),
        ({"profile_memory": "true"}, "profile_memory must be True or False"),
        ({"activities": ["TPU"]}, "activities must be a list of any of CPU, NPU, GPU"),
        ({"activities": "all"}, "activities must be a list"),
        ({"rank_list": "0"}, r"rank_list must be a list of ranks"),
        ({"rank_list": [-1]}, "rank_list must be a list of ranks"),
        ({"metadata": []}, "metadata must be a JSON object"),
        ({"experimental_config": None}, "experimental_config must be a JSON object"),
        ({"prof_dir": 1}, "prof_dir must be text"),
        (special(profiler_level="Level3"), "profiler_level must be one of Level0, Level1, Level2, Level_none"),
        (special(profiler_level=["Level0"]), "profiler_level must be one of"),
        (special(profiler_level="Level_none"), "level none records markers only"),
        (special(aic_metrics="Memory"), "aic_metrics=Memory needs level 1 or 2, not 0"),
        (special(mstx_domain_include=["a"]), "turn marks on"),
        (special(gc_detect_threshold=-1), "gc_detect_threshold must be a number"),
        (special(export_type="csv"), "export_type must be a list of any of text, db"),
        (steps(start_step=-1), "give both, or -1 for both"),
        (steps(start_step=7), "stop_step is not before start_step"),
        (steps(aic_metrics="Memory", aicore_metrics=2), "leave the older aicore_metrics out"),
        (steps(aicore_metrics=7), "aicore_metrics must be one of"),
        (steps(aicore_metrics=True), "aicore_metrics must be one of"),
        (steps(analyse_mode=2), "analyse_mode must be one of"),
    ],
)
def test_mistakes_are_refused_with_alternatives(plain: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        understand(plain)


@pytest.mark.parametrize("table", [keys.TORCH_NPU, keys.TORCH_NPU_SPECIAL, keys.MINDSPORE])
@pytest.mark.parametrize("junk", [[[]], {"a": 1}, "junk", 1.5, -7, None, True])
def test_no_value_of_any_key_ends_in_anything_but_an_answer(table: dict[str, keys.Key], junk: Any) -> None:
    for name in table:
        plain = special(**{name: junk}) if table is keys.TORCH_NPU_SPECIAL else {name: junk}
        with suppress(NpuprofError):
            assert isinstance(understand(plain), Request)


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        (steps(aicore_metrics=7), "aicore_metrics left out: aicore_metrics must be one of"),
        (steps(aicore_metrics="Memory", aic_metrics="PipeUtilization", profiler_level=1), "aicore_metrics left out"),
        (steps(aicore_metrics=None), "aicore_metrics left out"),
        (steps(mstx=1), "mstx left out: mstx must be True or False"),
        (steps(analyse_mode="later"), "analyse_mode left out"),
        (steps(profile_framework=3), "profile_framework left out"),
        (steps(profile_communication="yes"), "profile_communication left out"),
        (steps(metadata=[]), "metadata left out"),
        (special(mstx=1), "experimental_config.mstx left out"),
        (special(msprof_tx="on"), "experimental_config.msprof_tx left out"),
        ({"start_step": 1, "experimental_config": None}, "experimental_config left out"),
        ({"start_step": 1, "analyse": 1, "async_mode": "x"}, "async_mode left out"),
    ],
)
def test_leaves_out_invalid_keys_alone(plain: dict[str, Any], told: str) -> None:
    messages: list[str] = []
    request = understand({**plain, "profile_memory": True, "with_stack": True}, warn=messages.append)
    assert request.options.memory
    assert request.options.stacks
    assert request.first is not None
    assert any(message.startswith(told) for message in messages), messages


@pytest.mark.parametrize("changes", [{"start_step": "soon"}, {"stop_step": None}, {"rank_list": "0"}, {"prof_path": 1}])
def test_where_and_when_are_never_guessed(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionsError):
        understand(steps(**changes), warn=lambda _: None)


@pytest.mark.parametrize("number", range(-1, 7))
def test_metric_numbers_mean_the_variables_metrics(number: int) -> None:
    with suppress(OptionsError):
        understand(steps(aicore_metrics=number))
        own = understand(steps(aicore_metrics=number), warn=lambda _: None).options
        variable, _ = mindspore.read(f'{{"start": true, "aicore_metrics": {number}}}')
        assert variable is not None
        assert (own.level, own.aic_metrics) == (variable.level, variable.aic_metrics)


def test_older_communication_is_told_beside_metrics() -> None:
    _, messages = mindspore.read('{"start": true, "aicore_metrics": 1, "profile_communication": true}')
    assert any("profile_communication is of older releases" in message for message in messages)
