"""What of a file's tables differs from every version that is known: a view in place of a table, columns that are gone.

Source: sources/RESULTS.md sections 5.1 to 5.3 and 5.7.
"""

from __future__ import annotations

from collections.abc import Collection

from npuprof.sources.database import analyzer, counters
from npuprof.sources.database.connection import Database
from npuprof.sources.database.report import OLDER_NAMES

_Names = frozenset[str]
_MAX_NAMED = 5
_MAX_NAME = 60
_SPAN = "startNs endNs"
_OPERANDS = "inputFormats inputDataTypes inputShapes outputFormats outputDataTypes outputShapes"
_TOTALS = "totalAllocated totalReserved totalActive"
# The columns of a table, a bar between the names that one had over the versions; in brackets those that some versions
# lack, that are not read, or that a viewer adds.
_COLUMNS = {
    "STRING_IDS": "id value",
    "SESSION_TIME_INFO": "startTimeNs [endTimeNs baseTimeNs]",
    "NPU_INFO": "id name",
    "HOST_INFO": "hostUid hostName",
    "META_DATA": "name value",
    "RANK_DEVICE_MAP": "rankId deviceId",
    "TASK": f"{_SPAN} deviceId connectionId globalTaskId taskType contextId streamId taskId modelId "
    "[globalPid name depth]",
    "COMPUTE_TASK_INFO": f"name globalTaskId taskType opType {_OPERANDS} blockNum|blockDim|block_num|block_dim "
    "mixBlockNum|mixBlockDim|mix_block_num|mix_block_dim [blockDim attrInfo opState hf32Eligible gridDim waitNs]",
    "COMMUNICATION_OP": f"opName {_SPAN} connectionId groupName opId "
    "[relay retry dataType algType count opType deviceId rankSize waitNs]",
    "COMMUNICATION_TASK_INFO": "name globalTaskId taskType planeId groupName notifyId rdmaType srcRank dstRank "
    "transportType size dataType linkType opId [isMaster bandwidth opConnectionId]",
    "COMMUNICATION_SCHEDULE_TASK_INFO": "name globalTaskId [taskType opType]",
    "CANN_API": f"{_SPAN} type globalTid connectionId name [depth]",
    "TASK_PMU_INFO": "globalTaskId name value",
    "MEMCPY_INFO": "globalTaskId size memcpyOperation",
    "MSTX_EVENTS": f"{_SPAN} eventType rangeId category message globalTid domainId connectionId [endGlobalTid]",
    "NPU_MEM": "type ddr hbm timestampNs deviceId",
    "NPU_MODULE_MEM": "moduleId timestampNs totalReserved deviceId",
    "NPU_OP_MEM": "operatorName addr type size timestampNs totalAllocate totalReserve component deviceId [globalTid]",
    "PYTORCH_API": f"{_SPAN} globalTid connectionId name sequenceNumber fwdThreadId type "
    "[inputDtypes inputShapes callchainId depth]",
    "CONNECTION_IDS": "id connectionId",
    "PYTORCH_CALLCHAINS": "id stack stackDepth",
    "MEMORY_RECORD": f"component timestamp {_TOTALS} deviceId [streamPtr]",
    "OP_MEMORY": "name size allocationTime releaseTime deviceId [activeReleaseTime duration activeDuration streamPtr "
    "allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated "
    "releaseTotalReserved releaseTotalActive]",
    "STEP_TIME": f"id {_SPAN}",
    "GC_RECORD": f"{_SPAN} globalTid",
    "OVERLAP_ANALYSIS": f"deviceId {_SPAN} type [id]",
}
_MORE_OF_ANALYSES = frozenset(
    [
        *("deviceId", "step", "type", "hccl_op_name", "group_name", "package_size", "count", "total_duration"),
        *("preparing", "communication_not_overlapped_and_exclude_receive", "large_packet_ratio"),
    ]
)


def note_shape(database: Database) -> None:
    """Note each view that stands for a table that is read here, and each column that is missing or not known."""
    note_views(database, [name for name in database.unread if _columns(name) is not None or name in OLDER_NAMES])
    for name, known in database.tables.items():
        if (expected := _columns(name)) is not None:
            required, optional = expected
            missing, others = _difference(known, required, optional)
            if missing:
                _note_missing(database, name, missing, others)
            elif others:
                told = f"{name}: {_listed(others)} is not known here and not read"
                database.notes.info(database.path.name, told)


def note_views(database: Database, names: Collection[str]) -> None:
    """Note views and virtual tables that are not read."""
    for name in names:
        database.notes.warning(
            database.path.name,
            f"{name[:_MAX_NAME]} is a view or a virtual table, which could run anything: it is not read, and what it "
            "would show is missing; copy its rows into a table of that name, or export the result again",
        )


def note_renamed(database: Database, table: str, wanted: Collection[str], optional: Collection[str] = ()) -> None:
    """Note the wanted columns that a table of many versions lacks, if it has others that are not known here."""
    missing, others = _difference(database.tables.get(table, {}), wanted, optional)
    if missing and others:
        _note_missing(database, table, missing, others)


def _difference(
    known: Collection[str], required: Collection[str], optional: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the required columns that are not there, and those that are there and neither required nor optional."""
    missing = {group.partition("|")[0] for group in required if not set(group.split("|")) & set(known)}
    return missing, set(known).difference(optional, *(group.split("|") for group in required))


def _note_missing(database: Database, table: str, missing: set[str], others: set[str]) -> None:
    told = f"{table} lacks {_listed(missing)}: values are absent, or rows are left out"
    told += f"; perhaps they are in {_listed(others)}, which is not known here" if others else ""
    database.notes.warning(database.path.name, told)


def _columns(table: str) -> tuple[_Names, _Names] | None:
    """Return the columns that every version of a table has, and those of some; None for a table that is not read."""
    if table in analyzer.READ:
        return analyzer.columns_of(table), _MORE_OF_ANALYSES
    if table in counters.READ:
        return counters.columns_of(table)
    listed = "id name" if table.startswith("ENUM_") else _COLUMNS.get(table)
    if listed is None:
        return None
    required, _, optional = listed.partition("[")
    return frozenset(required.split()), frozenset(optional.removesuffix("]").split())


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(name[:_MAX_NAME] for name in sorted(names)[:_MAX_NAMED])
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{' ...' if len(names) > _MAX_NAMED else ''}"
