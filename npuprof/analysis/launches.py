"""Kernels joined with their CANN call, operator, and line of Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import LAYERS, Causes, causes, nearest
from npuprof.analysis.device_clocks import apart, on_host_clock
from npuprof.analysis.places import Places
from npuprof.analysis.step_windows import steps_of_kernels
from npuprof.arrays import Bools, Int64
from npuprof.tables.info import DeviceClock

_OF_KERNEL = ("device_id", "stream_id", "start_ns", "duration_ns", "name", "op_type")


def launches(tables: Mapping[str, pd.DataFrame], clocks: Collection[DeviceClock] = ()) -> pd.DataFrame:
    """Join each kernel with the operator and CANN call that launched it, and with the line of Python.

    Parameters
    ----------
    clocks
        Of :func:`npuprof.analysis.device_clocks.device_clocks`; devices without one have the clock of the host.

    Returns
    -------
    pandas.DataFrame
        A row per row of ``kernels``, in the same order:

        * ``device_id``, ``stream_id``, ``start_ns`` and ``duration_ns`` (as recorded), ``name`` and ``op_type`` of the
          kernel, and ``step``: the one in which it started, as :func:`npuprof.analysis.accounting.account` counts it;
        * ``operator`` and ``operator_row``: the innermost operator that launched the kernel, if recorded, and its
          row in ``operators``; ``outer_operator``: the outermost operator; ``op`` and ``op_row``: the innermost
          operator of the framework's library, such as ``aten::mul`` where ``operator`` is ``aclnnMuls``;
        * ``api``, ``api_row``, ``thread_id`` and ``launch_ns``: the CANN call, its thread and its start (of the
          launching operator, for a kernel without a call), and ``launch_delay_ns``: the time from then to the start of
          the kernel on the host's clock, absent where that is negative: the clocks of host and device are then further
          apart than the launch took;
        * ``file``, ``line``, ``function`` and ``module`` of the user's code that launched it, of a kernel of the
          backward pass those of its forward pass; ``entered``: whether the line is only the start of the function; and
          ``known``: how the line is known. See :class:`npuprof.analysis.places.Places`.
    """
    links, aligned, without = causes(tables), on_host_clock(tables, clocks), apart(clocks)
    operator, outer, named = _operators_of(tables, links)
    api = np.maximum(links.launchers - links.first_row["api"], -1)
    launch_ns, thread_id = (_host_rows(tables, links.launchers, name) for name in ("start_ns", "thread_id"))
    kernels = tables["kernels"][list(_OF_KERNEL)].reset_index(drop=True)
    return kernels.assign(
        step=steps_of_kernels(aligned, without),
        operator=_take(tables["operators"]["name"], operator),
        operator_row=_optional(operator, operator < 0),
        outer_operator=_take(tables["operators"]["name"], outer),
        op=_take(tables["operators"]["name"], named),
        op_row=_optional(named, named < 0),
        api=_take(tables["api"]["name"], api),
        api_row=_optional(api, api < 0),
        thread_id=thread_id,
        launch_ns=launch_ns,
        launch_delay_ns=_delays(aligned["kernels"], launch_ns, without),
        **{str(name): column.array for name, column in Places(tables, links).at(links.launchers).items()},
    )


def _delays(kernels: pd.DataFrame, launch_ns: Any, apart: Collection[int]) -> Any:
    """Return the time from the launch to the start of each kernel; absent where host and device cannot be joined.

    A kernel that seems to begin before its launch shows that their clocks do not agree there.
    """
    unknown = launch_ns.isna() | kernels["device_id"].isin(apart).to_numpy(bool)
    delays = kernels["start_ns"].to_numpy(np.int64) - launch_ns.to_numpy(np.int64, na_value=0)
    return _optional(delays, unknown | (delays < 0))


def framework_operators(tables: Mapping[str, pd.DataFrame], links: Causes) -> pd.Categorical:
    """Return the column ``op`` of :func:`launches`: the innermost framework operator of each kernel."""
    operators, innermost = _innermost_operators(tables, links)
    row = _framework_rows(tables, links, operators, innermost)
    return _take(tables["operators"]["name"], np.maximum(row - links.first_row["operators"], -1))


def _operators_of(tables: Mapping[str, pd.DataFrame], links: Causes) -> tuple[Int64, Int64, Int64]:
    """Return the rows of ``operators`` of each kernel: innermost, outermost, and innermost of the framework."""
    callers, first = links.callers, links.first_row["operators"]
    operators, operator = _innermost_operators(tables, links)
    outer = nearest(callers, operator, operators & (nearest(callers, callers, operators) < 0))
    named = _framework_rows(tables, links, operators, operator)
    return np.maximum(operator - first, -1), np.maximum(outer - first, -1), np.maximum(named - first, -1)


def _innermost_operators(tables: Mapping[str, pd.DataFrame], links: Causes) -> tuple[Bools, Int64]:
    """Return a mask of the host rows that are operators, and the host row of each kernel's innermost operator."""
    callers = links.callers
    operators = np.zeros(len(callers), bool)
    rows = slice(links.first_row["operators"], links.first_row["api"])
    kind = tables["operators"]["kind"]
    operators[rows] = ~kind.isin(["enqueue", "dequeue"]).to_numpy(bool)
    operator = nearest(callers, links.launchers, operators)
    # A sampled Python call may lie between an operator and its CANN call, while its own caller lies outside of the
    # operator. The operator around the call and the operator from the links are nested: the inner one began later.
    begin = np.append(_host_layer_rows(tables, "start_ns"), np.iinfo(np.int64).min)
    return operators, np.where(begin[operator] >= begin[links.operators], operator, links.operators)


def _framework_rows(tables: Mapping[str, pd.DataFrame], links: Causes, operators: Bools, innermost: Int64) -> Int64:
    """Return the host row of the innermost framework operator, or else of the innermost operator."""
    of_framework = np.zeros(len(links.callers), bool)
    rows = slice(links.first_row["operators"], links.first_row["api"])
    of_framework[rows] = schema.matching(tables["operators"]["name"], lambda name: "::" in name)
    named = nearest(links.callers, innermost, operators & of_framework)
    return np.where(named >= 0, named, innermost)


def _host_rows(tables: Mapping[str, pd.DataFrame], rows: Int64, column: str) -> Any:
    return _optional(np.append(_host_layer_rows(tables, column), 0)[rows], rows < 0)


def _host_layer_rows(tables: Mapping[str, pd.DataFrame], column: str) -> Int64:
    return np.concatenate([tables[name][column].to_numpy(np.int64) for name in LAYERS])


def _optional(values: Int64, absent: Bools) -> Any:
    return pd.arrays.IntegerArray(np.where(absent, 0, values), absent)


def _take(names: pd.Series[Any], rows: Int64) -> pd.Categorical:
    codes = np.append(names.cat.codes.to_numpy(), -1)[rows]
    return schema.categorical(codes, [str(name) for name in names.cat.categories])
