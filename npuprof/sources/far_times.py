"""Rows whose time was not recorded, or lies days from all others: one of them would make the run last for years."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.sources.base import Decoded
from npuprof.sources.slicing import kept_rows
from npuprof.words.quantities import counted, duration

_FAR_NS = 10 * 86_400 * 10**9  # no recording is this long
_APART_NS = 3_600 * 10**9  # within the times of a run
_FEW, _SHARE = 3, 0.01  # rows: more of them are another clock
_LONE_NS = 10 * 10**9
_HOST, _DEVICE = ("operators", "api", "python"), ("kernels", "tasks", "communication", "communication_tasks")
_TIMES = ("start_ns", "time_ns")


@dataclass(frozen=True)
class _Times:
    """When the rows of a table begin and end, and the bounds of most of them."""

    starts: Int64
    ends: Int64
    low: int
    high: int

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Times | None:
        name = next((name for name in _TIMES if name in frame), None)
        if name is None or not len(frame) or frame[name].isna().any():
            return None
        starts = frame[name].to_numpy(np.int64)
        lengths = frame["duration_ns"].to_numpy(np.int64, na_value=0) if "duration_ns" in frame else 0
        return cls(starts, starts + lengths, int(starts.min()), int((starts + lengths).max()))

    def mostly(self) -> _Times:
        """Return the same rows with the bounds of the largest group without a long gap."""
        ordered = np.sort(self.starts)
        first = np.append(0, np.flatnonzero(np.diff(ordered) > _APART_NS) + 1)
        counts = np.diff(np.append(first, len(ordered)))
        largest = int(counts.argmax())
        last = int(first[largest] + counts[largest]) - 1
        return _Times(self.starts, self.ends, int(ordered[first[largest]]), int(ordered[last]))


def leave_out_far_rows(decoded: Decoded) -> None:
    """Leave out rows whose time was not recorded, and the few that begin or end days from all others, with notes."""
    unset = _unset_rows(decoded.tables)
    texts = {}
    for name, rows in unset.items():
        count = int(rows.sum())
        texts[name] = f"the time of {counted(count, 'row')} of {name} was not recorded (it is 0)"
    _leave_out(decoded, unset, texts)
    frames = decoded.tables
    far = far_rows(frames)
    usual = _usual(frames) if far else {}
    texts = {}
    for name, rows in far.items():
        at = int(np.flatnonzero(rows)[0])
        count, away = int(rows.sum()), _away(usual[name], at)
        texts[name] = (
            f"{counted(count, 'row')} of {name} {'is' if count == 1 else 'are'} days from all others, which is damage: "
            f"{_name(frames[name], at)} by {duration(away)}"
        )
    _leave_out(decoded, far, texts)
    lone = _lone_rows(decoded.tables)
    texts = {}
    for name, rows in lone.items():
        count, at = int(rows.sum()), int(np.flatnonzero(rows)[0])
        texts[name] = (
            f"{counted(count, 'row')} of {name} {'lies' if count == 1 else 'lie'} far from all others with nothing "
            f"else there, so the time is wrong: {_name(decoded.tables[name], at)}"
        )
    _leave_out(decoded, lone, texts)


def are_far(frames: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether :func:`leave_out_far_rows` leaves out a row of tables, of which the times suffice."""
    return bool(_unset_rows(frames) or far_rows(frames) or _lone_rows(frames))


