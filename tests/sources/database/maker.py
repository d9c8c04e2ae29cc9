"""Small databases of each generation, written here row by row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

START_NS = 1_736_407_067_946_125_104
PID = 4242
TORCH = 5 << 28
ENUMS = {
    "ENUM_API_TYPE": {
        20000: "acl", 15000: "model", 10000: "node", 5500: "hccl", 5000: "runtime",
        50001: "op", 50002: "queue", 50003: "trace",
    },
    "ENUM_HCCL_DATA_TYPE": {4: "FP32", 65534: "N/A", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_LINK_TYPE": {1: "HCCS", 65534: "N/A", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 65534: "N/A", 65535: "INVALID_TYPE"},
    "ENUM_MODULE": {3: "HCCL", 45: "GE"},
    "ENUM_MSTX_EVENT_TYPE": {0: "marker", 2: "start/end"},
    "ENUM_MEMCPY_OPERATION": {1: "host to device"},
}  # fmt: skip


class Maker:
    """A database that grows table by table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._strings: dict[str, int] = {}
        self._connection = sqlite3.connect(path)

    def text(self, value: str) -> int:
        """Number a text as STRING_IDS does."""
        return self._strings.setdefault(value, len(self._strings) + 1)

    def table(self, name: str, columns: str, rows: Iterable[Sequence[Any]] = ()) -> Maker:
        """Add a table; a column may carry its declared type (``startNs:TEXT``), else it is INTEGER."""
        parts = [column.partition(":") for column in columns.split()]
        declared = ", ".join(f'"{column}" {kind or "INTEGER"}' for column, _, kind in parts)
        self._connection.execute(f'CREATE TABLE "{name}" ({declared})')
        marks = ", ".join("?" * len(parts))
        self._connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
        return self

    def run(self, statement: str) -> Maker:
        """Execute any statement."""
        self._connection.execute(statement)
        return self

    def close(self, enums: Mapping[str, Mapping[int, str]] = ENUMS) -> Path:
        """Write the names and end."""
        self.table("STRING_IDS", "id value:TEXT", [(number, text) for text, number in self._strings.items()])
        for name, values in enums.items():
            self.table(name, "id name:TEXT", list(values.items()))
        self._connection.commit()
        self._connection.close()
        return self.path


def at(offset_us: float) -> int:
    """Return a time of the run."""
    return START_NS + int(offset_us * 1000)


def thread(tid: int) -> int:
    """Number a thread of the run's process."""
    return PID << 32 | tid


def add_launches(maker: Maker, *, blocks: str = "blockNum", extras: str = "", extra: Sequence[Any] = ()) -> None:
    """Add two kernels, a copy and a collective of one step, with their CANN calls."""
    none = 4294967295
    kernel, vector = maker.text("KERNEL_AICORE"), maker.text("KERNEL_AIVEC")
    maker.table(
        "TASK",
        "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId modelId",
        [
            (at(30), at(33), 0, 5, 3, PID, vector, none, 2, 1, none),
            (at(20), at(29), 0, 2, 2, PID, kernel, none, 2, 0, none),
            (at(40), at(45), 0, 7, 4, PID, maker.text("SDMA"), 0, 4, 9, none),
            (at(39), at(46), 0, 7, 5, PID, maker.text("AI_CORE"), none, 4, 9, none),
            (at(50), at(52), 0, 8, 6, PID, maker.text("MEMCPY_ASYNC"), none, 3, 4, none),
        ],
    )  # fmt: skip
    sides = "inputFormats inputDataTypes inputShapes outputFormats outputDataTypes outputShapes"
    mix = f"mix_{blocks}" if "_" in blocks else f"mix{blocks[0].upper()}{blocks[1:]}"
    operands = [maker.text(text) for text in ("FORMAT_ND;ND", "FLOAT16;FLOAT16", '"128,256;128,512"')]
    results = [maker.text(text) for text in ("ND", "FLOAT16", '"128,768"')]
    maker.table(
        "COMPUTE_TASK_INFO",
        f"name globalTaskId {blocks} {mix} taskType opType {sides} attrInfo {extras}",
        [
            (
                maker.text(name),
                task,
                24,
                0,
                maker.text(core),
                maker.text(kind),
                *operands,
                *results,
                maker.text("N/A"),
                *extra,
            )
            for name, task, core, kind in (
                ("MatMulV3_0", 2, "AI_CORE", "MatMulV3"),
                ("Add_0", 3, "AI_VECTOR_CORE", "Add"),
            )
        ],
    )
    maker.table(
        "CANN_API",
        "startNs endNs type globalTid connectionId name",
        [
            (at(1), at(9), 20000, thread(7), 1, maker.text("aclnnMatmul")),
            (at(2), at(8), 10000, thread(7), 2, maker.text("launch")),
            (at(11), at(18), 10000, thread(7), 5, maker.text("launch")),
            (at(12), at(13), 10000, thread(7), 7, maker.text("hcom_allReduce_")),
            (at(14), at(15), 20000, thread(7), 8, maker.text("aclrtMemcpyAsync")),
        ],
    )
    maker.table(
        "COMMUNICATION_OP",
        "opName startNs endNs connectionId groupName opId relay retry dataType algType count:NUMERIC opType",
        [(
            maker.text("hcom_allReduce__210_0_1"), at(40), at(45), 7, maker.text("g"), 9, 0, 0, 4,
            maker.text("RING"), 64, maker.text("hcom_allReduce_"),
        )],
    )  # fmt: skip
    maker.table(
        "COMMUNICATION_TASK_INFO",
        "name globalTaskId taskType planeId groupName notifyId rdmaType srcRank dstRank transportType size dataType "
        "linkType opId",
        [(1, 4, maker.text("Memcpy"), 0, 1, 0, 65535, 0, none, 0, 5000, 4, 65535, 9)],
    )  # fmt: skip
    names = {
        name: maker.text(name) for name in ("aic_total_time", "aic_mac_ratio", "aic_total_cycles", "aiv_mac_ratio")
    }
    values = {"aic_total_time": 9272.5, "aic_mac_ratio": 0.6, "aic_total_cycles": 367200, "aiv_mac_ratio": 0}
    maker.table(
        "TASK_PMU_INFO", "globalTaskId name value:NUMERIC", [(2, names[name], value) for name, value in values.items()]
    )


