"""Real results of msprof against what plain tools computed from them, and against the raw data they were made of."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.profiles.profile import Profile
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one

CANN6 = "msprof/cann6_graph_mode/PROF_000001_20230818142704322_COJGGGCANRMICFBC"
SUMMARIES = (
    "msprof/aic_metrics/PROF_ArithmeticUtilization",
    "msprof/aic_metrics/PROF_Memory",
    "msprof/realistic_parent_layout",
)
BOTH = ("minimal", "sliced_2k")


@cache
def _truth(samples: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((samples / "TRUTH.json").read_bytes())
    return truth


def _of(samples: Path, under: str, part: str) -> dict[str, dict[str, Any]]:
    return {path: facts for path, facts in _truth(samples).items() if path.startswith(under) and part in path}


@cache
def _load(path: Path, source: Any = None) -> Profile:
    return npuprof.load(path, source=source)


def _ns(us: float) -> int:
    value = scaled_one(str(us), US_TO_NS)
    assert value is not None
    return value


@pytest.mark.parametrize("where", SUMMARIES)
def test_kernels_are_those_of_the_table(samples: Path, where: str) -> None:
    truth = next(iter(_of(samples, where, "op_summary").values()))
    kernels = _load(samples / where).kernels
    ends = kernels["start_ns"] + kernels["duration_ns"]
    assert len(kernels) == truth["rows"]
    assert [int(kernels["start_ns"].min()), int(ends.max())] == [truth["first_start_ns"], truth["last_end_ns"]]
    assert int(kernels["duration_ns"].sum()) == _ns(truth["sum_duration_us"])
    assert int(kernels["wait_ns"].sum()) == _ns(truth["wait_sum_us"])
    for column, key in (("core", "by_core"), ("op_name", "top5_by_name"), ("op_type", "top5_by_type")):
        found = kernels.groupby(column, observed=True)["duration_ns"].agg(["sum", "count"])
        expected = {name: [_ns(us), count] for name, us, count in truth[key]}
        assert {name: found.loc[name].tolist() for name in expected} == expected


def test_statistics_are_kept(samples: Path) -> None:
    truth = next(iter(_of(samples, SUMMARIES[2], "op_statistic").values()))
    statistic = _load(samples / SUMMARIES[2]).statistics["op_statistic"]
    assert [len(statistic), int(statistic["Count"].sum())] == [truth["rows"], truth["count"]]


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        (SUMMARIES[0], ["aic_cube_fops", "aic_mac_fp16_ratio", "aic_total_time_ns", "aiv_vec_misc_ratio"]),
        (SUMMARIES[1], ["aic_l1_read_bw_gb_s", "aiv_main_mem_write_bw_gb_s", "aiv_total_cycles"]),
    ],
)
def test_counters_of_other_metrics_have_our_names(samples: Path, where: str, columns: list[str]) -> None:
    kernels = _load(samples / where).kernels
    assert set(columns) <= set(kernels)
    assert all(pd.api.types.is_numeric_dtype(kernels[name]) for name in columns)


@pytest.mark.slow
def test_graph_mode_of_cann_6_holds_every_iteration_once(samples: Path) -> None:
    run = _load(samples / CANN6)
    truth = _of(samples, CANN6, "/msprof_0_2_")
    slices: dict[str, int] = {}
    for facts in truth.values():
        for process, count in facts["x_by_process"].items():
            slices[process] = slices.get(process, 0) + count
    iterations = 4 * len(truth)  # Iteration, FP_BP, Refresh, Reduce
    assert len(run.tasks) == slices["Ascend Hardware"] - iterations
    assert len(run.communication) + len(run.communication_tasks) == slices["HCCL"]
    assert [len(run.overlap), len(run.api), len(run.steps)] == [slices["Overlap Analysis"], slices["CANN"], len(truth)]
    assert run.communication_tasks["op_id"].notna().all()
    for kind in ("Computing", "Communication", "Free"):
        expected = sum(_ns(facts["overlap_us"][kind]) for facts in truth.values())
        found = int(run.overlap.loc[run.overlap["kind"] == kind.lower(), "duration_ns"].sum())
        assert abs(found - expected) <= 5 * len(truth)  # the sums of the truth are rounded to hundredths


@pytest.mark.slow
def test_graph_mode_of_cann_6_is_placed_on_utc(samples: Path) -> None:
    run = _load(samples / CANN6)
    first = min(facts["first_ns"] for facts in _of(samples, CANN6, "/msprof_0_2_").values())
    begin = json.loads((samples / CANN6 / "device_0" / "start_info.0").read_text())
    offset = int(begin["collectionTimeBegin"]) * 1000 - int(begin["clockMonotonicRaw"])
    assert int(run.api["start_ns"].min()) == first + offset
    assert run.info.started_ns is not None
    assert run.info.started_ns < run.api["start_ns"].min()
    assert run.kernels["step"].notna().all()


@pytest.mark.slow
def test_a_run_without_device_data_is_read_from_its_result(samples: Path) -> None:
    run = _load(samples / "msprof" / "app_host_only")
    assert run.info.source == "msprof text result"
    assert len(run.marks) == 40
    timeline = next((samples / "msprof" / "app_host_only").glob("PROF_*/mindstudio_profiler_output/msprof_2*.json"))
    assert len(run.counters) == sum(event["ph"] == "C" for event in json.loads(timeline.read_bytes()))
    assert set(run.statistics) == {"host_cpu_usage", "host_mem_usage"}


@pytest.fixture(params=BOTH)
def both(samples: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A directory with raw data and what the vendor's parser made of it."""
    source = samples / "raw" / request.param
    raw = next(source.glob("PROF_*"))
    shutil.copytree(raw, tmp_path / raw.name)
    shutil.copytree(source / "expected", tmp_path / raw.name / "mindstudio_profiler_output")
    copied: Path = tmp_path / raw.name
    return copied


