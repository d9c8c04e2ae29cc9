"""The tables of a run as they would be after a change: what a replay moves, at the times that it has then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from npuprof.analysis import device_lanes
from npuprof.analysis.replay import Change, Replay
from npuprof.arrays import Int64

_HOST = ("python", "operators", "api", "marks")


def replayed_tables(tables: Mapping[str, pd.DataFrame], replay: Replay, change: Change) -> dict[str, pd.DataFrame]:
    """Return the tables of a run after a change.

    Host calls, markers, kernels, collectives, copies and events are moved by as much as the replay moves them, so that
    what a change leaves alone stays where it was recorded. Tables that the replay does not move are empty.
    """
    waits = len(replay.host.waits)
    moments, durations = replay.moments(change)
    before, recorded = replay.moments(Change())
    of_host = ((moments[:waits], change), (before[:waits], Change()))
    moved = {name: frame.iloc[:0] for name, frame in tables.items()}
    for number, name in enumerate(device_lanes.TABLES):
        of_table = replay.device.table == number
        rows = replay.device.row[of_table]
        shift, longer = (moments - before)[waits:][of_table], (durations - recorded)[of_table]
        order = np.argsort(rows, kind="stable")
        moved[name] = _moved(tables[name].iloc[rows[order]], shift[order], longer[order])
    for name in _HOST:
        moved[name] = _on_host(tables[name], tables[name]["thread_id"].to_numpy(np.int64), replay, of_host)
    if replay.host.main is not None:
        thread = np.full(len(tables["steps"]), replay.host.main, np.int64)
        moved["steps"] = _on_host(tables["steps"], thread, replay, of_host)
    ends = [tables["links"][f"{end}_table"].isin(("tasks", "communication")) for end in ("source", "target")]
    moved["links"] = tables["links"][~(ends[0] | ends[1]).to_numpy(bool)].reset_index(drop=True)
    return moved


def _on_host(
    frame: pd.DataFrame, thread: Int64, replay: Replay, of_host: Iterable[tuple[Int64, Change]]
) -> pd.DataFrame:
    """Return rows of host threads after a change; `of_host` has the ends of waits with it, and without."""
    start = frame["start_ns"].to_numpy(np.int64)
    end = start + frame["duration_ns"].to_numpy(np.int64)
    (begins, ends), (begun, ended) = (
        [replay.on_threads(waited, thread, moment, change) for moment in (start, end)] for waited, change in of_host
    )
    return _moved(frame, begins - begun, (ends - begins) - (ended - begun))


def _moved(frame: pd.DataFrame, shift: Int64, longer: Int64) -> pd.DataFrame:
    return frame.assign(
        start_ns=frame["start_ns"].to_numpy(np.int64) + shift,
        duration_ns=np.maximum(frame["duration_ns"].to_numpy(np.int64) + longer, 0),
    ).reset_index(drop=True)
