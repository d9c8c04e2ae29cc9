"""Cut the tables of a run to a selection, and keep every link between the remaining rows.

Rows are kept if they overlap the selected interval. If steps are selected, rows with a step number (kernels,
collectives, operators) are kept by that number, and device tasks by their launch time, so that a step keeps the work
that it launched and that ran later. A kept device row also keeps the call and the operator that launched it, and the
collective that it is a step of, whenever these began. Intervals of `overlap` are clipped to the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.correlation import whole_links
from npuprof.arrays import Bools, Int64
from npuprof.sources.base import Decoded
from npuprof.sources.columns.steps import launch_times
from npuprof.sources.selection import Selection, Windows

Frames: TypeAlias = Mapping[str, pd.DataFrame]

_OF_DEVICE = ("tasks", "kernels", "communication", "communication_tasks")
_STEPPED = ("operators", "kernels", "communication")
_SPANS = ("python", "operators", "api", "tasks", "kernels", "communication", "communication_tasks", "marks")
_CONTEXT = ("steps", "step_times", "statements", "iterations")
_LIMITS = np.iinfo(np.int64)
_STATISTIC_TIME = "Timestamp(ns)"


def cut(decoded: Decoded, selection: Selection) -> None:
    """Keep the selected rows of a run, in place; `info` and the notes describe the selection."""
    frames, info = decoded.tables, decoded.info
    steps = steps_of(frames)
    beginning = info.started_ns if info.started_ns is not None else _extent(frames)[0]
    windows = selection.windows(steps, beginning)
    first, last = _extent(frames)
    decoded.tables = _cut_tables(frames, windows, selection.steps)
    for name in decoded.notes.ledger.made().keys() & frames.keys():
        decoded.notes.ledger.deselect(name, len(frames[name]) - len(decoded.tables[name]))
    for name, frame in decoded.statistics.items():
        if _STATISTIC_TIME in frame and frame[_STATISTIC_TIME].dtype == np.int64:
            moments = frame[_STATISTIC_TIME].to_numpy()
            decoded.statistics[name] = frame[windows.touch(moments, moments)].reset_index(drop=True)
    selected = selection.selected(windows)
    info.selection = {**info.selection, **selected}
    decoded.notes.info("selection", f"only a part of the run was asked for: {_words(selected)}")
    if decoded.statistics:
        decoded.notes.info("selection", "statistics without times are those of the whole run")
    if not any(len(decoded.tables.get(name, ())) for name in _SPANS) and last >= first:
        decoded.notes.warning("selection", f"nothing of the run lies in it: its rows are from {first} to {last} ns")


def steps_of(frames: Frames) -> pd.DataFrame:
    """Return the steps of a run: its table, or else the ranges spanned by rows with a step number."""
    steps = frames.get("steps")
    if steps is not None and len(steps):
        return steps
    parts = []
    for name in _STEPPED:
        frame = frames.get(name)
        if frame is not None and "step" in frame and bool(frame["step"].notna().any()):
            named_rows = frame.loc[frame["step"].notna(), ["step", "start_ns", "duration_ns"]]
            parts.append(named_rows.assign(end_ns=named_rows["start_ns"] + named_rows["duration_ns"]))
    if not parts:
        return tables.empty("steps")
    bounds = pd.concat(parts).groupby("step").agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max")).reset_index()
    bounds["duration_ns"] = bounds["end_ns"] - bounds["start_ns"]
    return tables.build("steps", {name: bounds[name] for name in ("step", "start_ns", "duration_ns")})


def _extent(frames: Frames) -> tuple[int, int]:
    """Return the first start and the last end of the run's rows; start > end if there are no rows."""
    spans = [frames[name] for name in _SPANS if len(frames.get(name, ()))]
    first = min((int(frame["start_ns"].min()) for frame in spans), default=1)
    return first, max((int((frame["start_ns"] + frame["duration_ns"]).max()) for frame in spans), default=0)