@pytest.mark.slow
def test_raw_data_and_its_result_give_the_same_tables(both: Path) -> None:
    raw, parsed = npuprof.load(both, source="raw"), npuprof.load(both, source="parsed")
    assert [raw.info.source, parsed.info.source] == ["raw", "msprof text result"]
    assert npuprof.load(both).info.source == "raw"
    renumbered = {"connection_id", "id"}  # the vendor's parser counts them anew
    for name in ("api", "tasks", "kernels", "links", "overlap", "marks", "steps"):
        ours, theirs = raw.tables[name], parsed.tables[name]
        tables.check(name, theirs)
        assert len(ours) == len(theirs)
        for column in tables.empty(name):
            if column not in renumbered:
                assert _values(ours[column]) == _values(theirs[column])


def _values(column: Any) -> list[Any]:
    return [None if pd.isna(value) else value for value in column.astype(object)]


@pytest.mark.slow
def test_counters_of_raw_data_and_its_result_agree(both: Path) -> None:
    raw, parsed = npuprof.load(both, source="raw").kernels, npuprof.load(both, source="parsed").kernels
    names = [name for name in map(str, raw) if name.startswith(("aic_", "aiv_", "cube_"))]
    assert len(names) > 20
    for name in names:
        # The result has 0 for the core that a kernel did not use, three decimals of a ratio, and whole nanoseconds.
        ours = raw[name].astype("float64").fillna(0)
        pd.testing.assert_series_equal(ours, parsed[name].astype("float64").fillna(0), rtol=2e-3, atol=1)


@pytest.mark.slow
def test_the_result_is_read_where_raw_data_is_not_complete(both: Path) -> None:
    shutil.rmtree(next(both.glob("device_*")) / "data")
    assert npuprof.load(both).info.source == "msprof text result"
    assert npuprof.load(both, source="raw").info.source == "raw"
