"""What a database lacks: tables, columns and rows that others refer to, or that every version has.

Source: sources/RESULTS.md sections 5.1, 5.2, 5.8 and 5.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from npuprof.arrays import Int64
from npuprof.sources.columns.builders import ABSENT, FIRST_MARK_CONNECTION, SENTINELS
from npuprof.sources.database.connection import Database
from npuprof.sources.database.format import OLDER_TABLES, STEP_TIMES, TABLES, VIEWER, declared
from npuprof.sources.database.reader import Reader, Rows
from npuprof.tables.info import Info
from npuprof.tables.notes import ANY
from npuprof.words.quantities import counted, share

NO_NUMBER = (ABSENT, -1, *SENTINELS)
"""Numbers that refer to nothing."""

_MAX_NAMED = 5
_MAX_NAME = 60
_MOST_GAPS = 10  # times as many numbers as rows: then the writer does not number rows one by one
_LEAST_FACTS = 3  # an excerpt, and databases of early 2024, have fewer
_NO_NAMES = (255, 65_534, 65_535)  # of enumerations: reserved, N/A and invalid
_INFO, _API = "COMPUTE_TASK_INFO", "PYTORCH_API"
_NAMED_BY_API = (  # a column of PYTORCH_API, the table whose ids it holds, and what is lost with a row of that
    ("connectionId", "CONNECTION_IDS", "links between operators, calls and tasks"),
    ("callchainId", "PYTORCH_CALLCHAINS", "stacks, and the lines of operators and kernels"),
)


def note_shape(reader: Reader) -> None:
    """Note views in place of tables, and missing or unknown columns."""
    unread = [name for name in reader.database.unread if declared(name) or name in OLDER_TABLES.values()]
    note_views(reader.database, unread)
    for name, known in reader.tables.items():
        if table := declared(name):
            missing, other_names = table.difference(known)
            if missing:
                _note_missing(reader.database, name, missing, other_names)
            elif other_names:
                message = f"{name}: {_listed(other_names)} is not known here and not read"
                reader.notes.info(reader.database.path.name, message)


def note_views(database: Database, names: Collection[str]) -> None:
    """Note views and virtual tables that are not read."""
    for name in names:
        database.notes.warning(
            database.path.name,
            f"{name[:_MAX_NAME]} is a view or a virtual table, which could run anything: it is not read, and what it "
            "would show is missing; copy its rows into a table of that name, or export the result again",
        )


def note_renamed(database: Database, table: str, wanted_names: Collection[str], optional: Collection[str] = ()) -> None:
    """Note the missing columns of a table with many versions, if it has unknown columns."""
    known = set(database.tables.get(table, ()))
    missing, other_names = set(wanted_names) - known, known.difference(wanted_names, optional)
    if missing and other_names:
        _note_missing(database, table, missing, other_names)


def _note_missing(database: Database, table: str, missing: set[str], other_names: set[str]) -> None:
    message = f"{table} lacks {_listed(missing)}: values are absent, or rows are left out"
    message += f"; perhaps they are in {_listed(other_names)}, which is not known here" if other_names else ""
    database.notes.warning(database.path.name, message)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(name[:_MAX_NAME] for name in sorted(names)[:_MAX_NAMED])
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{' ...' if len(names) > _MAX_NAMED else ''}"


def note_lacking(reader: Reader) -> None:
    """Warn of empty or missing tables that rows of other tables refer to."""
    for table in TABLES.values():
        for column in table.columns:
            other = column.refers_to
            if other and reader.has(table.name, column.name) and reader.is_empty(other):
                numbers = reader.numbers(table.name, column.name)
                none = (*NO_NUMBER, *_NO_NAMES) if other.startswith("ENUM_") else NO_NUMBER
                refers = ~np.isin(numbers, none) & (numbers < FIRST_MARK_CONNECTION)
                message = f"{other} is missing or empty, though a row of {table.name} refers to it: {column.lost}"
                reader.warn(message, int(np.count_nonzero(refers)))


def note_gaps(reader: Reader) -> None:
    """Warn of numbers that a table skips: rows were lost after they were numbered.

    SQLite numbers the rows of a table one by one as they are written; the vendor's tools number the tasks so.
    """
    tasks = reader.numbers("TASK", "globalTaskId")
    tasks = np.unique(tasks[tasks >= 0])
    gaps = {"TASK": int(tasks[-1] - tasks[0]) + 1 - len(tasks)} if len(tasks) else {}
    for name in sorted(reader.tables.keys() & TABLES):
        missing = gaps.get(name, 0) or reader.database.deleted_rows(reader.in_file(name))
        if 0 < missing <= _MOST_GAPS * max(reader.count(name), 1):
            table = TABLES[name]
            effect = f"{table.what} incomplete; export the result again"
            message = f"{name} lacks rows, by the numbers of others: {effect}"
            reader.warn(message, missing, table.fills if table.what != _UNTOLD else ANY)


_UNTOLD = "what is made of it is"


def note_lost_tables(reader: Reader, info: Info) -> None:
    """Warn of tables that the main database of a run lacks."""
    options = info.options
    activities, level = options.get("activities", ()), options.get("level")
    is_of_torch, on_device = info.collector == "torch_npu", "npu" in activities and level != "none"
    always = [table.name for table in TABLES.values() if table.due == "always"]
    if len(reader.tables.keys() & always) >= _LEAST_FACTS:
        known = ("RANK_DEVICE_MAP",) if info.rank is not None else ()
        _note_lost(reader, (name for name in always if name not in known), "though every version writes it")
    due = {
        "cpu": "cpu" in activities and is_of_torch,
        "npu": on_device,
        "memory": bool(options.get("memory")) and is_of_torch,
        "metrics": on_device and level in (1, 2) and options.get("aic_metrics") not in (None, "none"),
    }
    names = (table.name for table in TABLES.values() if due.get(table.due))
    _note_lost(reader, names, "though the options of the run call for it")
    usual = {table.name: table.usual for table in TABLES.values() if table.usual}
    has_torch = any(usual.get(name) == "torch" for name in reader.tables)
    _note_free_pages(reader, [name for name, of in usual.items() if of == "all" or has_torch])


def note_lost_sums(reader: Reader, *, communicates: bool) -> None:
    """Warn of tables that the database of sums over steps lacks, which are written together."""
    together = [table.name for table in TABLES.values() if table.statistic]
    if communicates or reader.tables.keys() & together:
        _note_lost(reader, together, "though the run has collectives")
    _note_lost(reader, [STEP_TIMES], "though it is always made")
    _note_free_pages(reader, [STEP_TIMES, *together])


def _note_lost(reader: Reader, names: Iterable[str], reason: str) -> None:
    for name in names:
        if not reader.count(name):
            reader.warn(f"{name} is missing or empty, {reason}: {TABLES[name].without}")


def _note_free_pages(reader: Reader, usual: Iterable[str]) -> None:
    """Warn of pages that are free: the vendor's tools never delete, so another one deleted rows or tables."""
    if pages := reader.database.free_pages():
        gone = [table for table in usual if table not in reader.tables]
        named = f"; of the tables that are usual it lacks {', '.join(gone)}" if gone else ""
        message = f"a page of the file is free, so rows or tables were deleted after it was written{named}"
        note = reader.notes.info if VIEWER & reader.tables.keys() else reader.notes.warning
        note(reader.database.path.name, f"{message}; export the result again", pages)


