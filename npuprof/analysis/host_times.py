"""Host times: operators of the framework, and Python functions where there are no operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.device_words import OF_DEVICE
from npuprof.analysis.intervals import total, union


@dataclass(frozen=True)
class HostTimes:
    """Host operators and functions. Tables that the run lacks are None or an empty frame.

    Attributes
    ----------
    alone
        Whether the run has host rows but no device rows.
    operators, python
        Numbers of framework operators and of Python calls.
    operators_ns
        Time in which at least one operator ran, on any thread.
    top_operators, top_python
        The operators and Python functions with the most time, including callees: ``name, count, total_ns``.
    """

    alone: bool
    operators: int | None
    python: int | None
    operators_ns: int | None
    top_operators: pd.DataFrame
    top_python: pd.DataFrame


def host_times(tables: Mapping[str, pd.DataFrame], top: int) -> HostTimes:
    """Sum the host tables, only for a run without a device: the report of other runs is about the device.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    top
        Maximum number of operators and functions to list.
    """
    operators, python = tables["operators"], tables["python"]
    alone = bool(len(operators) or len(python)) and not any(len(tables[name]) for name in OF_DEVICE)
    if not alone:
        operators, python = operators[:0], python[:0]
    calls = operators[(operators["kind"] == "op").to_numpy()]
    starts = calls["start_ns"].to_numpy(np.int64)
    ends = starts + calls["duration_ns"].to_numpy(np.int64)
    return HostTimes(
        alone=alone,
        operators=len(calls) or None,
        python=len(python) or None,
        operators_ns=total(union(starts, ends)) if len(calls) else None,
        top_operators=_top(calls, top),
        top_python=_top(python, top),
    )


def _top(frame: pd.DataFrame, top: int) -> pd.DataFrame:
    sums = frame.groupby("name", observed=True)["duration_ns"].agg(count="size", total_ns="sum").reset_index()
    order = np.argsort(-sums["total_ns"].to_numpy(np.int64), kind="stable")[:top]
    first: pd.DataFrame = sums.iloc[order].reset_index(drop=True)
    return first
