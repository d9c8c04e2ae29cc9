"""Every quantity that two ways lead to, in one table, and the notes that explain a difference.

Each entry of :data:`OF_RUN` and :data:`OF_SET` names two ways to the same quantity and how far apart they may be.
Wherever they are further apart, a note must concern one of the entry's tables; else npuprof contradicts itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.findings import Advice
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, PARTS
from npuprof.analysis.by import KEYS
from npuprof.analysis.host_accounting import HOST as HOST_PART
from npuprof.analysis.intervals import intersection, total, union
from npuprof.analysis.step_statistics import WHOLE
from npuprof.figures.steps import NAMES as BARS
from npuprof.flame.tree import merged_calls
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.overlap import are_compute
from npuprof.timeline.state import Timeline
from tests.campaign.damage.answers import breakdown, by, memory_peak
from tests.campaign.damage.concerns import COMMUNICATION, HOST, KERNELS, MEMORY, STEPS, concerning

Parts: TypeAlias = Mapping[str, float]
"""A quantity by name of its parts; a part that is absent is zero."""

Way: TypeAlias = Callable[[Any], Parts | None]
"""Returns a quantity of a run or a set; None where the run has no such way to it."""

COUNT = "count"
"""Ends the names of parts that must be equal."""

_ROUNDED_NS = 2  # of each row, in files whose starts and durations were each rounded
_QUARTER_NS = 1_000  # more for sums of the vendor, which went through a float of microseconds
_PRINTED = 0.51  # percent: the larger shares of a report are whole numbers


@dataclass(frozen=True)
class Invariant:
    """Two ways to one quantity.

    Attributes
    ----------
    name
        The quantity, and the two ways.
    one, other
        The ways.
    tables
        The tables that a note must concern where they differ.
    least
        The difference that is allowed of each part but counts, in its unit.
    share
        The difference that is allowed of each part but counts, as a share of it.
    of_whole
        The difference that is allowed of each part but counts, as a share of the largest.
    of_row
        The table of which each row allows :data:`_ROUNDED_NS` more.
    dear
        Whether a way takes long: it is tried with some of the damaged copies only.
    """

    name: str
    one: Way
    other: Way
    tables: tuple[str, ...]
    least: float = 0.0
    share: float = 0.0
    of_whole: float = 0.0
    of_row: str = ""
    dear: bool = False

    def contradiction(self, run: Any) -> str:
        """Return what the two ways say where they differ; empty where they agree, or a way is missing."""
        one, other = self.one(run), self.other(run)
        if one is None or other is None:
            return ""
        allowed = self.least + (_ROUNDED_NS * (len(run.tables[self.of_row]) + 1) if self.of_row else 0)
        allowed += self.of_whole * max(map(abs, other.values()), default=0.0)
        for name in sorted({*one, *other}):
            here, there = one.get(name, 0.0), other.get(name, 0.0)
            most = 0.0 if name.endswith(COUNT) else allowed + self.share * max(abs(here), abs(there))
            if not abs(here - there) <= most:  # NaN too
                return f"{self.name}{f', {name}' if name else ''}: {here:,.10g} and {there:,.10g}"
        return ""


def contradictions(found: Profile | ProfileSet, *, dear: bool = False) -> list[str]:
    """Return what a run or a set says in two ways that differ, and that no note of it concerns."""
    invariants = OF_RUN if isinstance(found, Profile) else OF_SET
    wrong = {one: one.contradiction(found) for one in invariants if dear or not one.dear}
    notes = list(zip(found.notes["source"], found.notes["message"], strict=True))
    return [text for one, text in wrong.items() if text and not concerning(notes, one.tables)]


# -- ways ------------------------------------------------------------------------------------------------------


def _plain(values: pd.Series[Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


def _kernels(run: Profile) -> Parts:
    return {COUNT: len(run.kernels), "ns": int(run.kernels["duration_ns"].sum())}


def _summed(run: Profile) -> Parts:
    return {**_kernels(run), "share": float(run.kernels["duration_ns"].any())}


def _by(key: Any, run: Profile | ProfileSet) -> Parts | None:
    if isinstance(run, Profile) and run.accounting.of_host:  # sums of operators
        return None
    sums = by(run, key)
    return {name: float(sums[of].sum()) for name, of in ((COUNT, "count"), ("ns", "total_ns"), ("share", "share"))}


def _launched(run: Profile) -> Parts:
    return {COUNT: len(run.launches), "ns": int(run.kernels["duration_ns"].sum())}


def _sql(run: Profile) -> Parts:
    row = run.sql("SELECT count(*) AS n, coalesce(sum(duration_ns), 0) AS ns FROM kernels").iloc[0]
    return {COUNT: int(row["n"]), "ns": int(row["ns"])}


def _top_of_report(run: Profile) -> Parts:
    return _plain(run.summary.top_ops.groupby("name", observed=True)["total_ns"].sum())


def _top_of_table(run: Profile) -> Parts:
    rows = run.summary.top_ops[["name", "op_type"]].drop_duplicates()
    sums = run.kernels.groupby(["name", "op_type"], observed=True, dropna=False)["duration_ns"].sum().reset_index()
    kept = sums.merge(rows, on=["name", "op_type"])
    return _plain(kept.groupby("name", observed=True)["duration_ns"].sum())


def _computing(run: Profile) -> Parts | None:
    """Return by device the time in which a kernel ran, within the steps if there are any."""
    placed = run.accounting.intervals["start_ns"].notna()
    devices = run.accounting.steps["device_id"].iloc[run.accounting.intervals["row"][placed].unique()].dropna()
    if not len(run.kernels) or not len(run.accounting.steps):
        return None
    times = {}
    for device in devices.unique():
        intervals = run.accounting.intervals[placed]
        rows = run.accounting.steps["device_id"].iloc[intervals["row"].to_numpy()] == device
        own = intervals[rows.to_numpy(bool, na_value=False)]
        begins = own["start_ns"].to_numpy(np.int64)
        steps = union(begins, begins + own["duration_ns"].to_numpy(np.int64))
        times[str(device)] = total(intersection(_united(run.aligned["kernels"], device), steps))
    return times


def _united(rows: pd.DataFrame, device: Any) -> Any:
    own = rows[(rows["device_id"] == device).to_numpy()]
    starts = own["start_ns"].to_numpy(np.int64)
    return union(starts, starts + own["duration_ns"].to_numpy(np.int64))


def _accounted_computing(run: Profile) -> Parts:
    placed = run.accounting.intervals["start_ns"].notna() & (run.accounting.intervals["part"] == "computing")
    rows = run.accounting.intervals[placed]
    device = run.accounting.steps["device_id"].iloc[rows["row"].to_numpy()].astype("Int64").astype(str).to_numpy()
    return _plain(rows.groupby(device)["duration_ns"].sum())


def _beyond_kernels(run: Profile) -> Parts | None:
    """Return by step how much longer it computes than its kernels take by `by`, where their sum counts overlaps twice.

    A kernel that runs beyond the end of its step computes in the next one too.
    """
    if not run.kernels["duration_ns"].sum() or (run.accounting.steps["basis"] == "step_times").any():
        return None
    parts = breakdown(run)
    computing = parts[parts["part"] == "computing"].groupby("step", dropna=False)["duration_ns"].sum()
    kernels = by(run, "step").set_index("step")["total_ns"]
    crossing = int(run.kernels.groupby("device_id")["duration_ns"].max().sum())
    allowed = {step: int(kernels.get(step, 0)) + crossing for step in computing.index if not pd.isna(step)}
    beyond = {str(step): float(computing[step]) - most for step, most in allowed.items()}
    return {step: time for step, time in beyond.items() if time > 0}


def _nothing(_: Any) -> Parts:
    return {}


def _steps(run: Profile) -> Parts:
    return {"": int(run.accounting.steps["duration_ns"].sum())}


def _sum_of_breakdown(run: Profile) -> Parts:
    return {"": int(breakdown(run)["duration_ns"].sum())}


def _breakdown(run: Profile | ProfileSet) -> Parts:
    return _plain(breakdown(run).groupby("part", observed=True)["duration_ns"].sum())


def _of_basis(run: Profile) -> Parts:
    """Return the time of each part in the steps of the report."""
    rows = run.accounting.by_part().iloc[run.accounting.basis.rows]
    return {part: int(rows[part].sum()) for part in PARTS}


def _of_every_step(run: Profile) -> Parts:
    rows = run.accounting.by_part()
    return {part: int(rows[part].sum()) for part in PARTS}


def _report(run: Profile) -> Parts:
    parts = {part: sum(device.parts[part] for device in run.summary.devices) for part in PARTS}
    of_host = dict(run.summary.host.parts)
    parts[BETWEEN_STEPS] += of_host.pop(BETWEEN_STEPS, 0)
    return {**parts, HOST_PART: parts[HOST_PART] + sum(of_host.values())}


def _explored(run: Profile) -> Parts | None:
    placed = run.accounting.intervals[run.accounting.intervals["start_ns"].notna().to_numpy(bool)]
    if not len(placed):
        return None
    end = int((placed["start_ns"] + placed["duration_ns"]).max())
    parts = Timeline(run.tables, run.info, run.aligned).summary(int(placed["start_ns"].min()), end).parts
    return {f"{one.part}, {one.cause}": one.duration_ns for one in parts}


def _placed(run: Profile) -> Parts:
    placed = run.accounting.intervals[run.accounting.intervals["start_ns"].notna().to_numpy(bool)]
    sums = placed.groupby(["part", "cause"], observed=True)["duration_ns"].sum()
    return {f"{part}, {cause}": int(time) for (part, cause), time in sums.items()}


def _bars(run: Profile) -> Parts | None:
    if not (run.accounting.steps["basis"] != "run").any():
        return None
    bars = {bar.name: float(np.sum(bar.x if bar.orientation == "h" else bar.y)) for bar in run.plot_steps().data}
    unit_ns = run.accounting.steps["duration_ns"].sum() / sum(bars.values())
    exact = 10 ** round(math.log10(unit_ns))  # a unit of time
    return {name: height * exact for name, height in bars.items()}


def _as_bars(run: Profile) -> Parts:
    times = _breakdown(run)
    drawn = {BARS[part]: times.get(part, 0.0) for part in PARTS if part not in IDLE}
    return drawn | {BARS["idle"]: sum(times.get(part, 0.0) for part in IDLE)}


def _advised(run: Profile) -> Parts | None:
    if len(run.accounting.steps) != 1:
        return None
    parts = Advice(Facts(run.tables, run.info, run.accounting), []).parts()
    return {HOST_PART: sum(parts.values())} if run.accounting.of_host else {of: float(ns) for of, ns in parts.items()}


def _to_advise(run: Profile) -> Parts:
    times = _breakdown(run)
    others = {part: times.get(part, 0.0) for part in PARTS if part not in IDLE}
    return others | {"idle": sum(times.get(part, 0.0) for part in IDLE)}


def _budget(run: Profile) -> Parts | None:
    """Return the whole budget of the advice; of runs of one step, since that of several is a mean."""
    if len(run.accounting.steps) != 1:
        return None
    advice = Advice(Facts(run.tables, run.info, run.accounting), [])
    return {"step": int(advice.budget()["time_ns"].sum())}


def _to_budget(run: Profile) -> Parts:
    return {"step": sum(_breakdown(run).values())}


def _longest_of_statistics(run: Profile) -> Parts:
    rows = run.step_statistics()
    return _by_rank_device_and_part(rows[rows["part"] != WHOLE], "max_ns")


def _longest_of_breakdown(run: Profile) -> Parts:
    steps = run.accounting.steps.iloc[run.accounting.basis.rows]
    if run.accounting.steps.duplicated(["rank", "device_id", "step"]).any():  # steps that only their order tells
        parts = run.accounting.by_part().loc[steps.index]
        parts = parts.melt(["rank", "device_id"], list(PARTS), "part", "duration_ns")
    else:
        keys = ["rank", "device_id", "step", "part"]
        parts = breakdown(run).groupby(keys, observed=True, dropna=False)["duration_ns"].sum().reset_index()
        counted = set(zip(*(steps[name].fillna(-1) for name in keys[:3]), strict=True))
        rows = zip(*(parts[name].fillna(-1) for name in keys[:3]), strict=True)
        parts = parts[np.array([place in counted for place in rows], bool)]
    return _by_rank_device_and_part(parts[parts["duration_ns"] > 0], "duration_ns")


def _by_rank_device_and_part(rows: pd.DataFrame, column: str) -> Parts:
    most = rows.groupby(["rank", "device_id", "part"], observed=True, dropna=False)[column].max()
    return {", ".join(map(str, key)): int(time) for key, time in zip(most.index.tolist(), most.tolist(), strict=True)}


_PRINTED_SHARE = re.compile(r"\b(computing|communication|idle) ([\d.]+) %")


def _text(run: Profile) -> Parts:
    """Return the shares of a step in the report's text."""
    return {name: float(number) for name, number in _PRINTED_SHARE.findall(str(run))}