def note_lost_calls(reader: Reader, calls: Rows) -> None:
    """Warn of rows of ``PYTORCH_API`` and of what it refers to whose counterpart is missing, row by row.

    `calls` are the rows of the table, with `duration`. Without any row of the other table, :func:`note_lacking` warns.
    """
    for column, table, lost in _NAMED_BY_API:
        listed = reader.numbers(table, "id")
        if not len(listed):
            continue
        lacking = ~np.isin(calls[column], NO_NUMBER) & ~np.isin(calls[column], listed)
        if count := int(np.count_nonzero(lacking)):
            of = share(int(calls["duration"][lacking].sum()), int(calls["duration"].sum()))
            message = f"{table} lacks the row that a row of {_API} refers to ({of} of its time): {lost} are missing"
            reader.warn(message, count)
        if len(orphans := np.setdiff1d(listed, calls[column])):
            message = f"{_API} lacks the row that a number of {table} belongs to: {_missing(reader, table, orphans)}"
            message += f"; counts, sums and {lost} are incomplete"
            reader.warn(message, len(orphans), ("operators", "python"))
    _note_lone_connections(reader)
    _note_cut_chains(reader)


def _missing(reader: Reader, table: str, orphans: Int64) -> str:
    """Return how many operators are missing, and which shares of kernel and communication time they launched."""
    if table != "CONNECTION_IDS":
        return "operators and Python calls are missing"
    times = ("startNs", "endNs", "connectionId")
    ids = reader.rows(table)
    launched = ids["connectionId"][np.isin(ids["id"], orphans)]
    tasks = reader.rows("TASK", *times, "globalTaskId")
    kernels = np.isin(tasks["globalTaskId"], reader.numbers(_INFO, "globalTaskId"))
    parts = {"kernel": tasks.take(kernels), "communication": reader.rows("COMMUNICATION_OP", *times)}
    shares = []
    for name, rows in parts.items():
        duration = np.where((rows["startNs"] >= 0) & (rows["endNs"] >= 0), rows["endNs"] - rows["startNs"], 0)
        if whole := int(duration.sum()):
            part = int(duration[np.isin(rows["connectionId"], launched)].sum())
            shares.append(f"{share(part, whole)} of {name} time")
    of = f", to which {' and '.join(shares)} belong" if shares else ""
    lost, every = f"{len(orphans):,}", counted(len(np.unique(ids["id"])), "operator")
    return f"{lost} of {every} {'is' if len(orphans) == 1 else 'are'} missing{of}"


def _note_lone_connections(reader: Reader) -> None:
    """Warn of connections that lead nowhere: each is that of a call or task, or of two operators."""
    numbers = reader.numbers("CONNECTION_IDS", "connectionId")
    effects = ("CANN_API", "TASK", "COMMUNICATION_OP")
    known = np.concatenate([reader.numbers(table, "connectionId") for table in effects])
    if not len(known):
        return
    distinct, times = np.unique(numbers[~np.isin(numbers, NO_NUMBER)], return_counts=True)
    message = "CONNECTION_IDS has a connection with one end: a row of CONNECTION_IDS, CANN_API or TASK is missing"
    reader.warn(f"{message}, and links", int(np.count_nonzero((times == 1) & ~np.isin(distinct, known))))


def _note_cut_chains(reader: Reader) -> None:
    rows = reader.rows("PYTORCH_CALLCHAINS", "id", "stackDepth")
    ids, number = np.unique(rows["id"], return_inverse=True)
    deepest = np.zeros(len(ids), np.int64)
    np.maximum.at(deepest, number, rows["stackDepth"])
    message = "PYTORCH_CALLCHAINS lacks frames of a stack: stacks, and the lines of operators and kernels, are others"
    reader.warn(message, int(np.count_nonzero(deepest + 1 > np.bincount(number, minlength=len(ids)))))
