"""The tables of the vendors' databases, as they are declared to :mod:`npuprof.sources.database.reader`.

A line of a table is a column::

    streamId           | stream_id whole? unset              a column of the profile, and the kind of its values
    [blockNum, blockDim] | block_num whole?                  in brackets: some versions lack it; its older names follow
    opId               | - whole -> COMMUNICATION_OP: ...    not a column of its own: the row that it refers to, and
                                                             what is lost without that table
    bandwidth          | value MB/s HBM {}                   a counter: its unit, and its name, {} for the row's mode
    [depth waitNs]                                           known, and not read

A question mark after a name allows rows without a value; ``@base`` after an older name says that times count from
``SESSION_TIME_INFO.baseTimeNs``. Times are nanoseconds, sizes bytes, rates bytes a second. The kinds:

======================  ================================================================================
``time``, ``end``       the time of a row, and the end of one that lasts: its duration, 0 if it is no end
``whole``               a whole number
``whole? VALUES``       as before, absent where it is one of the values; ``unset`` are 4294967295 and 4000000000
``positive``            as ``whole``, at least 0
``moment``              a time that a row may lack: 0 is none
``float``               a number
``text [CHANGE]``       the number of a name in ``STRING_IDS``; the change is one of :data:`CHANGES`
``names ENUM [CHANGE]`` the number of a name in that table
``word WORDS [by CHANGE]``  the number of one of these words, in ``ENUM_MEMORY`` (2024) or ``STRING_IDS``
``yes``, ``bit``        a flag: the number of the name ``YES``; 1 or 0
``us``                  microseconds that last, whole nanoseconds in the profile
``thread``              ``pid << 32 | tid``
``connection``          the number of a connection, which the processes of a file may share
======================  ================================================================================

What the columns of the profile mean stands in :mod:`npuprof.tables.schema`, from which come the names of the columns
of ``COMPUTE_TASK_INFO`` too.

Source: sources/RESULTS.md sections 5.1 to 5.3, 5.7 and 5.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from npuprof.sources.columns.builders import module_component
from npuprof.sources.database.declaration import SqlTable
from npuprof.sources.text.kernel_details import operand_text
from npuprof.tables.schema import SCHEMA

NOTHING = ("N/A", "NA", "INVALID_TYPE", "RESERVED", "RESERVE")
"""Names that mean none."""

_LINE = re.compile(r";\r?\n")
_OWNERS = {"app": "APP", "device": "Device"}
_LEVELS = {"hccl": "communication"}
CHANGES: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "operand": operand_text,
    "one_line": lambda text: _LINE.sub(";", text),
    "owner": lambda kind: _OWNERS.get(kind.lower(), kind),
    "level": lambda level: _LEVELS.get(level, level),
    "module": module_component,
}
"""What is done to each name of a column."""

_SPAN = "startNs, start@base | start_ns time\nendNs, end@base | duration_ns end"


def compute_task_info() -> SqlTable:
    """Return ``COMPUTE_TASK_INFO``: the columns of `kernels` that the schema names in databases, but its task's."""
    kinds = {"int?": "whole? unset", "float": "float", "flag": "yes", "name": "text", "int": "whole"}
    of_task = {column.name for column in SCHEMA["tasks"].columns}
    lines = []
    for column in SCHEMA["kernels"].columns:
        if "db" in column.names and column.name not in of_task:
            names = ", ".join(column.names["db"])
            side = column.name.startswith(("input_", "output_"))
            always = side or column.name in ("op_name", "op_type", "core", "block_num", "mix_block_num")
            source = names if always else f"[{names}]"
            lines.append(f"{source} | {column.name} {kinds[column.kind]}{' operand' if side else ''}")
    return SqlTable(
        "COMPUTE_TASK_INFO",
        "\n".join(("globalTaskId, correlationId | - whole", *lines, "[gridDim waitNs]")),
        fills=("kernels",),
        usual="all",
    )


