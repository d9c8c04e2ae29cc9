"""Build ``links`` of a trace of torch's profiler.

An operator and its calls of the GPU runtime share an external ID; a call and the task that it launched share a
correlation ID; flows connect forward and backward operators.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.trace import links as trace_links
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.maker import TraceTables
from npuprof.tables.notes import Notes

_NAMES = ("kind", "source_table", "target_table")


def build_links(trace: Trace, built: TraceTables, notes: Notes, source: str) -> pd.DataFrame:
    """Build ``links`` between the rows of `built`."""
    frames = built.tables
    parts = [
        trace_links.build_links(trace, built, notes, source) if len(trace.flows) else tables.empty("links"),
        _join(frames, "operator_api", "operators", "api", "external_id"),
        _join(frames, "api_task", "api", "tasks", "connection_id"),
    ]
    full = [part for part in parts if len(part)]
    if not full:
        return tables.empty("links")
    links = pd.concat([part.astype(dict.fromkeys(_NAMES, object)) for part in full], ignore_index=True)
    return tables.build("links", {name: links[name].array for name in links.columns})


def _join(frames: dict[str, pd.DataFrame], kind: str, source: str, target: str, key: str) -> pd.DataFrame:
    """Link each target row to the source row with the same key."""
    if source not in frames or target not in frames:
        return tables.empty("links")
    causes, effects = _keys(frames[source], key), _keys(frames[target], key)
    cause = first_rows(causes, effects)
    rows = np.flatnonzero(cause >= 0)
    same = np.zeros(len(rows), np.int8)
    return tables.build(
        "links",
        {
            "kind": tables.categorical(same, [kind]),
            "source_table": tables.categorical(same, [source]),
            "source_row": cause[rows],
            "target_table": tables.categorical(same, [target]),
            "target_row": rows,
        },
    )


def _keys(frame: pd.DataFrame, key: str) -> Int64:
    return frame[key].to_numpy(dtype=np.int64, na_value=ABSENT)
