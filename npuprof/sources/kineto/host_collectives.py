"""Collectives that the host runs, such as gloo's: rows of ``communication`` on the device :data:`HOST_DEVICE`.

torch's backends on the host put a range around each of their operations, from the call to the arrival of the last data
(``gloo:all_reduce``), on whichever thread ends it. Of other backends, the operators that begin one are known
(``c10d::allreduce_``).

Source: sources/RESULTS.md section 8.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.device_words import HOST_DEVICE
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.steps import step_of
from npuprof.sources.trace.collective_names import operation_in
from npuprof.tables import matching
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_RANGE = re.compile(r"(gloo|mpi|ucc):\w+")
_OPERATOR = re.compile(r"c10d::\w+")
_GROUP = "default"
_OPTIMIZER = re.compile(r"Optimizer\.step#\w+\.step")


def host_collectives(frames: Mapping[str, pd.DataFrame], notes: Notes, source: str) -> pd.DataFrame | None:
    """Return the collectives of the host in a trace without a device; None if there are none."""
    if len(frames.get("tasks", ())):
        return None
    for table, column, pattern in (("marks", "message", _RANGE), ("operators", "name", _OPERATOR)):
        frame = frames.get(table)
        if frame is None:
            continue
        rows = frame[matching(frame[column], partial(_matches, pattern))]
        named = rows[column].cat.remove_unused_categories()
        operations = [operation_in(str(name)) or None for name in named.cat.categories]
        built = tables.build(
            "communication",
            {
                "start_ns": rows["start_ns"].to_numpy(np.int64),
                "duration_ns": rows["duration_ns"].to_numpy(np.int64),
                "device_id": np.full(len(rows), HOST_DEVICE, np.int64),
                "name": named,
                "op_type": recoded(named.cat.codes.to_numpy(), operations),
                "group": pd.Categorical([_GROUP] * len(rows)),
                "step": step_of(frames.get("steps"), rows["start_ns"].to_numpy(np.int64)),
            },
        )
        built = built[built["op_type"].notna().to_numpy(bool)].reset_index(drop=True)
        if len(built):
            notes.ledger.make(source, "communication", len(built))
            message = "collectives are those that the host ran itself, on device -1: their times are host time"
            notes.info(source, message, len(built))
            return tables.sort_by_time(built)
    return None


def _matches(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.fullmatch(name) is not None


def name_group(decoded: Decoded, groups: Mapping[str, Sequence[int]]) -> None:
    """Name the group of the host's collectives; of several groups that differ in size, no trace says which it is."""
    frame = decoded.tables.get("communication")
    if frame is None or not groups or not (frame["device_id"] == HOST_DEVICE).all():
        return
    sizes = {len(ranks) for ranks in groups.values()}
    name = None if len(sizes) > 1 else min(groups)
    decoded.tables["communication"] = frame.assign(group=pd.Categorical([name] * len(frame), [name] if name else []))
    if name is None:
        decoded.notes.warning(
            decoded.info.name,
            f"the process has {counted(len(groups), 'group')} of different sizes, and the host's collectives do not "
            "say which is theirs: they are joined with those of no other rank",
            len(frame),
        )


def steps_of_optimizer(frames: Mapping[str, pd.DataFrame], notes: Notes, source: str) -> pd.DataFrame | None:
    """Return steps that last from one end of the optimizer's ``step()`` to the next; None without two of them."""
    marks = frames.get("marks")
    if marks is None or len(frames.get("steps", ())):
        return None
    rows = marks[matching(marks["message"], partial(_matches, _OPTIMIZER))]
    if not len(rows):
        return None
    first = rows[(rows["message"] == rows["message"].iloc[0]).to_numpy(bool)]
    ends = np.sort((first["start_ns"] + first["duration_ns"]).to_numpy(np.int64))
    if len(ends) < 2:
        return None
    notes.info(source, "the program marks no steps: a step lasts from one end of the optimizer's step() to the next")
    numbers = np.arange(1, len(ends))
    return tables.build("steps", {"step": numbers, "start_ns": ends[:-1], "duration_ns": np.diff(ends)})
