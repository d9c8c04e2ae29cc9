"""Exports of all ranks together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


@pytest.fixture
def runs(tmp_path: Path) -> ProfileSet:
    for rank in (0, 5):
        made = factories.profile(30)
        ends = {"kind": ["launch"] * 2, "source_table": ["api"] * 2, "target_table": ["marks", "operators"]}
        made["links"] = tables.build("links", {**ends, "source_row": [0, 1], "target_row": [0, 2]})
        made["memory"] = factories.profile(30 + rank)["memory"]
        Profile(Decoded(made, factories.info(rank=rank), Notes())).save(tmp_path / "runs" / f"rank{rank}")
    loaded = open_path(tmp_path / "runs")
    assert isinstance(loaded, ProfileSet)
    return loaded


@pytest.mark.slow
def test_set_trace_has_processes_per_rank(runs: ProfileSet, tmp_path: Path) -> None:
    written = runs.to_chrome_trace(tmp_path / "all.json")
    events = json.loads(written.read_text())["traceEvents"]
    alone = json.loads(runs[0].to_chrome_trace(tmp_path / "one.json").read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    for rank in (0, 5):
        pids = {pid for pid, name in names.items() if name.endswith(f"(rank {rank})")}
        slices = [event for event in events if event["ph"] == "X" and event["pid"] in pids]
        assert len(slices) == sum(event["ph"] == "X" for event in alone) > 0
    assert all(name.endswith(("(rank 0)", "(rank 5)")) for name in names.values())
    ranks_of_arrow: dict[str, set[str]] = {}
    for event in events:
        if event["ph"] in "sf":
            ranks_of_arrow.setdefault(event["id"], set()).add(names[event["pid"]][-8:])
    assert len(ranks_of_arrow) == sum(event["ph"] in "sf" for event in alone) > 0
    assert all(len(ranks) == 1 for ranks in ranks_of_arrow.values())


@pytest.mark.slow
def test_the_memory_of_a_set_is_by_rank(runs: ProfileSet, tmp_path: Path) -> None:
    series = json.loads(runs.to_memory_timeline(tmp_path / "memory.json").read_text())
    alone = json.loads(runs[0].to_memory_timeline(tmp_path / "one.json").read_text())
    assert {key.removeprefix("rank 0 ") for key in series if key.startswith("rank 0 ")} == alone.keys()
    assert {key.partition(" npu")[0] for key in series} == {"rank 0", "rank 5"}
    for key, sizes in alone.items():
        assert series[f"rank 0 {key}"] == sizes
    page = runs.to_memory_timeline(tmp_path / "memory.html").read_text()
    assert "rank 5 device" in page
    with pytest.raises(OptionsError, match="no memory samples of npu:7"):
        runs.to_memory_timeline(tmp_path / "none.json", "npu:7")


def test_a_set_has_the_figures_and_exports_of_a_profile() -> None:
    public = {name for name in dir(Profile) if name.startswith(("plot_", "to_"))}
    assert public - set(dir(ProfileSet)) == {"plot_kernel"}  # its argument is a row of one run
