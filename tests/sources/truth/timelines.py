"""Facts about timelines: those of torch_npu in their results, those of CANN 6 each by itself."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from npuprof.profiles.profile import Profile
from tests.sources.truth.facts import Facts, Family, close, equal, from_us, in_ns, longest

SPANS = ("steps", "operators", "python", "api", "tasks", "communication", "communication_tasks", "overlap")
OF_THE_TEXT = "a fact about the file's text, which no table keeps"
OF_FLOATS = "what a reader by way of floats would find"
OF_SLICES = "how slices lie over each other is no column of a table"
PARTS = {"FP_BP Time": "fp_bp", "Iteration Refresh": "refresh", "Reduce": "reduce"}
"""Categories of slices about an iteration, which are a frame of their own."""
_ITERATION = re.compile(r"(Iteration|FP_BP|Reduce_).*")
_OVERLAP_PROCESS = b"Overlap Analysis"
_OVERLAP = {"Communication(Not Overlapped)": "communication_not_overlapped"}


def _spans(run: Profile) -> pd.DataFrame:
    written = [name for name in SPANS if name != "overlap" or _has_overlap(run)]
    frames = [run.tables[name] for name in written if len(run.tables[name])]
    spans = [frame[["start_ns", "duration_ns"]] for frame in (*frames, _parts(run)) if len(frame)]
    together: pd.DataFrame = pd.concat(spans, ignore_index=True)
    return together


def _has_overlap(run: Profile) -> bool:
    """Return False where npuprof computed ``overlap`` from a timeline's tasks, since the file has none."""
    return (
        run.info.recording is None or run.info.recording.is_dir() or _OVERLAP_PROCESS in run.info.recording.read_bytes()
    )


def _parts(run: Profile) -> pd.DataFrame:
    parts: pd.DataFrame = run.statistics.get("iteration_parts", pd.DataFrame({"kind": []}))
    return parts


def _last(run: Profile, known: int) -> None:
    spans = _spans(run)
    equal(int((spans["start_ns"] + spans["duration_ns"]).max()), known)


def _span(run: Profile, known: float) -> None:
    spans = _spans(run)
    length = int((spans["start_ns"] + spans["duration_ns"]).max()) - int(spans["start_ns"].min())
    equal(length, from_us(known))


def _by_process(run: Profile, known: dict[str, int]) -> None:
    found = {
        "Ascend Hardware": len(run.tasks),
        "CANN": len(run.api),
        "HCCL": len(run.communication) + len(run.communication_tasks),
        "Overlap Analysis": len(run.overlap) if _has_overlap(run) else 0,
        "Python": len(run.operators) + len(run.python) + len(run.steps) if "Python" in known else 0,
    }
    iterations = (len(run.steps) if "Python" not in known else 0) + len(_parts(run))
    where = "Step Trace" if "Step Trace" in known else "Ascend Hardware"
    found[where] = found.get(where, 0) + iterations
    assert {name: count for name, count in found.items() if count} == known


def _by_category(run: Profile, known: dict[str, int]) -> None:
    kinds = run.operators["kind"].value_counts().to_dict()
    for category in ("enqueue", "dequeue"):
        assert kinds.get(category, 0) == known.get(category, 0)
    if "cpu_op" in known:
        assert kinds["op"] + len(run.steps) == known["cpu_op"]
    assert len(run.python) == known.get("python_function", 0)
    if "Iteration Time" in known:
        assert len(run.steps) == known["Iteration Time"]
        kinds = _parts(run)["kind"].value_counts().to_dict()
        assert kinds == {kind: known[category] for category, kind in PARTS.items()}


def _phases(run: Profile, known: dict[str, int]) -> None:
    assert len(_spans(run)) == known["X"]
    assert len(run.counters) == known.get("C", 0)


def _operators(run: Profile, known: list[list[Any]]) -> None:
    rows = [row for row in in_ns(known) if not row[0].startswith("ProfilerStep")]
    close(longest(run.operators[run.operators["kind"] == "op"], "name", len(rows)), rows)
    for name, total, _ in in_ns(known):
        if name.startswith("ProfilerStep"):
            assert abs(int(run.steps["duration_ns"].sum()) - total) <= 1


