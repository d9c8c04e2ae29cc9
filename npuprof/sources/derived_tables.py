"""Tables derived from other tables, after any source: the same for every format."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.device_words import HOST_DEVICE
from npuprof.analysis.examination import without_overruns
from npuprof.analysis.intervals import total, union
from npuprof.sources.base import Decoded
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.framework.correlation import add_flops
from npuprof.sources.global_ranks import add_global_ranks
from npuprof.sources.lazy_tables import LazyTables
from npuprof.sources.overlap import are_compute, of_span, overlap_table
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_ROUNDED_NS = 2  # per row: its start and its duration were each rounded
_QUARTER_NS = 1_000  # additional tolerance for sums that went through a float of microseconds
_NEARLY_ALL = 0.01  # of the steps' time: what lies between a step's mark and its first kernel is no news
_KINDS = {"computing": "kernels", "communication": "communication"}
_NUMBERS_STEPS = ("kineto", "torch_npu")  # collectors whose schedule numbers the steps one by one
_MOST_NAMED = 5
_WHAT = {"computing": "kernels", "communication": "communication operators"}


def complete(decoded: Decoded) -> None:
    """Add the tables and columns to a run that are derived from its other tables; `overlap` later, if they are lazy."""
    frames = decoded.tables
    add_flops(frames, decoded.notes)
    if decoded.info.source == CLUSTER_ANALYSIS:  # an analysis of all ranks holds only sums
        return
    add_global_ranks(decoded, decoded.notes)
    if isinstance(frames, LazyTables) and "overlap" in frames:
        return
    if len(frames.get("kernels", ())) and not len(frames.get("overlap", ())):
        names = ("kernels", "communication", "tasks")
        cut = without_overruns({name: frames.get(name, tables.empty(name)) for name in names})
        kernels, *other_tables = (cut[name] for name in names)
        frames["overlap"] = overlap_table(kernels, other_tables[0], of_span(other_tables[1]))
        decoded.notes.ledger.make("kernels", "overlap", len(frames["overlap"]))


def compare(frames: Mapping[str, pd.DataFrame], notes: Notes, collector: str = "") -> None:
    """Note differences of the tables from the vendor's sums, and steps that are missing by the numbers of others."""
    every = {name: frames[name] if name in frames else tables.empty(name) for name in tables.NAMES}
    every = dict(without_overruns(every))
    _compare_overlap(every, notes)
    _compare_steps(every, notes)
    _compare_lengths(every, notes)
    _compare_marks(every["steps"], notes)
    if collector in _NUMBERS_STEPS:
        steps = every["steps"]
        _compare_numbers(steps["step"] if "kind" not in steps else steps["step"][steps["kind"].isna()], notes)


def _compare_overlap(frames: Mapping[str, pd.DataFrame], notes: Notes) -> None:
    """Note where the intervals of ``overlap`` contradict the rows that they were computed from."""
    overlap = frames["overlap"]
    for kind, name in _KINDS.items():
        if not len(overlap) or not len(frames[name]):
            continue
        rows = _computing(frames[name])
        vendor = overlap[(overlap["kind"] == kind).to_numpy(bool)]
        if len(rows) and len(vendor):
            theirs, ours = int(vendor["duration_ns"].sum()), _united_ns(rows)
            if abs(theirs - ours) > _ROUNDED_NS * (len(rows) + len(vendor)):
                notes.warning(
                    "overlap",
                    f"{kind} is {_ms(theirs)} by its intervals and {_ms(ours)} by the {_WHAT[kind]}: do not compare "
                    "device time with sums over them",
                )


def _compare_steps(frames: Mapping[str, pd.DataFrame], notes: Notes) -> None:
    """Note where the vendor's step times differ from the kernels and operators of these steps."""
    times = frames["step_times"]
    for kind, name in _KINDS.items():
        if not len(times) or not len(frames[name]):
            continue
        rows = _computing(frames[name])
        parts = [] if times[["step", "device_id"]].duplicated().any() else _steps_of(times, rows, f"{kind}_ns")
        theirs, ours = sum(part[0] for part in parts), sum(_united_ns(rows_of_step) for _, rows_of_step in parts)
        count = sum(len(rows_of_step) for _, rows_of_step in parts)
        if not count or abs(theirs - ours) <= _ROUNDED_NS * count + _QUARTER_NS * len(parts):
            continue
        by_tasks = kind == "communication" and _united_ns(_tasks_of(frames, parts)) == theirs
        reason = " (the time of the operators' tasks)" if by_tasks else ""
        message = (
            f"{kind} of {counted(len(parts), 'step')} is {_ms(theirs)} by the vendor's breakdown{reason}, and "
            f"{_ms(ours)} by the {_WHAT[kind]} of these steps, as everywhere else in the report"
        )
        if kind == "computing" and ours < theirs * (1 - _NEARLY_ALL):
            notes.warning("step_times", f"{message}: rows of kernels are missing", lacks=("kernels",))
        else:
            notes.info("step_times", message)