def _to_print(run: Profile) -> Parts:
    """Return what the report's text says, from the steps of the report."""
    printed, times = _text(run), _of_basis(run)
    parts = {
        "computing": times["computing"],
        "communication": times["communication"],
        "idle": sum(times[part] for part in IDLE),
    }
    whole = sum(times.values())
    return {name: 100 * parts[name] / whole for name in printed} if len(run.summary.devices) else printed


def _owned(run: Profile) -> dict[str, float]:
    return _plain(memory_peak(run).groupby("device_id")["size_bytes"].sum())


def _peaks(run: Profile) -> Parts:
    owned = _owned(run)
    peaks = run.summary.memory_peaks.groupby("device_id", dropna=False)["allocated_bytes"].max()
    return {device: size for device, size in _plain(peaks).items() if device in owned}


def _sampled(run: Profile) -> Parts | None:
    most = run.memory.groupby("device_id")["allocated_bytes"].max().dropna()
    return {device: size for device, size in _plain(most).items() if size > _owned(run).get(device, math.inf)}


def _statistic(name: str, key: str, time: str, run: Profile) -> Parts | None:
    """Return counts and times by name of one of the vendor's sums of rows, with times in microseconds."""
    frame = run.statistics.get(name)
    if frame is None or not {key, "Count", time} <= {*frame} or "file_numbers" in frame:
        return None
    sums = frame.assign(**{column: pd.to_numeric(frame[column], errors="coerce") for column in ("Count", time)})
    grouped = sums.groupby(key)[["Count", time]].sum()
    counts = {f"{of}, {COUNT}": int(number) for of, number in grouped["Count"].items()}
    return counts | {f"{of}, ns": float(us) * 1e3 for of, us in grouped[time].items()}


