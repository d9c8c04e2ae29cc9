"""The number of launched kernels that the device has not started, over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import launch_moments
from npuprof.tables import owner


def queue_depth(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the number of launched kernels that have not started, at each time at which it changes.

    A kernel counts from the start of the host call that the links name, or from its own start if that is earlier, until
    it starts. Kernels without a link are not counted.

    Parameters
    ----------
    tables
        Every table of the schema by name; ``kernels``, ``tasks``, ``api``, ``operators`` and ``links`` are read.

    Returns
    -------
    pandas.DataFrame
        ``rank``, or ``run`` where a rank is unknown, if the tables are of several runs; ``device_id``, ``time_ns`` and
        ``depth``, which holds until the next row; ordered by device and time.
    """
    kernels = tables["kernels"]
    launched = launch_moments(tables)
    known_rows = np.flatnonzero(launched.notna().to_numpy())
    start = kernels["start_ns"].to_numpy(np.int64)[known_rows]
    begun = np.minimum(launched.to_numpy(np.int64, na_value=0)[known_rows], start)
    keys = [*owner(kernels), "device_id"]
    whose = kernels[keys].iloc[known_rows].reset_index(drop=True)
    group = whose.groupby(keys, dropna=False).ngroup().to_numpy(np.int64)
    events: pd.DataFrame = pd.DataFrame(
        {
            "group": np.concatenate([group, group]),
            "time_ns": np.concatenate([begun, start]),
            "change": np.repeat(np.array([1, -1], np.int64), len(known_rows)),
        }
    )
    changes = events.groupby(["group", "time_ns"], sort=True)["change"].sum().reset_index()
    depth = changes.groupby("group")["change"].cumsum()
    first = np.unique(group, return_index=True)[1]
    owners = whose.iloc[first[changes["group"].to_numpy(np.int64)]].reset_index(drop=True)
    frame: pd.DataFrame = owners.assign(time_ns=changes["time_ns"], depth=depth)
    return frame