_OF_RUN = (
    SqlTable("STRING_IDS", "id value", is_of_run=False),
    SqlTable(
        "SESSION_TIME_INFO, TARGET_INFO_SESSION_TIME",
        "startTimeNs\n[endTimeNs baseTimeNs]",
        due="always",
        without="when the collection began and ended is unknown, so wall time is that of the rows",
    ),
    SqlTable("NPU_INFO, TARGET_INFO_NPU", "id name", due="always", without="the chip is unknown"),
    SqlTable("HOST_INFO", "hostUid hostName", due="always", without="the host is unknown"),
    SqlTable(
        "META_DATA",
        "name value",
        due="always",
        without="the version of the database and environment variables are unknown",
    ),
    SqlTable(
        "RANK_DEVICE_MAP",
        "rankId deviceId",
        is_of_run=False,
        due="always",
        without="which device a rank has is unknown",
    ),
    SqlTable(
        "TASK",
        f"""{_SPAN}
        deviceId | device_id positive
        globalTaskId, correlationId | - whole
        taskType | task_type text
        connectionId | connection_id connection -> CANN_API: the calls that launched them are missing
        contextId | context_id whole? unset
        streamId | stream_id whole? unset
        taskId | task_id whole? unset
        modelId | - whole
        [globalPid] | - whole
        [name] | - whole
        [depth]""",
        fills=("tasks", "kernels", "communication_tasks"),
        what="tasks, kernels, communication_tasks and their links are",
        due="npu",
        without="tasks and kernels are missing",
        usual="all",
    ),
    compute_task_info(),
    SqlTable(
        "TASK_PMU_INFO",
        "globalTaskId, correlationId | - whole\nname | - whole\nvalue | - float",
        is_of_run=False,
        due="metrics",
        without="counters of kernels are missing",
        usual="all",
    ),
    SqlTable(
        "COMMUNICATION_OP",
        f"""{_SPAN}
        opName | name text
        connectionId | connection_id connection
        groupName | group text
        opId | - whole -> COMMUNICATION_TASK_INFO: waiting, moving, sizes and links of it are unknown
        [dataType] | data_type names ENUM_HCCL_DATA_TYPE
        [algType] | algorithm text
        [count] | count whole? unset -1
        [opType] | - text
        [deviceId] | - whole
        [rankSize] | rank_size whole? unset -1
        [relay] | relay bit
        [retry] | retry bit
        [waitNs]""",
        fills=("communication",),
        usual="all",
    ),
    SqlTable(
        "COMMUNICATION_TASK_INFO",
        """globalTaskId, correlationId | - whole
        opId | - whole -> COMMUNICATION_OP: the communication operators are missing
        taskType | task_type text
        planeId | plane_id whole? unset -1
        srcRank | src_rank whole? unset -1
        dstRank | dst_rank whole? unset -1
        transportType | transport names ENUM_HCCL_TRANSPORT_TYPE
        linkType | link names ENUM_HCCL_LINK_TYPE
        size | size_bytes whole? unset -1
        dataType | data_type names ENUM_HCCL_DATA_TYPE
        rdmaType | rdma_type names ENUM_HCCL_RDMA_TYPE
        notifyId | notify_id whole? unset -1 9223372036854775807
        [bandwidth] | - float
        name groupName
        [isMaster opConnectionId]""",
        fills=("communication_tasks",),
        what="communication_tasks, waiting and moving are",
        is_of_run=False,
        usual="all",
    ),
    SqlTable(
        "COMMUNICATION_SCHEDULE_TASK_INFO",
        "name | - whole\nglobalTaskId, correlationId | - whole\n[taskType opType]",
        is_of_run=False,
    ),
    SqlTable(
        "CANN_API, API",
        f"""{_SPAN}
        type, level | level names ENUM_API_TYPE level
        globalTid | thread_id thread
        connectionId | connection_id connection
        name | name text
        [depth]""",
        fills=("api",),
        due="npu",
        without="calls are missing",
        usual="all",
    ),
    SqlTable(
        "MEMCPY_INFO",
        """globalTaskId, correlationId | - whole
        size | copied_bytes whole? -1
        memcpyOperation | copy_direction names ENUM_MEMCPY_OPERATION""",
        is_of_run=False,
    ),
    SqlTable(
        "MSTX_EVENTS",
        f"""{_SPAN}
        message | message text
        domainId | domain text
        globalTid | thread_id thread
        rangeId | - whole
        connectionId | - whole
        eventType | kind names ENUM_MSTX_EVENT_TYPE
        category | category whole? unset
        [endGlobalTid]""",
        fills=("marks",),
        what="marks are",
    ),
    SqlTable("GC_RECORD", f"{_SPAN}\nglobalTid | thread_id thread", fills=("marks",), is_of_run=False),
    SqlTable(
        "NPU_MEM",
        """timestampNs | time_ns time
        type | component word app device by owner
        hbm | hbm_bytes whole? -1
        ddr | ddr_bytes whole? -1
        deviceId | device_id whole? -1""",
        fills=("memory", "counters"),
        what="samples in memory and counters are",
        due="memory",
        without="the memory of the device and of its processes is missing",
        usual="all",
    ),
    SqlTable(
        "NPU_MODULE_MEM",
        """timestampNs | time_ns time
        moduleId | component names ENUM_MODULE module
        totalReserved | reserved_bytes whole? -1
        deviceId | device_id whole? -1""",
        fills=("memory",),
        what="samples in memory are",
        due="memory",
        without="the memory of modules is missing",
        usual="all",
    ),
    SqlTable(
        "NPU_OP_MEM",
        """timestampNs | time_ns time
        deviceId | device_id whole? -1
        component | component text
        totalAllocate | allocated_bytes whole?
        totalReserve | reserved_bytes whole?
        operatorName | - whole
        addr | - whole
        type | - word allocate release by lower
        size | - whole
        [globalTid]""",
        fills=("memory", "allocations"),
        usual="all",
    ),
    SqlTable(
        "PYTORCH_API",
        f"""{_SPAN}
        globalTid | thread_id thread
        connectionId? | - whole -> CONNECTION_IDS: their links are missing
        name | name text
        sequenceNumber? | sequence_number whole? -1
        fwdThreadId? | forward_thread_id whole? 0
        type | - names ENUM_API_TYPE
        [inputDtypes] | input_dtypes text one_line
        [inputShapes] | input_shapes text one_line
        [callchainId] | - whole -> PYTORCH_CALLCHAINS: their stacks are missing
        [depth]""",
        fills=("operators", "python"),
        what="operators, python and their links are",
        due="cpu",
        without="operators, steps and Python calls are missing",
        usual="torch",
    ),
    SqlTable(
        "CONNECTION_IDS",
        "id | - whole\nconnectionId | - whole",
        fills=("links",),
        what="links are",
        is_of_run=False,
        due="cpu",
        without="links are missing",
        usual="torch",
    ),
    SqlTable(
        "PYTORCH_CALLCHAINS",
        "id | - whole\nstack | - whole\nstackDepth | - whole",
        what="stacks are",
        is_of_run=False,
        usual="torch",
    ),
    SqlTable(
        "STEP_TIME", f"id | step whole?\n{_SPAN}", fills=("steps",), what="steps are", is_of_run=False, usual="torch"
    ),
    SqlTable(
        "MEMORY_RECORD",
        """timestamp | time_ns time
        component | component text
        totalAllocated | allocated_bytes whole?
        totalReserved | reserved_bytes whole?
        totalActive | active_bytes whole?
        deviceId | device_id whole? -1
        [streamPtr] | stream whole?""",
        fills=("memory",),
        what="samples of the allocator in memory are",
        due="memory",
        without="samples of the allocator are missing",
        usual="torch",
    ),
    SqlTable(
        "OP_MEMORY",
        """name | name text
        size | size_bytes whole
        allocationTime | allocated_ns moment
        releaseTime? | released_ns moment
        deviceId | device_id whole? -1
        [streamPtr] | stream whole?
        [activeReleaseTime] | active_released_ns moment
        [allocationTotalAllocated] | allocation_total_allocated_bytes whole?
        [allocationTotalReserved] | allocation_total_reserved_bytes whole?
        [allocationTotalActive] | allocation_total_active_bytes whole?
        [releaseTotalAllocated] | release_total_allocated_bytes whole?
        [releaseTotalReserved] | release_total_reserved_bytes whole?
        [releaseTotalActive] | release_total_active_bytes whole?
        [duration activeDuration]""",
        fills=("allocations",),
        what="blocks in allocations are",
        due="memory",
        without="blocks of operators are missing",
        usual="torch",
    ),
    SqlTable(
        "OVERLAP_ANALYSIS",
        f"{_SPAN}\ndeviceId | device_id positive\ntype | - whole\n[id]",
        fills=("overlap",),
        is_of_run=False,
    ),
)


