"""``TASK_PMU_INFO``: the AI Core's counters, a row a kernel and metric, turned into columns of `kernels`.

Source: sources/RESULTS.md sections 3 and 5.1.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.sources.columns.nullable import whole
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import first_of
from npuprof.sources.database.names import Names
from npuprof.sources.text.kernel_details import column_name

_TABLE = "TASK_PMU_INFO"
_MAX_METRICS = 500
_ELSEWHERE = re.compile(r"aic_vec_.*|aiv_(mac|mte1|fixpipe)_.*")
"""Metrics of units that only the other kind of core has; they are written as 0."""


def read_pmu(database: Database, strings: Names, kernels: Int64) -> dict[str, Any]:
    """Read the counters of kernels.

    Parameters
    ----------
    kernels
        ``globalTaskId`` of each kernel.

    Returns
    -------
    A column a metric, named as the text result names it: times in whole ns, cycles as whole numbers, the rest as
    floats; absent for a kernel that was not measured.
    """
    rows = database.rows(_TABLE, ["globalTaskId", "name"], ["value"])
    kernel = first_of(kernels, rows["globalTaskId"])
    database.accounts.use(_TABLE, int((kernel >= 0).sum()))
    database.accounts.leave_out(
        _TABLE, "a counter belongs to no kernel", int((kernel < 0).sum()), affects="the counters of kernels"
    )
    codes, used = pd.factorize(rows["name"])
    if len(used) > _MAX_METRICS:
        database.notes.warning(database.path.name, f"{_TABLE}: only the first {_MAX_METRICS} metrics are read")
    chosen = (kernel >= 0) & (codes < _MAX_METRICS)
    values = np.full((min(len(used), _MAX_METRICS), len(kernels)), np.nan)
    values[codes[chosen], kernel[chosen]] = rows["value"][chosen]
    columns: dict[str, Any] = {}
    for number, metric in zip(used.tolist(), values, strict=False):
        name = strings.text(number)
        if name and not (_ELSEWHERE.fullmatch(name) and not np.nan_to_num(metric).any()):
            columns |= _column(name, metric)
    return columns


def _column(name: str, values: Any) -> dict[str, Any]:
    stem, _ = column_name(name)
    if stem.endswith("_time"):
        return {f"{stem}_ns": whole(values)}
    return {stem: whole(values) if stem.endswith("_cycles") else values}
