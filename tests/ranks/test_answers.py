"""Answers of a set of ranks, through its methods."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.errors import OptionsError
from npuprof.options.load_arguments import add_load_arguments, load_arguments
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, Faults, simulate, text
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


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
def test_hostless_breakdown_is_what_hosts_did(samples: Path) -> None:
    runs = npuprof.load_set(samples / "mindspore/cpu")
    assert runs.breakdown().columns.tolist() == ["rank", "device_id", "step", "part", "cause", "duration_ns"]
    assert set(runs.breakdown()["part"]) == {"host"}
    assert runs.breakdown()["step"].isna().all()


@pytest.mark.slow
def test_tables_of_answers_of_all_ranks_have_a_rank_column(tmp_path: Path) -> None:
    for rank in (0, 3):
        run = Profile(Decoded(factories.profile(20), factories.info(rank=rank, options={"rank": rank}), Notes()))
        run.save(tmp_path / f"rank{rank}")
    runs = npuprof.load_set(tmp_path)
    assert runs.ranks == [0, 3]
    for name in ("step_statistics", "efficiency", "memory_peak", "memory_leaks"):
        alone, together = getattr(runs[3], name)(), getattr(runs, name)()
        own = together[together["rank"] == 3].drop(columns="rank").reset_index(drop=True)
        assert len(own) == len(alone)
        pd.testing.assert_frame_equal(
            own, alone.drop(columns="rank", errors="ignore"), check_dtype=False, check_categorical=False
        )
        assert list(together.attrs["ranks"]) == [0, 3]
    assert runs.memory_leaks().attrs["state"] == "cannot tell"


def test_named_chip_applies_to_each_run(tmp_path: Path) -> None:
    for rank in range(2):
        decoded = Decoded(factories.profile(5), factories.info(rank=rank, chip="Ascend910B"), Notes())
        Profile(decoded).save(tmp_path / f"rank{rank}")
    one, runs = npuprof.load(tmp_path / "rank0", chip="910B3"), npuprof.load_set(tmp_path, chip="910B3")
    assert one.info.chip == runs[1].info.chip == "Ascend 910B3"
    parsed = argparse.ArgumentParser()
    add_load_arguments(parsed)
    assert load_arguments(parsed.parse_args(["--chip", "910A"]))["chip"] == "910A"
    with pytest.raises(OptionsError, match=r"there is no chip '999': known are 910B2"):
        npuprof.load(tmp_path, chip="999")


_BEFORE: Mapping[str, Callable[[ProfileSet], object]] = {
    "nothing": lambda runs: None,
    "a rank": lambda runs: runs[runs.ranks[0]],
    "all": lambda runs: runs.read(),
    "advice": lambda runs: runs.advice(),
    "overview": lambda runs: runs.overview(),
}
_ANSWERS: Mapping[str, Callable[[ProfileSet], pd.DataFrame]] = {
    "parts": lambda runs: pd.DataFrame([runs.overview().parts]),
    "steps": lambda runs: runs.overview().steps,
    "caused": lambda runs: runs.overview().caused.reset_index(),
    "lanes": lambda runs: runs.overview().lanes,
    "waits": lambda runs: runs.waits(),
    "blame": lambda runs: runs.blame(),
    "side_by_side": lambda runs: runs.side_by_side(),
    "advice": lambda runs: pd.DataFrame([{"step_ns": runs.advice().step_ns, **runs.advice().parts()}]),
    "findings": lambda runs: pd.DataFrame(
        [(each.rule, each.title, each.gain_lo_ns, each.gain_hi_ns, each.cost_ns) for each in runs.advice()]
    ),
    "critical_path": lambda runs: runs.critical_path(),
}


def _answered(open_set: Callable[[], ProfileSet]) -> None:
    """Ask every question of a set after each order of reading, and compare the answers."""
    first: dict[str, pd.DataFrame] = {}
    for before, prepare in _BEFORE.items():
        runs = open_set()
        prepare(runs)
        for name, answer in _ANSWERS.items():
            frame = answer(runs).astype(object)
            known = first.setdefault(name, frame)
            pd.testing.assert_frame_equal(frame, known, check_index_type=False, obj=f"{name} after {before}")


@pytest.mark.long
@pytest.mark.parametrize("absent", [(), (3,)])
def test_answers_ignore_what_was_read_before(absent: Sequence[int], tmp_path: Path) -> None:
    plan = replace(SIZES[8], steps=2, microbatches=4, layers=1)
    folder = text.write(simulate(plan, Faults(slow_ranks={5: 0.4}), 1), tmp_path / "job", kernels=True)
    for rank in absent:
        shutil.rmtree(folder / f"rank{rank}_ascend_pt")
    _answered(lambda: npuprof.load_set(folder))


@pytest.mark.long
def test_answers_of_larger_jobs_ignore_what_was_read(tmp_path: Path) -> None:
    plan = replace(SIZES[8], data=3, steps=2, microbatches=2, layers=1)
    folder = text.write(simulate(plan, Faults(slow_ranks={5: 0.4}), 1), tmp_path / "job", kernels=True)
    _answered(lambda: npuprof.load_set(folder))


@pytest.mark.long
def test_answers_about_absent_ranks_ignore_reading(samples: Path) -> None:
    _answered(lambda: npuprof.load_set(samples / "torch_npu/text/level1"))


@pytest.mark.slow
def test_tasks_tell_of_absent_ranks(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/text/level1")
    waits = runs.waits()
    first = waits[(waits["rank"] == 0).to_numpy(bool)].iloc[0]
    assert first["last_rank"] == 5
    assert (first["wait_ns"] + first["absent_ns"]) / 1e6 == pytest.approx(78.77, abs=0.05)
    assert first[["wait_ns", "moving_ns", "absent_ns"]].sum() / 1e6 == pytest.approx(79.09, abs=0.01)
    assert runs.overview().caused.empty
    assert "waits it causes" not in set(runs.side_by_side()["part"])
    assert runs.blame()["wait_ns"].sum() == waits["wait_ns"].sum()
    assert sum(runs.overview().parts.values()) == runs.advice().step_ns
    for shown in (runs.advice(), runs.overview(), runs):  # no sum that is less than the costliest finding
        assert "−92.4 ms" in str(shown)
        assert "Together they explain" not in str(shown)
        assert "all findings together" not in str(shown)


@pytest.mark.slow
def test_job_times_name_their_subject(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    predicted = runs.what_if()
    assert "from the first start of a collective to the last end" in str(predicted)
    assert runs.critical_path()["duration_ns"].sum() == predicted.recorded_ns < runs.advice().step_ns
    assert "of the faster rank of each stage" in runs.advice()["pipeline_imbalance"].detail
    assert runs.advice().parts() == runs.overview().parts
    assert "from the first start" not in str(runs[0].what_if())


@pytest.mark.slow
@pytest.mark.parametrize(("now", "before", "words"), [(0, 2, ("more", "less")), (2, 0, ("less", "more"))])
def test_differences_name_both_large_terms(now: int, before: int, words: tuple[str, str], samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    said = " ".join(str(runs[now] - runs[before]).split())
    assert f"communication takes 143 ms {words[0]} time, but computing takes 169 ms {words[1]} time" in said
