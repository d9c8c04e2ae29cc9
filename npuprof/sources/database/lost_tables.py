"""Warn of tables that a database lacks, though its writer makes them, the options call for them, or pages are free.

Source: sources/RESULTS.md sections 5.1 to 5.3 and 5.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npuprof.sources.database.analyzer import STEP_TIMES, TABLE_OF
from npuprof.sources.database.connection import Database
from npuprof.tables.info import Info

_FACTS = {
    "SESSION_TIME_INFO": "when the collection began and ended is unknown, so wall time is that of the rows",
    "NPU_INFO": "the chip is unknown",
    "HOST_INFO": "the host is unknown",
    "META_DATA": "the version of the database and environment variables are unknown",
    "RANK_DEVICE_MAP": "which device a rank has is unknown",
}  # which every version writes, and what is unknown without each
_LEAST_FACTS = 3  # an excerpt, and databases of early 2024, have fewer
_OF_MEMORY = {
    "MEMORY_RECORD": "samples of the allocator are missing",
    "OP_MEMORY": "blocks of operators are missing",
    "NPU_MEM": "the memory of the device and of its processes is missing",
    "NPU_MODULE_MEM": "the memory of modules is missing",
}
_OF_CPU = {"PYTORCH_API": "operators, steps and Python calls are missing", "CONNECTION_IDS": "links are missing"}
_OF_NPU = {"TASK": "tasks and kernels are missing", "CANN_API": "calls are missing"}
_USUAL = (
    *("TASK", "COMPUTE_TASK_INFO", "TASK_PMU_INFO", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "CANN_API"),
    *("NPU_MEM", "NPU_MODULE_MEM", "NPU_OP_MEM", "AICORE_FREQ", "HBM", "LLC", "ACC_PMU", "SOC_BANDWIDTH_LEVEL"),
)
_USUAL_OF_TORCH = ("PYTORCH_API", "CONNECTION_IDS", "PYTORCH_CALLCHAINS", "STEP_TIME", "MEMORY_RECORD", "OP_MEMORY")
_OF_VIEWER = frozenset({"connectionCats", "status_info"})  # which changes a database that it opens


def note_lost_tables(database: Database, info: Info) -> None:
    """Warn of tables that the main database of a run lacks."""
    if len(database.tables.keys() & _FACTS.keys()) >= _LEAST_FACTS:
        known = {"RANK_DEVICE_MAP"} if info.rank is not None else set()
        _note(database, {table: _FACTS[table] for table in _FACTS.keys() - known}, "though every version writes it")
    options = info.options
    activities, level = options.get("activities", ()), options.get("level")
    on_device = "npu" in activities and level != "none"
    due = {
        **(_OF_CPU if "cpu" in activities and info.collector == "torch_npu" else {}),
        **(_OF_NPU if on_device else {}),
        **(_OF_MEMORY if options.get("memory") and info.collector == "torch_npu" else {}),
    }
    if on_device and level in (1, 2) and options.get("aic_metrics") not in (None, "none"):
        due["TASK_PMU_INFO"] = "counters of kernels are missing"
    _note(database, due, "though the options of the run call for it")
    is_of_torch = bool(database.tables.keys() & {*_USUAL_OF_TORCH})
    _note_free_pages(database, [*_USUAL, *(_USUAL_OF_TORCH if is_of_torch else ())])


def note_lost_sums(database: Database, *, communicates: bool) -> None:
    """Warn of tables that the database of sums over steps lacks, which are written together."""
    together = dict.fromkeys(TABLE_OF.values(), "the vendor's sums over communication are missing")
    if communicates or database.tables.keys() & together.keys():
        _note(database, together, "though the run has collectives")
    _note(
        database, {STEP_TIMES: "the vendor's breakdown of steps in step_times is missing"}, "though it is always made"
    )
    _note_free_pages(database, [STEP_TIMES, *together])


def _note(database: Database, lost: Mapping[str, str], reason: str) -> None:
    for table, effect in lost.items():
        if not database.count(table):
            database.notes.warning(database.path.name, f"{table} is missing or empty, {reason}: {effect}")


def _note_free_pages(database: Database, usual: Iterable[str]) -> None:
    """Warn of pages that are free: the vendor's tools never delete, so another one deleted rows or tables."""
    if pages := database.free_pages():
        gone = [table for table in usual if table not in database.tables]
        named = f"; of the tables that are usual it lacks {', '.join(gone)}" if gone else ""
        message = f"a page of the file is free, so rows or tables were deleted after it was written{named}"
        by_viewer = bool(_OF_VIEWER & database.tables.keys())
        note = database.notes.info if by_viewer else database.notes.warning
        note(database.path.name, f"{message}; export the result again", pages)
