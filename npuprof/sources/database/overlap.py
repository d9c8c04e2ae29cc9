"""`overlap`: computed from kernels and collectives, or where the file has neither, its ``OVERLAP_ANALYSIS``.

Clean files of older versions have no such table, and a viewer adds one when it opens them; what is computed
is the same for both.

Source: formats/results.md section 5.6.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.database.connection import Database
from npuprof.sources.database.spans import in_order, span
from npuprof.sources.overlapping import overlap_table

_KINDS = ["computing", "communication", "communication_not_overlapped", "free"]  # numbered so in the file


def overlap_of(database: Database, found: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
    """Make `overlap` of each device, in order of time.

    The span of a device is that of the file's own table, which newer tools widen to all tasks, where it has one.
    """
    kernels, communication = (found.get(name, tables.empty(name)) for name in ("kernels", "communication"))
    if not len(kernels) and not len(communication):
        return _stored(database, "keep")
    return overlap_table(kernels, communication, _stored(database, "use"))


def _stored(database: Database, account: Literal["keep", "use"]) -> pd.DataFrame | None:
    columns = ["startNs", "endNs", "deviceId", "type"]
    rows = in_order(database, "OVERLAP_ANALYSIS", database.rows("OVERLAP_ANALYSIS", columns), "overlap")
    if account == "keep":
        database.accounts.keep("OVERLAP_ANALYSIS", "overlap", len(rows["type"]))
    else:
        database.accounts.use("OVERLAP_ANALYSIS", len(rows["type"]))  # the same, computed by the vendor
    if not len(rows["type"]):
        return None
    known = (rows["type"] >= 0) & (rows["type"] < len(_KINDS))
    kinds = recoded(np.where(known, rows["type"], -1).astype(np.int32), [*_KINDS])
    return tables.build("overlap", {**span(rows), "device_id": np.maximum(rows["deviceId"], 0), "kind": kinds})