def _tasks(run: Profile, known: list[list[Any]]) -> None:
    rows = [row for row in in_ns(known) if not _ITERATION.fullmatch(row[0])]
    close(longest(run.tasks, "name", len(rows)), rows)


def _streams(run: Profile, known: list[str]) -> None:
    found = {str(stream) for stream in run.tasks["stream_id"]}
    assert found == {stream for stream in known if not len(run.steps) or int(stream) < 10_000}


def _overlaps(run: Profile, known: dict[str, float]) -> None:
    if not _has_overlap(run):
        assert not any(known.values())
        return
    sums = run.overlap.groupby(run.overlap["kind"].astype(str))["duration_ns"].agg(["sum", "size"])
    for name, total in known.items():
        kind = _OVERLAP.get(name, name.lower())
        found, size = sums.loc[kind].tolist() if kind in sums.index else (0, 0)
        close([[kind, found, size]], [[kind, from_us(total), size]])


def _flows(run: Profile, known: dict[str, dict[str, int]]) -> None:
    counts = run.links["kind"].value_counts().to_dict()
    pairs = {category: flow["f"] for category, flow in known.items() if flow["f"]}
    assert counts.get("enqueue", 0) == pairs.get("async_task_queue", 0)
    assert counts.get("forward_backward", 0) == pairs.get("fwdbwd", 0)
    if len(run.api):
        assert counts.get("api_task", 0) == pairs.get("HostToDevice", 0)
        assert 0 < counts["operator_api"] <= pairs["async_npu"] if pairs else not any(counts.values())
    else:  # Level0: the flows begin on a process that has no slices
        assert counts.get("operator_api", 0) == pairs.get("async_npu", 0)


TIMELINE: Facts = {
    "first_ns": lambda run, known: equal(int(_spans(run)["start_ns"].min()), known),
    "last_ns": _last,
    "span_us": _span,
    "distinct_x_ts": lambda run, known: equal(_spans(run)["start_ns"].nunique(), known),
    "zero_dur_x": lambda run, known: equal(int((_spans(run)["duration_ns"] == 0).sum()), known),
    "ph": _phases,
    "x_by_process": _by_process,
    "x_by_cat": _by_category,
    "cpu_op_top5": _operators,
    "hardware_top5": _tasks,
    "hardware_streams": _streams,
    "overlap_us": _overlaps,
    "flows": _flows,
    "counters": lambda run, known: equal(len(run.counters), sum(known.values())),
    "python_function_events": lambda run, known: equal(len(run.python), known),
    "python_ids_distinct": lambda run, known: equal(run.python["id"].nunique(), known),
    "python_parent_chain_depth": lambda run, known: equal(int(run.python["depth"].max()) + 1, known),
    "python_parent_cycles": lambda run, known: equal(int(run.python["parent_id"].isna().sum()), known),
    "python_roots": "the only root is written as its own parent, and counted as a cycle",
    "processes": "the slices of each are in x_by_process, and its numbers are not kept",
    "events": OF_THE_TEXT,
    "top": OF_THE_TEXT,
    "ts_types": OF_THE_TEXT,
    "flow_ids_above_2^53": OF_THE_TEXT,
    "flow_ids_above_2^53_distinct": OF_THE_TEXT,
    "same_as_double": OF_FLOATS,
    "distinct_x_ts_as_float64_us": OF_FLOATS,
    "max_nesting_by_process": OF_SLICES,
    "partly_overlapping_x_by_process": OF_SLICES,
}
FAMILIES = (
    Family(r"torch_npu/text/.*/trace_view\.json", TIMELINE, whole=True),
    Family(r"torch_npu/cann7_2023/trace_view\.json", TIMELINE),
    Family(r"msprof/cann6_graph_mode/.*/(msprof|hccl|task_time|step_trace)_[\d_]+\.json", TIMELINE),
)
