"""Read ``cluster_step_trace_time.csv``: the vendor's breakdown of each step, of every rank and every stage.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.cluster.ranks import as_text, rank_of, ranks_of
from npuprof.sources.columns.decimals import US_TO_NS
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.text.csv_table import CsvTable
from npuprof.sources.text.vendor_sums import DURATIONS

KINDS = ("rank", "stage")
PLACES = {"dp_index": "DP Index", "pp_index": "PP Index", "tp_index": "TP Index"}


def read_steps(path: Path, notes: Notes) -> pd.DataFrame:
    """Read the table ``step_times`` of a cluster.

    Its own columns are `kind` (``rank`` or ``stage``), `rank` (of a rank's row), `ranks` (of a stage's row, as
    ``0, 1, 2``) and, where the file has them, `dp_index`, `pp_index` and `tp_index`. A stage's row holds the longest
    times of its ranks: never add it to theirs.

    Raises
    ------
    SourceError
        As :class:`npuprof.sources.text.csv_table.CsvTable`, and if the file does not tell whose its rows are.
    """
    table = CsvTable(path, notes, ("Step", *PLACES.values()))  # a run may have no steps, a stage no place
    if not {"Type", "Index"} <= set(table.names):
        raise SourceError(f"{path} has no columns 'Type' and 'Index' of ranks and stages; is it another file?")
    table.expect(("Step", "Type", "Index", *DURATIONS.values(), *PLACES.values()))
    columns: dict[str, Any] = {"step": table.whole("Step")} if "Step" in table.names else {}
    for name, header in DURATIONS.items():
        if header in table.names:
            columns[name] = table.scaled(header, US_TO_NS)
    whose = whose_row(table.text("Type").to_pylist(), table.text("Index").to_pylist())
    columns |= whose
    for name, header in PLACES.items():
        if header in table.names:
            columns[name] = table.whole(header)
    known = np.isin(whose["kind"].astype(object), KINDS) & ~(whose["rank"].isna() & pd.isna(whose["ranks"]))
    table.warn("a row does not tell the rank or stage that it is of", int((~known).sum()))
    table.put("step_times")
    return tables.build("step_times", columns)


def whose_row(types: Sequence[Any], indexes: Sequence[Any]) -> dict[str, Any]:
    """Return the columns `kind`, `rank` and `ranks` of rows with these types and indexes."""
    kinds = [str(one).strip().lower() if one is not None else None for one in types]
    ranks = [rank_of(one) if kind == "rank" else None for kind, one in zip(kinds, indexes, strict=True)]
    stages = [as_text(ranks_of(one)) if kind != "rank" else None for kind, one in zip(kinds, indexes, strict=True)]
    return {
        "kind": recoded(np.arange(len(kinds)), kinds),
        "rank": pd.array(ranks, dtype="Int64"),
        "ranks": recoded(np.arange(len(stages)), stages),
    }
