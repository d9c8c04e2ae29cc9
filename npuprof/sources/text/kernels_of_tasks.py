"""Kernels of a result without a table of them: the tasks of its timeline that compute.

A task of a core is no kernel if it carries out a collective, or is the parent of other tasks: the device's queue
(FFTS+) runs the steps of a collective, and the parts of a kernel on both kinds of cores, as tasks with a context below
one task without, whose time is theirs.

Source: sources/RESULTS.md sections 3 and 5.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import union, within
from npuprof.arrays import Bools, Int64
from npuprof.sources.overlap import COMMUNICATION_KERNELS
from npuprof.sources.raw.records import enums

_COMPUTE_TYPE = re.compile(
    r"(?:KERNEL_)?(?:AI_CORE|AI_CUBE|AICORE|AIC|AIV|AIVEC|AI_VECTOR_CORE|MIX_AI[CV]|AI_CPU|AICPU|DSA_SQE)",
    re.IGNORECASE,
)
_COMPUTE_TYPES = ("AI_CORE", "AI_CUBE", "AI_CPU", "AICORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV")
_NAME = re.compile(r"[^\W\d_]{3}")
_ALIKE = 0.8  # of two names, one of which has at most a damaged letter
_UNKNOWN_TYPE = "Other"  # written by older tools: a task that no operator describes, or a kernel
_TYPES = frozenset(
    name
    for names in (enums.TRACK_TASK_TYPES, enums.SQE_TYPES, enums.HWTS_TYPES, enums.V6_SQE_TYPES, enums.SUB_TASK_TYPES)
    for name in names.values()
)
_COLLECTIVE = "hcom_"  # begins the names of collectives
_TASK_KEY = ["device_id", "stream_id", "task_id"]
_BEFORE_NS = 10_000  # by which the task of a collective begins before it and ends after it, at most


def compute_kernels(frames: Mapping[str, pd.DataFrame], step: Any) -> dict[str, Any]:
    """Build the columns of ``kernels`` from the tasks that compute.

    A task computes if its type is a core type. Older tools write ``Other``: then it computes unless its name is a task
    type such as ``MEMCPY_ASYNC``. Kernels that carry out collectives, by their names, are kept, as in the vendor's
    tables: :func:`npuprof.sources.overlap.are_compute` tells them apart.
    """
    tasks = frames["tasks"]
    compute = tables.matching(tasks["task_type"], lambda name: _COMPUTE_TYPE.fullmatch(name) is not None)
    unknown = tables.matching(tasks["task_type"], lambda name: name == _UNKNOWN_TYPE)
    compute |= unknown & tables.matching(tasks["name"], _names_operator)
    communicate = tables.matching(tasks["name"], lambda name: name.endswith(COMMUNICATION_KERNELS))
    compute &= communicate | ~(are_of_collectives(frames) | are_parents(tasks))
    selected_rows = tasks[compute]
    columns: dict[str, Any] = {name: selected_rows[name].array for name in selected_rows.columns}
    columns["op_name"] = selected_rows["name"].array
    columns["step"] = step[compute]
    return columns


def unlisted_tasks(computing: pd.DataFrame, kernels: pd.DataFrame) -> Bools:
    """Return a mask of the tasks that compute and are none of the listed kernels.

    A listed kernel has the start and the stream of its task. One without a task may be any that it runs through: names
    and times of both files may differ.
    """
    listed, tasks = (
        pd.MultiIndex.from_frame(each[["device_id", "stream_id", "start_ns"]]) for each in (kernels, computing)
    )
    unlisted: Bools = ~tasks.isin(listed)
    apart = kernels[~listed.isin(tasks)]
    for device in apart["device_id"].unique().tolist():
        rows = np.flatnonzero(unlisted & (computing["device_id"] == device).to_numpy(bool))
        starts, lengths = (computing[name].to_numpy(np.int64)[rows] for name in ("start_ns", "duration_ns"))
        of_device = apart[(apart["device_id"] == device).to_numpy(bool)]
        begins = of_device["start_ns"].to_numpy(np.int64)
        covered = within(union(begins, begins + of_device["duration_ns"].to_numpy(np.int64)), starts, starts + lengths)
        unlisted[rows] = 2 * covered < np.maximum(lengths, 1)
    return unlisted


def are_parents(tasks: pd.DataFrame) -> Bools:
    """Return a mask of the tasks without a context whose stream runs tasks of that number with one, meanwhile."""
    below = tasks["context_id"].notna().to_numpy(bool)
    parents = np.zeros(len(tasks), np.bool_)
    if not below.any():
        return parents
    numbers = tasks.groupby(_TASK_KEY, dropna=False, sort=False).ngroup().to_numpy(np.int64)
    starts = tasks["start_ns"].to_numpy(np.int64)
    ends = starts + tasks["duration_ns"].to_numpy(np.int64)
    # A single axis for all numbers: times are replaced by their rank, so that no product can overflow.
    moments = np.unique(np.concatenate([starts, ends]))
    begun, ended = (numbers * len(moments) + np.searchsorted(moments, times) for times in (starts, ends))
    children = np.sort(begun[below])
    some = np.searchsorted(children, ended[~below]) > np.searchsorted(children, begun[~below])
    parents[~below] = some
    return parents


def are_of_collectives(frames: Mapping[str, pd.DataFrame]) -> Bools:
    """Return a mask of the tasks that carry out collectives.

    They are named like one, were launched by the call of one, are a task of one, or, if no operator names them, run for
    as long as one.
    """
    tasks = frames["tasks"]
    operators, steps = (frames.get(name, tables.empty(name)) for name in ("communication", "communication_tasks"))
    result = tables.matching(tasks["name"], lambda name: name.startswith(_COLLECTIVE))
    launches = operators["connection_id"].dropna()
    result |= tasks["connection_id"].isin(launches).to_numpy(bool)
    if set(_TASK_KEY) <= set(steps.columns):
        of_steps = pd.MultiIndex.from_frame(steps[_TASK_KEY].dropna().drop_duplicates())
        result |= pd.MultiIndex.from_frame(tasks[_TASK_KEY]).isin(of_steps)
    nameless = tables.matching(tasks["name"], lambda name: name in _TYPES or _COMPUTE_TYPE.fullmatch(name) is not None)
    rows = np.flatnonzero(nameless & ~result)
    result[rows] |= _run_as_long(tasks.iloc[rows], operators)
    return result


def _run_as_long(tasks: pd.DataFrame, operators: pd.DataFrame) -> Bools:
    """Return a mask of the tasks that begin and end with an operator of their device, or a little around it."""
    as_long = np.zeros(len(tasks), np.bool_)
    for device in np.unique(operators["device_id"].to_numpy(np.int64)).tolist():
        bounds = []
        for frame in (tasks, operators[(operators["device_id"] == device).to_numpy()]):
            starts: Int64 = frame["start_ns"].to_numpy(np.int64)
            bounds.append((starts, starts + frame["duration_ns"].to_numpy(np.int64)))
        (starts, ends), (begins, lasts) = bounds
        order = np.argsort(begins, kind="stable")
        at = np.minimum(np.searchsorted(begins[order], starts), len(order) - 1)
        begin, last = begins[order][at], lasts[order][at]
        around = (begin >= starts) & (begin - starts <= _BEFORE_NS) & (ends >= last) & (ends - last <= _BEFORE_NS)
        as_long |= around & (tasks["device_id"] == device).to_numpy()
    return as_long


def damaged_types(device_tasks: pd.DataFrame) -> Bools:
    """Return a mask of the tasks without a type where others have one, or with a damaged one.

    A damaged type resembles a core type, as one with a damaged letter does, or is no name at all.
    """
    types = device_tasks["task_type"]
    damaged = tables.matching(types, _is_damaged)
    damaged |= types.isna().to_numpy(bool) & bool(types.notna().any())
    return damaged


def _is_damaged(name: str) -> bool:
    is_known = _COMPUTE_TYPE.fullmatch(name) is not None or name in _TYPES
    is_named = _NAME.search(name) is not None
    return not is_known and (not is_named or bool(get_close_matches(name.upper(), _COMPUTE_TYPES, 1, _ALIKE)))


def _names_operator(name: str) -> bool:
    return _COMPUTE_TYPE.fullmatch(name) is not None or name not in (_UNKNOWN_TYPE, "N/A", *_TYPES)