def _sampled(name: str, text: str, *, usual: bool = False) -> SqlTable:
    """Return a table of samples: when and where, and the values."""
    where = "timestampNs | time_ns time\n[deviceId] | device_id whole? -1\n"
    return SqlTable(name, where + text, ("counters",), samples=True, usual="all" if usual else "")


_STATISTICS = {"Min": " min", "Max": " max", "Avg": ""}  # the vendor's timeline shows the averages
_PORT_VALUES = (
    *(
        ("PacketRate", "1/s Port {} Packets"),
        ("ByteRate", "byte/s Port {} Bytes"),
        ("Packets", "- Port {} Packets total"),
    ),
    *(("Bytes", "byte Port {} Bytes total"), ("Errors", "- Port {} Errors"), ("Dropped", "- Port {} Dropped")),
)
_NETDEV = (  # packet counts of the card, by the vendor's names
    *("macTxPfcPkt", "macRxPfcPkt", "macTxByte", "macRxByte", "macTxBadByte", "macRxBadByte"),
    *("roceTxPkt", "roceRxPkt", "roceTxErrPkt", "roceRxErrPkt", "roceTxCnpPkt", "roceRxCnpPkt", "roceNewPktRty"),
    *("nicTxByte", "nicRxByte"),
)


def _port(table: str, process: str) -> SqlTable:
    values = [
        f"{side.lower()}{column} | value {unit} {process} {name.format(side)}"
        for side in ("Rx", "Tx")
        for column, described in _PORT_VALUES
        for unit, _, name in (described.partition(" "),)
    ]
    lines = ("[funcId] | instance whole", f"bandwidth | value MB/s {process} Bandwidth", *values)
    return _sampled(table, "\n".join(lines))


