"""Real databases give what plain SQL computed from the same files (TRUTH.json beside them)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources import database
from npuprof.sources.base import Decoded
from npuprof.sources.database.connection import open_database
from tests.sources.database.maker import checksum

pytestmark = pytest.mark.slow

DB = ("level0/rank0_ascend_pt", "level1/rank0_ascend_pt", "level1/rank1_ascend_pt")
FILES = {name: f"ascend_pytorch_profiler_{rank}.db" for name, rank in zip(DB, (0, 0, 1), strict=True)}
OUTPUT = "ASCEND_PROFILER_OUTPUT"
SELDOM = ("op_state", "task_type", "group", "name", "op_name", "stack", "item", "input_shapes", "instance")
"""Columns of names of which two runs, or the host's view and the device's, have other values."""

UNEQUAL = {"QoS"}
"""What only one of the two runs recorded."""


@cache
def _decoded(path: Path) -> Decoded:
    return database.read(path)


@cache
def _truth(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(path.read_bytes())
    return truth


class Result:
    """A result read here, and what is true of its databases."""

    def __init__(self, samples: Path, name: str) -> None:
        self.path = samples / "torch_npu" / "db" / name
        self.decoded = _decoded(self.path)
        self.tables = self.decoded.tables
        truth = _truth(samples / "TRUTH.json")
        self.truth: dict[str, Any] = truth[f"torch_npu/db/{name}/{OUTPUT}/{FILES[name]}"]
        self.analysis: dict[str, Any] = truth[f"torch_npu/db/{name}/{OUTPUT}/analysis.db"]
        self.counts: dict[str, int] = self.truth["tables"]


@pytest.fixture(params=DB)
def result(request: pytest.FixtureRequest, samples: Path) -> Result:
    return Result(samples, request.param)


def _sums(frame: pd.DataFrame, by: str) -> dict[str, tuple[int, int]]:
    grouped = frame.groupby(by, observed=True)["duration_ns"].agg(["sum", "size"])
    return {str(name): (int(row["sum"]), int(row["size"])) for name, row in grouped.iterrows()}


def _top(rows: list[list[Any]]) -> dict[str, tuple[int, int]]:
    return {name: (total, count) for name, total, count in rows}


def test_every_table_keeps_the_schema(result: Result) -> None:
    for name, frame in result.tables.items():
        tables.check(name, frame)


def test_device_tasks(result: Result) -> None:
    tasks = result.tables["tasks"]
    assert len(tasks) == result.counts["TASK"]
    assert int(tasks["start_ns"].min()) == result.truth["task_span_ns"][0]
    assert int((tasks["start_ns"] + tasks["duration_ns"]).max()) == result.truth["task_span_ns"][1]
    found = _sums(tasks, "task_type")
    for name, count, total in result.truth["task_types"]:
        assert found[name] == (total, count)
    assert sorted(tasks["stream_id"].unique()) == result.truth["streams"]


@pytest.mark.slow
def test_kernels(result: Result) -> None:
    kernels = result.tables["kernels"]
    assert len(kernels) == result.truth["kernel_rows_joined"]
    assert int(kernels["duration_ns"].sum()) == result.truth["kernel_sum_ns"]
    by_name = _sums(kernels, "name")
    for name, expected in _top(result.truth["top5_kernels_ns"]).items():
        assert by_name[name] == expected
    by_type = _sums(kernels, "op_type")
    for name, expected in _top(result.truth["top5_types_ns"]).items():
        assert name == "N/A" or by_type[name] == expected
    assert (kernels["step"] == 50).all()


def test_cann_calls(result: Result) -> None:
    api = result.tables["api"]
    counts = api["level"].value_counts().to_dict()
    expected = {
        ("communication" if level == "hccl" else level): count for level, count in result.truth["cann_api_by_type"]
    }
    assert counts == expected
    found = _sums(api, "name")
    for name, top in _top(result.truth["top5_cann_api_ns"]).items():
        assert found[name] == top


@pytest.mark.slow
def test_operators_python_and_steps(result: Result) -> None:
    operators = result.tables["operators"]
    counts = dict(result.truth["pytorch_api_by_type"])
    assert len(operators) == counts["op"] + counts["queue"] - len(result.tables["steps"])
    assert len(result.tables["python"]) == counts["trace"]
    found = _sums(operators, "name")
    for name, top in _top(result.truth["top5_torch_op_ns"]).items():
        assert name.startswith("ProfilerStep#") or found[name] == top
    ((step, start, end),) = result.truth["step_time"]
    assert result.tables["steps"].to_numpy().tolist() == [[step, start, end - start]]
    depths = operators["stack"].dropna().str.count("\n")
    assert len(depths) + len(result.tables["steps"]) == result.truth["callchain"]["ids"]  # a step's mark has one too
    assert depths.max() == result.truth["callchain"]["max_depth"]


@pytest.mark.slow
def test_links(result: Result) -> None:
    links = result.tables["links"]
    counts = links.groupby(["kind", "target_table"], observed=True).size().to_dict()
    assert counts["operator_api", "api"] == result.truth["torch_to_cann_links"]
    assert counts["enqueue", "operators"] == 159
    assert counts["forward_backward", "operators"] == 27
    assert counts["api_task", "communication"] == 4
    launched = links[(links["kind"] == "api_task") & (links["target_table"] == "tasks")]
    api, tasks = result.tables["api"], result.tables["tasks"]
    calls = api["connection_id"].to_numpy()[launched["source_row"]]
    assert (calls == tasks["connection_id"].to_numpy()[launched["target_row"]]).all()
    assert set(result.tables["kernels"]["connection_id"]) <= set(calls)


def test_collectives(result: Result) -> None:
    communication = result.tables["communication"]
    found = communication[["name", "start_ns", "duration_ns"]].astype(object).to_numpy().tolist()
    assert found == result.truth["comm_ops"]
    assert communication["op_type"].tolist() == ["hcom_allReduce_"] * 4
    steps = result.tables["communication_tasks"]
    assert len(steps) == result.counts["COMMUNICATION_TASK_INFO"]
    assert set(steps["op_id"]) == {0, 1, 2, 3}
    assert (steps["notify_id"].dropna() < 1 << 62).all()


def test_memory(result: Result) -> None:
    memory = result.tables["memory"]
    peaks = memory.groupby("component", observed=True)[["reserved_bytes", "allocated_bytes"]].max()
    for component, reserved, allocated, count in result.truth["mem_peak_bytes"]:
        assert peaks.loc[component].tolist() == [reserved, allocated]
        assert int((memory["component"] == component).sum()) == count
    for module, held in result.truth["module_mem_top"]:
        assert peaks.loc[f"{module} (module)", "reserved_bytes"] == held
    allocations = result.tables["allocations"]
    held = int(allocations["released_ns"].isna().sum())
    assert [len(allocations), int(allocations["size_bytes"].sum()), held] == result.truth["op_memory"]


def test_counters(result: Result) -> None:
    counts = result.tables["counters"]["counter"].value_counts().to_dict()
    assert counts["HBM read"] + counts["HBM write"] == result.counts["HBM"]
    assert counts["Acc PMU read_ost"] == counts["Acc PMU write_band_width"] == result.counts["ACC_PMU"]
    assert counts["LLC read Throughput"] == result.counts["LLC"]
    assert counts["NPU MEM HBM"] == result.counts["NPU_MEM"]
    assert counts["AI Core Freq"] == result.counts["AICORE_FREQ"]
    assert counts["Stars Soc Info Mata Bw Level"] == result.counts["SOC_BANDWIDTH_LEVEL"]
    memory = result.tables["memory"]
    of_module = memory["component"].astype(str).str.endswith(" (module)")
    assert int(of_module.sum()) == result.counts["NPU_MODULE_MEM"]
    assert len(memory[~of_module & (memory["component"] != "APP")]) == result.counts["MEMORY_RECORD"]


def test_step_times_are_microseconds_and_agree_with_the_rows(result: Result) -> None:
    (told,) = result.analysis["StepTraceTime"]
    (step,) = result.tables["step_times"].to_dict("records")
    assert step["step"] == 50
    names = [name for name in told if name not in ("step", "deviceId")]
    assert len(names) == 9
    for name in names:
        ours = name.replace("overlapped_and_exclude", "overlapped_exclude")
        assert step[f"{ours}_ns"] == round(told[name] * 1000)
    overlap = result.tables["overlap"].groupby("kind", observed=True)["duration_ns"].sum()
    assert int(overlap["computing"]) == step["computing_ns"]
    assert int(overlap["free"]) == step["free_ns"]
    assert int(overlap["communication_not_overlapped"]) == step["communication_not_overlapped_ns"]


def test_sums_of_communication(result: Result) -> None:
    statistics = result.decoded.statistics
    for kind, count, elapsed, transit, waited in result.analysis.get("CommAnalyzerTime", []):
        own = statistics["communication"][statistics["communication"]["kind"] == kind]
        assert len(own) == count == result.analysis["tables"]["CommAnalyzerTime"]
        found = [own[f"{name} Time(ms)"].sum() for name in ("Elapse", "Transit", "Wait")]
        assert sorted(found) == pytest.approx(sorted([elapsed, transit, waited]))
    if "CommAnalyzerMatrix" in result.analysis["tables"]:
        assert len(statistics["communication_matrix"]) == result.analysis["tables"]["CommAnalyzerMatrix"]
    else:
        assert "communication_matrix" not in statistics


def test_counters_of_kernels(result: Result) -> None:
    elsewhere = ("aic_vec_", "aiv_mac_", "aiv_mte1_", "aiv_fixpipe_")
    metrics = [name for name in result.truth.get("pmu_metrics", []) if not name.startswith(elsewhere)]
    columns = {name for name in map(str, result.tables["kernels"]) if name.startswith(("aic_", "aiv_"))}
    assert columns == {f"{name}_ns" if name.endswith("_time") else name for name in metrics}
    assert bool(metrics) == ("TASK_PMU_INFO" in result.counts)


def test_tasks_that_an_operator_launched(result: Result) -> None:
    links, api, tasks = (result.tables[name] for name in ("links", "api", "tasks"))
    called = links[(links["kind"] == "operator_api") & (links["target_table"] == "api")]
    connections = api["connection_id"].iloc[called["target_row"]]
    launched = tasks["connection_id"].value_counts()
    assert int(connections.map(launched).fillna(0).sum()) == result.truth["torch_to_task_links"]


def test_facts(result: Result) -> None:
    info, told = result.decoded.info, result.truth["META_DATA"]
    assert info.versions["database schema"] == told["SCHEMA_VERSION"]
    assert info.collector == "torch_npu"
    assert len(info.devices) == result.counts["NPU_INFO"]


def test_computed_values_equal_those_that_a_viewer_stored(samples: Path) -> None:
    result = Result(samples, DB[1])
    with open_database(result.path / OUTPUT / FILES[DB[1]], result.decoded.notes) as opened:
        stored = opened.rows("OVERLAP_ANALYSIS", ["startNs", "endNs", "type"])
        tasks = opened.rows("TASK", ["globalTaskId", "startNs"])
        waits = opened.rows("COMPUTE_TASK_INFO", ["globalTaskId", "waitNs"])
    kinds = ["computing", "communication", "communication_not_overlapped", "free"]
    overlap = result.tables["overlap"]
    found = zip(overlap["start_ns"], overlap["duration_ns"], overlap["kind"], strict=True)
    lengths = stored["endNs"] - stored["startNs"]
    assert sorted(found) == sorted(
        zip(stored["startNs"], lengths, [kinds[kind] for kind in stored["type"]], strict=True)
    )
    starts = dict(zip(tasks["globalTaskId"].tolist(), tasks["startNs"].tolist(), strict=True))
    order = np.argsort([starts[task] for task in waits["globalTaskId"].tolist()])
    assert result.tables["kernels"]["wait_ns"].tolist() == waits["waitNs"][order].tolist()


def test_altered_file_keeps_its_tables(samples: Path) -> None:
    altered, clean = Result(samples, DB[1]).tables, Result(samples, DB[2]).tables
    assert altered.keys() == clean.keys()
    for name, frame in altered.items():
        assert frame.dtypes.astype(str).to_dict() == clean[name].dtypes.astype(str).to_dict()
        assert abs(len(frame) - len(clean[name])) <= 4


def test_text_and_database_of_one_workload_have_the_same_columns(samples: Path) -> None:
    text = npuprof.load(samples / "torch_npu" / "text" / DB[1])
    decoded = Result(samples, DB[1]).tables
    for name in tables.NAMES:
        theirs: pd.DataFrame = getattr(text, name)
        if name in ("marks", "statements", "iterations", "sampled_lines"):
            continue  # the workload makes none, and it is no cell
        ours = decoded[name]
        expected = theirs.dtypes.astype(str).to_dict()
        for lacking in ("src_global_rank", "dst_global_rank"):  # load adds them to what any source has read
            expected.pop(lacking, None)
        expected.pop("cube_utilization_percent", None)  # needs the number of cores, which the database lacks
        assert ours.dtypes.astype(str).to_dict() == expected, name
        for column in (column for column, dtype in expected.items() if dtype == "category" and column not in SELDOM):
            found, wanted = (set(frame[column].dropna()) - UNEQUAL for frame in (ours, theirs))
            if (name, column) == ("memory", "component"):  # modules are numbered by the driver
                found, wanted = ({one for one in names if "module" not in one} for names in (found, wanted))
            assert found == wanted, (name, column)
    shares = {form: frame.groupby("counter", observed=True)["value"].max() for form, frame in (
        ("text", text.counters), ("database", decoded["counters"])
    )}  # fmt: skip
    for hits in (one["LLC read Hit Rate"] for one in shares.values()):
        assert 50 < hits < 100


@pytest.mark.parametrize("rank", [0, 1])
def test_an_analysis_by_itself(samples: Path, rank: int) -> None:
    name = f"torch_npu/llm_pp2dp2/rank_{rank}_ascend_pt/{OUTPUT}/analysis.db"
    truth = _truth(samples / "TRUTH.json")[name]
    decoded = database.read(samples / name)
    (told,) = truth["StepTraceTime"]
    (step,) = decoded.tables["step_times"].to_dict("records")
    assert (step["step"], step["device_id"]) == (13, told["deviceId"])
    for column in (name for name in told if name not in ("step", "deviceId")):
        ours = column.replace("overlapped_and_exclude", "overlapped_exclude")
        assert step[f"{ours}_ns"] == round(told[column] * 1000)
    times = decoded.statistics["communication"]
    for kind, count, *sums in truth["CommAnalyzerTime"]:
        own = times[times["kind"] == kind]
        assert len(own) == count
        found = [own[f"{part} Time(ms)"].sum() for part in ("Elapse", "Transit", "Wait")]
        assert sorted(found) == pytest.approx(sorted(sums))
    assert len(decoded.statistics["communication_matrix"]) == truth["tables"]["CommAnalyzerMatrix"]


def test_an_analysis_database_agrees_with_the_json_beside_it(samples: Path) -> None:
    root = samples / "torch_npu" / "llm_pp2dp2" / "rank_0_ascend_pt"
    ours = database.read(root / OUTPUT / "analysis.db").statistics["communication"]
    theirs = npuprof.load(root).statistics["communication"]
    assert list(ours.columns) == list(theirs.columns)
    keys = ["kind", "name", "group"]
    numbers = [name for name in map(str, theirs) if "Time" in name and "Start" not in name]
    for name in numbers:
        found, wanted = (frame.set_index(keys)[name].sort_index().astype(float) for frame in (ours, theirs))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_result_of_text_alone_holds_no_database(samples: Path) -> None:
    assert not database.recognises(samples / "torch_npu" / "text" / DB[1])


@pytest.mark.parametrize("name", ["minimal", "sliced_2k", "everything"])
def test_msprof_result_equals_ours(samples: Path, name: str) -> None:
    folder = samples / "raw" / name
    (path,) = (folder / "expected").glob("*.db")
    ours, (raw_path,) = database.read(path).tables, folder.glob("PROF_*")
    raw = npuprof.load(raw_path)
    kernels = raw.kernels.sort_values("start_ns", kind="stable")
    for column in ("start_ns", "duration_ns", "op_type", "core", "block_num", "input_shapes", "wait_ns"):
        found, expected = (frame[column].astype(object).tolist() for frame in (ours["kernels"], kernels))
        assert [None if pd.isna(one) else one for one in found] == [None if pd.isna(one) else one for one in expected]
    assert ours["api"][["start_ns", "duration_ns"]].equals(raw.api[["start_ns", "duration_ns"]])
    assert ours["tasks"][["start_ns", "duration_ns"]].equals(raw.tasks[["start_ns", "duration_ns"]])
    for kind, group in raw.overlap.groupby("kind", observed=True):
        own = ours["overlap"][ours["overlap"]["kind"] == kind]
        assert own["duration_ns"].sum() == group["duration_ns"].sum()


@pytest.mark.slow
def test_everything_that_msprof_samples(samples: Path) -> None:
    (path,) = (samples / "raw" / "everything" / "expected").glob("*.db")
    decoded = database.read(path)
    marks = decoded.tables["marks"]
    assert marks["message"].tolist() == ["train_step", "tick", "fwd_pass"]
    assert marks["kind"].tolist() == ["start/end", "marker", "marker_ex"]
    assert marks["device_duration_ns"].fillna(-1).tolist() == [-1, -1, 50_000]
    assert "mark" in decoded.tables["links"]["kind"].tolist()
    assert decoded.tables["allocations"]["size_bytes"].tolist() == [4096]
    counters = decoded.tables["counters"].set_index("counter")["value"]
    assert counters["PCIe post Tx"].iloc[1] == 12.39776611328125
    assert counters["SIO dat_tx"].iloc[0] == 0.0012874603271484375
    assert counters["HCCS Tx"].iloc[0] == pytest.approx(95.367, abs=5e-4)
    assert len(decoded.notes) == 0


@pytest.mark.parametrize("name", DB)
def test_samples_are_left_as_they_were(samples: Path, name: str) -> None:
    path = samples / "torch_npu" / "db" / name / OUTPUT / FILES[name]
    before = checksum(path)
    database.read(path)
    assert checksum(path) == before