def _counted(table: str, key: str, run: Profile) -> Parts | None:
    frame = run.tables[table]
    if table == "kernels":
        frame = frame[are_compute(frame)]
    if not len(frame):  # of the file of sums alone
        return None
    grouped = frame.groupby(key, observed=True)["duration_ns"]
    counts = {f"{of}, {COUNT}": int(number) for of, number in grouped.size().items()}
    return counts | {f"{of}, ns": float(time) for of, time in grouped.sum().items()}


def _vendor_steps(column: str, run: Profile) -> Parts | None:
    times = run.step_times
    if not len(times) or "rank" in times or not (run.accounting.steps["basis"] != "step_times").all():
        return None
    return {"": float(times[column].sum())}


def _united_in_steps(table: str, run: Profile) -> Parts | None:
    rows = run.tables[table]
    rows = rows[are_compute(rows)]
    if not len(rows):
        return None
    known = run.step_times["step"].dropna()
    rows = rows[rows["step"].isin(known).to_numpy(bool)] if len(known) else rows
    devices = rows["device_id"].unique()
    return {"": sum(total(_united(rows, device)) for device in devices)}


def _of_vendor_overlap(kind: str, run: Profile) -> Parts | None:
    rows = run.overlap[(run.overlap["kind"] == kind).to_numpy(bool)]
    return {"": int(rows["duration_ns"].sum())} if len(rows) and len(run.kernels) else None