def may_be_far(frames: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a row may be left out by the times of other tables: it is far from others of its own."""
    times = [of for frame in frames.values() if (of := _Times.of(frame)) is not None]
    return any(of.low == 0 or bool((np.diff(np.sort(of.starts)) > _LONE_NS).any()) for of in times)


def _lone_rows(frames: Mapping[str, pd.DataFrame]) -> dict[str, Bools]:
    """Return a mask of the few steps and rows of devices that lie far from all others, with nothing else there.

    A device does nothing that no call launched, and a step that is real follows another one or holds some work.
    """
    times = {name: of for name in (*_HOST, *_DEVICE, "steps") if name in frames and (of := _Times.of(frames[name]))}
    if (
        not times
        or max(int(of.starts.max()) for of in times.values()) - min(of.low for of in times.values()) < _LONE_NS
    ):
        return {}
    lone: dict[str, Bools] = {}
    for name in ("steps", *_DEVICE):
        others = [times[other] for other in ((*_HOST, *_DEVICE) if name == "steps" else _HOST) if other in times]
        if name not in times or not others:
            continue
        of = times[name]
        rows = np.ones(len(of.starts), np.bool_)
        for other in others:
            rows &= ~_any_between(np.sort(other.starts), of.starts - _LONE_NS, of.ends + _LONE_NS)
            rows &= ~_any_between(np.sort(other.ends), of.starts - _LONE_NS, of.ends + _LONE_NS)
        if name == "steps":
            rows &= ~_any_between(np.sort(of.ends), of.starts - _LONE_NS, of.starts)
            rows &= ~_any_between(np.sort(of.starts), of.starts + 1, of.ends + _LONE_NS)
        if 0 < rows.sum() <= max(_FEW, _SHARE * len(rows)) < len(rows):
            lone[name] = rows
    return lone


def _any_between(ordered: Int64, low: Int64, high: Int64) -> Bools:
    return np.searchsorted(ordered, low) < np.searchsorted(ordered, high, side="right")


def _leave_out(decoded: Decoded, far: Mapping[str, Bools], texts: Mapping[str, str]) -> None:
    if not far:
        return
    frames, notes = decoded.tables, decoded.notes
    for name, rows in far.items():
        count, message = int(rows.sum()), texts[name]
        notes.ledger.read(name, count)
        notes.leave_out(name, message, count, affects=(name,))
        if name in notes.ledger.made():
            notes.ledger.deselect(name, count)
    kept = {name: ~far[name] if name in far else np.ones(len(frame), np.bool_) for name, frame in frames.items()}
    if "communication" in far and "communication_tasks" in frames:
        steps = frames["communication_tasks"]
        of_far = steps["op_id"].isin(np.flatnonzero(far["communication"]))
        frames["communication_tasks"] = steps.assign(op_id=steps["op_id"].mask(of_far))
    decoded.tables = {**kept_rows(frames, {name: rows for name, rows in kept.items() if name != "links"})}
    left = [of for frame in decoded.tables.values() if (of := _Times.of(frame)) is not None]
    decoded.info.started_ns = min((of.low for of in left), default=None)
    decoded.info.stopped_ns = max((of.high for of in left), default=None)


def _unset_rows(frames: Mapping[str, pd.DataFrame]) -> dict[str, Bools]:
    """Return a mask of the rows of each table that have the time 0, if the run's clock is years from it."""
    times = {name: of for name, frame in frames.items() if (of := _Times.of(frame)) is not None}
    if not any(of.low == 0 for of in times.values()) or all(of.mostly().low < _FAR_NS for of in times.values()):
        return {}
    return {name: rows for name, of in times.items() if (rows := of.starts == 0).any()}


def far_rows(frames: Mapping[str, pd.DataFrame]) -> dict[str, Bools]:
    """Return a mask of the few rows that begin or end days from all others, of each table that has some."""
    times = [of for frame in frames.values() if (of := _Times.of(frame)) is not None]
    if not times or max(of.high for of in times) - min(of.low for of in times) < _FAR_NS:
        return {}
    usual = _usual(frames)
    far = {name: rows for name, of in usual.items() if (rows := _far(of, usual)).any()}
    return {name: rows for name, rows in far.items() if rows.sum() <= max(_FEW, _SHARE * len(rows)) < len(rows) / 2}


def _usual(frames: Mapping[str, pd.DataFrame]) -> dict[str, _Times]:
    return {name: of.mostly() for name, frame in frames.items() if (of := _Times.of(frame)) is not None}


def _far(of: _Times, usual: Mapping[str, _Times]) -> Bools:
    """Return the rows that are days from most rows of every table."""
    far = np.ones(len(of.starts), np.bool_)
    for other in usual.values():
        far &= (of.starts < other.low - _FAR_NS) | (of.ends > other.high + _FAR_NS)
    return far


def _away(of: _Times, row: int) -> int:
    return max(of.low - int(of.starts[row]), int(of.ends[row]) - of.high)


def _name(frame: pd.DataFrame, row: int) -> str:
    column = next((name for name in ("name", "message", "counter", "component") if name in frame), None)
    return repr(str(frame[column].iloc[row])) if column else "one"
