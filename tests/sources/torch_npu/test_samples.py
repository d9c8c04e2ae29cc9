"""Real results give what plain tools computed from the same files (TRUTH.json beside them)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources import torch_npu
from npuprof.sources.base import Decoded
from npuprof.sources.columns.decimals import MB_TO_BYTES, MS_TO_NS, US_TO_NS, scaled_one

pytestmark = pytest.mark.slow

TEXT = ("text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt", "text/level0/rank0_ascend_pt")
LEVEL1 = TEXT[:2]
LLM = "llm_pp2dp2/rank_0_ascend_pt"
OLD = "cann7_2023/trace_view.json"
KERNELS = (*TEXT, LLM)
TRACES = (*TEXT, OLD)


@cache
def _decoded(path: Path) -> Decoded:
    return torch_npu.read(path)


@cache
def _truth(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(path.read_bytes())
    return truth


class Result:
    """A sample as it was read, and what is known of its files."""

    def __init__(self, samples: Path, where: str) -> None:
        self._truth = _truth(samples / "TRUTH.json")
        self._where = f"torch_npu/{where}"
        self.decoded = _decoded(samples / "torch_npu" / where)
        self.tables = self.decoded.tables

    def truth(self, name: str) -> Any:
        known = self._truth.get(f"{self._where}/ASCEND_PROFILER_OUTPUT/{name}")
        return self._truth[self._where] if known is None else known


@pytest.fixture
def result(samples: Path, request: pytest.FixtureRequest) -> Result:
    return Result(samples, request.param)


def samples_of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("result", names, indirect=True)


def from_us(value: float | str) -> int:
    exact = scaled_one(str(value), US_TO_NS)
    assert exact is not None
    return exact


def top(frame: pd.DataFrame, by: list[str], count: int = 5) -> list[list[Any]]:
    """Return the groups of the longest total time: name(s), nanoseconds, calls."""
    sums = frame.groupby(by, observed=True)["duration_ns"].agg(["sum", "size"])
    longest = sums.sort_values("sum", ascending=False, kind="stable").head(count)
    return [[name, int(total), int(size)] for name, total, size in longest.itertuples()]


def in_ns(rows: list[list[Any]]) -> list[list[Any]]:
    return [[name, from_us(total), size] for name, total, size in rows]


def assert_same(found: list[list[Any]], expected: list[list[Any]]) -> None:
    """Compare sums of durations: the timeline's have parts of a nanosecond, each of which is rounded here."""
    assert [[name, size] for name, _, size in found] == [[name, size] for name, _, size in expected]
    for (_, total, size), (_, known, _) in zip(found, expected, strict=True):
        assert abs(total - known) <= size / 2 + 1


@samples_of(*TEXT, LLM, OLD, "llm_pp2dp2/rank_1_ascend_pt")
def test_every_table_keeps_its_contract(result: Result) -> None:
    for name, frame in result.tables.items():
        tables.check(name, frame)
        for time in {"start_ns", "time_ns"} & set(frame.columns):
            assert frame[time].is_monotonic_increasing, name
    assert not (result.decoded.notes.to_frame()["severity"] == "error").any()


@samples_of(*TRACES)
def test_slices_are_counted_by_their_process(result: Result) -> None:
    known, found = result.truth("trace_view.json"), result.tables
    by_process = known["x_by_process"]
    assert len(found["tasks"]) == by_process["Ascend Hardware"]
    assert len(found.get("api", ())) == by_process.get("CANN", 0)
    assert len(found["overlap"]) == by_process["Overlap Analysis"]
    assert len(found.get("communication", ())) + len(found.get("communication_tasks", ())) == by_process.get("HCCL", 0)
    kinds = found["operators"]["kind"].value_counts().to_dict()
    by_category = known["x_by_cat"]
    assert kinds["op"] + len(found["steps"]) == by_category["cpu_op"]
    assert (kinds["enqueue"], kinds["dequeue"]) == (by_category["enqueue"], by_category["dequeue"])
    assert len(found.get("python", ())) == by_category.get("python_function", 0)


@pytest.mark.slow
@samples_of(*TRACES)
def test_first_last_and_distinct_times_are_exact(result: Result) -> None:
    known = result.truth("trace_view.json")
    names = ("steps", "operators", "python", "api", "tasks", "communication", "communication_tasks", "overlap")
    spans = [result.tables[name] for name in names if name in result.tables]
    starts = pd.concat([frame["start_ns"] for frame in spans])
    ends = pd.concat([frame["start_ns"] + frame["duration_ns"] for frame in spans])
    assert (int(starts.min()), int(ends.max())) == (known["first_ns"], known["last_ns"])
    assert starts.nunique() == known["distinct_x_ts"]
    assert sum(int((frame["duration_ns"] == 0).sum()) for frame in spans) == known["zero_dur_x"]


