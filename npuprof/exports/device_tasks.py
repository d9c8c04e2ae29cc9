"""What a device did, as one table: its tasks, and the kernels of results that have no task for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.sources.columns.concatenation import stacked
from npuprof.timeline.layers import task_keys


def with_every_kernel(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables with kernels that have no task as additional rows of ``tasks``.

    A result without a timeline has kernels and no tasks.
    """
    kernels, tasks = tables["kernels"], tables["tasks"]
    alone = np.flatnonzero(~pd.Index(task_keys(kernels)).isin(task_keys(tasks)))
    if not len(alone):
        return dict(tables)
    added = kernels.iloc[alone][[name for name in tasks.columns if name in kernels]]
    return {**tables, "tasks": stacked([frame for frame in (tasks, added) if len(frame)])}
