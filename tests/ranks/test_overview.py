"""A job at a glance: its overview, figures of all ranks, pipeline, links and ranks beside each other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis.rank_groups import pipelines, rank_groups
from npuprof.analysis.rank_pipeline import pipeline_work
from npuprof.analysis.rank_steps import ranks_by_step
from npuprof.analysis.rank_waits import collectives, waits
from npuprof.errors import NpuprofError
from npuprof.figures.embed import saved_bytes
from npuprof.figures.rank_steps import plot_rank_steps
from npuprof.figures.rank_timeline import plot_rank_timeline
from npuprof.loading import load_set
from npuprof.profiles.profile import Profile
from npuprof.ranks.job import recorded_groups
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, Faults, Plan, frames, simulate, text
from npuprof.simulator.jobs.model import Job
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories

_SMALL = replace(SIZES[8], steps=2, microbatches=4, layers=1)
_SLOW = Faults(slow_ranks={5: 0.4})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text.write(simulate(_SMALL, _SLOW, 1), tmp_path_factory.mktemp("job"), kernels=True)


@pytest.fixture
def runs(folder: Path) -> ProfileSet:
    return load_set(folder)


def _told(job: Job) -> dict[str, tuple[str, tuple[int, ...]]]:
    return recorded_groups(frames.info(job, rank) for rank in range(job.plan.ranks))


@pytest.mark.slow
def test_the_overview_names_the_slow_rank(runs: ProfileSet) -> None:
    seen = runs.overview()
    assert seen.verdict.startswith("Rank 5 takes ")
    assert seen.slow == [5]
    assert seen.caused.idxmax() == 5
    parts = [name for name in seen.steps if str(name).endswith("_ns") and name != "duration_ns"]
    assert (seen.steps[parts].sum(axis=1) == seen.steps["duration_ns"]).all()
    assert not seen.steps["communication_ns"].any()  # told by when the ranks came
    assert len(seen.steps) == 8 * 2
    assert seen.communication.set_index("kind")["groups"].to_dict() == {"pp": 4, "tp": 4, "dp": 4, "mp": 2}
    assert seen.pipelines == [(0, 4), (1, 5), (2, 6), (3, 7)]


@pytest.mark.slow
def test_step_waiting_is_the_collectives(runs: ProfileSet) -> None:
    steps = runs.overview().steps.set_index(["rank", "step"])
    # Timelines are rounded, so a kernel may end when a collective has begun: that time is computing, and the rest of
    # the collectives of a step is split as they are.
    exposed = steps["waiting_ns"] + steps["moving_ns"]
    of_steps = runs.waits().groupby(["rank", "step"])[["wait_ns", "moving_ns"]].sum().reindex(steps.index)
    whole = of_steps.sum(axis=1)
    assert (whole - exposed).between(0, 27 * 2 * 200).all()  # both ends of 27 collectives, in nanoseconds
    assert (steps["waiting_ns"] - of_steps["wait_ns"] * exposed / whole).abs().max() <= 0.5
    bars = {bar.name: np.array(bar.y, float) for bar in runs.plot_steps().data}
    assert bars["waiting for other ranks"].sum() == pytest.approx(steps["waiting_ns"].sum() / 1e6, rel=1e-6)
    assert "waiting and moving from when the ranks came" in runs.plot_steps().layout.title.text


@pytest.mark.slow
def test_a_small_job_has_its_own_steps_everywhere(folder: Path) -> None:
    runs = load_set(folder)
    seen, advised = runs.overview(), runs.advice()
    assert sum(seen.parts.values()) == advised.step_ns
    assert seen.parts == advised.parts()
    steps = runs.breakdown().groupby(["rank", "step"])["duration_ns"].sum()
    assert seen.steps.set_index(["rank", "step"])["duration_ns"].to_dict() == steps.to_dict()


@pytest.mark.slow
def test_small_files_of_many_ranks_suffice(tmp_path: Path) -> None:
    plan = replace(_SMALL, data=3)
    runs = load_set(text.write(simulate(plan, Faults(slow_ranks={9: 0.4}), 1), tmp_path, kernels=True))
    assert runs.overview().slow == [9]
    assert len(runs.side_by_side([1, 9]))
    assert set(runs.info["state"]) == {"found"}


def test_groups_are_known_by_ranks() -> None:
    job = simulate(_SMALL, seed=1)
    rows = collectives(frames.communication(job))
    told = {group.key: group.kind for group in rank_groups(rows, _told(job))}
    concluded = {group.key: group.kind for group in rank_groups(rows, {})}
    assert set(told.values()) == {"tp", "pp", "dp", "mp"}
    same = {key for key, kind in told.items() if kind != "mp"}
    assert {key: concluded[key] for key in same} == {key: told[key] for key in same}
    assert {concluded[key] for key in told if key not in same} == {""}  # two pipelines' ranks: 0, 1, 4, 5
    assert len(pipelines(rank_groups(rows, {}), range(8))) == 4
    experts = rows.assign(op_type="hcom_alltoallv_")[rows["group"].isin([key for key in told if told[key] == "dp"])]
    assert {group.kind for group in rank_groups(experts.assign(rank=experts["rank"] * 2), {})} == {"ep"}


@pytest.mark.parametrize(
    "plan",
    [
        _SMALL,
        Plan(1, 4, 1, steps=1, microbatches=6, layers=1, barrier=True),
        Plan(1, 2, 1, microbatches=1, barrier=True),
    ],
)
def test_the_microbatches_of_a_pipeline_follow_from_its_sends(plan: Plan) -> None:
    job = simulate(plan, Faults(clock_ms=0, drift=0), 1)
    rows = waits(frames.communication(job))
    rows = rows[(rows["step"] == 10).to_numpy(bool)]
    groups = rank_groups(rows, _told(job))
    first = pipelines(groups, range(plan.ranks))[0]
    assert len(first) == plan.pipeline
    window = (int(rows["start_ns"].min()), int((rows["start_ns"] + rows["wait_ns"]).max()))
    work = pipeline_work(rows, first, [group.key for group in groups if group.kind == "tp"], window)
    for stage in range(plan.pipeline):
        own = work[(work["stage"] == stage).to_numpy(bool)]
        passes = own[own["kind"].str.contains("forward").to_numpy(bool)]
        assert passes["microbatch"].tolist() == list(range(plan.microbatches))
        both = (own["kind"] == "forward and backward").sum()
        backward = (own["kind"] == "backward").sum() + both
        assert backward == plan.microbatches
    middle = work[((work["stage"] == 0) & (work["kind"] == "forward")).to_numpy(bool)]["duration_ns"].iloc[-1]
    assert middle / 1e6 == pytest.approx(plan.layers * 2.2 + 0.6 * plan.layers * (plan.tensor > 1), rel=0.3)


def test_odd_pieces_have_no_microbatch() -> None:
    job = simulate(_SMALL, seed=1)
    rows = waits(frames.communication(job))
    rows = rows[(rows["step"] == 10).to_numpy(bool)]
    sends = rows["op_type"].str.contains("batchSendRecv").to_numpy(bool)
    lost = rows[~(sends & (rows["rank"] == 0).to_numpy(bool) & (rows["k"] == 1).to_numpy(bool))]
    work = pipeline_work(lost, (0, 4), [], (int(rows["start_ns"].min()), int(rows["start_ns"].max())))
    assert set(work["kind"]) == {"work", "waiting", "moving"}
    assert work["microbatch"].isna().all()


def test_slower_link_is_named(tmp_path: Path) -> None:
    job = simulate(_SMALL, Faults(slow_links={(2, 3): 4}), 1)
    runs = load_set(text.write(job, tmp_path))
    told = runs.bandwidths()
    slow = told[told["slow"].to_numpy(bool)]
    assert set(zip(slow["src_rank"], slow["dst_rank"], strict=True)) == {(2, 3), (3, 2)}
    assert slow["ratio"].max() == pytest.approx(0.25, rel=0.01)
    assert told["ratio"].is_monotonic_increasing
    assert not (told["src_rank"] == told["dst_rank"]).any()


@pytest.mark.slow
def test_ranks_beside_each_other(runs: ProfileSet) -> None:
    told = runs.side_by_side([1, 4, 5])
    assert told["rank"].unique().tolist() == [1, 4, 5]
    computing = told[(told["part"] == "computing").to_numpy(bool)].set_index("rank")
    assert computing["delta_ns"][5] > 0.2 * computing["median_ns"][5]
    caused = told[(told["part"] == "waits it causes").to_numpy(bool)].set_index("rank")["time_ns"]
    assert caused.idxmax() == 5
    kernels = told[(told["part"] == "kernels").to_numpy(bool)]
    assert set(kernels["name"]) >= {"FlashAttentionScore", "MatMulV3"}
    attention = kernels[(kernels["name"] == "FlashAttentionScore").to_numpy(bool)].set_index("rank")["time_ns"]
    assert attention[5] / attention[1] == pytest.approx(1.4, rel=0.05)
    with pytest.raises(KeyError, match="rank 9 has no run"):
        runs.side_by_side([9])


@pytest.mark.slow
def test_blame_shows_kernels_beside_a_peer(runs: ProfileSet) -> None:
    roots = runs.blame().groupby("root_rank")["wait_ns"].sum()
    assert roots.idxmax() == 5
    kernels = runs.blame(5)
    assert kernels["peer"].unique().tolist() == [4]  # of the same stage
    assert (kernels["delta_ns"] == kernels["time_ns"] - kernels["peer_ns"]).all()
    assert kernels["op_type"][0] == "MatMulV3"
    assert kernels["time_ns"][0] / kernels["peer_ns"][0] == pytest.approx(1.4, rel=0.05)
    assert {"line"} <= set(kernels)
    with pytest.raises(KeyError, match="rank 99"):
        runs.blame(99)


@pytest.mark.long
def test_findings_read_the_telling_ranks(folder: Path, tmp_path: Path) -> None:
    job = simulate(replace(_SMALL, data=4), Faults(slow_ranks={13: 0.4}), 1)
    runs = load_set(text.write(job, tmp_path, kernels=True))
    found = runs.advice()
    assert found.fired[0].title == "Rank 13 is slow"
    read = runs.info["rank"][(runs.info["state"] == "loaded").to_numpy(bool)].tolist()
    assert 13 in read
    assert len(read) == 2  # one of each stage


@pytest.mark.slow
def test_an_absent_rank_is_named_and_keeps_its_row(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "job")
    shutil.rmtree(tmp_path / "job/rank3_ascend_pt")
    runs = load_set(tmp_path / "job")
    seen = runs.overview()
    assert seen.absent == [3]
    assert seen.verdict.startswith("Rank 5 takes ")
    assert "Rank 3 is not here" in str(seen)
    heat = seen.plot().data[0]
    assert list(heat.y) == [str(rank) for rank in range(8)]
    assert np.isnan(heat.z[3]).all()
    assert "Rank 3 is not here" in seen._repr_html_()
    assert not seen.steps["waiting_ns"].any()  # waits for rank 3 would be taken for moving data
    assert seen.steps["communication_ns"].all()
    assert "at most" in seen.kinds()[0][-1]


@pytest.mark.slow
def test_of_two_sessions_of_a_rank_the_newer_one_counts(folder: Path, tmp_path: Path) -> None:
    alone = load_set(folder).overview()
    shutil.copytree(folder, tmp_path / "job")
    older = tmp_path / "job/older/rank2_ascend_pt"
    shutil.copytree(folder / "rank2_ascend_pt", older)
    times = json.loads((older / "profiler_info_2.json").read_text())
    times["end_info"]["collectionTimeEnd"] -= 10**12
    (older / "profiler_info_2.json").write_text(json.dumps(times))
    runs = load_set(tmp_path / "job")
    assert len(runs) == 9
    pd.testing.assert_frame_equal(runs.overview().steps, alone.steps)
    assert runs.overview().verdict == alone.verdict


@pytest.mark.slow
def test_the_page_has_the_verdict_first_and_figures_of_all_ranks(runs: ProfileSet, tmp_path: Path) -> None:
    page = runs.to_html(tmp_path / "page.html").read_text()
    assert "<title>npuprof · " in page
    places = [page.index(words) for words in ("Rank 5 takes ", "Groups of ranks", 'id="figure-0"')]
    assert places == sorted(places)
    for title in ("Steps of all ranks", "All ranks on one clock", "Pipeline", "Communication matrix"):
        assert f'aria-label="{title}"' in page


@pytest.mark.parametrize("ranks", [64, 1000])
def test_figures_of_many_ranks_are_small_when_saved(ranks: int) -> None:
    random = np.random.default_rng(0)
    steps = pd.DataFrame(
        {
            "rank": np.repeat(np.arange(ranks), 40),
            "step": np.tile(np.arange(40), ranks),
            **{
                f"{name}_ns": random.integers(1, 1_000_000, ranks * 40)
                for name in (
                    "duration",
                    "computing",
                    "waiting",
                    "moving",
                    "communication",
                    "copy",
                    "idle",
                    "between_steps",
                    "not_recorded",
                )
            },
        }
    )
    steps.loc[7 * 40 + 3, "computing_ns"] = 50_000_000
    heat = plot_rank_steps(steps, pd.Series(np.arange(ranks) * 1000, index=range(ranks)), Info())
    computing = heat.data[1]
    assert np.nanmax(computing.customdata) == pytest.approx(50, rel=1e-6)  # what stands out is never folded away
    count = 50
    rows = pd.DataFrame(
        {
            "rank": np.repeat(np.arange(ranks), count),
            "op": np.tile(np.arange(count), ranks),
            "k": np.tile(np.arange(count), ranks),
            "group": "1",
            "op_type": "hcom_allReduce_",
            "start_ns": np.tile(np.arange(count) * 1_000_000, ranks),
            "wait_ns": random.integers(1, 100_000, ranks * count),
            "moving_ns": 200_000,
            "last_rank": 3,
        }
    )
    timeline = plot_rank_timeline(rows, Info(), window=(0, count * 1_000_000))
    assert saved_bytes(heat) + saved_bytes(timeline) < 950_000


def test_state_is_the_longest_of_the_moment() -> None:
    rows = pd.DataFrame(
        {
            "rank": [0, 1],
            "op": [0, 0],
            "k": [0, 0],
            "group": ["1"] * 2,
            "op_type": ["hcom_allReduce_"] * 2,
            "start_ns": [1_000_000, 5_000_000],
            "wait_ns": [4_000_000, 0],
            "moving_ns": [2_000_000] * 2,
            "last_rank": [1, 1],
        }
    )
    figure = plot_rank_timeline(
        rows, Info(), window=(0, 8_000_000), kernels={1: (np.array([0]), np.array([4_000_000]))}
    )
    heat = figure.data[0]
    moments = heat.z.shape[1]
    at = [round(time / 8 * moments) + 5 for time in (0, 1, 5, 7)]
    assert heat.z[0, at].tolist() == [0, 2, 3, 0]
    assert heat.z[1, at].tolist() == [1, 1, 3, 0]
    (late,) = [trace for trace in figure.data if trace.name == "arrives last"]
    assert (list(late.x), list(late.y)) == ([5.0], [1])
    assert "rank 1 arrives last" in late.hovertext[0]
    quiet = plot_rank_timeline(rows, Info(), window=(0, 8_000_000), counted_ops=np.array([False]))
    assert "arrives last" not in [trace.name for trace in quiet.data]
    assert "no wait is longer" in quiet.layout.title.text


def test_ranks_without_steps_say_what_to_collect(tmp_path: Path) -> None:
    for rank in range(2):
        Profile(Decoded(factories.all_tables(), factories.info(rank=rank), Notes())).save(tmp_path / f"rank{rank}")
    runs = load_set(tmp_path)
    seen = runs.overview()
    assert "no collectives in common" in seen.verdict
    assert "no steps and no device time" in str(seen)
    assert not len(seen.steps)
    assert "no rank has steps" in seen.plot().layout.annotations[0].text
    assert "no two ranks have collectives" in runs.plot_ranks().layout.annotations[0].text
    assert "no ranks send to each other" in runs.plot_pipeline().layout.annotations[0].text
    assert not len(runs.bandwidths())


def test_one_rank_is_told_as_one(tmp_path: Path) -> None:
    Profile(Decoded(factories.profile(30), factories.info(rank=0), Notes())).save(tmp_path / "rank0")
    runs = load_set(tmp_path)
    assert runs.overview().verdict.startswith("Only rank 0 is here. ")
    assert "no two ranks" in runs.plot_ranks().layout.annotations[0].text


def test_steps_of_a_run_without_numbers_are_counted() -> None:
    parts = pd.DataFrame(
        {
            "rank": pd.array([0, 0], "Int64"),
            "device_id": [0, 0],
            "step": pd.array([pd.NA, pd.NA], "Int64"),
            "duration_ns": [5, 7],
            **dict.fromkeys(("computing", "waiting", "moving", "communication", "copy"), 1),
            **dict.fromkeys(("idle_head", "idle_inside", "idle_tail", "between_steps", "not_recorded"), 0),
        }
    )
    assert ranks_by_step(parts)["step"].tolist() == [0, 1]


@pytest.mark.slow
def test_no_such_step_or_pipeline(runs: ProfileSet) -> None:
    with pytest.raises(NpuprofError, match="no step 99: there are 10, 11"):
        runs.plot_ranks(step=99)
    with pytest.raises(NpuprofError, match="no pipeline 4: there are 4"):
        runs.pipeline(4)


@pytest.mark.slow
def test_figures_of_real_ranks(samples: Path) -> None:
    runs = load_set(samples / "torch_npu/llm_4ranks")
    seen = runs.overview()
    assert seen.verdict == "Stage 1 (ranks 2 and 3) takes 164 ms longer than stage 0; the others wait for it."
    assert seen.absent == []
    waiting = seen.steps.set_index("rank")["waiting_ns"] / 1e6
    assert waiting.tolist() == pytest.approx([318.29, 339.87, 175.75, 159.67], rel=0.01)
    assert seen.pipelines == [(0, 2), (1, 3)]
    work = runs.pipeline()
    kinds = work[work["kind"].str.contains("ward").to_numpy(bool)]
    assert list(zip(kinds["stage"], kinds["kind"], kinds["microbatch"], strict=True)) == [
        (0, "forward", 0),
        (0, "forward", 1),
        (0, "backward", 0),
        (0, "backward", 1),
        (1, "forward and backward", 0),
        (1, "forward and backward", 1),
    ]
    assert runs.what_if(transfer=0).gain_ns / 1e6 == pytest.approx(101.8, rel=0.01)
    unchanged = runs.what_if()
    assert unchanged.replayed_ns / 1e6 == pytest.approx(796.75, rel=0.0001)
    assert unchanged.recorded_ns / 1e6 == pytest.approx(796.81, rel=0.0001)
    roots = runs.blame()
    own = roots.groupby(roots["root_rank"].astype(object).fillna(roots["cause"]))["wait_ns"].sum() / 1e6
    assert [own[rank] for rank in (0, 1, 2, 3)] == pytest.approx([178.1, 154.9, 304.7, 355.8], rel=0.01)
    assert own["moving"] == pytest.approx(0.1, abs=0.05)
    kernels = runs.blame(2)
    assert kernels["peer"].unique().tolist() == [0]
