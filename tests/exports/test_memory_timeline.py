"""Memory over time as a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.sources.base import Decoded


@pytest.fixture
def run() -> npuprof.Profile:
    decoded = Decoded()
    decoded.tables["memory"] = tables.build(
        "memory",
        {
            "time_ns": pd.array([10, 20, 30], "int64"),
            "device_id": pd.array([0, 0, 1], "Int64"),
            "component": ["PTA", "PTA", "<b>GE</b>"],
            "allocated_bytes": pd.array([1 << 20, None, 5], "Int64"),
        },
    )
    return npuprof.Profile(decoded)


def test_each_component_has_its_times_and_sizes(run: npuprof.Profile, tmp_path: Path) -> None:
    series = json.loads(run.to_memory_timeline(tmp_path / "memory.json").read_text())
    assert set(series) == {"npu:0 PTA", "npu:1 <b>GE</b>"}
    assert series["npu:0 PTA"]["time_ns"] == [10, 20]
    assert series["npu:0 PTA"]["allocated_bytes"] == [1 << 20, None]


def test_one_device_can_be_chosen_and_compressed(run: npuprof.Profile, tmp_path: Path) -> None:
    with gzip.open(run.to_memory_timeline(tmp_path / "memory.json.gz", "npu:1"), "rt") as file:
        assert list(json.load(file)) == ["npu:1 <b>GE</b>"]


@pytest.mark.slow
def test_a_page_shows_the_figure_with_names_escaped(run: npuprof.Profile, tmp_path: Path) -> None:
    page = run.to_memory_timeline(tmp_path / "memory.html").read_text(encoding="utf-8")
    assert "allocated" in page
    assert "<b>GE</b>" not in page


@pytest.mark.parametrize(
    ("name", "device", "told"),
    [("memory.csv", None, "must end in one of"), ("m.json", "npu:7", "npu:0, npu:1"), ("m.json", "x", "npu:0")],
)
def test_what_cannot_be_written_is_refused(
    run: npuprof.Profile, tmp_path: Path, name: str, device: str | None, told: str
) -> None:
    with pytest.raises(OptionsError, match=told):
        run.to_memory_timeline(tmp_path / name, device)