def _united_ns(table: str, run: Profile) -> Parts | None:
    rows = run.tables[table]
    rows = rows[are_compute(rows)]
    return {"": sum(total(_united(rows, device)) for device in rows["device_id"].unique())} if len(rows) else None


def _listed(run: Profile) -> Parts | None:
    listed = run.statistics.get("communication")
    if listed is None or "Elapse Time(ms)" not in listed or not len(run.communication):
        return None
    times = pd.to_numeric(listed["Elapse Time(ms)"], errors="coerce")
    return {COUNT: len(listed), "ns": float(times.sum()) * 1e6}


def _collectives(run: Profile) -> Parts:
    return {COUNT: len(run.communication), "ns": int(run.communication["duration_ns"].sum())}


def _detailed(run: Profile) -> Parts | None:
    details = run.statistics.get("operator_details")
    if details is None or "Host Self Duration(us)" not in details or not len(run.operators):
        return None
    return _plain(details.groupby("Name").size())


def _operators(run: Profile) -> Parts:
    return _plain(run.operators[(run.operators["kind"] == "op").to_numpy(bool)].groupby("name", observed=True).size())


def _flame(run: Profile) -> Parts:
    sums = merged_calls(run.tables).whole(run.tables)["device"]
    return {"ns": int(sums.exclusive.sum())}


