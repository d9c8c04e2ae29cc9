"""The figures of one report never contradict each other, whichever file of a run they were read from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import npuprof
from npuprof.advice.facts import Facts
from npuprof.advice.findings import Advice
from npuprof.analysis.accounting import IDLE, PARTS
from npuprof.analysis.host_accounting import HOST
from npuprof.analysis.intervals import intersection, total, union
from npuprof.errors import SourceError
from npuprof.figures.steps import NAMES as BARS
from npuprof.loading import open_path
from npuprof.profiles import Profile
from npuprof.sources.base import Preference
from npuprof.timeline.state import Timeline

FOLDERS = (
    "cluster",
    "mindspore",
    "msprof",
    "raw",
    *(f"torch_npu/{name}" for name in ("text", "db", "llm_4ranks", "llm_pp2dp2", "cann7_2023", "host_only_raw")),
)
_DATA = "data"  # folders of raw records, of which no file is a run by itself
_ROUNDED_NS = 2  # of each row, in files whose starts and durations were each rounded


def runs(folder: Path) -> Iterator[Profile]:
    """Read every run below a folder, in both forms where it has raw data, and every file that is one by itself."""
    preferences: tuple[Preference, ...] = ("raw", "parsed") if any(folder.rglob("host")) else (None,)
    for source in preferences:
        try:
            found = open_path(folder, source=source)
        except SourceError:
            continue
        yield from [found] if isinstance(found, Profile) else found
    for file in sorted(folder.rglob("*")):
        if file.is_file() and _DATA not in file.parts and file.suffix in (".json", ".csv", ".db"):
            try:
                found = open_path(file)
            except SourceError:
                continue
            if isinstance(found, Profile):
                yield found


def united(run: Profile, device: int | None) -> tuple[int, int]:
    """The time of the steps in which any kernel of a device ran, and the number of kernels."""
    own = run.kernels[(run.kernels["device_id"] == device).to_numpy()]
    starts = own["start_ns"].to_numpy(np.int64)
    computing = union(starts, starts + own["duration_ns"].to_numpy(np.int64))
    begins = run.steps["start_ns"].to_numpy(np.int64)
    steps = union(begins, begins + run.steps["duration_ns"].to_numpy(np.int64))
    return total(intersection(computing, steps) if len(begins) else computing), len(own)


def same_accounting(run: Profile) -> None:
    """One accounting: the table, the summary, the figure, the explorer and the verdict have the same times."""
    table = run.breakdown().groupby("part", observed=True)["duration_ns"].sum()
    if not len(run.accounting.steps):
        assert not run.summary.devices
        return
    expected = {part: int(table.get(part, 0)) for part in PARTS}
    assert sum(expected.values()) == run.accounting.steps["duration_ns"].sum()
    devices = run.summary.devices
    of_devices = {part: sum(device.parts[part] for device in devices) for part in PARTS}
    assert {**of_devices, HOST: sum(run.summary.host.parts.values())} == expected
    assert of_devices[HOST] == 0
    placed = run.accounting.intervals[run.accounting.intervals["start_ns"].notna().to_numpy(bool)]
    if len(placed):
        ends = placed["start_ns"] + placed["duration_ns"]
        explored = (
            Timeline(run.tables, run.info, run.aligned).summary(int(placed["start_ns"].min()), int(ends.max())).parts
        )
        sums = placed.groupby(["part", "cause"], observed=True)["duration_ns"].sum()
        assert {(one.part, one.cause): one.duration_ns for one in explored} == sums[sums > 0].to_dict()
    if (run.accounting.steps["basis"] != "run").any():
        bars = run.plot_steps().data
        unit_ns = run.accounting.steps["duration_ns"].sum() / sum(np.sum(bar.y) for bar in bars)
        drawn = {bar.name: np.sum(bar.y) * unit_ns for bar in bars}
        grouped = {BARS[part]: 0 for part in BARS} | {BARS["idle"]: sum(expected[part] for part in IDLE)}
        grouped |= {BARS[part]: expected[part] for part in PARTS if part not in IDLE}
        assert unit_ns == pytest.approx(10 ** round(math.log10(unit_ns)))
        assert drawn == pytest.approx({name: grouped[name] for name in drawn})
    if len(run.accounting.steps) == 1:
        verdict = Advice(Facts(run.tables, run.info, run.accounting), []).parts()
        if run.accounting.of_host:
            assert sum(verdict.values()) == expected[HOST]
            return
        assert verdict.pop("idle") == sum(expected[part] for part in IDLE)
        assert verdict == {part: expected[part] for part in PARTS if part not in (*IDLE, HOST)}


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS)
def test_device_times_are_those_of_the_kernels_and_operators(samples: Path, folder: str) -> None:
    compared = 0
    for run in runs(samples / folder):
        devices = {device.device_id: device for device in run.summary.devices if device.basis != "step_times"}
        assert bool(len(run.kernels)) <= bool(run.summary.devices), run.info.recording
        for device, times in devices.items():
            time, count = united(run, device)
            assert abs(time - times.parts["computing"]) <= _ROUNDED_NS * (count + 1), run.info.recording
            assert sum(times.parts.values()) == times.span_ns
            compared += count
        same_accounting(run)
        if len(run.kernels):
            shares = run.summary.top_ops["total_ns"] / run.summary.top_ops["share"]
            assert shares.round().unique().tolist() == [run.kernels["duration_ns"].sum()]
        contradicts = run.notes["source"].isin(["overlap", "step_times"]) & (run.notes["severity"] == "warning")
        assert not contradicts.any(), run.notes
    assert bool(compared) != (folder in ("cluster", "mindspore", "torch_npu/host_only_raw"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["text/level0/rank0_ascend_pt", "text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt"]
)
def test_a_timeline_alone_has_the_kernels_of_the_whole_result(samples: Path, name: str) -> None:
    root = samples / "torch_npu" / name
    whole, alone = npuprof.load(root), npuprof.load(root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    assert alone.kernels["name"].tolist() == whole.kernels["name"].tolist()
    assert (alone.kernels["duration_ns"] - whole.kernels["duration_ns"]).abs().max() <= _ROUNDED_NS
    assert not set(alone.kernels["task_type"]) & {"Other", "NOTIFY_WAIT", "MEMCPY_ASYNC"}


def test_of_the_oldest_timeline_copies_are_no_kernels(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/cann7_2023/trace_view.json")
    assert "MEMCPY_ASYNC" in set(run.tasks["name"])
    assert "MEMCPY_ASYNC" not in set(run.kernels["name"])
    assert len(run.kernels) == 274
