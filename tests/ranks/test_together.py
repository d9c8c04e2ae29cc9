"""What a set of ranks has as one run has it: tables, figures of all ranks, exports."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.rank_clocks import Lead
from npuprof.errors import NpuprofError, NpuprofWarning
from npuprof.figures.embed import library
from npuprof.flame.tree import call_tree
from npuprof.profiles.profile import Profile
from npuprof.ranks.together import RankOnClock, separated, together
from npuprof.sources.base import Decoded
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.tables.notes import Notes
from npuprof.timeline.counter_tracks import lines
from npuprof.timeline.layers import layers
from npuprof.timeline.slices import Slices
from tests import factories
from tests.same_runs import assert_same_frames

_COUNT = 3


def rank(number: int, launches: int = 40) -> Profile:
    """Return a run with the same threads, device, streams and times as every other rank."""
    run = factories.profile(launches)
    moments = factories.START_NS + np.arange(5, dtype=np.int64)
    run["counters"] = tables.build(
        "counters",
        {
            "time_ns": moments,
            "device_id": pd.array([0] * 5, "Int64"),
            "counter": factories.names(["HBM read"], np.zeros(5, np.int64)),
            "value": np.arange(5.0) + number,
            "unit": factories.names(["MB/s"], np.zeros(5, np.int64)),
        },
    )
    return Profile(Decoded(run, factories.info(rank=number, devices=[0]), Notes()))


@pytest.fixture
def job(tmp_path: Path) -> npuprof.ProfileSet:
    for number in range(_COUNT):
        rank(number).save(tmp_path / "job" / f"rank{number}")
    return npuprof.load_set(tmp_path / "job")


def test_profile_has_every_sensible_figure_and_export() -> None:
    alone = {"plot_kernel", "plot_roofline", "plot_communication", "to_memory_timeline", "to_chrome_trace"}
    public = {name for name in dir(Profile) if name.startswith(("plot_", "to_"))}
    public |= {"timeline", "flamegraph", "launches", "save", "explore", "notes"}
    for name in sorted(public - alone):
        of_set, of_run = getattr(npuprof.ProfileSet, name), getattr(Profile, name)
        if not callable(of_set):
            continue
        known = inspect.signature(of_run).parameters
        for parameter in inspect.signature(of_set).parameters.values():
            assert parameter.default == known[parameter.name].default
            assert parameter.annotation == known[parameter.name].annotation


@pytest.mark.slow
def test_tables_are_attributes_stacked(job: npuprof.ProfileSet) -> None:
    for name in tables.NAMES:
        pd.testing.assert_frame_equal(getattr(job, name), job.table(name))
    assert len(job.kernels) == _COUNT * 40
    assert job.memory["rank"].nunique() == job.counters["rank"].nunique() == _COUNT
    with pytest.raises(AttributeError, match="no attribute 'kernel'"):
        job.kernel  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_launches_of_all_ranks_have_the_rows_of_their_kernels(job: npuprof.ProfileSet) -> None:
    assert job.launches["duration_ns"].sum() == job.kernels["duration_ns"].sum()
    assert job.launches["rank"].value_counts().to_dict() == dict.fromkeys(range(_COUNT), 40)
    assert str(job.launches["start_ns"].dtype) == "int64"


@pytest.mark.slow
def test_each_rank_has_lanes_of_its_own(job: npuprof.ProfileSet) -> None:
    figure = job.timeline(max_slices=400)
    titles = figure.layout.yaxis.ticktext
    for number in range(_COUNT):
        assert any(f"rank {number} · stream 2" in title for title in titles)
        assert f"collectives · rank {number}" in titles
    assert sum(len(trace.x) for trace in figure.data if trace.type == "bar") <= 400
    assert "simulated" in figure.layout.title.text


@pytest.mark.slow
def test_runs_without_a_rank_have_lanes_and_lines_of_their_own(tmp_path: Path) -> None:
    for number in range(2):
        Profile(Decoded(rank(number).tables, factories.info(devices=[0]), Notes())).save(tmp_path / f"job/host{number}")
    titles = npuprof.load_set(tmp_path / "job").timeline(max_slices=400).layout.yaxis.ticktext
    for number in range(2):
        assert any(f"run {number} · stream 2" in title for title in titles)
        assert f"collectives · run {number}" in titles
        assert any(title.startswith(f"launched, not started run {number} device 0<br>") for title in titles)


def test_counters_are_lines_of_each_rank() -> None:
    merged = together([RankOnClock(rank(number), None) for number in range(_COUNT)])
    drawn = lines(merged["counters"])
    assert [line.title for line in drawn] == [f"HBM read rank {number} device 0" for number in range(_COUNT)]
    assert [line.value.tolist() for line in drawn] == [[*range(number, number + 5)] for number in range(_COUNT)]


@pytest.mark.slow
def test_no_slice_of_any_rank_is_left_out() -> None:
    run = rank(0)
    merged = together([RankOnClock(rank(number), None) for number in range(_COUNT)])
    of_one = {layer.title: len(layer.slices) for layer in layers(Slices(run.tables))}
    of_all = {layer.title: len(layer.slices) for layer in layers(Slices(merged))}
    assert of_all == {title: _COUNT * count for title, count in of_one.items()}


@pytest.mark.slow
def test_times_are_on_the_first_ranks_clock() -> None:
    merged = together([RankOnClock(rank(0), None), RankOnClock(rank(1), Lead(1_234_567_891))])
    starts = merged["kernels"].groupby("rank")["start_ns"].min()
    assert starts[0] - starts[1] == 1_234_567_891
    assert merged["kernels"]["start_ns"].dtype == np.int64


@pytest.mark.slow
def test_one_flame_graph_adds_up_the_ranks(job: npuprof.ProfileSet) -> None:
    alone = call_tree(rank(0).tables)
    merged = call_tree(together([RankOnClock(rank(number), None) for number in range(_COUNT)], apart=True))
    assert merged[["layer", "name", "depth"]].astype(str).equals(alone[["layer", "name", "depth"]].astype(str))
    for column in ("count", "host_ns", "device_ns"):
        assert (merged[column] == _COUNT * alone[column]).all()
    widths: Any = job.flamegraph(weight="device").data[0].values
    assert widths[0] == job.kernels["duration_ns"].sum()


@pytest.mark.slow
def test_folded_stacks_add_up_the_ranks(job: npuprof.ProfileSet, tmp_path: Path) -> None:
    def total(path: Path) -> int:
        return sum(int(line.rsplit(" ", 1)[1]) for line in path.read_text(encoding="utf-8").splitlines())

    alone = total(job[0].to_folded_stacks(tmp_path / "one.txt", "device"))
    assert total(job.to_folded_stacks(tmp_path / "all.txt", "device")) == pytest.approx(3 * alone, rel=0.05)


@pytest.mark.slow
def test_memory_and_counters_name_the_rank(job: npuprof.ProfileSet) -> None:
    for figure in (job.plot_memory(), job.plot_counters()):
        for number in range(_COUNT):
            assert any(f"rank {number} " in trace.name for trace in figure.data)


@pytest.mark.slow
def test_a_set_is_saved_and_opened_again(job: npuprof.ProfileSet, tmp_path: Path) -> None:
    again = npuprof.load_set(job.save(tmp_path / "again"))
    assert again.ranks == job.ranks
    for number in job.ranks:
        pd.testing.assert_frame_equal(again[number].kernels, job[number].kernels)
    with pytest.raises(NpuprofError, match="is not empty"):
        job.save(tmp_path / "again")


@pytest.mark.slow
def test_a_saved_analysis_of_all_ranks_is_no_rank(job: npuprof.ProfileSet, tmp_path: Path) -> None:
    analysis = Decoded(factories.profile(10), factories.info(source=CLUSTER_ANALYSIS), Notes())
    Profile(analysis).save(tmp_path / "job" / "cluster")
    again = npuprof.load_set(npuprof.load_set(job.root).save(tmp_path / "again"))
    assert again.cluster is not None
    assert again.ranks == job.ranks
    assert len(again.kernels) == len(job.kernels)


@pytest.mark.slow
def test_a_run_that_cannot_be_saved_is_reported(job: npuprof.ProfileSet, tmp_path: Path) -> None:
    (tmp_path / "job" / "rank1" / "kernels.parquet").write_bytes(b"")
    with pytest.warns(NpuprofWarning, match="rank1 is not saved"):
        saved = job.save(tmp_path / "again")
    assert npuprof.load_set(saved).ranks == [0, 2]


@pytest.mark.long
def test_set_page_is_self_contained(job: npuprof.ProfileSet, tmp_path: Path) -> None:
    page = job.to_html(tmp_path / "job.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 7
    assert "rank 2" in page
    assert "simulated" in page.lower()
    assert 'src="http' not in page.replace(library(), "")


@pytest.mark.slow
def test_unreadable_set_draws_a_message(tmp_path: Path) -> None:
    rank(0).save(tmp_path / "job" / "rank0")
    (tmp_path / "job" / "rank0" / "kernels.parquet").write_bytes(b"")
    job = npuprof.load_set(tmp_path / "job")
    assert len(job.launches) == len(job.kernels) == 0
    for figure in (job.timeline(), job.flamegraph(), job.plot_memory(), job.plot_counters(), job.plot_steps()):
        assert figure.layout.annotations[0].text


@pytest.mark.slow
def test_a_lane_names_the_rank_where_only_one_has_slices() -> None:
    merged = together(
        [
            RankOnClock(rank(0), None),
            RankOnClock(Profile(Decoded(factories.all_tables(), factories.info(rank=1))), None),
        ]
    )
    streams = next(layer for layer in layers(Slices(merged)) if layer.title == "stream")
    _, keys = streams.tracks()
    assert [streams.track_title(key, keys) for key in keys] == ["rank 0 · stream 2", "rank 0 · stream 3"]


def test_merged_tables_are_separated_into_the_runs_that_they_are_of() -> None:
    runs = [Profile(Decoded(factories.profile(20 + rank), factories.info(rank=rank))) for rank in (0, 3)]
    for run in runs:
        run.tables["overlap"] = tables.sort_by_time(run.overlap)  # as merged tables are
    traced_runs = separated(together([RankOnClock(run, None) for run in runs]), factories.info())
    assert [traced.run.info.rank for traced in traced_runs] == [0, 3]
    for run, traced in zip(runs, traced_runs, strict=True):
        assert_same_frames(run.tables, traced.run.tables)
    (alone,) = separated(runs[0].tables, runs[0].info)
    assert_same_frames(runs[0].tables, alone.run.tables)
