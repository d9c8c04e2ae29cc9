"""``torch.gc_record``: pauses of Python's garbage collector, as marks.

Source: collectors/FRONTENDS.md section 2; a record is the process, the begin and the end, of 8 bytes each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.notes import Notes
from npuprof.sources.columns.nullable import PYTHON_GC
from npuprof.sources.framework.files import read_rows
from npuprof.sources.framework.intervals import by_time, durations, reached, to_ns
from npuprof.sources.raw.metadata.clocks import Clock

_FILE = "torch.gc_record"
_LAYOUT = [("process", "<i8"), ("start", "<u8"), ("end", "<u8")]


def read_garbage(folder: Path, clock: Clock, notes: Notes) -> pd.DataFrame:
    """Read the pauses of a FRAMEWORK folder as rows of `marks`; none where there is no such file.

    The file does not tell the thread; on Linux the process has the number of its main thread, which stands for it.
    """
    records = read_rows(folder, _FILE, _LAYOUT, notes)
    stamps = [np.ascontiguousarray(records[name]) for name in ("start", "end")]
    good = reached(clock, stamps, notes, _FILE)
    start_ns, end_ns = (to_ns(clock, column[good]) for column in stamps)
    duration_ns = durations(start_ns, end_ns, notes, _FILE)
    order = by_time(start_ns, duration_ns)
    same = np.zeros(len(order), np.int8)
    notes.ledger.keep(_FILE, "marks", len(order))
    return tables.build(
        "marks",
        {
            "start_ns": start_ns[order],
            "duration_ns": duration_ns[order],
            "message": tables.categorical(same, ["GC"]),
            "domain": tables.categorical(same, [PYTHON_GC]),
            "thread_id": records["process"][good][order].astype(np.int64),
        },
    )