def _cut_tables(frames: Frames, windows: Windows, steps: tuple[int, ...] | None) -> dict[str, pd.DataFrame]:
    kept = {name: _keep(frames, name, windows, steps) for name in frames if name not in ("links", "overlap")}
    if "communication_tasks" in kept:
        _keep_whole_collectives(frames, kept, by_step=steps is not None)
    _keep_causes(_links(frames), kept)
    result = kept_rows(frames, kept)
    if "overlap" in frames:
        result["overlap"] = _clip(frames["overlap"], windows)
    return result


def within(frames: Frames, start_ns: int | None, end_ns: int | None) -> dict[str, pd.DataFrame]:
    """Return the tables of an interval, as :func:`cut` leaves them; None is unbounded."""
    if start_ns is None and end_ns is None:
        return dict(frames)
    return _cut_tables({**frames, "links": whole_links(frames)}, Windows.between(start_ns, end_ns), None)


def only_rows(frames: Frames, is_kept: Mapping[str, Bools]) -> dict[str, pd.DataFrame]:
    """Return the chosen rows of tables of slices, with the calls that launched them.

    Steps, and what the profiled cell ran, stay; other tables are empty, for none of their rows was chosen.
    """
    whole = {**frames, "links": whole_links(frames)}
    kept = {
        name: is_kept[name].copy() if name in is_kept else np.full(len(frame), name in _CONTEXT)
        for name, frame in whole.items()
        if name != "links"
    }
    _keep_causes(whole["links"], kept)
    return kept_rows(whole, kept)


def kept_rows(frames: Frames, is_kept: Mapping[str, Bools]) -> dict[str, pd.DataFrame]:
    """Return the chosen rows of tables, and the links between them; row numbers follow."""
    result = {name: _rows(frames[name], rows) for name, rows in is_kept.items()}
    moved = {name: np.cumsum(rows) - 1 for name, rows in is_kept.items()}
    if "communication_tasks" in result and "communication" in is_kept:
        numbers = result["communication_tasks"]["op_id"]
        is_known = numbers.notna().to_numpy()
        rows = np.zeros(len(numbers), np.int64)
        rows[is_known] = moved["communication"][numbers[is_known].to_numpy(np.int64)]
        result["communication_tasks"] = result["communication_tasks"].assign(
            op_id=pd.arrays.IntegerArray(rows, ~is_known)
        )
    result["links"] = _cut_links(_links(frames), is_kept, moved)
    return result


def _links(frames: Frames) -> pd.DataFrame:
    return frames["links"] if "links" in frames else tables.empty("links")


def _keep(frames: Frames, name: str, windows: Windows, steps: tuple[int, ...] | None) -> Bools:
    frame = frames[name]
    if name == "step_times":
        return _are_steps(frame, steps if steps is not None else _steps_within(frames, windows))
    if steps is not None and (name == "steps" or (name in _STEPPED and bool(frame["step"].notna().any()))):
        return _are_steps(frame, steps)
    if name == "allocations":
        return windows.touch(_fill(frame["allocated_ns"], _LIMITS.min), _fill(frame["released_ns"], _LIMITS.max))
    if "time_ns" in frame:
        moments = frame["time_ns"].to_numpy(np.int64, na_value=_LIMITS.min)  # without a time: in no part
        return windows.touch(moments, moments)
    starts = frame["start_ns"].to_numpy(np.int64)
    if steps is not None and name == "tasks" and "device_id" not in frames.get("steps", ()):
        moments = launch_times(frames, frame)
        return windows.touch(moments, moments)
    touched = windows.touch(starts, starts + frame["duration_ns"].to_numpy(np.int64))
    if name == "marks":
        is_seen = frame["device_start_ns"].notna().to_numpy()
        begin, length = (_fill(frame[column], 0) for column in ("device_start_ns", "device_duration_ns"))
        touched |= is_seen & windows.touch(begin, begin + length)
    return touched


def _are_steps(frame: pd.DataFrame, steps: tuple[int, ...] | None) -> Bools:
    if steps is None:
        return np.ones(len(frame), bool)
    return np.isin(_fill(frame["step"], _LIMITS.min), steps)


