"""The work of a device as one table: its tasks, and kernels without a task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64
from npuprof.sources.columns.concatenation import stacked
from npuprof.timeline.layers import task_keys


def every_task(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return ``tasks``, followed by the kernels that have no task: a result without a timeline has only kernels."""
    kernels, tasks = tables["kernels"], tables["tasks"]
    alone = np.flatnonzero(~pd.Index(task_keys(kernels)).isin(task_keys(tasks)))
    if not len(alone):
        return tasks
    added = kernels.iloc[alone][[name for name in tasks.columns if name in kernels]]
    return stacked([frame for frame in (tasks, added) if len(frame)])


def task_of_kernels(kernels: pd.DataFrame, tasks: pd.DataFrame) -> Int64:
    """Return the row in :func:`every_task` of each kernel; of equal ones, each has its own as long as there are some.

    -1 is a kernel without one.
    """
    theirs, ours = (_numbered(task_keys(frame)) for frame in (tasks, kernels))
    return theirs.get_indexer(ours).astype(np.int64)


def _numbered(keys: npt.NDArray[np.uint64]) -> pd.MultiIndex:
    frame = pd.DataFrame({"key": keys})
    return pd.MultiIndex.from_arrays([frame["key"], frame.groupby("key").cumcount()])