def _kernel_ns(run: Profile) -> Parts:
    return {"ns": int(run.kernels["duration_ns"].sum())}


def _held(run: Profile) -> Parts:
    """Return the rows of each table, the time of each part, and the bytes at the peak."""
    return {
        **{f"rows of {name}": len(frame) for name, frame in run.tables.items()},
        **_breakdown(run),
        **{f"bytes of device {device}": size for device, size in _owned(run).items()},
    }


def _held_again(export: Callable[[Profile, Path], Path], name: str, run: Profile) -> Parts:
    with TemporaryDirectory() as folder:
        again = open_path(export(run, Path(folder) / name))
        assert isinstance(again, Profile)
        return _held(again)


def _every(answer: Callable[[Profile], Parts], runs: ProfileSet) -> Parts:
    sums: dict[str, float] = {}
    for run in runs:
        for name, value in answer(run).items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def _summed_ranks(runs: ProfileSet) -> Parts:
    """Return the kernels of all ranks; of ranks without a device, their operators and the time of these alone."""
    ranks = list(runs)
    if any(len(run.kernels) for run in ranks) or not any(run.accounting.of_host for run in ranks):
        parts = _every(_kernels, runs)
    else:
        sums = [by(run, "op") for run in ranks]
        parts = {name: float(sum(one[of].sum() for one in sums)) for name, of in ((COUNT, "count"), ("ns", "total_ns"))}
    return {**parts, "share": float(parts["ns"] > 0)}


def _table_of_set(runs: ProfileSet) -> Parts:
    kernels = runs.table("kernels")
    return {COUNT: len(kernels), "ns": int(kernels["duration_ns"].sum())}


_OF_OVERVIEW = ("duration", "computing", "copy", "idle")


def _overview(runs: ProfileSet) -> Parts:
    steps = runs.overview().steps
    parts = {name: float(steps[f"{name}_ns"].sum()) for name in _OF_OVERVIEW}
    communication = ("waiting_ns", "moving_ns", "communication_ns")
    idle = parts["idle"] + float(steps["between_steps_ns"].sum())  # which the vendor's steps do not tell apart
    return parts | {"idle": idle, "communication": float(sum(steps[name].sum() for name in communication))}


def _of_ranks(runs: ProfileSet) -> Parts | None:
    if not runs.ranks or len(runs.ranks) < len(runs):  # several cycles: the overview has the newest
        return None
    parts = _every(_breakdown, runs)
    return {
        "duration": sum(parts.values()),
        **{name: parts.get(name, 0.0) for name in ("computing", "copy")},
        "idle": sum(parts.get(name, 0.0) for name in (*IDLE, BETWEEN_STEPS)),
        "communication": sum(parts.get(name, 0.0) for name in ("waiting", "moving", "communication")),
    }


# -- the table -------------------------------------------------------------------------------------------------

_LAUNCHED = {"line": HOST, "module": HOST, "op": HOST, "step": STEPS}
_ANY = (*KERNELS, *COMMUNICATION, *STEPS)