@pytest.mark.slow
@samples_of(*TRACES)
def test_longest_tasks_and_operators_agree(result: Result) -> None:
    known = result.truth("trace_view.json")
    assert_same(top(result.tables["tasks"], ["name"]), in_ns(known["hardware_top5"]))
    operators = result.tables["operators"]
    expected = [row for row in in_ns(known["cpu_op_top5"]) if not row[0].startswith("ProfilerStep")]
    assert_same(top(operators[operators["kind"] == "op"], ["name"], len(expected)), expected)
    assert sorted({str(stream) for stream in result.tables["tasks"]["stream_id"]}) == known["hardware_streams"]


@pytest.mark.slow
@samples_of(*TRACES)
def test_overlap_sums_agree(result: Result) -> None:
    overlap = result.tables["overlap"]
    sums = overlap.groupby(overlap["kind"].astype(str))["duration_ns"].agg(["sum", "size"])
    names = {"Communication(Not Overlapped)": "communication_not_overlapped"}
    for name, total in result.truth("trace_view.json")["overlap_us"].items():
        kind = names.get(name, name.lower())
        found, size = sums.loc[kind].tolist() if kind in sums.index else (0, 0)
        assert_same([[kind, found, size]], [[kind, from_us(total), size]])


@pytest.mark.slow
@samples_of(*TRACES)
def test_every_flow_becomes_links(result: Result) -> None:
    flows, links = result.truth("trace_view.json")["flows"], result.tables["links"]
    counts = links["kind"].value_counts().to_dict()
    assert counts["enqueue"] == flows["async_task_queue"]["pairs"]
    assert counts["forward_backward"] == flows["fwdbwd"]["pairs"]
    if "api" not in result.tables:  # Level0: the flows begin on a process that has no slices
        assert counts["operator_api"] == flows["async_npu"]["f"]
        return
    assert counts["api_task"] == flows["HostToDevice"]["f"]
    launched = links[links["kind"] == "api_task"].set_index("source_row")["target_row"]
    through = links[links["kind"] == "operator_api"].join(launched.rename("task"), on="target_row")
    assert through["task"].notna().all()
    assert through["task"].nunique() >= flows["async_npu"]["f"] - len(result.tables.get("communication", ()))


@samples_of(*TRACES)
def test_causes_on_the_host_come_before_their_effects_on_the_host(result: Result) -> None:
    links = result.tables["links"]
    assert (links["source_row"] >= 0).all()
    for (source, target), group in links.groupby(["source_table", "target_table"], observed=True):
        causes = result.tables[str(source)]["start_ns"].to_numpy()[group["source_row"]]
        effects = result.tables[str(target)]["start_ns"].to_numpy()[group["target_row"]]
        if target in ("operators", "api"):  # a device's clock may drift before its cause's
            assert (causes <= effects).all()


@samples_of(*TEXT)
def test_python_calls_form_trees(result: Result) -> None:
    known, python = result.truth("trace_view.json"), result.tables["python"]
    assert python["id"].nunique() == known["python_ids_distinct"]
    assert int(python["parent_id"].isna().sum()) == known["python_roots"] + known["python_parent_cycles"]
    assert int(python["depth"].max()) + 1 == known["python_parent_chain_depth"]
    assert python["parent_id"].dropna().isin(python["id"]).all()


@samples_of(*TEXT)
def test_counters_agree(result: Result) -> None:
    counters = result.tables["counters"]
    expected = result.truth("trace_view.json")["counters"]
    assert len(counters) == sum(expected.values())
    assert int((counters["counter"] == "AI Core Freq").sum()) == expected["AI Core Freq/AI Core Freq"]
    first = counters[(counters["counter"] == "HBM read") & (counters["instance"] == "0")]
    assert len(first) == expected["HBM/HBM 0/Read"]
    assert int((counters["counter"] == "Acc PMU read_bandwidth").sum()) == expected["Acc PMU/read_bandwidth"]