def _steps_within(frames: Frames, windows: Windows) -> tuple[int, ...] | None:
    steps = steps_of(frames)
    if not len(steps):
        return None
    starts = steps["start_ns"].to_numpy(np.int64)
    touched = steps[windows.touch(starts, starts + steps["duration_ns"].to_numpy(np.int64))]
    return tuple(touched["step"].dropna().astype("int64").tolist())


def _keep_whole_collectives(frames: Frames, kept: dict[str, Bools], *, by_step: bool) -> None:
    """Keep the steps of kept collectives if run steps are selected; otherwise the collectives of kept steps."""
    operator = _fill(frames["communication_tasks"]["op_id"], -1)
    is_known = operator >= 0
    operators = kept.get("communication")
    if operators is None:
        return
    if by_step:
        kept["communication_tasks"][is_known] = operators[operator[is_known]]
    else:
        operators[operator[is_known & kept["communication_tasks"]]] = True


def _keep_causes(links: pd.DataFrame, kept: dict[str, Bools]) -> None:
    """Keep the launchers of kept device rows: calls and marks, and the operators that they belong to."""
    causes = links[(links["kind"] != "forward_backward").to_numpy()]
    target_table, source_table = (causes[f"{side}_table"].astype(object).to_numpy() for side in ("target", "source"))
    target, source = causes["target_row"].to_numpy(), causes["source_row"].to_numpy()
    launched = {name: rows for name, rows in kept.items() if name in _OF_DEVICE}
    while launched:  # links lead from device rows to calls, and on to operators: two rounds
        of_causes: dict[str, Bools] = {}
        for name, rows in launched.items():
            at = np.flatnonzero(target_table == name)
            at = at[rows[target[at]]]
            for of in set(source_table[at].tolist()) & (kept.keys() - _OF_DEVICE - {name}):
                among = source[at[source_table[at] == of]]
                of_causes.setdefault(of, np.zeros(len(kept[of]), bool))[among] = True
        for name, rows in of_causes.items():
            kept[name] |= rows
        launched = {name: rows for name, rows in of_causes.items() if name != "operators"}


def _cut_links(links: pd.DataFrame, is_kept: Mapping[str, Bools], moved: Mapping[str, Int64]) -> pd.DataFrame:
    stays = np.ones(len(links), bool)
    rows = {}
    for side in ("source", "target"):
        of, numbers = links[f"{side}_table"].astype(object).to_numpy(), links[f"{side}_row"].to_numpy().copy()
        for name in set(of.tolist()):
            selected = np.flatnonzero(of == name)
            stays[selected] &= is_kept[name][numbers[selected]]
            numbers[selected] = moved[name][numbers[selected]]
        rows[f"{side}_row"] = numbers
    return _rows(links.assign(**rows), stays)


def _clip(frame: pd.DataFrame, windows: Windows) -> pd.DataFrame:
    """Clip intervals to the windows; an interval that overlaps several windows becomes several rows."""
    starts = frame["start_ns"].to_numpy(np.int64)
    ends = starts + frame["duration_ns"].to_numpy(np.int64)
    first, after = np.searchsorted(windows.ends, starts, side="right"), np.searchsorted(windows.starts, ends)
    count = np.maximum(after - first, 0)
    rows = np.repeat(np.arange(len(frame)), count)
    at = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count) + first[rows]
    begin = np.maximum(starts[rows], windows.starts[at])
    columns: dict[str, Any] = {"start_ns": begin, "duration_ns": np.minimum(ends[rows], windows.ends[at]) - begin}
    return tables.sort_by_time(frame.iloc[rows].assign(**columns).reset_index(drop=True))


def _rows(frame: pd.DataFrame, is_kept: Bools) -> pd.DataFrame:
    return frame if bool(is_kept.all()) else frame.iloc[np.flatnonzero(is_kept)].reset_index(drop=True)


def _fill(column: pd.Series[Any], absent: int) -> Int64:
    return column.to_numpy(np.int64, na_value=absent)


def _words(selected: Mapping[str, Any]) -> str:
    if "steps" in selected:
        return f"steps {', '.join(map(str, selected['steps'][:20]))}{' ...' if len(selected['steps']) > 20 else ''}"
    return ", ".join(f"{name.removesuffix('_ns')} {value} ns" for name, value in selected.items())