OF_RUN: tuple[Invariant, ...] = (
    *(
        Invariant(
            f"kernels: table and by({key!r})",
            _summed,
            partial(_by, key),
            (*KERNELS, *_LAUNCHED.get(key, ())),
            least=1e-6,  # of the sum of shares
        )
        for key in KEYS
    ),
    Invariant("kernels: table and launches", _kernels, _launched, KERNELS),
    Invariant("kernels: table and sql()", _kernels, _sql, KERNELS, dear=True),
    Invariant("kernels: table and report", _top_of_table, _top_of_report, KERNELS),
    Invariant("kernels: table and flame graph", _kernel_ns, _flame, KERNELS, dear=True),
    Invariant(
        "kernels: op_statistic.csv and table",
        partial(_statistic, "op_statistic", "OP Type", "Total Time(us)"),
        partial(_counted, "kernels", "op_type"),
        (*KERNELS, "statistics"),
        least=_QUARTER_NS,
        share=0.001,
    ),
    Invariant(
        "calls: api_statistic.csv and table",
        partial(_statistic, "api_statistic", "API Name", "Time(us)"),
        partial(_counted, "api", "name"),
        ("api", "statistics"),
        least=_QUARTER_NS,
        share=0.001,
    ),
    Invariant("operators: operator_details.csv and table", _detailed, _operators, ("operators", "statistics")),
    Invariant(
        "collectives: communication.json and table",
        _listed,
        _collectives,
        ("communication", "statistics"),
        least=_QUARTER_NS,
        share=0.01,
    ),
    Invariant("steps: accounting and breakdown()", _steps, _sum_of_breakdown, _ANY),
    Invariant("parts: breakdown() and accounting", _breakdown, _of_every_step, _ANY),
    Invariant("parts: steps of the report and report", _of_basis, _report, _ANY),
    Invariant("parts: breakdown() and explorer", _placed, _explored, _ANY, dear=True),
    Invariant("parts: breakdown() and plot_steps()", _as_bars, _bars, _ANY, share=1e-6, least=1, dear=True),
    Invariant("parts: breakdown() and verdict", _to_advise, _advised, _ANY, dear=True),
    Invariant("parts: breakdown() and budget()", _to_budget, _budget, _ANY),
    Invariant("parts: breakdown() and step_statistics()", _longest_of_breakdown, _longest_of_statistics, _ANY),
    Invariant("report: its text and its steps", _text, _to_print, _ANY, least=_PRINTED, dear=True),
    Invariant("computing: breakdown() and kernels", _accounted_computing, _computing, _ANY, of_row="kernels"),
    Invariant("computing: breakdown() and by('step')", _beyond_kernels, _nothing, _ANY, of_row="kernels"),
    *(
        Invariant(
            f"{kind}: vendor's intervals and {table}",
            partial(_of_vendor_overlap, kind),
            partial(_united_ns, table),
            (table, "overlap"),
            of_row=table,
            least=_QUARTER_NS,
        )
        for kind, table in (("computing", "kernels"), ("communication", "communication"))
    ),
    *(
        Invariant(
            f"{kind}: vendor's steps and {table}",
            partial(_vendor_steps, f"{kind}_ns"),
            partial(_united_in_steps, table),
            (table, *STEPS),
            of_row=table,
            share=0.001,
        )
        for kind, table in (("computing", "kernels"), ("communication", "communication"))
    ),
    Invariant("memory peak: memory_peak() and report", _owned, _peaks, MEMORY),
    Invariant("memory peak: samples above memory_peak()", _sampled, _nothing, MEMORY),
    *(
        Invariant(f"exports: {name} read back", _held, partial(_held_again, export, name), ("",), dear=True)
        for name, export in (("trace.json", Profile.to_chrome_trace), ("saved", Profile.save))
    ),
)
"""What every run says in two ways."""

OF_SET: tuple[Invariant, ...] = (
    Invariant("parts: breakdown() of the set and of each rank", _breakdown, partial(_every, _breakdown), _ANY),
    Invariant("parts: overview() and breakdown() of each rank", _overview, _of_ranks, _ANY),
    Invariant("kernels: table of the set and of each rank", _table_of_set, partial(_every, _kernels), KERNELS),
    *(
        Invariant(
            f"kernels: by({key!r}) of the set and of each rank",
            partial(_by, key),
            _summed_ranks,
            KERNELS,
            least=1e-6,
        )
        for key in ("kernel", "rank", "step")
    ),
)
"""What every set says in two ways."""