@pytest.mark.slow
@samples_of(*KERNELS)
def test_kernels_and_communication_are_the_rows_of_the_file(result: Result) -> None:
    known = result.truth("kernel_details.csv")
    kernels, communication = result.tables["kernels"], result.tables["communication"]
    communicating = ("HCCL", "COMMUNICATION")
    cores = {core: (from_us(total), count) for core, total, count in known["by_core"]}
    compute = {core: row for core, row in cores.items() if core not in communicating}
    assert len(kernels) + len(communication) == known["rows"]
    assert int(kernels["duration_ns"].sum()) == sum(total for total, _ in compute.values())
    if "N/A" not in compute:
        assert {core: (total, count) for core, total, count in top(kernels, ["core"], 99)} == compute
    starts, ends = kernels["start_ns"], kernels["start_ns"] + kernels["duration_ns"]
    assert int(starts.min()) == known["first_start_ns"]
    assert (
        max(int(ends.max()), int((communication["start_ns"] + communication["duration_ns"]).max()))
        >= known["last_end_ns"]
    )
    expected = [row for row in in_ns(known["top5_by_name"]) if not row[0].startswith("hcom_")]
    assert top(kernels, ["name"], len(expected)) == expected
    steps = pd.concat([kernels["step"], communication["step"]]).value_counts().to_dict()
    assert {str(step): count for step, count in steps.items()} == known["steps"]


@samples_of(*LEVEL1)
def test_wait_times_and_types_agree(result: Result) -> None:
    known, kernels = result.truth("kernel_details.csv"), result.tables["kernels"]
    expected = [row for row in in_ns(known["top5_by_type"]) if not row[0].startswith("hcom_")]
    assert top(kernels, ["op_type"], len(expected)) == expected
    assert kernels["input_shapes"].iloc[0] == known["shape_example"].strip('"')
    assert int(kernels["wait_ns"].sum()) <= from_us(known["wait_sum_us"])


@samples_of(*TEXT)
def test_every_kernel_is_a_task_of_the_timeline(result: Result) -> None:
    keys = ["device_id", "stream_id", "task_id", "batch_id", "name"]
    joined = (
        result.tables["kernels"][keys].astype(object).merge(result.tables["tasks"][keys].astype(object), how="left")
    )
    assert len(joined) >= len(result.tables["kernels"])
    assert result.tables["kernels"]["connection_id"].notna().all()


@pytest.mark.slow
@samples_of(*KERNELS)
def test_memory_peaks_agree_to_the_byte(result: Result) -> None:
    known, memory = result.truth("memory_record.csv"), result.tables["memory"]
    memory = memory[~memory["component"].astype(str).str.endswith("(module)")]  # of another file
    assert len(memory) == known["rows"]
    by_component = memory.groupby(memory["component"].astype(str))
    assert by_component.size().to_dict() == known["rows_by_component"]
    for column in ("allocated", "reserved", "active"):
        for component, peak_mb in known[f"peak_{column}"].items():
            peak = by_component[f"{column}_bytes"].max()[component]
            if peak_mb is None:
                assert pd.isna(peak)
            else:  # the known peaks are rounded to a millionth of a MB
                assert abs(int(peak) - peak_mb * MB_TO_BYTES) <= 1


@samples_of(*KERNELS)
def test_blocks_agree(result: Result) -> None:
    known, blocks = result.truth("operator_memory.csv"), result.tables["allocations"]
    assert len(blocks) == known["rows"]
    assert int(blocks["size_bytes"].sum()) == known["sum_size_kb"] * 1024
    assert int(blocks["released_ns"].isna().sum()) == known["never_released"]


@samples_of(*KERNELS, "llm_pp2dp2/rank_1_ascend_pt")
def test_step_times_agree(result: Result) -> None:
    names = {"Computing": "computing_ns", "Communication": "communication_ns", "Free": "free_ns", "Stage": "stage_ns"}
    for row, known in zip(
        result.tables["step_times"].to_dict("records"), result.truth("step_trace_time.csv"), strict=True
    ):
        assert str(row["step"]) == known["Step"]
        assert {name: row[ours] for name, ours in names.items()} == {name: from_us(known[name]) for name in names}


@samples_of(*LEVEL1, LLM)
def test_statistics_agree(result: Result) -> None:
    statistics = result.decoded.statistics
    for name in ("op_statistic", "api_statistic"):
        known, frame = result.truth(f"{name}.csv"), statistics[name]
        total = "Total Time(us)" if name == "op_statistic" else "Time(us)"
        assert (len(frame), int(frame["Count"].sum())) == (known["rows"], known["count"])
        assert frame[total].sum() == pytest.approx(known["sum_us"])
    known, frame = result.truth("communication.json"), statistics["communication"]
    assert len(frame) == sum(part["ops"] for part in known.values())
    elapsed = sum(part["sum_elapse_ms"] for part in known.values())
    assert frame["Elapse Time(ms)"].sum() == pytest.approx(elapsed)
    assert abs(int(result.tables["communication"]["duration_ns"].sum()) - elapsed * MS_TO_NS) < 10
    assert set(result.tables["communication"]["group"]) <= set(frame["group"])


