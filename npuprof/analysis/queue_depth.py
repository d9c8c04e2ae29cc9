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
    groups, moments = np.concatenate([group, group]), np.concatenate([begun, start])
    order = np.argsort(moments, kind="stable")
    order = order[np.argsort(groups[order], kind="stable")] if group.any() else order
    groups, moments = groups[order], moments[order]
    # Each kernel adds one and takes one away, so that the depth is 0 at the end of each device.
    depth = np.cumsum(np.where(order < len(known_rows), 1, -1))
    lasting = np.append((moments[1:] != moments[:-1]) | (groups[1:] != groups[:-1]), True)[: len(moments)]
    first = np.unique(group, return_index=True)[1]
    owners = whose.iloc[first[groups[lasting]]].reset_index(drop=True)
    return owners.assign(time_ns=moments[lasting], depth=depth[lasting])
