"""Every table that a front end writes becomes rows somewhere: of a table, of `statistics`, or it is named in a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources import database
from npuprof.sources.base import Decoded
from npuprof.sources.database import reading
from tests.sources.database.maker import Maker, at, thread

Row = Callable[[Maker], list[tuple[Any, ...]]]
MB = 1 << 20


def _port(_: Maker) -> list[tuple[Any, ...]]:
    return [(1, at(3), 200 * MB, 10.0, 5 * MB, 100, 1000, 2, 4, 20.0, 10 * MB, 0, 2000, 3, 5, 7)]


_PORT = (
    "deviceId timestampNs bandwidth rxPacketRate:NUMERIC rxByteRate:NUMERIC rxPackets rxBytes rxErrors rxDropped "
    "txPacketRate:NUMERIC txByteRate:NUMERIC txPackets txBytes txErrors txDropped funcId"
)
_PCIE_VALUES = [
    f"{side}{kind}{what}"
    for side in ("tx", "rx")
    for kind in ("Post", "Nonpost", "Cpl")
    for what in ("Min", "Max", "Avg")
]
_LATENCY = [f"txNonpostLatency{what}" for what in ("Min", "Max", "Avg")]
_NETDEV = [
    *("macTxPfcPkt", "macRxPfcPkt", "macTxByte", "macTxBandwidth", "macRxByte", "macRxBandwidth", "macTxBadByte"),
    *("macRxBadByte", "roceTxPkt", "roceRxPkt", "roceTxErrPkt", "roceRxErrPkt", "roceTxCnpPkt", "roceRxCnpPkt"),
    *("roceNewPktRty", "nicTxByte", "nicTxBandwidth", "nicRxByte", "nicRxBandwidth"),
]
COUNTERS: dict[str, tuple[str, Row, dict[tuple[str, str], tuple[float, str]]]] = {
    "AICORE_FREQ": (
        "deviceId timestampNs:NUMERIC freq dieId:NUMERIC",
        lambda _: [(1, at(1), 1800, 0), (1, at(2), 1650, -1)],
        {("AI Core Freq", "0"): (1800, "MHz"), ("AI Core Freq", ""): (1650, "MHz")},
    ),
    "HBM": (
        "deviceId timestampNs bandwidth:NUMERIC hbmId type",
        lambda maker: [(1, at(1), 3 * MB, 2, maker.text("read"))],
        {("HBM read", "2"): (3, "MB/s")},
    ),
    "DDR": (
        "deviceId timestampNs read:NUMERIC write:NUMERIC",
        lambda _: [(1, at(1), 3 * MB, 4 * MB)],
        {("DDR read", ""): (3, "MB/s"), ("DDR write", ""): (4, "MB/s")},
    ),
    "LLC": (
        "deviceId llcId timestampNs hitRate:REAL throughput mode",
        lambda maker: [(1, 0, at(1), 71.7, 2 * MB, maker.text("read"))],
        {("LLC read Hit Rate", "0"): (71.7, "%"), ("LLC read Throughput", "0"): (2, "MB/s")},
    ),
    "QOS": (
        "deviceId eventName:NUMERIC bandwidth:NUMERIC timestampNs:NUMERIC",
        lambda maker: [(1, maker.text("OTHERS"), 9 * MB, at(1))],
        {("QoS", "OTHERS"): (9, "MB/s")},
    ),
    "ACC_PMU": (
        "accId readBwLevel writeBwLevel readOstLevel writeOstLevel timestampNs:NUMERIC deviceId",
        lambda _: [(5, 1, 2, 3, 4, at(1), 1)],
        {
            ("Acc PMU read_bandwidth", "5"): (1, ""),
            ("Acc PMU write_band_width", "5"): (2, ""),
            ("Acc PMU read_ost", "5"): (3, ""),
            ("Acc PMU write_ost", "5"): (4, ""),
        },
    ),
    "SOC_BANDWIDTH_LEVEL": (
        "l2BufferBwLevel mataBwLevel timestampNs:NUMERIC deviceId",
        lambda _: [(3, 5, at(1), 1)],
        {("Stars Soc Info L2 Buffer Bw Level", ""): (3, ""), ("Stars Soc Info Mata Bw Level", ""): (5, "")},
    ),
    "SAMPLE_PMU_TIMELINE": (
        "deviceId timestampNs totalCycle usage:NUMERIC freq:NUMERIC coreId coreType",
        lambda maker: [
            (1, at(1), 100, 12.5, 1650, 3, maker.text("AIC")),
            (1, at(1), 7, 2.5, 1650, 3, maker.text("AIV")),
        ],
        {
            ("AI Core Utilization Core", "3"): (12.5, "%"),
            ("AI Core Utilization Freq", "3"): (1650, "MHz"),
            ("aic_total_cycles", "3"): (100, ""),
            ("aiv_total_cycles", "3"): (7, ""),
            ("AI Vector Core Utilization Core", "3"): (2.5, "%"),
        },
    ),
    "PCIE": (
        " ".join(["deviceId", "timestampNs", *(f"{name}:NUMERIC" for name in (*_PCIE_VALUES, *_LATENCY))]),
        lambda _: [(1, at(1), *(number * MB for number in range(1, 19)), 19, 20, 21)],
        {
            ("PCIe post Tx min", ""): (1, "MB/s"),
            ("PCIe post Tx max", ""): (2, "MB/s"),
            ("PCIe post Tx", ""): (3, "MB/s"),
            ("PCIe cpl Rx", ""): (18, "MB/s"),
            ("PCIe nonpost_latency Tx", ""): (0.021, "us"),
        },
    ),
    "HCCS": (
        "deviceId timestampNs txThroughput:NUMERIC rxThroughput:NUMERIC",
        lambda _: [(1, at(1), 3 * MB, 4 * MB)],
        {("HCCS Tx", ""): (3, "MB/s"), ("HCCS Rx", ""): (4, "MB/s")},
    ),
    **{
        table: (
            _PORT,
            _port,
            {
                (f"{name} Bandwidth", "7"): (200, "MB/s"),
                (f"{name} Port Rx Packets", "7"): (10, "1/s"),
                (f"{name} Port Rx Packets total", "7"): (100, ""),
                (f"{name} Port Rx Bytes", "7"): (5 * MB, "byte/s"),
                (f"{name} Port Tx Bytes total", "7"): (2000, "byte"),
                (f"{name} Port Rx Bandwidth Efficiency", "7"): (20, "%"),
                (f"{name} Port Rx Error Rate", "7"): (2, "%"),
                (f"{name} Port Rx Dropped Rate", "7"): (4, "%"),
                (f"{name} Port Tx Errors", "7"): (3, ""),
                (f"{name} Port Tx Error Rate", "7"): (np.nan, "%"),
            },
        )
        for table, name in (("NIC", "NIC"), ("ROCE", "RoCE"))
    },
    "NETDEV_STATS": (
        " ".join(["deviceId", "timestampNs", *_NETDEV]),
        lambda _: [(1, at(1), *(number * MB for number in range(1, 20)))],
        {
            ("NetDev Stats macTxPfcPkt", ""): (MB, ""),
            ("NetDev Stats macTxByte", ""): (3 * MB, "byte"),
            ("NetDev Stats macTxBandwidth", ""): (4, "MB/s"),
            ("NetDev Stats nicRxBandwidth", ""): (19, "MB/s"),
        },
    ),
    "SIO": (
        "deviceId:NUMERIC name:NUMERIC timestampNs:NUMERIC rxReq rxRsp rxSnp rxDat txReq txRsp txSnp txDat",
        lambda maker: [(1, maker.text("die 0"), at(1), *(number * MB for number in range(1, 9)))],
        {("SIO req_rx", "die 0"): (1, "MB/s"), ("SIO dat_tx", "die 0"): (8, "MB/s")},
    ),
    "CPU_USAGE": (
        "timestampNs:NUMERIC cpuId:NUMERIC usage:NUMERIC",
        lambda _: [(at(1), 3, 45.5)],
        {("CPU Usage CPU", "3"): (45.5, "%")},
    ),
    "HOST_MEM_USAGE": (
        "timestampNs:NUMERIC usage:NUMERIC",
        lambda _: [(at(1), 1.5)],
        {("Memory Usage", ""): (1.5, "%")},
    ),
    "HOST_DISK_USAGE": (
        "timestampNs:NUMERIC readRate:NUMERIC writeRate:NUMERIC usage:NUMERIC",
        lambda _: [(at(1), 2048, 4096, 8)],
        {("Disk Usage Read", ""): (2, "KB/s"), ("Disk Usage Write", ""): (4, "KB/s"), ("Disk Usage", ""): (8, "%")},
    ),
    "HOST_NETWORK_USAGE": (
        "timestampNs:NUMERIC usage:NUMERIC speed:NUMERIC",
        lambda _: [(at(1), 2, 1024)],
        {("Network Usage", ""): (2, "%"), ("Network Usage Rate", ""): (1, "KB/s")},
    ),
    "NPU_MEM": (
        "type ddr:NUMERIC hbm:NUMERIC timestampNs deviceId",
        lambda maker: [(maker.text("app"), 1024, 2048, at(1), 1)],
        {("NPU MEM HBM", "APP"): (2, "KB"), ("NPU MEM Memory", "APP"): (3, "KB")},
    ),
}
_BLOCK = (
    "name size allocationTime releaseTime activeReleaseTime duration activeDuration allocationTotalAllocated "
    "allocationTotalReserved allocationTotalActive releaseTotalAllocated releaseTotalReserved releaseTotalActive "
    "streamPtr deviceId"
)
_SUMMED = "hccl_op_name:TEXT group_name:TEXT"
TABLES: dict[str, tuple[str, Row, str]] = {
    "TASK": (
        "startNs endNs deviceId globalTaskId taskType",
        lambda maker: [(at(1), at(2), 1, 1, maker.text("SDMA"))],
        "tasks",
    ),
    "CANN_API": (
        "startNs endNs type globalTid connectionId name",
        lambda maker: [(at(1), at(2), 20000, thread(6), 1, maker.text("a"))],
        "api",
    ),
    "COMMUNICATION_OP": (
        "opName startNs endNs connectionId groupName opId relay retry dataType algType count opType deviceId rankSize",
        lambda maker: [(maker.text("hcom_a_"), at(1), at(2), 1, maker.text("g"), 1, 0, 1, 4, None, 5, None, 1, 8)],
        "communication",
    ),
    "MSTX_EVENTS": (
        "startNs endNs eventType rangeId category message globalTid endGlobalTid domainId connectionId",
        lambda maker: [
            (at(1), at(2), 2, 4294967295, 0, maker.text("m"), thread(6), thread(6), maker.text("d"), 4_000_000_100)
        ],
        "marks",
    ),
    "GC_RECORD": ("startNs endNs globalTid", lambda _: [(at(1), at(4), thread(6))], "marks"),
    "PYTORCH_API": (
        "startNs:TEXT endNs:TEXT globalTid connectionId name sequenceNumber fwdThreadId type",
        lambda maker: [(str(at(1)), str(at(2)), thread(6), None, maker.text("aten::a"), 1, 0, 50001)],
        "operators",
    ),
    "STEP_TIME": ("id startNs endNs", lambda _: [(5, at(1), at(9))], "steps"),
    "MEMORY_RECORD": (
        "component timestamp totalAllocated totalReserved totalActive streamPtr deviceId",
        lambda maker: [(maker.text("PTA"), at(1), 1, 2, 3, 4, 0)],
        "memory",
    ),
    "OP_MEMORY": (
        _BLOCK,
        lambda maker: [(maker.text("aten::a"), 512, at(1), at(3), at(2), 2000, 1000, 10, 20, 30, 40, 50, 60, 7, 0)],
        "allocations",
    ),
    "NPU_OP_MEM": (
        "operatorName addr type size timestampNs globalTid totalAllocate totalReserve component deviceId",
        lambda maker: [
            (maker.text("a"), 64, maker.text("allocate"), 512, at(1), thread(6), 10, 20, maker.text("GE"), 0)
        ],
        "allocations",
    ),
    "NPU_MODULE_MEM": ("moduleId timestampNs totalReserved:NUMERIC deviceId", lambda _: [(45, at(1), 5, 0)], "memory"),
    "OVERLAP_ANALYSIS": (
        "id deviceId startNs:NUMERIC endNs:NUMERIC type",
        lambda _: [(0, 0, at(1), at(2), 3)],
        "overlap",
    ),
    "StepTraceTime": (
        "deviceId step:TEXT computing:NUMERIC free:NUMERIC",
        lambda _: [(0, "5", 1.5, 2.5)],
        "step_times",
    ),
    "CommAnalyzerTime": (
        f"{_SUMMED} elapse_time:NUMERIC step:TEXT type:TEXT",
        lambda _: [("a", "g", 1.5, "step5", "p2p")],
        "statistics.communication",
    ),
    "CommAnalyzerBandwidth": (
        f"{_SUMMED} transport_type:TEXT transit_size:NUMERIC step:TEXT type:TEXT",
        lambda _: [("a", "g", "HCCS", 1.5, "step5", "p2p")],
        "statistics.communication_bandwidth",
    ),
    "CommAnalyzerMatrix": (
        f"{_SUMMED} src_rank:TEXT dst_rank:TEXT transport_type:TEXT step:TEXT type:TEXT",
        lambda _: [("a", "g", "0", "1", "HCCS", "step5", "p2p")],
        "statistics.communication_matrix",
    ),
    "OSRT_API": (
        "name:NUMERIC globalTid:NUMERIC startNs:NUMERIC endNs:NUMERIC",
        lambda maker: [(maker.text("pthread_join"), thread(6), at(1), at(2))],
        "statistics.osrt_api",
    ),
    "SAMPLE_PMU_SUMMARY": (
        "deviceId metric value:NUMERIC coreId coreType",
        lambda maker: [(0, maker.text("mac_ratio"), 0.5, 3, maker.text("AIC"))],
        "statistics.sample_pmu_summary",
    ),
    "LOW_POWER": ("deviceId timestampNs voltage:NUMERIC", lambda _: [(0, at(1), 0.5)], "statistics.low_power"),
    "CCU": ("deviceId startNs endNs channelId", lambda _: [(0, at(1), at(2), 3)], "statistics.ccu"),
    "UB": ("deviceId timestampNs rxBytes txBytes", lambda _: [(0, at(1), 5, 6)], "statistics.ub"),
}


JOINED = {
    *("STRING_IDS", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"),
    *("TASK_PMU_INFO", "MEMCPY_INFO", "CONNECTION_IDS", "PYTORCH_CALLCHAINS"),
}
"""Tables that say more of the rows of others."""
FACTS = {"SESSION_TIME_INFO", "NPU_INFO", "HOST_INFO", "META_DATA", "RANK_DEVICE_MAP"}


def _read(tmp_path: Path, name: str, columns: str, row: Row) -> Decoded:
    maker = Maker(tmp_path / "msprof_1.db")
    maker.text("a name, so that names are not missing")
    maker.table("META_DATA", "name:TEXT value:TEXT", [("SCHEMA_VERSION", "1.2.0")])
    decoded = database.read(maker.table(name, columns, row(maker)).close())
    for table, frame in decoded.tables.items():
        tables.check(table, frame)
    return decoded


@pytest.mark.parametrize("table", COUNTERS)
def test_a_table_of_samples_becomes_counters(tmp_path: Path, table: str) -> None:
    columns, row, expected = COUNTERS[table]
    decoded = _read(tmp_path, table, columns, row)
    frame = decoded.tables["counters"].astype({"counter": object, "instance": object, "unit": object})
    frame = frame.fillna({"instance": "", "unit": ""})
    found = {(one.counter, one.instance): (one.value, one.unit) for one in frame.itertuples(index=False)}
    for key, (value, unit) in expected.items():
        assert found[key] == (pytest.approx(value, nan_ok=True), unit), key
    on_host = table.startswith(("CPU", "HOST"))
    assert frame["device_id"].isna().all() if on_host else (frame["device_id"] == 1).all()
    assert not len(decoded.notes)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_its_place(tmp_path: Path, table: str) -> None:
    columns, row, place = TABLES[table]
    decoded = _read(tmp_path, table, columns, row)
    *statistics, name = place.split(".")
    frame = decoded.statistics[name] if statistics else decoded.tables[name]
    assert len(frame) == 1
    told = decoded.notes.to_frame()["message"].tolist()
    kept = [message for message in told if table in message]
    assert len(kept) == (name == table.lower())  # what has no place of its own is told, once


def test_each_table_that_is_known_is_tested() -> None:
    with_place = {name for name, (_, _, place) in TABLES.items() if place.rpartition(".")[2] != name.lower()}
    assert {*COUNTERS, *with_place, *JOINED, *FACTS} == reading.KNOWN


def test_tables_that_say_more_of_tasks(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    task = "startNs endNs deviceId globalTaskId taskType"
    kinds = [maker.text("SDMA"), maker.text("KERNEL_AICPU"), maker.text("KERNEL_AICORE")]
    maker.table("TASK", task, [(at(row), at(row + 1), 0, row, kind) for row, kind in enumerate(kinds)])
    maker.table("MEMCPY_INFO", "globalTaskId:NUMERIC size:NUMERIC memcpyOperation:NUMERIC", [(0, 4096, 1)])
    scheduled = "COMMUNICATION_SCHEDULE_TASK_INFO"
    maker.table(scheduled, "name globalTaskId taskType opType", [(maker.text("hcomAicpuInit"), 1, 0, 0)])
    info = "name globalTaskId blockNum mixBlockNum taskType opType"
    maker.table("COMPUTE_TASK_INFO", info, [(maker.text("Add_0"), 2, 24, 48, maker.text("MIX_AIC"), maker.text("Add"))])
    maker.table("TASK_PMU_INFO", "globalTaskId name value:NUMERIC", [(2, maker.text("aic_total_time"), 12.5)])
    decoded = database.read(maker.close())
    frame = decoded.tables["tasks"]
    assert frame["name"].tolist() == ["SDMA", "hcomAicpuInit", "Add_0"]
    assert frame["copied_bytes"].tolist() == [4096, pd.NA, pd.NA]
    assert frame["copy_direction"].tolist()[0] == "host to device"
    (kernel,) = decoded.tables["kernels"].to_dict("records")
    assert (kernel["core"], kernel["mix_block_num"], kernel["aic_total_time_ns"]) == ("MIX_AIC", 48, 12)
    assert not len(decoded.notes)


def test_facts_of_the_run_are_its_info(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db").table("STEP_TIME", "id startNs endNs", [(1, at(1), at(2))])
    maker.table("SESSION_TIME_INFO", "startTimeNs endTimeNs", [(at(0), at(9))])
    maker.table("NPU_INFO", "id name:TEXT", [(3, "Ascend910B")])
    maker.table("HOST_INFO", "hostUid hostName:TEXT", [(77, "node-1")])
    maker.table("RANK_DEVICE_MAP", "rankId deviceId", [(5, 3)])
    rows = [("SCHEMA_VERSION", "1.2.0"), ("ENV_VARIABLES", '{"HCCL_ALGO": "ring"}'), ("note", "mine")]
    info = database.read(maker.table("META_DATA", "name:TEXT value:TEXT", rows).close()).info
    assert (info.started_ns, info.stopped_ns, info.chip, info.rank, info.devices) == (
        at(0),
        at(9),
        "Ascend910B",
        5,
        [3],
    )
    assert info.environment == {"host": "node-1", "HCCL_ALGO": "ring"}
    assert info.versions["database schema"] == "1.2.0"
    assert info.metadata["note"] == "mine"


def test_what_is_kept_as_it_came_keeps_its_digits_and_names(tmp_path: Path) -> None:
    columns, row, _ = TABLES["OSRT_API"]
    frame = _read(tmp_path, "OSRT_API", columns, row).statistics["osrt_api"]
    assert frame.to_dict("records") == [
        {"name": "pthread_join", "globalTid": thread(6), "startNs": at(1), "endNs": at(2)}
    ]


def test_a_table_of_a_later_version_is_kept_and_told(tmp_path: Path) -> None:
    rows = [(None, at(1), "a", 1), (2, None, 3, 0.5)]
    decoded = _read(tmp_path, "NEW_IN_2027", "id startNs mixed: value:NUMERIC", lambda _: rows)
    frame = decoded.statistics["new_in_2027"]
    assert frame["startNs"].tolist() == [at(1), pd.NA]
    assert frame["mixed"].tolist() == ["a", "3"]
    assert frame["value"].tolist() == [1.0, 0.5]
    assert [message for message in decoded.notes.to_frame()["message"] if "NEW_IN_2027" in message]


def test_a_table_of_any_name_is_saved_in_its_place(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db").table("META_DATA", "name:TEXT value:TEXT")
    for name in ("../../escape", "$$/escape", "ärger"):
        maker.table(name, "id note:TEXT", [(1, None), (2, "two")])
    run = npuprof.load(maker.close())
    assert isinstance(run, npuprof.Profile)
    assert sorted(run.statistics) == ["_escape", "_escape_1", "_rger"]
    run.save(tmp_path / "saved")
    again = npuprof.load(tmp_path / "saved")
    assert isinstance(again, npuprof.Profile)
    assert again.statistics["_escape"]["note"].fillna("").tolist() == ["", "two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["msprof_1.db", "saved"]


def test_numbers_that_are_told_of_blocks_and_collectives(tmp_path: Path) -> None:
    columns, row, _ = TABLES["OP_MEMORY"]
    (block,) = _read(tmp_path, "OP_MEMORY", columns, row).tables["allocations"].to_dict("records")
    totals = [
        f"{when}_total_{what}_bytes"
        for when in ("allocation", "release")
        for what in ("allocated", "reserved", "active")
    ]
    assert [block[name] for name in totals] == [10, 20, 30, 40, 50, 60]
    assert block["active_released_ns"] == at(2)


def test_relays_and_retries_of_a_collective(tmp_path: Path) -> None:
    columns, row, _ = TABLES["COMMUNICATION_OP"]
    (collective,) = _read(tmp_path, "COMMUNICATION_OP", columns, row).tables["communication"].to_dict("records")
    assert (collective["rank_size"], collective["relay"], collective["retry"]) == (8, False, True)


def test_pauses_of_the_garbage_collector_stand_among_the_marks_in_order(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "ascend_pytorch_profiler.db")
    columns, row, _ = TABLES["MSTX_EVENTS"]
    maker.table("MSTX_EVENTS", columns, row(maker)).table(
        "GC_RECORD", "startNs endNs globalTid", [(at(0), at(3), thread(6))]
    )
    marks = database.read(maker.close()).tables["marks"]
    assert marks["message"].tolist() == ["GC", "m"]
    assert marks["domain"].tolist() == ["python_gc", "d"]
    assert marks["thread_id"].tolist() == [6, 6]
    assert marks["id"].tolist() == [pd.NA, 99]
