"""The explorer of many runs, without a front end."""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pytest

from npuprof.loading import open_path
from npuprof.notebook.explorer.set_explorer import SetExplorer
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


@pytest.fixture
def runs(tmp_path: Path) -> ProfileSet:
    for rank in range(3):
        decoded = Decoded(factories.profile(40 + rank), factories.info(rank=rank, name=f"run <{rank}>"), Notes())
        Profile(decoded).save(tmp_path / f"rank<{rank}>")
    loaded = open_path(tmp_path)
    assert isinstance(loaded, ProfileSet)
    return loaded


def _all(widget: Any) -> list[Any]:
    return [widget, *(one for child in getattr(widget, "children", ()) for one in _all(child))]


def _texts(widget: Any) -> str:
    return "".join(one.value for one in _all(widget) if isinstance(one, widgets.HTML))


def _choice(explorer: SetExplorer) -> widgets.Dropdown:
    (found,) = [one for one in _all(explorer.widget) if isinstance(one, widgets.Dropdown) and one.description == "Run"]
    return found


@pytest.mark.slow
def test_a_set_opens_on_the_timeline_of_its_ranks(runs: ProfileSet) -> None:
    explorer = SetExplorer(runs)
    assert explorer._tabs.opened == "Timeline"
    titles = {row.title for rows in explorer.timeline.rows for row in rows}
    assert {"rank 0 · stream 2", "rank 2 · stream 3"} <= titles


@pytest.mark.slow
def test_reads_one_of_many_runs_when_opened(tmp_path: Path) -> None:
    for rank in range(9):
        Profile(Decoded(factories.profile(10), factories.info(rank=rank), Notes())).save(tmp_path / str(rank))
    runs = open_path(tmp_path)
    assert isinstance(runs, ProfileSet)
    explorer = SetExplorer(runs)
    assert explorer._tabs.opened == "Runs"
    assert set(runs.info["state"]) == {"found"}
    explorer.open("One run")
    assert runs.info["state"].tolist() == ["loaded", *["found"] * 8]


@pytest.mark.slow
def test_a_run_is_chosen_and_takes_the_place_of_the_former(runs: ProfileSet) -> None:
    explorer = SetExplorer(runs)
    explorer.open("One run")
    former = explorer.explorer
    assert former is not None
    assert former.run.info.rank == 0
    _choice(explorer).value = 2
    assert explorer.explorer is not None
    assert explorer.explorer.run.info.rank == 2
    assert len(explorer.explorer.run.kernels) > len(former.run.kernels)
    assert former.widget.comm is None
    assert explorer.explorer.widget in _all(explorer.widget)


@pytest.mark.slow
def test_every_figure_of_all_ranks_has_a_tab(runs: ProfileSet) -> None:
    explorer = SetExplorer(runs)
    explorer.open("All ranks")
    titles = ("Timeline", "Flame graph", "Steps", "Memory", "Communication", "Roofline", "Counters")
    for title in titles:
        explorer.open(title)
    figures = [
        one.outputs[0]["data"]["application/vnd.plotly.v1+json"]
        for one in _all(explorer.widget)
        if isinstance(one, widgets.Output)
    ]
    drawn = [re.findall(r"<b>(.*?)</b>", figure["layout"]["title"]["text"])[0] for figure in figures]
    assert drawn[:3] == ["All ranks on one clock", "The NPUs are idle 50.0 % of the time", "Pipeline"]
    assert "of host time" in drawn[3]
    assert "memory peaks" in drawn[5]
    assert drawn[6:] == ["Communication", "Communication matrix", *titles[5:]]
    assert "rank 2" in str(figures[4]["data"][0]["x"])
    assert "could not be made" not in _texts(explorer.widget)
    lanes = [title for group in explorer.timeline.rows for _, title in map(astuple, group) if title]
    assert [title for title in lanes if title.startswith("steps")] == [f"steps · rank {rank}" for rank in range(3)]
    starts = {int(rows.start_ns.min()) for _, rows in explorer.timeline.tables["steps"].groupby("rank")}
    assert len(starts) == 1  # their clocks are aligned
    assert figures[7]["layout"]["annotations"]  # the matrix: says what to collect to have it


@pytest.mark.slow
def test_unreadable_run_spares_others(runs: ProfileSet, tmp_path: Path) -> None:
    (tmp_path / "rank<1>" / "kernels.parquet").write_bytes(b"no parquet")
    explorer = SetExplorer(runs)
    explorer.open("Steps")
    assert "Without these runs, which cannot be read:<ul><li>rank 1: " in _texts(explorer.widget)
    explorer.open("One run")
    _choice(explorer).value = 1
    assert explorer.explorer is None
    assert "<pre>npuprof: " in _texts(explorer.widget)
    assert "<1>" not in _texts(explorer.widget)
    _choice(explorer).value = 2
    assert explorer.explorer is not None


@pytest.mark.slow
def test_the_set_makes_its_explorer(runs: ProfileSet) -> None:
    assert "npuprof-explorer" in runs.explore().children[0]._dom_classes


@pytest.mark.long
def test_rank_findings_open_their_run(runs: ProfileSet) -> None:
    found = next(one for one in runs.advice() if one.rank is not None)
    for rank in (2, 1):
        explorer = SetExplorer(runs)
        explorer.open_at(replace(found, rank=rank))
        assert explorer.explorer is not None
        assert explorer.explorer.run.info.rank == rank == runs.info["rank"][_choice(explorer).value]
        assert explorer.explorer.timeline.matches is not None
        assert explorer.explorer.timeline.selected is not None
    explorer.open_at(replace(found, rank=None))
    assert explorer._tabs._tab.selected_index == explorer._tabs.titles.index("Communication")
    assert found.show() is not None
