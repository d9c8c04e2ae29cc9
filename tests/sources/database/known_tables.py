"""Every table that a front end writes into a database: its columns, a row, and what must become of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
        "startNs endNs deviceId globalTaskId taskType connectionId contextId streamId taskId modelId",
        lambda maker: [(at(1), at(2), 1, 1, maker.text("SDMA"), *(5,) * 5)],
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
        (
            "deviceId step:TEXT computing:NUMERIC free:NUMERIC communication overlapped communication_not_overlapped "
            "stage bubble"
        ),
        lambda _: [(0, "5", 1.5, 2.5, *(0,) * 5)],
        "step_times",
    ),
    "CommAnalyzerTime": (
        (
            f"{_SUMMED} elapse_time:NUMERIC step:TEXT type:TEXT start_timestamp transit_time wait_time "
            "synchronization_time idle_time"
        ),
        lambda _: [("a", "g", 1.5, "step5", "p2p", *(0,) * 5)],
        "statistics.communication",
    ),
    "CommAnalyzerBandwidth": (
        f"{_SUMMED} transport_type:TEXT transit_size:NUMERIC step:TEXT type:TEXT transit_time bandwidth",
        lambda _: [("a", "g", "HCCS", 1.5, "step5", "p2p", 0, 0)],
        "statistics.communication_bandwidth",
    ),
    "CommAnalyzerMatrix": (
        (
            f"{_SUMMED} src_rank:TEXT dst_rank:TEXT transport_type:TEXT step:TEXT type:TEXT transit_size transit_time "
            "bandwidth op_name:TEXT"
        ),
        lambda _: [("a", "g", "0", "1", "HCCS", "step5", "p2p", 0, 0, 0, "a")],
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
