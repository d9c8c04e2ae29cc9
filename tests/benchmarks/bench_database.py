"""A database of about a million rows to tables, beside ``pandas.read_sql`` of the same tables without any join.

By hand: ``python -m tests.benchmarks.bench_database [profiler.db] [--rows 1000000] [--runs 3]``

Without a file it takes the level 1 sample that no viewer has opened (the folder that ``NPUPROF_SAMPLES`` names).
Its rows are repeated with fresh ids, moved in time, in a temporary directory. Every reading is a process of its own,
the readers in turns; of several readings the fastest counts, and its peak memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from tests import samples
from tests.benchmarks.apart import compare, measured

_SAMPLE = "torch_npu/db/level1/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_1.db"
_GAP_NS = 300_000_000
_IDS = 100_000  # numbers of connections, tasks and chains of one round stay below it
_MOVED = {"startNs", "endNs", "timestamp", "timestampNs", "allocationTime", "releaseTime"}
_NUMBERED = {"connectionId", "globalTaskId", "callchainId", "opId"}
_REPEATED = {
    "TASK": (),
    "COMPUTE_TASK_INFO": (),
    "COMMUNICATION_OP": (),
    "COMMUNICATION_TASK_INFO": (),
    "TASK_PMU_INFO": (),
    "CANN_API": (),
    "PYTORCH_API": (),
    "CONNECTION_IDS": ("id",),
    "PYTORCH_CALLCHAINS": ("id",),
    "MEMORY_RECORD": (),
    "OP_MEMORY": (),
    "HBM": (),
    "ACC_PMU": (),
    "NPU_MEM": (),
}
"""Tables that grow with a run, and their own columns of numbers."""


def write_big(source: Path, target: Path, rows: int) -> int:
    """Write the repeated database; give the number of rows of the tables that grew."""
    shutil.copy(source, target)
    target.chmod(0o600)
    with closing(sqlite3.connect(target)) as connection:
        count = sum(_count(connection, table) for table in _REPEATED)
        rounds = max(1, rows // count)
        for table, own in _REPEATED.items():
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            connection.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {table}")
            for number in range(1, rounds):
                moved = ", ".join(_expression(column, own, number) for column in columns)
                connection.execute(f"INSERT INTO {table} SELECT {moved} FROM one")
            connection.execute("DROP TABLE one")
        connection.commit()
        return sum(_count(connection, table) for table in _REPEATED)


def _count(connection: sqlite3.Connection, table: str) -> int:
    ((count,),) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    return int(count)


def _expression(column: str, own: tuple[str, ...], number: int) -> str:
    if column in _MOVED:
        return f"{column} + {number * _GAP_NS}"  # a column declared as TEXT keeps it as text
    return f"{column} + {number * _IDS}" if column in _NUMBERED or column in own else column


def read_tables(path: Path) -> int:
    """Read the tables with all their joins; give the number of their rows."""
    from npuprof.sources import database

    return sum(map(len, database.read(path).tables.values()))


def read_frames(path: Path) -> int:
    """Read each table of the file into a frame as it is; give the number of their rows."""
    import pandas as pd

    with closing(sqlite3.connect(path)) as connection:
        return sum(len(pd.read_sql(f"SELECT * FROM {table}", connection)) for table in (*_REPEATED, "STRING_IDS"))


_READERS = {"npuprof": read_tables, "sqlite3+pandas": read_frames}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", choices=_READERS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(measured(lambda: _READERS[options.read](options.path))))
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        big = Path(folder) / "ascend_pytorch_profiler.db"
        count = write_big(options.path or samples.FOLDER / _SAMPLE, big, options.rows)
        print(f"{count:,} rows, {big.stat().st_size / 1e6:.0f} MB; fastest of {options.runs}")
        compare("tests.benchmarks.bench_database", list(_READERS), big, options.runs)


if __name__ == "__main__":
    main()
