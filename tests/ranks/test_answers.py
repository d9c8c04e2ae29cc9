"""Answers of a set of ranks, through its methods."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuprof


@pytest.mark.slow
def test_a_set_answers_about_its_job(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    parts = runs.breakdown()
    steps = parts.groupby("rank")["duration_ns"].sum()
    assert steps.index.tolist() == [0, 1, 2, 3]
    assert steps[0] / 1e6 == pytest.approx(810.02, abs=0.01)
    assert runs.waits()["wait_ns"].sum() / 1e6 == pytest.approx(993.6, abs=0.1)
    assert runs.blame()["wait_ns"].sum() == runs.waits()["wait_ns"].sum()
    assert runs.what_if(balance="stages").gain_ns / 1e6 == pytest.approx(32.0, abs=0.05)
    assert runs.critical_path()["duration_ns"].sum() / 1e6 == pytest.approx(796.81, abs=0.01)


@pytest.mark.slow
def test_a_set_without_steps_has_an_empty_breakdown(samples: Path) -> None:
    runs = npuprof.load_set(samples / "mindspore/cpu")
    assert runs.breakdown().columns.tolist() == ["rank", "device_id", "step", "part", "cause", "duration_ns"]
    assert not len(runs.breakdown())
