"""The tables that are read from a database, their columns, and what ``report_*.db`` of early 2024 calls both.

Source: sources/RESULTS.md sections 5.1 to 5.3 and 5.7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from npuprof.sources.database import analyzer, counters
from npuprof.tables.schema import SCHEMA

_TASK_COLUMNS = frozenset(column.name for column in SCHEMA["tasks"].columns)
DESCRIBED = {name: names for name, names in SCHEMA["kernels"].names_in("db").items() if name not in _TASK_COLUMNS}
"""The columns of kernels that ``COMPUTE_TASK_INFO`` has, and their names there."""

_ALWAYS = (
    *("op_name", "op_type", "core", "block_num", "mix_block_num"),
    *(f"{side}_{what}" for side in ("input", "output") for what in ("shapes", "dtypes", "formats")),
)
"""Those that every version has."""

_SPAN = "startNs endNs"
_TOTALS = "totalAllocated totalReserved totalActive"


@dataclass(frozen=True)
class KnownTable:
    """A table that is read.

    Attributes
    ----------
    columns
        Its columns. A bar separates the names of a column over the versions; brackets enclose columns that some
        versions lack, that are not read, or that a viewer adds.
    may_be_blank
        Columns that a version leaves blank for no value, besides :data:`TIMES`.
    is_of_run
        Whether a database with this table holds a run.
    older_name
        Its name in early 2024, if another.
    """

    columns: str
    may_be_blank: str = ""
    is_of_run: bool = True
    older_name: str = ""

    @property
    def required(self) -> frozenset[str]:
        """The columns that every version has, a bar between the names of one."""
        return frozenset(self.columns.partition("[")[0].split())

    @property
    def optional(self) -> frozenset[str]:
        """The columns in brackets."""
        return frozenset(self.columns.partition("[")[2].removesuffix("]").split())


TABLES = {
    "STRING_IDS": KnownTable("id value", is_of_run=False),
    "SESSION_TIME_INFO": KnownTable("startTimeNs [endTimeNs baseTimeNs]", older_name="TARGET_INFO_SESSION_TIME"),
    "NPU_INFO": KnownTable("id name", older_name="TARGET_INFO_NPU"),
    "HOST_INFO": KnownTable("hostUid hostName"),
    "META_DATA": KnownTable("name value"),
    "RANK_DEVICE_MAP": KnownTable("rankId deviceId", is_of_run=False),
    "TASK": KnownTable(
        f"{_SPAN} deviceId connectionId globalTaskId taskType contextId streamId taskId modelId [globalPid name depth]"
    ),
    "COMPUTE_TASK_INFO": KnownTable(
        f"globalTaskId {' '.join('|'.join(DESCRIBED[name]) for name in _ALWAYS)} "
        f"[{' '.join(name for names in DESCRIBED.values() for name in names)} gridDim waitNs]"
    ),
    "COMMUNICATION_OP": KnownTable(
        f"opName {_SPAN} connectionId groupName opId "
        "[relay retry dataType algType count opType deviceId rankSize waitNs]"
    ),
    "COMMUNICATION_TASK_INFO": KnownTable(
        "name globalTaskId taskType planeId groupName notifyId rdmaType srcRank dstRank transportType size dataType "
        "linkType opId [isMaster bandwidth opConnectionId]",
        is_of_run=False,
    ),
    "COMMUNICATION_SCHEDULE_TASK_INFO": KnownTable("name globalTaskId [taskType opType]", is_of_run=False),
    "CANN_API": KnownTable(f"{_SPAN} type globalTid connectionId name [depth]", older_name="API"),
    "TASK_PMU_INFO": KnownTable("globalTaskId name value", is_of_run=False),
    "MEMCPY_INFO": KnownTable("globalTaskId size memcpyOperation", is_of_run=False),
    "MSTX_EVENTS": KnownTable(
        f"{_SPAN} eventType rangeId category message globalTid domainId connectionId [endGlobalTid]"
    ),
    "NPU_MEM": KnownTable("type ddr hbm timestampNs deviceId"),
    "NPU_MODULE_MEM": KnownTable("moduleId timestampNs totalReserved deviceId"),
    "NPU_OP_MEM": KnownTable(
        "operatorName addr type size timestampNs totalAllocate totalReserve component deviceId [globalTid]"
    ),
    "PYTORCH_API": KnownTable(
        f"{_SPAN} globalTid connectionId name sequenceNumber fwdThreadId type "
        "[inputDtypes inputShapes callchainId depth]",
        may_be_blank="connectionId sequenceNumber fwdThreadId",
    ),
    "CONNECTION_IDS": KnownTable("id connectionId", is_of_run=False),
    "PYTORCH_CALLCHAINS": KnownTable("id stack stackDepth", is_of_run=False),
    "MEMORY_RECORD": KnownTable(f"component timestamp {_TOTALS} deviceId [streamPtr]"),
    "OP_MEMORY": KnownTable(
        "name size allocationTime releaseTime deviceId [activeReleaseTime duration activeDuration streamPtr "
        "allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated "
        "releaseTotalReserved releaseTotalActive]",
        may_be_blank="releaseTime",
    ),
    "STEP_TIME": KnownTable(f"id {_SPAN}", is_of_run=False),
    "GC_RECORD": KnownTable(f"{_SPAN} globalTid", is_of_run=False),
    "OVERLAP_ANALYSIS": KnownTable(f"deviceId {_SPAN} type [id]", is_of_run=False),
}
"""By name; :mod:`.counters` and :mod:`.analyzer` describe the tables of samples and of sums."""

KNOWN = frozenset((*TABLES, *counters.READ, *analyzer.READ))
"""The tables that are read into tables, facts or statistics."""

OLDER_TABLES = {
    **{name: table.older_name for name, table in TABLES.items() if table.older_name},
    "ENUM_API_TYPE": "ENUM_API_LEVEL",
    "ENUM_MODULE": "ENUM_NPU_MODULE",
}
"""The names of early 2024 by today's names."""
OLDER_TIMES = {"startNs": "start", "endNs": "end"}
OLDER_COLUMNS = {**OLDER_TIMES, "globalTaskId": "correlationId", "blockDim": "block_dim"}
OLDER_COLUMNS_OF = {"CANN_API": {"type": "level"}}
"""As :data:`OLDER_COLUMNS`, of one table."""

