"""The parts of a graph's iterations in a timeline, which no table takes: forward to backward, refresh, reductions.

Source: sources/RESULTS.md section 2.5.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns
from npuprof.sources.trace.columns import Trace

NAME = "iteration_parts"
"""What the frame is called among a run's statistics."""

_KINDS = {"FP_BP Time": "fp_bp", "Iteration Refresh": "refresh", "Reduce": "reduce"}
_PARTS = ("start_ns", "duration_ns", "name", "lane", "category")


def take_iteration_parts(trace: Trace, notes: Notes, source: str) -> dict[str, pd.DataFrame]:
    """Take the parts of iterations out of the slices of no known kind.

    Returns
    -------
    ``iteration_parts``, where there are any: kind (fp_bp, refresh or reduce), name, start_ns and duration_ns, in order
    of time.
    """
    plain = trace.slices["plain"]
    if not len(plain):
        return {}
    kinds = [_KINDS.get(str(category), "") for category in plain.books["category"].values]
    kind = np.array([*kinds, ""], object)[plain["category"]]  # code -1 takes the last entry
    chosen = kind != ""
    if not chosen.any():
        return {}
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(kind[chosen]),
            "name": tables.categorical(plain["name"][chosen], plain.names("name")).remove_unused_categories(),
            "start_ns": plain["start_ns"][chosen],
            "duration_ns": plain["duration_ns"][chosen],
        }
    )
    rest = Columns()
    rest.books = plain.books
    rest.add({name: plain[name][~chosen] for name in _PARTS})
    trace.slices["plain"] = rest
    parts = frame.sort_values("start_ns", kind="stable").drop_duplicates(ignore_index=True)
    notes.ledger.keep(source, STATISTICS, len(parts))
    leave_out_repeated(len(frame) - len(parts), notes, source)
    return {NAME: parts}


def leave_out_repeated(count: int, notes: Notes, source: str) -> None:
    """Leave out what was read more than once: the files of old results each repeat all iterations."""
    notes.leave_out(source, "an iteration or a part of it is told by several files", count, severity="info")
