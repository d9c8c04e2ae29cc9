"""How long the transfers in a rank's collectives took: what moving their data takes at least, whoever came late."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64

_BY_LINK, _OPERATORS = "communication_bandwidth", "communication"
_KEYS = ["step", "kind", "name", "group"]
_MOVED_MS = "Transit Time(ms)"
_TRANSFERS = ("Memcpy", "Reduce_Inline", "RDMASend")


def moved_ns(tables: Mapping[str, pd.DataFrame], statistics: Mapping[str, pd.DataFrame]) -> Int64:
    """Return how long transfers took in each operator of a group, by start; 0 where that is not recorded.

    Several links transfer at the same time: the one that takes longest counts. Waiting is in none of them.

    Parameters
    ----------
    tables, statistics
        Those of the run: from ``communication_tasks``, or else from the vendor's ``communication_bandwidth``.
    """
    rows = tables["communication"]
    moved = _of_tasks(tables["communication_tasks"], len(rows))
    if not moved.any():
        moved = _of_links(rows, statistics)
    known = rows["group"].notna().to_numpy(bool)
    order = np.argsort(rows["start_ns"].to_numpy(np.int64)[known], kind="stable")
    return moved[known][order]


def _of_tasks(tasks: pd.DataFrame, count: int) -> Int64:
    """Return the time of the transfers of each operator, on the plane where that is longest."""
    longest = np.zeros(count, np.int64)
    chosen = tasks[(tasks["task_type"].isin(_TRANSFERS) & tasks["op_id"].notna()).to_numpy(bool)]
    sums = chosen.groupby(["op_id", "plane_id"], dropna=False, observed=True)["duration_ns"].sum()
    op = sums.index.get_level_values("op_id").to_numpy(np.int64)
    inside = (op >= 0) & (op < count)
    np.maximum.at(longest, op[inside], sums.to_numpy(np.int64)[inside])
    return longest


def _of_links(rows: pd.DataFrame, statistics: Mapping[str, pd.DataFrame]) -> Int64:
    """Return the time of the transfers of each operator by the vendor's sums, on the link where that is longest."""
    links, operators = statistics.get(_BY_LINK), statistics.get(_OPERATORS)
    if links is None or operators is None or not {*_KEYS, _MOVED_MS} <= set(links) or "start_ns" not in operators:
        return np.zeros(len(rows), np.int64)
    moved = pd.to_numeric(links[_MOVED_MS], errors="coerce").groupby([links[key] for key in _KEYS], observed=True).max()
    listed = operators.merge(moved.rename("moved_ms").reset_index(), on=_KEYS, how="left")
    of_row = pd.Series(listed["moved_ms"].to_numpy(np.float64), index=_numbered(listed)).reindex(_numbered(rows))
    return np.rint(of_row.fillna(0).to_numpy(np.float64) * 1e6).astype(np.int64)


def _numbered(rows: pd.DataFrame) -> pd.MultiIndex:
    """Return group, name and number, by start, of each operator: both files have them, their starts may differ."""
    keys = [rows[key].astype(str).to_numpy(object) for key in ("group", "name")]
    start = pd.Series(rows["start_ns"].to_numpy(np.int64, na_value=0))
    number = start.groupby(keys).rank(method="first").astype("int64")
    return pd.MultiIndex.from_arrays([*keys, number.to_numpy(np.int64)])
