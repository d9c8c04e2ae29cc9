"""Two runs side by side: their key figures, and the kernels whose time in all changed the most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.summary import Summary


def key_figures(before: Summary, after: Summary) -> pd.DataFrame:
    """Compare the times of two runs.

    Returns
    -------
    Frame
        ``figure``, ``before_ns``, ``after_ns``, ``difference_ns``: absent where a run does not tell. Devices are
        added up.
    """
    rows: list[tuple[str, int | None, int | None]] = [
        ("wall time", before.wall_ns, after.wall_ns),
        *(
            (name, _sum(before, attribute), _sum(after, attribute))
            for name, attribute in (
                ("device busy", "busy_ns"),
                ("computing", "computing_ns"),
                ("communication alone", "communication_ns"),
                ("device idle", "idle_ns"),
            )
        ),
    ]
    frame = pd.DataFrame(rows, columns=["figure", "before_ns", "after_ns"])
    frame = frame.astype({"before_ns": "Int64", "after_ns": "Int64"})
    frame["difference_ns"] = frame["after_ns"] - frame["before_ns"]
    compared: pd.DataFrame = frame
    return compared


def kernels(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compare two tables of kernels by name, the greatest change first.

    Returns
    -------
    Frame
        ``name``, ``before_count``, ``after_count``, ``before_ns``, ``after_ns``, ``difference_ns``; 0 where a run has
        no kernel of the name.
    """
    parts = []
    for label, frame in (("before", before), ("after", after)):
        named = frame["name"].astype("object").fillna("")
        groups = frame["duration_ns"].groupby(named)
        sums: dict[str, Any] = {f"{label}_count": "size", f"{label}_ns": "sum"}
        parts.append(groups.agg(**sums))
    joined = parts[0].join(parts[1], how="outer").fillna(0).astype("int64")
    joined["difference_ns"] = joined["after_ns"] - joined["before_ns"]
    joined = joined.rename_axis("name").reset_index()
    joined = joined.iloc[np.argsort(-joined["difference_ns"].abs().to_numpy(), kind="stable")]
    ordered: pd.DataFrame = joined[
        ["name", "before_count", "after_count", "before_ns", "after_ns", "difference_ns"]
    ].reset_index(drop=True)
    return ordered


def _sum(summary: Summary, attribute: str) -> int | None:
    values = [int(getattr(device, attribute)) for device in summary.devices]
    return sum(values) if values else None
