"""Connection IDs of several processes in one file: each process numbers its calls from the same number.

Source: sources/RESULTS.md section 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.builders import SENTINELS
from npuprof.sources.database.connection import Database

_ID_BITS = 33  # connection IDs have 32


@dataclass(frozen=True)
class DatabaseProcesses:
    """The processes whose connection IDs coincide, in order; none where all IDs are of one numbering."""

    ids: Int64

    def apart(self, connections: Records, processes: Records) -> Int64:
        """Return connection IDs that no two processes share: as recorded for the first process, or for all."""
        if not len(self.ids):
            return connections
        place = np.searchsorted(self.ids, processes)
        is_known = (connections >= 0) & ~np.isin(connections, SENTINELS) & np.isin(processes, self.ids)
        return np.where(is_known, connections + (place << _ID_BITS), connections)


def bare(connections: Int64) -> Int64:
    """Return connection IDs as they were recorded."""
    return np.where(connections >= 0, connections & ((1 << _ID_BITS) - 1), connections)


def read_processes(database: Database) -> DatabaseProcesses:
    """Return the processes of a file, if tasks or calls of two of them have the same connection ID."""
    bounds = database.bounds("TASK", "globalPid") or (), database.bounds("CANN_API", "globalTid") or ()
    if len({*bounds[0], *(number >> 32 for number in bounds[1])}) < 2:
        return DatabaseProcesses(np.empty(0, np.int64))
    tasks = database.rows("TASK", ["connectionId", "globalPid"])
    calls = database.rows("CANN_API", ["connectionId", "globalTid"])
    pids = np.concatenate((tasks["globalPid"], calls["globalTid"] >> 32))
    connections = np.concatenate((tasks["connectionId"], calls["connectionId"]))
    is_known = (pids >= 0) & (connections >= 0) & ~np.isin(connections, SENTINELS)
    ids = np.unique(pids[is_known])
    if len(ids) > 1:
        pairs = np.unique(np.stack((connections[is_known], pids[is_known])), axis=1)
        if (count := int(np.count_nonzero(np.diff(pairs[0]) == 0))) > 0:
            message = "a connection ID is of calls or tasks of several processes: it is another one for each"
            database.notes.info(database.path.name, message, count)
            return DatabaseProcesses(ids)
    return DatabaseProcesses(ids[:0])
