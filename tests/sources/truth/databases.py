"""Facts about the databases of torch_npu: a profile in its result, an analysis by itself."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from npuprof.profiles.profile import Profile
from tests.sources.truth.facts import Facts, Family, equal, from_us, longest

OF_THE_FILE = "a fact about how the file stores things, which no table keeps"
ELSEWHERE = re.compile(r"aic_vec_.*|aiv_(mac|mte1|fixpipe)_.*")
"""Metrics of units that only the other kind of core has; they are written as 0, and left out."""
_LENGTHS = {
    "TASK": "tasks",
    "CANN_API": "api",
    "COMPUTE_TASK_INFO": "kernels",
    "COMMUNICATION_OP": "communication",
    "COMMUNICATION_TASK_INFO": "communication_tasks",
    "OP_MEMORY": "allocations",
    "STEP_TIME": "steps",
    "StepTraceTime": "step_times",
}


def _counts(run: Profile, known: dict[str, int]) -> None:
    for table, ours in _LENGTHS.items():
        if table in known:
            assert len(run.tables[ours]) == known[table], table
    for table, frame in (("CommAnalyzerTime", "communication"), ("CommAnalyzerMatrix", "communication_matrix")):
        if table in known and frame in run.statistics:
            assert len(run.statistics[frame]) == known[table]
    counters = run.counters["counter"].value_counts().to_dict()
    for table, name in (("ACC_PMU", "Acc PMU read_ost"), ("AICORE_FREQ", "AI Core Freq")):
        assert counters.get(name, 0) == known.get(table, 0)


def _sums(frame: pd.DataFrame, by: str) -> dict[str, list[int]]:
    return {name: [total, size] for name, total, size in longest(frame, by, 100_000)}


def _among(table: str, by: str) -> Any:
    def check(run: Profile, known: list[list[Any]]) -> None:
        found = _sums(run.tables[table], by)
        rows = [row for row in known if not str(row[0]).startswith("ProfilerStep") and row[0] != "N/A"]
        assert {name: found[name] for name, _, _ in rows} == {name: [total, size] for name, total, size in rows}

    return check


def _task_types(run: Profile, known: list[list[Any]]) -> None:
    found = _sums(run.tasks, "task_type")
    assert {name: found[name] for name, _, _ in known} == {name: [total, size] for name, size, total in known}


def _task_span(run: Profile, known: list[int]) -> None:
    equal([int(run.tasks["start_ns"].min()), int((run.tasks["start_ns"] + run.tasks["duration_ns"]).max())], known)


def _api_levels(run: Profile, known: list[list[Any]]) -> None:
    expected = {("communication" if level == "hccl" else level): count for level, count in known}
    equal(run.api["level"].value_counts().to_dict(), expected)


def _framework_calls(run: Profile, known: list[list[Any]]) -> None:
    counts = dict(known)
    assert len(run.operators) + len(run.steps) == counts["op"] + counts["queue"]
    assert len(run.python) == counts.get("trace", 0)


def _stacks(run: Profile, known: dict[str, int]) -> None:
    stacks = run.operators["stack"].dropna()
    assert len(stacks) + len(run.steps) == known["ids"]  # the mark of a step has one too
    assert int(stacks.astype(str).str.count("\n").max()) == known["max_depth"]


def _peaks(run: Profile, known: list[list[Any]]) -> None:
    peaks = run.memory.groupby("component", observed=True)[["reserved_bytes", "allocated_bytes"]].max()
    sizes = run.memory["component"].value_counts()
    for component, reserved, allocated, count in known:
        assert [*peaks.loc[component], sizes[component]] == [reserved, allocated, count]


def _modules(run: Profile, known: list[list[Any]]) -> None:
    peaks = run.memory.groupby("component", observed=True)["reserved_bytes"].max()
    equal([[name, int(peaks[f"{name} (module)"])] for name, _ in known], known)


def _blocks(run: Profile, known: list[int]) -> None:
    blocks = run.allocations
    equal([len(blocks), int(blocks["size_bytes"].sum()), int(blocks["released_ns"].isna().sum())], known)


def _metrics(run: Profile, known: list[str]) -> None:
    found = {name for name in map(str, run.kernels) if name.startswith(("aic_", "aiv_"))}
    named = {f"{name}_ns" if name.endswith("_time") else name for name in known if not ELSEWHERE.fullmatch(name)}
    assert found == named


def _called(run: Profile) -> pd.DataFrame:
    chosen: pd.DataFrame = run.links[(run.links["kind"] == "operator_api") & (run.links["target_table"] == "api")]
    return chosen


def _launched(run: Profile, known: int) -> None:
    connections = run.api["connection_id"].iloc[_called(run)["target_row"]]
    equal(int(connections.map(run.tasks["connection_id"].value_counts()).fillna(0).sum()), known)


def _steps(run: Profile, known: list[list[int]]) -> None:
    found = run.steps[["step", "start_ns", "duration_ns"]].to_numpy().tolist()
    equal(found, [[step, start, end - start] for step, start, end in known])


def _metadata(run: Profile, known: dict[str, str]) -> None:
    equal(run.info.versions["database schema"], known["SCHEMA_VERSION"])


def _step_times(run: Profile, known: list[dict[str, Any]]) -> None:
    for found, row in zip(run.step_times.to_dict("records"), known, strict=True):
        for name, value in row.items():
            if name not in ("step", "deviceId"):
                ours = name.replace("overlapped_and_exclude", "overlapped_exclude")
                assert found[f"{ours}_ns"] == from_us(value), name
        assert str(found["step"]) == row["step"]


def _communication(run: Profile, known: list[list[Any]]) -> None:
    frame = run.statistics["communication"]
    for kind, count, elapsed, transit, waited in known:
        own = frame[frame["kind"] == kind]
        assert len(own) == count
        sums = own[[f"{name} Time(ms)" for name in ("Elapse", "Transit", "Wait")]].sum()
        assert sorted(sums) == pytest.approx(sorted([elapsed, transit, waited]))


PROFILE: Facts = {
    "tables": _counts,
    "task_types": _task_types,
    "task_span_ns": _task_span,
    "streams": lambda run, known: equal(sorted(run.tasks["stream_id"].unique()), known),
    "kernel_rows_joined": lambda run, known: equal(len(run.kernels), known),
    "kernel_sum_ns": lambda run, known: equal(int(run.kernels["duration_ns"].sum()), known),
    "top5_kernels_ns": _among("kernels", "name"),
    "top5_types_ns": _among("kernels", "op_type"),
    "cann_api_by_type": _api_levels,
    "top5_cann_api_ns": _among("api", "name"),
    "pytorch_api_by_type": _framework_calls,
    "top5_torch_op_ns": _among("operators", "name"),
    "callchain": _stacks,
    "comm_ops": lambda run, known: equal(
        run.communication[["name", "start_ns", "duration_ns"]].astype(object).to_numpy().tolist(), known
    ),
    "mem_peak_bytes": _peaks,
    "module_mem_top": _modules,
    "op_memory": _blocks,
    "step_time": _steps,
    "pmu_metrics": _metrics,
    "torch_to_cann_links": lambda run, known: equal(len(_called(run)), known),
    "torch_to_task_links": _launched,
    "META_DATA": _metadata,
    "dangling_string_ids": OF_THE_FILE,
    "pytorch_startNs_storage": OF_THE_FILE,
    "user_version": OF_THE_FILE,
}
ANALYSIS: Facts = {
    "StepTraceTime": _step_times,
    "CommAnalyzerTime": _communication,
    "tables": _counts,
    "user_version": OF_THE_FILE,
}
FAMILIES = (
    Family(r"torch_npu/.*/ascend_pytorch_profiler_\d+\.db", PROFILE),
    Family(r"torch_npu/.*/analysis\.db", ANALYSIS),
)