def add_framework(maker: Maker, *, first_own: int = TORCH, exchanged: bool = False) -> None:
    """Add torch's operators: a forward and a backward one, the task queue between threads, Python calls, a step."""
    shapes, dtypes = maker.text("2,3;\r\n;\r\n"), maker.text("float;\r\nScalar;\r\nNone")
    operands = (shapes, dtypes) if exchanged else (dtypes, shapes)
    none = (None,) * 5
    maker.table(
        "PYTORCH_API",
        "startNs:TEXT endNs:TEXT globalTid connectionId name sequenceNumber fwdThreadId inputDtypes inputShapes "
        "callchainId type",
        [
            (str(at(0)), str(at(100)), thread(6), None, maker.text("ProfilerStep#50"), -1, 0, None, None, 0, 50001),
            (str(at(1)), str(at(6)), thread(6), 0, maker.text("aten::mm"), 1350, 0, *operands, 0, 50001),
            (str(at(60)), str(at(70)), thread(8), 1, maker.text("MmBackward0"), 1350, 1, *operands, 1, 50001),
            (str(at(2)), str(at(3)), thread(6), 2, maker.text("Enqueue"), *none, 50002),
            (str(at(4)), str(at(5)), thread(7), 3, maker.text("Dequeue@aclnnMatmul"), *none, 50002),
            (str(at(0)), str(at(90)), thread(6), None, maker.text("main.py(1): <module>"), *none, 50003),
            (str(at(1)), str(at(50)), thread(6), None, maker.text("main.py(9): train"), *none, 50003),
        ],
    )  # fmt: skip
    maker.table(
        "CONNECTION_IDS",
        "id connectionId",
        [(0, 2), (0, first_own + 1), (1, first_own + 1), (1, 5), (2, first_own), (3, first_own)],
    )
    inner, outer = maker.text("main.py(9): train"), maker.text("main.py(1): <module>")
    maker.table(
        "PYTORCH_CALLCHAINS", "id stack stackDepth", [(0, outer, 1), (0, inner, 0), (1, inner, 0), (1, outer, 1)]
    )
    maker.table("STEP_TIME", "id startNs endNs", [(50, at(0), at(80))])


def framework_database(path: Path) -> Path:
    """Write what torch_npu of 2026 writes."""
    maker = Maker(path)
    flags = (maker.text("dynamic"), maker.text("YES"), 0, 0)
    add_launches(maker, extras="opState hf32Eligible gridDim blockDim", extra=flags)
    add_framework(maker)
    return maker.close()


def checksum(path: Path) -> tuple[bytes, int, list[str]]:
    """Return what must not change: bytes, time of change, and what lies beside the file."""
    return path.read_bytes(), path.stat().st_mtime_ns, sorted(entry.name for entry in path.parent.iterdir())


def altered(path: Path) -> None:
    """Do to a file what MindStudio Insight does when it opens one."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 17")
        for table in ("TASK", "CANN_API"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN depth integer")
            connection.execute(f"UPDATE {table} SET depth = 3")
        connection.execute("ALTER TABLE COMPUTE_TASK_INFO ADD COLUMN waitNs INTEGER")
        connection.execute("ALTER TABLE COMMUNICATION_TASK_INFO ADD COLUMN opConnectionId INTEGER")
        connection.execute(
            "CREATE TABLE OVERLAP_ANALYSIS (id INTEGER PRIMARY KEY AUTOINCREMENT, deviceId, startNs, endNs, type)"
        )
        connection.execute("INSERT INTO OVERLAP_ANALYSIS VALUES (1, 0, 5, 9, 3)")
        connection.execute("CREATE TABLE connectionCats (connectionId INT, cat)")
        connection.execute("CREATE TABLE status_info (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value TEXT)")
        connection.execute("CREATE TABLE _COMPUTE_TASK_INFO_old_20250101 (name INTEGER)")
        connection.execute("CREATE INDEX viewer ON TASK (startNs, globalTaskId)")
        connection.commit()
