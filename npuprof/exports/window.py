"""The tables of a window of time: what can be seen there, with its links."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64


def tables_within(tables: Mapping[str, pd.DataFrame], start_ns: int, end_ns: int) -> dict[str, pd.DataFrame]:
    """Return the rows that touch a window, each whole, and the links between two of them.

    Parameters
    ----------
    tables
        The tables of a run, or the merged ones of several.
    start_ns, end_ns
        The window, epoch nanoseconds.

    Returns
    -------
    dict
        All tables; those without times are as they were.
    """
    found = ((name, _rows(frame, start_ns, end_ns)) for name, frame in tables.items())
    rows = {name: some for name, some in found if some is not None}
    cut = dict(tables) | {name: tables[name].iloc[some].reset_index(drop=True) for name, some in rows.items()}
    links = tables["links"]
    kept = np.ones(len(links), bool)
    renumbered = {}
    for end in ("source", "target"):
        new = links[f"{end}_row"].to_numpy(np.int64).copy()
        of = links[f"{end}_table"].astype(str).to_numpy()
        for name, some in rows.items():
            mine = np.flatnonzero(of == name)
            places = np.full(len(tables[name]), -1, np.int64)
            places[some] = np.arange(len(some))
            new[mine] = places[new[mine]]
        kept &= new >= 0
        renumbered[f"{end}_row"] = new
    cut["links"] = links.assign(**renumbered)[kept].reset_index(drop=True)
    return cut


def _rows(frame: pd.DataFrame, start_ns: int, end_ns: int) -> Int64 | None:
    """Return the rows that touch a window; None for a table without times."""
    if "start_ns" in frame:
        start = frame["start_ns"].to_numpy(np.int64)
        return np.flatnonzero((start < end_ns) & (start + frame["duration_ns"].to_numpy(np.int64) >= start_ns))
    if "time_ns" in frame:
        time = frame["time_ns"].to_numpy(np.int64)
        return np.flatnonzero((time >= start_ns) & (time < end_ns))
    return None
