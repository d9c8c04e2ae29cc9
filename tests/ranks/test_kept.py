"""Answers about all ranks are kept until a file changes, and are the same when they come again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

from npuprof.analysis.rank_waits import costliest
from npuprof.loading import load_set
from npuprof.ranks import kept, overview, rank_tables
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, Faults, simulate, text

_PLAN = replace(SIZES[8], data=3, steps=2, microbatches=2, layers=1)  # of more than 8 ranks small files are read
_JOB = simulate(_PLAN, Faults(slow_ranks={5: 0.4}), seed=1)
_OUTPUT = "ASCEND_PROFILER_OUTPUT"

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job with a slow rank, and a rank that has no matrix; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = text.write(_JOB, tmp_path / "job")
    (folder / "rank2_ascend_pt" / _OUTPUT / "communication_matrix.json").unlink()
    return folder


def _look(runs: ProfileSet) -> tuple[overview.Overview, pd.DataFrame]:
    return runs.overview(), runs.blame()


def test_second_answer_skips_collectives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = load_set(folder)
    first, roots = _look(runs)
    monkeypatch.setattr(rank_tables.RankTables, "job", None)
    later = load_set(folder)
    again, same_roots = _look(later)
    assert str(again) == str(first)
    assert again._repr_html_() == first._repr_html_()
    assert (again.groups, again.ranks, again.absent) == (first.groups, first.ranks, first.absent)
    for one, other in ((first.steps, again.steps), (roots, same_roots), (first.communication, again.communication)):
        pd.testing.assert_frame_equal(one.astype(object), other.astype(object))
    assert again.caused.to_dict() == first.caused.to_dict()
    assert first.advice is not None
    assert again.advice is not None
    assert again.advice.to_dict() == first.advice.to_dict()
    shown = [(one.rows, other.rows) for one, other in zip(first.advice, again.advice, strict=True)]
    assert any(len(rows) for rows, _ in shown)
    for one, other in shown:
        pd.testing.assert_frame_equal(one.astype(object), other.astype(object), check_index_type=False)
    pd.testing.assert_frame_equal(later.notes, runs.notes)
    assert later.notes["source"].str.contains("rank2").any()


@pytest.mark.long
@pytest.mark.parametrize("change", ["a file", "a rank more", "npuprof"])
def test_a_change_makes_answers_anew(folder: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = _look(load_set(folder))
    if change == "a file":
        times = folder / "rank5_ascend_pt" / _OUTPUT / "step_trace_time.csv"
        times.write_text(times.read_text() + "0,99,1.0,0.0,0.0,0.0,1.0,2.0,0.0,0.0,0.0\n")
    elif change == "a rank more":
        text.write_rank(_JOB, 7, folder / "rank7_later_ascend_pt")
    elif change == "npuprof":
        monkeypatch.setattr(kept, "_made_by", lambda: ("a later one",))
    runs = load_set(folder)
    made = Mock(wraps=overview.overview)
    monkeypatch.setattr(overview, "overview", made)
    again = runs.overview()
    made.assert_called_once_with(runs._ranks)
    if change == "a file":
        assert len(again.steps) == len(first.steps) + 1


def test_files_that_change_meanwhile_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = overview.overview

    def changed(ranks: rank_tables.RankTables) -> overview.Overview:
        made = whole(ranks)
        matrix = folder / "rank3_ascend_pt" / _OUTPUT / "communication_matrix.json"
        matrix.write_text(matrix.read_text() + " ")
        return made

    monkeypatch.setattr(overview, "overview", changed)
    runs = load_set(folder)
    runs.overview()
    ranks = runs._ranks
    assert kept.known(ranks, "overview", kept.state_of(ranks)) is None


def test_evidence_of_millions_of_rows_is_the_costliest() -> None:
    rows = pd.DataFrame({"wait_ns": range(30_000)})
    few = costliest(rows, "wait_ns")
    assert few.index.tolist() == list(range(20_000, 30_000))
    assert costliest(few, "wait_ns") is few