OF_RUN = frozenset(
    [
        *(name for name, table in TABLES.items() if table.is_of_run),
        *(OLDER_TABLES[name] for name in ("NPU_INFO", "SESSION_TIME_INFO", "ENUM_API_TYPE")),  # the others say less
        *counters.READ,
    ]
)
"""The tables by any of which a database is known to hold a run."""

TIMES = frozenset(["startNs", "endNs", "timestampNs", "timestamp", "allocationTime"])
"""Columns of times: a row without one is left out, or takes no time, and a separate note says so."""

_MORE_OF_ANALYSES = frozenset(
    [
        *("deviceId", "step", "type", "hccl_op_name", "group_name", "package_size", "count", "total_duration"),
        *("preparing", "communication_not_overlapped_and_exclude_receive", "large_packet_ratio"),
    ]
)


def columns(table: str) -> tuple[Collection[str], Collection[str]] | None:
    """Return the required and the optional columns of a table; None for a table that is not read."""
    if table in analyzer.READ:
        return analyzer.columns_of(table), _MORE_OF_ANALYSES
    if table in counters.READ:
        return counters.columns_of(table)
    known = KnownTable("id name") if table.startswith("ENUM_") else TABLES.get(table)
    return None if known is None else (known.required, known.optional)


def filled_columns(table: str) -> frozenset[str]:
    """Return the columns of a table of :data:`TABLES` that every version fills in each row, under all their names."""
    known = TABLES[table]
    names = frozenset(name for names in known.required for name in names.split("|"))
    return names - TIMES - frozenset(known.may_be_blank.split())