_SAMPLES = (
    _sampled("AICORE_FREQ", "[dieId] | instance whole\nfreq | value MHz AI Core Freq", usual=True),
    _sampled(
        "HBM", "[hbmId] | instance whole\n[type] | mode word read write\nbandwidth | value MB/s HBM {}", usual=True
    ),
    _sampled(
        "LLC",
        """[llcId] | instance whole
        [mode] | mode word read write
        throughput | value MB/s LLC {} Throughput
        hitRate | value % LLC {} Hit Rate""",
        usual=True,
    ),
    _sampled("DDR", "read | value MB/s DDR read\nwrite | value MB/s DDR write"),
    _sampled("QOS", "[eventName] | instance text\nbandwidth | value MB/s QoS"),
    _sampled(
        "ACC_PMU",
        """[accId] | instance whole
        readBwLevel | value - Acc PMU read_bandwidth
        writeBwLevel | value - Acc PMU write_band_width
        readOstLevel | value - Acc PMU read_ost
        writeOstLevel | value - Acc PMU write_ost""",
        usual=True,
    ),
    _sampled(
        "SOC_BANDWIDTH_LEVEL",
        """l2BufferBwLevel | value - Stars Soc Info L2 Buffer Bw Level
        mataBwLevel | value - Stars Soc Info Mata Bw Level""",
        usual=True,
    ),
    _sampled(
        "SAMPLE_PMU_TIMELINE",
        """[coreId] | instance whole
        [coreType] | mode word read write
        usage | value % {} Utilization Core
        freq | value MHz {} Utilization Freq
        totalCycle | value - {core}_total_cycles""",
    ),
    _sampled("HCCS", "txThroughput | value MB/s HCCS Tx\nrxThroughput | value MB/s HCCS Rx"),
    _sampled(
        "PCIE",
        "\n".join(
            [
                f"{side}{column}{statistic} | value MB/s PCIe {column.lower()} {side.capitalize()}{word}"
                for side in ("tx", "rx")
                for column in ("Post", "Nonpost", "Cpl")
                for statistic, word in _STATISTICS.items()
            ]
            + [
                f"txNonpostLatency{statistic} | value us PCIe nonpost_latency Tx{word}"
                for statistic, word in _STATISTICS.items()
            ]
        ),
    ),
    _port("NIC", "NIC"),
    _port("ROCE", "RoCE"),
    _sampled(
        "NETDEV_STATS",
        "\n".join(
            [f"{name} | value {'byte' if name.endswith('Byte') else '-'} NetDev Stats {name}" for name in _NETDEV]
            + [
                f"{name}Bandwidth | value MB/s NetDev Stats {name}Bandwidth"
                for name in ("macTx", "macRx", "nicTx", "nicRx")
            ]
        ),
    ),
    _sampled(
        "SIO",
        "[name] | instance text\n"
        + "\n".join(
            f"{side}{kind.capitalize()} | value MB/s SIO {kind}_{side}"
            for side in ("rx", "tx")
            for kind in ("req", "rsp", "snp", "dat")
        ),
    ),
    _sampled("CPU_USAGE", "[cpuId] | instance whole\nusage | value % CPU Usage CPU"),
    _sampled("HOST_MEM_USAGE", "usage | value % Memory Usage"),
    _sampled(
        "HOST_DISK_USAGE",
        """readRate | value KB/s Disk Usage Read
        writeRate | value KB/s Disk Usage Write
        usage | value % Disk Usage""",
    ),
    _sampled("HOST_NETWORK_USAGE", "usage | value % Network Usage\nspeed | value KB/s Network Usage Rate"),
)

