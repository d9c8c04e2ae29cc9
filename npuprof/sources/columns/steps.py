"""Steps and waits: the step at a point in time, the step that launched device work, and the wait of each kernel.

The device runs behind the host, often into the next step: its work belongs to the step that launched it.

Source: raw/FORMAT.md section 9 (op_summary) for waits; in steps of 0.25 µs there, exact here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import missing
from npuprof.tables.notes import Notes


def waits(device: Int64, start: Int64, end: Int64, kernels: int) -> Int64:
    """Return the idle time of the device before each kernel: since the end of the latest activity that started earlier.

    Parameters
    ----------
    device, start, end
        Of kernels in order of time, followed by collectives. Activities with the same start are taken in this
        order, so that a kernel does not wait for the collective that starts with it.

    Returns
    -------
    The wait of each kernel; 0 for the first one of a device, and while an earlier activity still runs.
    """
    order = np.lexsort((start, device))
    gap = np.zeros(len(order), np.int64)
    is_same = device[order][1:] == device[order][:-1]
    gap[1:] = np.where(is_same, np.maximum(start[order][1:] - end[order][:-1], 0), 0)
    waited = np.empty(len(order), np.int64)
    waited[order] = gap
    return waited[:kernels]


Key = TypeVar("Key", bound=Hashable)

_STEP_NAME = re.compile(r"ProfilerStep#(\d{1,18})", re.ASCII)
_TOO_LARGE = re.compile(r"ProfilerStep#\d{19,}", re.ASCII)


def step_numbers(names: Iterable[tuple[Key, str | None]], notes: Notes, source: str) -> dict[Key, int]:
    """Return the step number in each name of a range that a framework puts around a step; other names are dropped."""
    numbers = {}
    for key, name in names:
        if match := _STEP_NAME.fullmatch(name or ""):
            numbers[key] = int(match[1])
        elif _TOO_LARGE.fullmatch(name or ""):
            notes.warning(source, "a step has a number that is too large; its range is shown, but not as a step")
    return numbers


def step_of(steps: pd.DataFrame | None, start_ns: Int64) -> Any:
    """Return the step at each time; <NA> outside all steps."""
    if steps is None or not len(steps):
        return missing(len(start_ns))
    starts = steps["start_ns"].to_numpy()
    ends = starts + steps["duration_ns"].to_numpy()
    row = np.searchsorted(starts, start_ns, side="right") - 1
    inside = (row >= 0) & (start_ns < ends[row])
    return steps["step"].array.take(np.where(inside, row, -1), allow_fill=True)


def assign_steps(tables: Mapping[str, pd.DataFrame], names: tuple[str, ...] = ("kernels",)) -> None:
    """Set the step in which each row of some tables was launched; <NA> outside all steps.

    Parameters
    ----------
    tables
        The run's tables: `steps`, and `api`, `operators` and `links` where the run has them. A launch that an operator
        is linked to happened when that operator was called; any other at the CANN call, or, where no launch is
        known, when the device began.
    """
    for name in names:
        frame = tables.get(name)
        if frame is not None and not frame.empty:
            frame["step"] = step_of(tables["steps"], launch_times(tables, frame))


def launch_times(tables: Mapping[str, pd.DataFrame], frame: pd.DataFrame) -> Int64:
    """Return the launch time of each row of a table, as in :func:`assign_steps`: UTC epoch nanoseconds."""
    times: Int64 = frame["start_ns"].to_numpy(dtype=np.int64).copy()
    api = tables.get("api")
    if api is None or api.empty:
        return times
    ids = api["connection_id"].to_numpy(dtype=np.int64, na_value=-1)
    wanted = frame["connection_id"].to_numpy(dtype=np.int64, na_value=-1)
    call = first_rows(ids, wanted)
    is_matched = (call >= 0) & (wanted >= 0)
    times[is_matched] = _call_times(tables, api)[call[is_matched]]
    return times


def _call_times(tables: Mapping[str, pd.DataFrame], api: pd.DataFrame) -> Int64:
    """Return the time at which each CANN call was requested: the call of its operator, if that is known."""
    times: Int64 = api["start_ns"].to_numpy(dtype=np.int64).copy()
    links, operators = tables.get("links"), tables.get("operators")
    if links is None or operators is None:
        return times
    caused = ((links["kind"] == "operator_api") & (links["target_table"] == "api")).to_numpy()
    starts = operators["start_ns"].to_numpy(dtype=np.int64)
    times[links["target_row"].to_numpy()[caused]] = starts[links["source_row"].to_numpy()[caused]]
    return times
