"""JSON for speedscope: by its schema and the rules beside it, with every slice of the run."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
from tests.analysis.test_accounting import table
from tests.budget import examples

# speedscope's src/lib/file-format-spec.ts, from which its published schema is generated, as far as evented profiles go.
_NUMBER = {"type": "number"}
_FRAME_NUMBER = {"type": "integer", "minimum": 0}
_FORMAT: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": _FRAME_NUMBER,
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "file": {"type": "string"}, "line": _NUMBER},
                        "additionalProperties": False,
                    },
                }
            },
            "additionalProperties": False,
        },
        "profiles": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "name", "unit", "startValue", "endValue", "events"],
                "properties": {
                    "type": {"const": "evented"},
                    "name": {"type": "string"},
                    "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                    "startValue": _NUMBER,
                    "endValue": _NUMBER,
                    "events": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["type", "at", "frame"],
                            "properties": {"type": {"enum": ["O", "C"]}, "at": _NUMBER, "frame": _FRAME_NUMBER},
                            "additionalProperties": False,
                        },
                    },
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
_TABLES = ("python", "operators", "api", "tasks", "communication")


def _check(document: dict[str, Any]) -> dict[str, int]:
    """Check the order of events, which a schema cannot; return how often each frame is opened."""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert all(isinstance(name, str) and name for name in names)
    opened: dict[str, int] = {}
    for profile in document["profiles"]:
        assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
        stack: list[int] = []
        at = profile["startValue"]
        for event in profile["events"]:
            assert at <= event["at"] <= profile["endValue"]
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                opened[names[event["frame"]]] = opened.get(names[event["frame"]], 0) + 1
            else:
                assert event["type"] == "C"
                assert stack.pop() == event["frame"]
        assert not stack
    return opened


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["torch_npu/text/level1/rank0_ascend_pt", "torch_npu/db/level0/rank0_ascend_pt", "torch_npu/llm_4ranks"]
)
def test_each_slice_of_a_real_result_is_opened_and_closed_once(samples: Path, tmp_path: Path, name: str) -> None:
    run = npuprof.load(samples / name)
    path = run.to_speedscope(tmp_path / "run.speedscope.json")
    document = json.loads(path.read_text())
    validator: Any = import_module("jsonschema").Draft202012Validator
    assert not list(validator(_FORMAT).iter_errors(document))
    opened = _check(document)
    tables = run._merged_tables()
    if not len(tables["tasks"]):
        tables["tasks"] = tables["kernels"]  # of a result without a timeline
    assert sum(opened.values()) == sum(len(tables[name]) for name in _TABLES)
    first = min(int(tables[name]["start_ns"].min()) for name in _TABLES if len(tables[name]))
    last = max(
        int((tables[name]["start_ns"] + tables[name]["duration_ns"]).max()) for name in _TABLES if len(tables[name])
    )
    assert max(profile["endValue"] for profile in document["profiles"]) == last - first


_spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=12)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(operators=_spans, api=_spans, tasks=_spans)
def test_slices_that_cross_each_other_are_in_further_profiles(
    tmp_path_factory: pytest.TempPathFactory,
    operators: list[tuple[int, int]],
    api: list[tuple[int, int]],
    tasks: list[tuple[int, int]],
) -> None:
    made = {"operators": table("operators", operators), "api": table("api", api), "tasks": table("tasks", tasks)}
    run = Profile(Decoded(factories.all_tables(**made), factories.info()))
    path = run.to_speedscope(tmp_path_factory.mktemp("run") / "run.json.gz")
    opened = _check(json.loads(gzip.decompress(path.read_bytes())))
    assert sum(opened.values()) == len(operators) + len(api) + len(tasks)