_SUMMED = """step | statistic text step
type | statistic text kind
hccl_op_name | statistic text name
group_name | statistic text group
[deviceId package_size count total_duration]"""


def _summed(table: str, statistic: str, text: str) -> SqlTable:
    """Return a table of the vendor's sums over collectives, with the names that ``communication.json`` has for them."""
    without = "the vendor's sums over communication are missing"
    return SqlTable(table, f"{_SUMMED}\n{text}", is_of_run=False, without=without, statistic=statistic)


_SUMS = (
    SqlTable(
        "StepTraceTime",
        """step
        computing | computing_ns us
        communication | communication_ns us
        overlapped | overlapped_ns us
        communication_not_overlapped | communication_not_overlapped_ns us
        free | free_ns us
        stage | stage_ns us
        bubble | bubble_ns us
        [preparing] | preparing_ns us
        [communication_not_overlapped_and_exclude_receive] | communication_not_overlapped_exclude_receive_ns us
        [deviceId] | device_id whole?
        [type]""",
        ("step_times",),
        "steps in step_times are",
        is_of_run=False,
        without="the vendor's breakdown of steps in step_times is missing",
    ),
    _summed(
        "CommAnalyzerTime",
        "communication",
        """start_timestamp | statistic float Start Timestamp(us)
        elapse_time | statistic float Elapse Time(ms)
        transit_time | statistic float Transit Time(ms)
        wait_time | statistic float Wait Time(ms)
        synchronization_time | statistic float Synchronization Time(ms)
        idle_time | statistic float Idle Time(ms)""",
    ),
    _summed(
        "CommAnalyzerBandwidth",
        "communication_bandwidth",
        """transport_type | statistic text link
        transit_size | statistic float Transit Size(MB)
        transit_time | statistic float Transit Time(ms)
        bandwidth | statistic float Bandwidth(GB/s)
        [large_packet_ratio] | statistic float Large Packet Ratio""",
    ),
    _summed(
        "CommAnalyzerMatrix",
        "communication_matrix",
        """src_rank | statistic text src_rank
        dst_rank | statistic text dst_rank
        transport_type | statistic text Transport Type
        transit_size | statistic float Transit Size(MB)
        transit_time | statistic float Transit Time(ms)
        bandwidth | statistic float Bandwidth(GB/s)
        op_name | statistic text Op Name""",
    ),
)
TABLES = {table.name: table for table in (*_OF_RUN, *_SAMPLES, *_SUMS)}
"""The tables that are read into tables, facts or statistics, by their name today."""

STEP_TIMES = "StepTraceTime"
SUMS = frozenset(table.name for table in _SUMS)
"""The tables of the vendor's sums over steps and collectives."""

OLDER_TABLES = {
    **{table.name: table.older_name for table in TABLES.values() if table.older_name},
    "ENUM_API_TYPE": "ENUM_API_LEVEL",
    "ENUM_MODULE": "ENUM_NPU_MODULE",
}
"""The names of early 2024 by today's names."""

OF_RUN = frozenset(
    [
        *(table.name for table in TABLES.values() if table.is_of_run),
        *(OLDER_TABLES[name] for name in ("NPU_INFO", "SESSION_TIME_INFO", "ENUM_API_TYPE")),  # the others say less
    ]
)
"""The tables by any of which a database is known to hold a run."""


VIEWER = frozenset({"connectionCats", "status_info"})
"""The tables that MindStudio Insight adds to a file that it opens."""

_ENUM = SqlTable("ENUM", "id name")


def declared(table: str) -> SqlTable | None:
    """Return the declaration of a table by its name today; None for one that is not read."""
    return _ENUM if table.startswith("ENUM_") else TABLES.get(table)
