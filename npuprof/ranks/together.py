"""Tables of several ranks stacked, with rank and host columns, or merged into the tables of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.correlation import LAYERS, whole_links
from npuprof.analysis.rank_clocks import Lead
from npuprof.exports.chrome_trace import TracedRun
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.concatenation import merged
from npuprof.sources.slicing import kept_rows
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from npuprof.words.quantities import duration

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile


_TIMES = ("start_ns", "time_ns", "allocated_ns", "released_ns", "active_released_ns", "device_start_ns")


def labelled(
    frame: pd.DataFrame,
    *,
    run: int,
    rank: int | None,
    host: str | None,
    devices: Sequence[int],
    ahead: Lead | None = None,
) -> pd.DataFrame:
    """Return a table with the columns `run`, `rank` and `host`, and `device_id` for a host table.

    `device_id` is absent for a run with several devices; the lead of the run's clock is subtracted from times.
    """
    count = len(frame)
    columns: dict[str, Any] = _on_one_clock(frame, ahead)
    if "device_id" not in frame:
        device = devices[0] if len(devices) == 1 else pd.NA
        columns["device_id"] = pd.array([device] * count, dtype="Int64")
    columns["run"] = np.full(count, run, np.int64)
    columns["rank"] = pd.array([pd.NA if rank is None else rank] * count, dtype="Int64")
    columns["host"] = recoded(np.zeros(count, np.int32), [host])
    return frame.assign(**columns)


def _on_one_clock(frame: pd.DataFrame, ahead: Lead | None) -> dict[str, pd.Series[Any]]:
    """Return the columns of times without the lead of their clock; empty if it is unknown."""
    return {} if ahead is None else {time: ahead.taken_off(frame[time]) for time in _TIMES if time in frame}


def on_one_clock(part: RankOnClock) -> TracedRun:
    """Return a run to write with others; a clock that drifts is made even, which a note says."""
    run, ahead = part
    decoded = Decoded(dict(run.tables), run.info, Notes(), run.statistics)
    decoded.notes.extend(run._notes)
    if ahead is None or not ahead.rate:
        return TracedRun(decoded, 0 if ahead is None else ahead.offset_ns)
    decoded.tables = {name: frame.assign(**_on_one_clock(frame, ahead)) for name, frame in run.tables.items()}
    moved = f"the clock of this rank led by {duration(ahead.offset_ns)} and drifted"
    decoded.notes.info("clock", f"{moved}, which was taken off all times when the ranks were written on one clock")
    return TracedRun(decoded)


def stacked_by_rank(runs: Iterable[Profile], table: Callable[[Profile], pd.DataFrame]) -> pd.DataFrame:
    """Stack a result of every rank with its rank as the first column; ``attrs["ranks"]`` has the attributes of each."""
    frames, attrs = [], {}
    for run in runs:
        frame = table(run)
        attrs[run.info.rank] = dict(frame.attrs)
        labelled = frame.drop(columns="rank", errors="ignore").reset_index(drop=True)
        labelled.attrs = {}
        labelled.insert(0, "rank", pd.array([run.info.rank] * len(labelled), "Int64"))
        frames.append(labelled)
    some = [frame for frame in frames if len(frame)] or frames[:1]
    stacked: pd.DataFrame = pd.concat(some, ignore_index=True) if some else pd.DataFrame()
    stacked.attrs["ranks"] = attrs
    states = {state["state"] for state in attrs.values() if "state" in state}
    if states:
        stacked.attrs["state"] = next(state for state in ("fires", "cannot tell", "clean") if state in states)
    return stacked


def every_table(some: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return every table: the given ones, and empty ones for the rest."""
    return {name: some[name] if name in some else tables.empty(name) for name in tables.NAMES}


def nothing(name: str) -> pd.DataFrame:
    """Return an empty stacked table."""
    return labelled(tables.empty(name), run=0, rank=None, host=None, devices=())


def separated(merged_tables: Mapping[str, pd.DataFrame], info: Info) -> list[TracedRun]:
    """Return the runs of merged tables, with the facts of all; one run if the tables are of one."""
    if "run" not in merged_tables["kernels"]:
        return [TracedRun(Decoded(dict(merged_tables), info))]
    numbers = {name: frame["run"].to_numpy(np.int64) for name, frame in merged_tables.items() if name != "links"}
    runs = []
    for number in sorted(set(np.concatenate(list(numbers.values())).tolist())):
        frames = kept_rows(merged_tables, {name: runs_of == number for name, runs_of in numbers.items()})
        ranks = {rank for frame in frames.values() for rank in frame["rank"].dropna().unique().tolist()}
        for name, frame in frames.items():
            columns = {column.name for column in SCHEMA[name].columns}
            frames[name] = frame.drop(columns=[added for added in _ADDED if added in frame and added not in columns])
        facts = replace(info, rank=ranks.pop() if len(ranks) == 1 else None)
        runs.append(TracedRun(Decoded(frames, facts)))
    return runs


_ADDED = ("run", "rank", "host", "device_id")


class RankOnClock(NamedTuple):
    """The run of a rank, and the lead of its clock, which is subtracted from its times; None if unknown."""

    run: Profile
    ahead: Lead | None


def together(parts: Sequence[RankOnClock], *, apart: bool = False) -> dict[str, pd.DataFrame]:
    """Merge all tables of ranks in the order of time, with rank columns; ``links`` and other row numbers are adjusted.

    With `apart`, threads, devices and Python call ids are renumbered, so that no call of a rank is nested in a call of
    another.
    """
    joined_tables = (
        merged([_label_tables(part, number, apart=apart) for number, part in enumerate(parts)]) if parts else {}
    )
    return {name: joined_tables.get(name, tables.empty(name)) for name in tables.NAMES}


def _label_tables(part: RankOnClock, number: int, *, apart: bool) -> dict[str, pd.DataFrame]:
    frames = dict(part.run.tables)
    frames["links"] = whole_links(frames)
    if apart:
        frames |= _numbered_anew(frames, number)
    info = part.run.info
    return {
        name: labelled(frame, run=number, rank=info.rank, host=None, devices=info.devices, ahead=part.ahead)
        for name, frame in frames.items()
    }


def _numbered_anew(old: dict[str, pd.DataFrame], number: int) -> dict[str, pd.DataFrame]:
    first = number << 40  # for the threads and Python calls of a run
    threads = np.unique(np.concatenate([old[name]["thread_id"].to_numpy(np.int64) for name in LAYERS]))
    anew = {
        name: old[name].assign(thread_id=np.searchsorted(threads, old[name]["thread_id"].to_numpy(np.int64)) + first)
        for name in LAYERS
    }
    python = old["python"]
    ids = pd.Index(python["id"].to_numpy())
    asked = pd.Index(python["parent_id"].to_numpy(dtype=np.int64, na_value=-1))
    parents = ids.get_indexer(asked) if ids.is_unique else np.full(len(ids), -1)
    absent = (parents < 0) | python["parent_id"].isna().to_numpy()
    anew["python"] = anew["python"].assign(
        id=np.arange(len(ids), dtype=np.int64) + first,
        parent_id=pd.arrays.IntegerArray(np.where(absent, 0, parents + first).astype(np.int64), absent),
    )
    devices = {name: old[name].assign(device_id=np.full(len(old[name]), number)) for name in ("kernels", "tasks")}
    return anew | devices
