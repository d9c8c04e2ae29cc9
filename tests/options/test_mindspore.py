"""What MindSpore's variable asks for, name by name, and what is told of what it gets wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.options import Options
from npuprof.options.mindspore import read

# What is given beside "start": true, and which of our options then differ from MindSpore's defaults.
_NAMES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"output_path": "/data/prof"}, {"output": Path("/data/prof")}),
    ({"profiler_level": "Level1"}, {"level": 1, "aic_metrics": "PipeUtilization"}),
    ({"profiler_level": "Level2", "aic_metrics": "MemoryUB"}, {"level": 2, "aic_metrics": "MemoryUB"}),
    ({"profiler_level": "LevelNone", "mstx": True}, {"level": "none", "marks": True}),
    ({"aic_metrics": "None"}, {}),
    ({"aic_metrics": "AicoreNone"}, {}),
    ({"aicore_metrics": "AiCoreNone"}, {}),
    ({"aicore_metrics": -1}, {}),
    ({"activities": ["CPU"]}, {"activities": ("cpu",)}),
    ({"activities": ["GPU", "CPU"], "sync_enable": False}, {"activities": ("cpu", "gpu"), "sync_enable": False}),
    ({"with_stack": True}, {"stacks": True}),
    ({"host_stack": True}, {"stacks": True}),
    ({"profile_memory": True}, {"memory": True}),
    ({"hbm_ddr": True, "profile_memory": False}, {"memory": True}),
    ({"data_process": True, "parallel_strategy": True}, {"data_process": True, "parallel_strategy": True}),
    ({"l2_cache": True}, {"l2": True}),
    ({"pcie": True}, {"sys_interconnection": True}),
    ({"sys_interconnection": True, "sys_io": True}, {"sys_interconnection": True, "sys_io": True}),
    ({"host_sys": ["mem", "cpu"]}, {"host_sys": ("cpu", "mem")}),
    ({"data_simplification": False}, {"data_simplification": False}),
    ({"record_shapes": True}, {"shapes": True}),
    ({"export_type": ["db", "text"]}, {"export_type": ("text", "db")}),
    ({"mstx": True, "mstx_domain_include": ["a"]}, {"marks": True, "mstx_domain_include": ("a",)}),
    ({"mstx": True, "mstx_domain_exclude": ["b"]}, {"marks": True, "mstx_domain_exclude": ("b",)}),
]
_DEFAULTS = {"level": 0, "marks": False, "output": Path("data")}

# What MindSpore takes otherwise than it is said, what becomes of it, and what is told.
_TOLD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"profiler_level": "Level9"}, {}, "profiler_level cannot be 'Level9', and is taken as Level0"),
    ({"profiler_level": ["Level1"]}, {}, "profiler_level cannot be"),
    ({"activities": ["CPU", "TPU"]}, {}, r"activities cannot be .* taken as \['CPU', 'NPU'\]"),
    ({"activities": "CPU"}, {}, "activities cannot be 'CPU'"),
    ({"export_type": ["pdf"]}, {}, "export_type cannot be"),
    ({"host_sys": ["numa"]}, {}, r"host_sys cannot be .* taken as \[\]"),
    ({"with_stack": "yes"}, {}, "with_stack cannot be 'yes', and is taken as False"),
    ({"sync_enable": 0}, {}, "sync_enable cannot be 0, and is taken as True"),
    ({"output_path": 3}, {}, "output_path cannot be 3"),
    ({"aic_metrics": "Memory"}, {}, "from Level1 on, and left out"),
    (
        {"profiler_level": "Level1", "aic_metrics": "None"},
        {"level": 1, "aic_metrics": "PipeUtilization"},
        "Level1 counts",
    ),
    ({"aicore_metrics": 0}, {"level": 1, "aic_metrics": "ArithmeticUtilization"}, "of older releases: level 1"),
    ({"aicore_metrics": 9}, {}, "aicore_metrics cannot be 9"),
    ({"profile_communication": True}, {"level": 1, "aic_metrics": "PipeUtilization"}, "level 1 records it here"),
    ({"profiler_level": "LevelNone"}, {}, "without mstx is taken as Level0"),
    ({"activities": ["NPU"], "record_shapes": True}, {"activities": ("npu",)}, "shapes are recorded on the CPU"),
    ({"activities": ["CPU"], "l2_cache": True}, {"activities": ("cpu",)}, "l2 are collected by the NPU"),
    ({"mstx_domain_include": ["a"]}, {}, "choose among the markers"),
    (
        {"mstx": True, "mstx_domain_include": ["a"], "mstx_domain_exclude": ["b"]},
        {"marks": True, "mstx_domain_include": ("a",)},
        "beside mstx_domain_include",
    ),
    ({"schedule": {"wait": 1}}, {}, "schedule cannot be given by the environment"),
    ({"timeline_limit": 500}, {}, "timeline_limit has no effect"),
    ({"op_time": True}, {}, "op_time has no effect"),
    ({"profile_framework": "all"}, {}, "profile_framework has no effect"),
    ({"start_profile": True}, {}, "start_profile has no effect"),
    ({"nonsense": 1}, {}, "nonsense is unknown"),
]


def _read(**given: Any) -> tuple[Options | None, list[str]]:
    return read(json.dumps({"start": True, **given}))


@pytest.mark.parametrize(("given", "differs"), _NAMES)
def test_every_name_becomes_an_option(given: dict[str, Any], differs: dict[str, Any]) -> None:
    assert _read(**given) == (Options(**{**_DEFAULTS, **differs}), [])


@pytest.mark.parametrize(("given", "differs", "told"), _TOLD)
def test_what_mindspore_takes_otherwise_is_reported(given: dict[str, Any], differs: dict[str, Any], told: str) -> None:
    options, lines = _read(**given)
    assert options == Options(**{**_DEFAULTS, **differs})
    assert len(lines) == 1
    assert re.search(told, lines[0])


@pytest.mark.parametrize("start", ["", '"start": false'])
def test_without_start_nothing_is_collected_or_reported(start: str) -> None:
    assert read(f"{{{start}}}") == (None, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"start": "true"}', "start must be true or false"),
        ('{"start": true, "output_path": "a\\u0000b"}', "nothing is collected"),
    ],
)
def test_unparsable_text_is_reported_and_not_collected(text: str, told: str) -> None:
    options, lines = read(text)
    assert options is None
    assert len(lines) == 1
    assert told in lines[0]


def test_the_example_of_the_page_is_understood() -> None:
    options, lines = read(
        '{"start": true, "output_path": "/XXX", "profile_memory": false, "profile_communication": false, '
        '"aicore_metrics": 0, "l2_cache": false}'
    )
    assert options == Options(level=1, aic_metrics="ArithmeticUtilization", marks=False, output=Path("/XXX"))
    assert len(lines) == 1


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["CPU", "Level2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_SOME_NAMES = sorted({name for given, *_ in (*_NAMES, *_TOLD) for name in given})


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(_SOME_NAMES), _ANY))
def test_any_values_are_options_or_reported(values: dict[str, Any]) -> None:
    options, told = read(json.dumps({"start": True, **values}))
    assert options is not None or told


def test_level_2_is_reduced_without_an_npu() -> None:
    options, told = read('{"start": true, "activities": ["CPU"], "profiler_level": "Level2"}')
    assert options is not None
    assert (options.level, options.activities) == (1, ("cpu",))
    assert told == ["Level2 adds calls of the NPU, and without it is taken as Level1"]
