"""Figures of published databases, computed with SQL alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

_MOST_TEXT = 60  # characters of a text of META_DATA
_TEXT = "(select value from STRING_IDS where id = {})"
_LONGEST = "group by 1 order by 2 desc limit 5"
_KERNELS = "from COMPUTE_TASK_INFO as info join TASK as task using (globalTaskId)"
_LENGTH = "cast(endNs as integer) - cast(startNs as integer)"
_TORCH = "from PYTORCH_API as torch join CONNECTION_IDS as link on link.id = torch.connectionId"

_LISTS: Mapping[str, str] = {
    "cann_api_by_type": "select kind.name, count(*) from CANN_API as row "
    "join ENUM_API_TYPE as kind on kind.id = row.type group by 1 order by 1",
    "comm_ops": f"select {_TEXT.format('opName')}, startNs, endNs - startNs from COMMUNICATION_OP order by startNs",
    "mem_peak_bytes": f"select {_TEXT.format('component')}, max(totalReserved), max(totalAllocated), count(*) "
    "from MEMORY_RECORD group by 1 order by 1",
    "module_mem_top": "select kind.name, max(totalReserved) as peak from NPU_MODULE_MEM as row "
    "join ENUM_MODULE as kind on kind.id = row.moduleId group by 1 having peak > 0 order by 2 desc",
    "pytorch_api_by_type": "select kind.name, count(*) from PYTORCH_API as row "
    "join ENUM_API_TYPE as kind on kind.id = row.type group by 1 order by 1",
    "pytorch_startNs_storage": "select typeof(startNs), count(*) from PYTORCH_API group by 1 order by 1",
    "step_time": "select id, startNs, endNs from STEP_TIME order by id",
    "task_types": f"select {_TEXT.format('taskType')}, count(*), sum({_LENGTH}) from TASK group by taskType "
    "order by 2 desc, taskType limit 12",
    "top5_cann_api_ns": f"select {_TEXT.format('name')}, sum({_LENGTH}), count(*) from CANN_API {_LONGEST}",
    "top5_kernels_ns": f"select {_TEXT.format('info.name')}, sum({_LENGTH}), count(*) {_KERNELS} {_LONGEST}",
    "top5_torch_op_ns": f"select {_TEXT.format('row.name')}, sum({_LENGTH}), count(*) from PYTORCH_API as row "
    f"join ENUM_API_TYPE as kind on kind.id = row.type where kind.name = 'op' {_LONGEST}",
    "top5_types_ns": f"select {_TEXT.format('info.opType')}, sum({_LENGTH}), count(*) {_KERNELS} {_LONGEST}",
}
_COLUMNS: Mapping[str, str] = {
    "pmu_metrics": f"select distinct {_TEXT.format('name')} from TASK_PMU_INFO order by 1",
    "streams": "select distinct streamId from TASK order by 1",
}
_ROWS: Mapping[str, str] = {
    "op_memory": "select count(*), sum(size), sum(releaseTime is null) from OP_MEMORY",
    "task_span_ns": "select min(startNs), max(endNs) from TASK",
}
_NUMBERS: Mapping[str, str] = {
    "kernel_rows_joined": f"select count(*) {_KERNELS}",
    "kernel_sum_ns": f"select sum({_LENGTH}) {_KERNELS}",
    "torch_to_cann_links": f"select count(*) {_TORCH} join CANN_API as cann on cann.connectionId = link.connectionId",
    "torch_to_task_links": f"select count(*) {_TORCH} join TASK as task on task.connectionId = link.connectionId",
}


def analysis(path: Path) -> dict[str, Any]:
    """Return the figures of an ``analysis.db``."""
    with closing(_opened(path)) as database:
        figures = _of_any(database)
        if "StepTraceTime" in figures["tables"]:
            cursor = database.execute("select * from StepTraceTime")
            names = [column[0] for column in cursor.description]
            figures["StepTraceTime"] = [dict(zip(names, row, strict=True)) for row in cursor]
        if "CommAnalyzerTime" in figures["tables"]:
            figures["CommAnalyzerTime"] = _lists(
                database,
                "select type, count(*), sum(elapse_time), sum(transit_time), sum(wait_time) from CommAnalyzerTime "
                "group by 1 order by 1",
            )
        return figures


def profile(path: Path) -> dict[str, Any]:
    """Return the figures of an ``ascend_pytorch_profiler_*.db``, as far as it has the tables for them."""
    with closing(_opened(path)) as database:
        figures = _of_any(database)
        for queries, shape in ((_LISTS, list), (_COLUMNS, _first_of_each), (_ROWS, _only), (_NUMBERS, _number)):
            for name, query in queries.items():
                try:
                    figures[name] = shape(_lists(database, query))
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):
                        raise
        rows = database.execute("select name, value from META_DATA")
        figures["META_DATA"] = {name: _short(value) for name, value in rows}
        ids, depth = database.execute("select count(distinct id), max(stackDepth) from PYTORCH_CALLCHAINS").fetchone()
        figures["callchain"] = {"ids": ids, "max_depth": depth}
        return figures


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _lists(database: sqlite3.Connection, query: str) -> list[list[Any]]:
    return [list(row) for row in database.execute(query)]


def _first_of_each(rows: list[list[Any]]) -> list[Any]:
    return [row[0] for row in rows]


def _only(rows: list[list[Any]]) -> list[Any]:
    (row,) = rows
    return row


def _number(rows: list[list[Any]]) -> Any:
    return _only(rows)[0]


def _of_any(database: sqlite3.Connection) -> dict[str, Any]:
    names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table' order by 1")]
    tables = {name: database.execute(f'select count(*) from "{name}"').fetchone()[0] for name in names}
    return {"tables": tables, "user_version": database.execute("pragma user_version").fetchone()[0]}


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
