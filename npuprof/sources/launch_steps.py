"""The step of what ran on a device, by the moment at which the host launched it.

The device runs behind the host, often into the next step: what it does belongs to the step that asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.sources.trace_tables import step_of

Int64 = npt.NDArray[np.int64]


def assign_steps(tables: Mapping[str, pd.DataFrame], names: tuple[str, ...] = ("kernels",)) -> None:
    """Give each row of some tables the step of `steps` in which it was launched; <NA> outside all steps.

    Parameters
    ----------
    tables
        The run's tables: `steps`, and `api`, `operators` and `links` where the run has them. A launch that an operator
        is linked to happened when that operator was called; any other at the CANN call, or, where no launch is
        known, when the device began.
    names
        The tables to change, which have the columns ``step`` and ``connection_id``.
    """
    for name in names:
        frame = tables.get(name)
        if frame is not None and not frame.empty:
            frame["step"] = step_of(tables["steps"], launch_times(tables, frame))


def launch_times(tables: Mapping[str, pd.DataFrame], frame: pd.DataFrame) -> Int64:
    """Give when each row of a table was launched, as :func:`assign_steps` takes it: UTC epoch nanoseconds."""
    times: Int64 = frame["start_ns"].to_numpy(dtype=np.int64).copy()
    api = tables.get("api")
    if api is None or api.empty:
        return times
    ids = api["connection_id"].to_numpy(dtype=np.int64, na_value=-1)
    distinct, first = np.unique(ids, return_index=True)
    wanted = frame["connection_id"].to_numpy(dtype=np.int64, na_value=-1)
    place = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    found = (distinct[place] == wanted) & (wanted >= 0)
    times[found] = _call_times(tables, api)[first[place[found]]]
    return times


def _call_times(tables: Mapping[str, pd.DataFrame], api: pd.DataFrame) -> Int64:
    """Give when each CANN call was asked for: when its operator was called, where one is known."""
    times: Int64 = api["start_ns"].to_numpy(dtype=np.int64).copy()
    links, operators = tables.get("links"), tables.get("operators")
    if links is None or operators is None:
        return times
    caused = ((links["kind"] == "operator_api") & (links["target_table"] == "api")).to_numpy()
    starts = operators["start_ns"].to_numpy(dtype=np.int64)
    times[links["target_row"].to_numpy()[caused]] = starts[links["source_row"].to_numpy()[caused]]
    return times
