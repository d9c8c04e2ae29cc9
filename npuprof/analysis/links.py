"""The bandwidth of links between ranks, compared with links of the same kind."""

from __future__ import annotations

import numpy as np
import pandas as pd

SLOW = 0.7
"""A link below this share of the usual bandwidth is slow."""

LEAST_LINKS = 3
"""Fewer links do not show what bandwidth is usual."""
SMALLEST = 1 << 16
"""Bytes: the time of smaller transfers has other causes."""

_COLUMNS = ["src_rank", "dst_rank", "transport", "op_type", "size_bytes", "duration_ns", "gb_per_s"]


def links(transfers: pd.DataFrame) -> pd.DataFrame:
    """Compare each link with the links of the same transport and operator, and of a size within a factor of two.

    Returns
    -------
    pandas.DataFrame
        ``src_rank``, ``dst_rank``, ``transport``, ``op_type``, ``size_bytes`` and ``duration_ns`` (of all transfers),
        ``gb_per_s``, ``peers`` (number of links compared, including the link itself), ``usual_gb_per_s`` (their median,
        absent for fewer than 3), ``ratio`` (to the median), and ``slow`` (below 0.7); slowest first. Copies within a
        rank are left out.
    """
    between = (transfers["src_rank"] != transfers["dst_rank"]) & (transfers["duration_ns"] > 0)
    rows = transfers[between.to_numpy(bool)]
    keys = ["src_rank", "dst_rank", "transport", "op_type"]
    sums = rows.groupby(keys, sort=True)[["size_bytes", "duration_ns"]].sum().reset_index()
    speed = sums["size_bytes"] / sums["duration_ns"]
    sums = sums.assign(gb_per_s=speed)[_COLUMNS]
    peers, usual = beside_peers(sums, ["transport", "op_type"], sums["gb_per_s"])
    usual = usual.where(peers >= LEAST_LINKS)
    ratio = sums["gb_per_s"] / usual
    compared = sums.assign(peers=peers.astype("int64"), usual_gb_per_s=usual, ratio=ratio, slow=ratio < SLOW)
    return compared.sort_values(["ratio", "duration_ns"], ascending=[True, False], ignore_index=True)


def beside_peers(
    sums: pd.DataFrame, kind: list[str], rate: pd.Series[float]
) -> tuple[pd.Series[int], pd.Series[float]]:
    """Return for each row the number of rows it is compared with, including itself, and the median of their rates."""
    bucket = np.log2(np.maximum(sums["size_bytes"].to_numpy(np.float64), 1)).astype(np.int64)
    alike = sums[kind].assign(bucket=bucket, rate=rate)
    rates = alike.groupby([*kind, "bucket"], observed=True, dropna=False)["rate"]
    return rates.transform("size"), rates.transform("median")