def _compare_lengths(frames: Mapping[str, pd.DataFrame], notes: Notes) -> None:
    """Warn where steps that only their kernels tell are shorter than in the vendor's breakdown: it counts idle time."""
    times, kernels = frames["step_times"], frames["kernels"]
    if len(frames["steps"]) or not kernels["step"].notna().any() or times[["step", "device_id"]].duplicated().any():
        return
    columns = ["start_ns", "duration_ns", "device_id", "step"]
    rows: pd.DataFrame = pd.concat([kernels[columns], frames["communication"][columns]], ignore_index=True)
    parts = _steps_of(times[times["step"].notna().to_numpy(bool)], rows, "stage_ns")
    theirs = sum(stage_ns for stage_ns, _ in parts)
    ours = sum(int((step["start_ns"] + step["duration_ns"]).max() - step["start_ns"].min()) for _, step in parts)
    if theirs - ours > theirs * _NEARLY_ALL:
        notes.warning(
            "step_times",
            f"{counted(len(parts), 'step')} took {_ms(theirs)} by the vendor's breakdown, and {_ms(ours)} from their "
            "first to their last kernel, as everywhere else in the report: idle time before and after is not counted; "
            "load the result with its trace_view.json, which marks the steps",
        )


def _compare_marks(steps: pd.DataFrame, notes: Notes) -> None:
    """Note steps that overlap: their parts do not add up to their marks."""
    overlapping, marked, covered = 0, 0, 0
    ordered = tables.sort_by_time(steps)
    for _, rows in ordered.groupby("device_id", dropna=False) if "device_id" in ordered else [(None, ordered)]:
        starts = rows["start_ns"].to_numpy(np.int64)
        ends = starts + rows["duration_ns"].to_numpy(np.int64)
        overlapping += int((starts[1:] < np.maximum.accumulate(ends)[:-1]).sum())
        marked, covered = marked + int((ends - starts).sum()), covered + total(union(starts, ends))
    if marked - covered > _QUARTER_NS * overlapping:  # marks that touch may each be rounded
        some = f"{overlapping:,} of {len(steps):,} steps {'starts' if overlapping == 1 else 'start'}"
        notes.warning(
            "steps",
            f"{some} before an earlier one ends: their marks take {_ms(marked)} in all and cover {_ms(covered)}; time "
            "that several share counts for the one that began last",
        )


def _compare_numbers(steps: pd.Series[int], notes: Notes) -> None:
    """Warn of numbers that the steps skip: a profiler's schedule records consecutive steps."""
    numbers = np.unique(steps.dropna().to_numpy(np.int64))
    if len(numbers) and (missing := int(numbers[-1] - numbers[0]) + 1 - len(numbers)):
        after = ", ".join(map(str, numbers[:-1][np.diff(numbers) > 1][:_MOST_NAMED].tolist()))
        message = f"the marks of {counted(missing, 'step')} are missing, by the numbers of the others (after {after})"
        notes.warning("steps", f"{message}: their time counts for the steps before; record or export them again")


def _computing(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[["start_ns", "duration_ns", "device_id", "step"]][are_compute(rows)]


def _steps_of(times: pd.DataFrame, rows: pd.DataFrame, column: str) -> list[tuple[int, pd.DataFrame]]:
    """Return the vendor's time for each step and device, with its rows; steps without rows are dropped."""
    parts = []
    for step, device, value in zip(times["step"], times["device_id"], times[column], strict=True):
        if pd.isna(value):
            continue
        is_selected = np.ones(len(rows), bool) if pd.isna(device) else (rows["device_id"] == device).to_numpy()
        if not pd.isna(step):
            is_selected = is_selected & (rows["step"] == step).to_numpy(dtype=bool, na_value=False)
        if is_selected.any():
            parts.append((int(value), rows[is_selected]))
    return parts


def _tasks_of(frames: Mapping[str, pd.DataFrame], parts: list[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    tasks = frames["communication_tasks"]
    operators = np.concatenate([selected_rows.index.to_numpy() for _, selected_rows in parts])
    return tasks[np.isin(tasks["op_id"].to_numpy(np.int64, na_value=-1), operators)]


def _united_ns(rows: pd.DataFrame) -> int:
    """Return the time during which any of the rows of a device ran, summed over devices."""
    parts = [frame for _, frame in rows.groupby("device_id")[["start_ns", "duration_ns"]]]
    starts = [frame["start_ns"].to_numpy(np.int64) for frame in parts]
    ends = [start + frame["duration_ns"].to_numpy(np.int64) for start, frame in zip(starts, parts, strict=True)]
    return sum(total(union(*edges)) for edges in zip(starts, ends, strict=True))


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:,.3f} ms"


def devices_of(frames: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the devices that have rows; files may name further ones."""
    columns = [frame["device_id"] for frame in frames.values() if len(frame) and "device_id" in frame]
    return sorted({int(device) for column in columns for device in column.dropna().unique()} - {HOST_DEVICE})
