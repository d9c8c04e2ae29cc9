"""Kernels that are listed under the operator that launched them: ``operator/kernel``, where the task is ``kernel``.

Source: sources/RESULTS.md section 1.2.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
import pandas as pd

_OFF_NS = (0, -1, 1)  # each of the two files was rounded on its own


def take_task_names(kernels: pd.DataFrame, device_tasks: pd.DataFrame) -> pd.DataFrame:
    """Call each such kernel by the name of its device task; `op_name` stays as the file has it.

    Parameters
    ----------
    kernels, device_tasks
        Tables ``kernels`` and ``tasks`` of one run. The task of a kernel is one that starts at the same moment, within
        1 ns, and whose name the kernel's ends with, after a ``/``.
    """
    listed = [str(name) for name in kernels["name"].cat.categories]
    known = [str(name) for name in device_tasks["name"].cat.categories]
    of_tasks = set(known)
    strange = np.array([*("/" in name and name not in of_tasks for name in listed), False], np.bool_)
    if not strange.any():
        return kernels
    codes, own = kernels["name"].cat.codes.to_numpy(), device_tasks["name"].cat.codes.to_numpy()
    starting: defaultdict[int, list[int]] = defaultdict(list)
    for start_ns, code in zip(device_tasks["start_ns"].tolist(), own.tolist(), strict=True):
        if code >= 0:
            starting[start_ns].append(code)

    @cache
    def is_of(code: int, task_code: int) -> bool:
        return listed[code].endswith(f"/{known[task_code]}")

    names = kernels["name"].astype(object).to_numpy(copy=True)
    starts = kernels["start_ns"].to_numpy()
    for row in np.flatnonzero(strange[codes]).tolist():
        near = (code for off in _OFF_NS for code in starting.get(int(starts[row]) + off, ()))
        found = next((code for code in near if is_of(int(codes[row]), code)), None)
        if found is not None:
            names[row] = known[found]
    named: pd.DataFrame = kernels.assign(name=pd.Categorical(names))
    return named
