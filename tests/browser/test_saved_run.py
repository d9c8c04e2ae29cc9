"""What of a run is saved for a page without a kernel: all that is drawn, exactly, or a bounded part that says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.browser.saved_run import save_run
from npuprof.flame.tree import merged_calls
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import printable
from tests import factories
from tests.browser.unpacking import Saved


def _timeline(launches: int = 200, threads: int = 2) -> Timeline:
    tables = factories.profile(launches)
    for name in ("operators", "api"):  # threads beyond the first few share one lane, where their slices overlap
        long = tables[name]["duration_ns"] * (1 if threads < 4 else 9)
        tables[name] = tables[name].assign(thread_id=100 + np.arange(launches) % threads, duration_ns=long)
    return Timeline(tables, factories.info())


def _check_whole(timeline: Timeline, saved: Saved) -> None:
    lanes = timeline.lanes_of_slices()
    for table in saved.header["tables"]:
        frame, first = timeline.tables[table["name"]], table["first"]
        rows = saved.column(table["rows"]) if "rows" in table else np.arange(len(frame))
        assert rows.tolist() == np.flatnonzero(lanes[first : first + len(frame)] >= 0).tolist()
        assert (saved.column(table["start"]) + timeline.origin).tolist() == frame["start_ns"].iloc[rows].tolist()
        assert saved.column(table["duration"]).tolist() == frame["duration_ns"].iloc[rows].tolist()
        assert (saved.column(table["place"]) // 2).tolist() == lanes[rows + first].tolist()
        looks = [saved.header["looks"][look][0] for look in saved.column(table["look"]).tolist()]
        names = [printable(name, 300) for name in timeline.slices.names(rows + first)]
        assert [saved.header["texts"][text] for text in looks] == names
    single = sum(int((saved.column(table["place"]) % 2 == 0).sum()) for table in saved.header["tables"])
    shared = saved.column(saved.header["bars"]["count"])
    assert single + int(shared.sum()) == saved.header["slices"] == int((lanes >= 0).sum())


@pytest.mark.parametrize("threads", [2, 7])
def test_every_slice_that_is_drawn_is_saved_exactly(threads: int) -> None:
    timeline = _timeline(threads=threads)
    saved = Saved(save_run(timeline).data)
    _check_whole(timeline, saved)
    assert saved.header["merged"] == 0
    assert bool(len(saved.column(saved.header["bars"]["count"]))) == (threads == 7)


def test_call_tree_matches_the_run() -> None:
    timeline = _timeline()
    saved, calls = Saved(save_run(timeline).data), merged_calls(timeline.tables)
    paths = saved.header["paths"]
    sums = calls.whole(timeline.tables)
    for name, weight in (("host_ns", "host"), ("device_ns", "device"), ("slices", "count")):
        assert saved.column(paths[name]).tolist() == sums[weight].exclusive.tolist()  # type: ignore[index]
    assert (np.arange(len(calls)) - saved.column(paths["parent"])).tolist() == calls.parent.tolist()
    kernels = saved.table("kernels")
    assert saved.column(kernels["path"]).tolist() == calls.kernel_path.tolist()
    back = saved.column(kernels["caller"])
    launchers = np.arange(len(back)) + kernels["first"] - back - timeline.slices.first["python"]
    assert launchers.tolist() == calls.causes.launchers.tolist()


def test_details_come_back_with_absent_values() -> None:
    timeline = _timeline()
    kernels = timeline.tables["kernels"]
    step = pd.array([None if row % 3 else row % 4 for row in range(len(kernels))], dtype="Int64")
    ratio = np.where(np.arange(len(kernels)) % 2, np.nan, 0.25)
    huge = np.arange(len(kernels)) + 2**60
    timeline.tables = {**timeline.tables, "kernels": kernels.assign(step=step, mac_ratio=ratio, huge=huge)}
    saved = Saved(save_run(timeline).data)
    table = saved.table("kernels")
    looks = saved.column(table["look"])
    values = {}
    for detail in table["details"]:
        column = saved.column(detail["column"])
        column = column[looks] if detail.get("by_look") else column
        if detail["kind"] == "text":
            values[detail["name"]] = [detail["values"][at] for at in column.tolist()]
        elif detail["kind"] == "int":
            values[detail["name"]] = [None if at == detail["absent"] else at for at in column.tolist()]
        else:
            floats = column.astype(np.uint32).view(np.float32)
            values[detail["name"]] = [None if np.isnan(one) else float(one) for one in floats]
    assert values["step"] == [None if row % 3 else row % 4 for row in range(len(kernels))]
    assert values["mac_ratio"] == [None if row % 2 else 0.25 for row in range(len(kernels))]
    assert values["huge"] == [f"{one:,}" for one in huge.tolist()]  # too large for a number of a page
    assert values["op_type"] == kernels["op_type"].tolist()
    assert values["stream_id"] == kernels["stream_id"].tolist()


@pytest.mark.parametrize("limit", [12_000, 8_500])
def test_beyond_the_limit_the_shortest_slices_share_bars_and_are_counted(limit: int) -> None:
    tables = factories.profile(1_500)
    noise = np.random.default_rng(3)
    for name in ("kernels", "operators", "api"):
        longer = noise.integers(1, 9_000, len(tables[name]))
        tables[name] = tables[name].assign(duration_ns=longer)
    timeline = Timeline(tables, factories.info())
    assert len(save_run(timeline).data) > 12_000
    run = save_run(timeline, limit_bytes=limit)
    saved = Saved(run.data)
    assert len(run.data) <= limit
    assert run.merged == saved.header["merged"] > 0
    assert run.slices == save_run(timeline).slices
    single = sum(int((saved.column(table["place"]) % 2 == 0).sum()) for table in saved.header["tables"])
    assert single + run.merged == run.slices
    kept = saved.table("kernels")
    rows = saved.column(kept["rows"])
    durations = tables["kernels"]["duration_ns"].to_numpy()
    assert saved.column(kept["duration"]).tolist() == durations[rows].tolist()
    assert int(durations.max()) in durations[rows].tolist()


def test_details_are_left_out_before_slices_are_merged() -> None:
    timeline = _timeline()
    whole = save_run(timeline)
    part = save_run(timeline, limit_bytes=len(whole.data) - 500)
    assert part.merged == 0
    assert part.left_out
    assert not whole.left_out
    assert len(part.data) <= len(whole.data) - 500


def test_a_run_without_anything_can_be_saved() -> None:
    saved = Saved(save_run(Timeline(factories.all_tables(), factories.info())).data)
    assert saved.header["tables"] == []
    assert saved.header["slices"] == 0


_SAMPLES = ("torch_npu/text/level1/rank0_ascend_pt", "kineto/two_ranks/rank-0.json.gz", "raw/sliced_2k")


@pytest.mark.slow
@pytest.mark.parametrize("name", _SAMPLES)
def test_real_results_are_saved_exactly(samples: Path, name: str) -> None:
    run = npuprof.load(samples / name)
    assert isinstance(run, npuprof.Profile)
    timeline = Timeline(run.tables, run.info, run.aligned)
    saved = Saved(save_run(timeline).data)
    _check_whole(timeline, saved)