def test_what_is_known_of_the_runs(samples: Path) -> None:
    info = Result(samples, TEXT[1]).decoded.info
    assert (info.collector, info.rank, info.devices, info.simulated) == ("torch_npu", 1, [1], False)
    assert (info.options["level"], info.options["aic_metrics"], info.options["stacks"]) == (1, "PipeUtilization", True)
    assert info.stopped_ns is not None
    assert info.started_ns is not None
    steps = Result(samples, TEXT[1]).tables["steps"].iloc[0]
    assert info.started_ns < steps["start_ns"] < steps["start_ns"] + steps["duration_ns"] < info.stopped_ns
    info = Result(samples, LLM).decoded.info
    assert info.versions == {"torch_npu": "2.7.1", "cann": "8.3.RC1"}
    assert (info.rank, info.metadata["distributed_args"]["world_size"]) == (0, 4)


@pytest.mark.parametrize("part", ["", "ASCEND_PROFILER_OUTPUT", "ASCEND_PROFILER_OUTPUT/trace_view.json"])
def test_a_result_is_recognised_by_any_of_its_paths(samples: Path, part: str) -> None:
    path = samples / "torch_npu" / TEXT[0] / part
    assert torch_npu.recognises(path)
    assert len(_decoded(path).tables["tasks"]) == 535


@pytest.mark.parametrize(
    "name", ["torch_npu/text", "raw/minimal", "torch_npu/host_only_raw", "TRUTH.json", "INVENTORY.md", "cluster"]
)
def test_other_things_are_not_recognised(samples: Path, name: str) -> None:
    assert not torch_npu.recognises(samples / name)


_LEFT_OUT: dict[str, Callable[[int], bool]] = {
    "none": lambda _row: False,
    "every third": lambda row: row % 3 == 0,
    "the second half": lambda row: row > 93,
    "all but one": lambda row: row > 0,
}


@pytest.mark.parametrize("which", _LEFT_OUT)
@pytest.mark.parametrize("where", ["text/level1/rank0_ascend_pt", "text/level0/rank0_ascend_pt"])
def test_kernels_of_only_one_file_count(where: str, which: str, samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "torch_npu" / where, tmp_path / "run_ascend_pt")
    listed = tmp_path / "run_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    head, *rows = listed.read_text().splitlines(keepends=True)
    kept = [row for number, row in enumerate(rows) if not _LEFT_OUT[which](number)]
    listed.write_text("".join([head, *kept]))
    whole, cut = npuprof.load(samples / "torch_npu" / where), npuprof.load(tmp_path / "run_ascend_pt")
    assert len(cut.kernels) == len(whole.kernels)
    for name in ("start_ns", "stream_id", "task_id", "step"):
        assert cut.kernels[name].tolist() == whole.kernels[name].tolist()
    parts = [run.breakdown().groupby("part", observed=True)["duration_ns"].sum() for run in (cut, whole)]
    assert (parts[0] - parts[1]).abs().max() <= len(rows)  # both files round to a nanosecond
    assert cut.advice().step_ns == whole.advice().step_ns
    gains = [
        {(each.cause, each.place): each.gain_hi_ns for each in run.advice() if each.rule == "host_bound"}
        for run in (cut, whole)
    ]
    assert gains[0] == pytest.approx(gains[1], abs=len(rows))
    noted = cut.notes[cut.notes["message"].str.contains("not listed here")]
    assert noted["count"].sum() == len(whole.kernels) - sum("hcom_" not in row for row in kept)


def test_listed_rows_win_over_those_of_the_timeline(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "torch_npu" / LEVEL1[0], tmp_path / "run_ascend_pt")
    trace = tmp_path / "run_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
    listed = npuprof.load(samples / "torch_npu" / LEVEL1[0]).kernels
    events = json.loads(trace.read_text())
    for event in events:
        if event.get("name") in set(listed["name"]):
            event["dur"] = str(10 * float(event["dur"]))  # longer than any kernel was
    trace.write_text(json.dumps(events))
    kernels = npuprof.load(tmp_path / "run_ascend_pt").kernels
    assert kernels["duration_ns"].tolist() == listed["duration_ns"].tolist()
