"""Comparisons with the tables of the vendor's database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof.sources.raw.records import enums

from .vendor import ROUNDED_NS, Check, Sample, number, rows, text_or_none

_LEVELS = {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime"}
_CORES = {"KERNEL_AICORE": "AI_CORE", "KERNEL_AIVEC": "AI_VECTOR_CORE", "KERNEL_MIX_AIC": "MIX_AIC"}
_MIB = 2**20


def calls(sample: Sample) -> int:
    query = "SELECT startNs, endNs, name, type, globalTid FROM CANN_API ORDER BY startNs, endNs DESC"
    wanted = [
        (start, end - start, sample.strings[name], _LEVELS[level], thread & 0xFFFFFFFF)
        for start, end, name, level, thread in sample.query(query)
    ]
    assert rows(sample.table("api"), "start_ns", "duration_ns", "name", "level", "thread_id") == wanted
    return len(wanted)


def tasks(sample: Sample) -> int:
    query = (
        "SELECT startNs, endNs - startNs, deviceId, streamId, taskId, contextId, modelId, taskType FROM TASK "
        "ORDER BY startNs, endNs DESC"
    )
    found = sample.table("tasks").assign(model=lambda frame: frame.get("model_id"))
    columns = ("start_ns", "duration_ns", "device_id", "stream_id", "task_id", "context_id", "model")
    wanted = sample.query(query)
    assert rows(found, *columns) == [(*row[:5], number(row[5]), number(row[6])) for row in wanted]
    # of a kernel the vendor gives the type that launched it, we the core that ran it
    assert found["task_type"].tolist() == [_CORES.get(sample.strings[row[7]], sample.strings[row[7]]) for row in wanted]
    return len(wanted)


def kernels(sample: Sample) -> int:
    texts = "name opType taskType opState inputShapes inputDataTypes inputFormats outputShapes outputDataTypes"
    columns = [f"i.{name}" for name in f"{texts} outputFormats hf32Eligible".split()]
    query = (
        f"SELECT startNs, i.blockNum, i.mixBlockNum, {', '.join(columns)} FROM COMPUTE_TASK_INFO i "
        "JOIN TASK USING (globalTaskId) ORDER BY startNs"
    )
    wanted = [
        (*row[:3], *(text_or_none(sample.strings[key]) for key in row[3:-1]), sample.strings[row[-1]] == "YES")
        for row in sample.query(query)
    ]
    own = ("op_name", "op_type", "core", "op_state", "input_shapes", "input_dtypes", "input_formats")
    found = sample.table("kernels")
    assert (
        rows(
            found,
            *("start_ns", "block_num", "mix_block_num", *own),
            *("output_shapes", "output_dtypes", "output_formats", "hf32"),
        )
        == wanted
    )
    return len(wanted)


def performance_counters(sample: Sample) -> int:
    found = sample.table("kernels").set_index("start_ns")
    by_start = found.to_dict("index")
    seen = set()
    wanted = sample.query("SELECT startNs, name, value FROM TASK_PMU_INFO JOIN TASK USING (globalTaskId)")
    for start, label, value in wanted:
        column = sample.strings[label] + ("_ns" if sample.strings[label].endswith("_time") else "")
        column = "cube_utilization_percent" if column.startswith("cube_utilization") else column
        own = by_start[start].get(column)
        if pd.isna(own):  # the core wrote nothing, or the column is of the other one: absent here, zero there
            assert value == 0
        else:
            # times may be whole nanoseconds
            assert own == pytest.approx(value, rel=1e-12, abs=0.5 if column.endswith("_ns") else 0), column
            seen.add(column)
    assert not set(found.columns[found.columns.str.match("aic_|aiv_")]) - seen
    return len(wanted)


def frequencies(sample: Sample) -> int:
    wanted = sample.query("SELECT timestampNs, freq, deviceId FROM AICORE_FREQ ORDER BY timestampNs")
    (session,) = sample.query("SELECT startTimeNs, endTimeNs FROM SESSION_TIME_INFO")
    # The vendor draws each change twice, and adds points at the start and the end of the session.
    changes = sorted(row for row in set(wanted) if row[0] not in session)
    found = sample.table("counters").query("counter == 'AI Core Freq'")
    assert rows(found, "time_ns", "value", "device_id") == changes
    added = [row for row in wanted if row[0] in session]
    assert len(wanted) == 2 * len(changes) + len(added)
    return len(wanted)


def overlap(sample: Sample) -> int:
    kinds = {0: "computing", 1: "communication", 2: "communication_not_overlapped", 3: "free"}
    wanted = [
        (kinds[kind], *row)
        for kind, *row in sample.query("SELECT type, deviceId, startNs, endNs - startNs FROM OVERLAP_ANALYSIS")
    ]
    assert sorted(rows(sample.table("overlap"), "kind", "device_id", "start_ns", "duration_ns")) == sorted(wanted)
    return len(wanted)


def marks(sample: Sample) -> int:
    kinds = dict(sample.query("SELECT id, name FROM ENUM_MSTX_EVENT_TYPE"))
    query = (
        "SELECT startNs, endNs - startNs, eventType, category, message, globalTid, domainId, connectionId "
        "FROM MSTX_EVENTS ORDER BY startNs, endNs DESC"
    )
    wanted = sample.query(query)
    found = rows(
        sample.table("marks"),
        *("start_ns", "duration_ns", "kind", "category", "message", "thread_id", "domain", "id", "device_start_ns"),
    )
    for own, (start, length, kind, category, message, thread, domain, connection) in zip(found, wanted, strict=True):
        plain = (start, length, kinds[kind], number(category), sample.strings[message], thread & 0xFFFFFFFF)
        assert own[:6] == plain
        assert own[6] == text_or_none(sample.strings[domain])
        assert connection == 4_000_000_000 + (0 if own[8] is None else own[7] + 1)
    return len(wanted)


def copies(sample: Sample) -> int:
    query = "SELECT startNs, size, memcpyOperation FROM MEMCPY_INFO JOIN TASK USING (globalTaskId) ORDER BY startNs"
    wanted = sample.query(query)
    names = dict(sample.query("SELECT id, name FROM ENUM_MEMCPY_OPERATION"))
    found = sample.table("tasks").query("task_type == 'MEMCPY_ASYNC'")
    # a copy that memcpy_info does not tell of is of 0 bytes in the vendor's table
    assert rows(found, "start_ns", "copied_bytes", "copy_direction") == [
        (start, None, None) if names[kind] == "other" else (start, size, names[kind]) for start, size, kind in wanted
    ]
    return len(wanted)


def memory(sample: Sample) -> int:
    query = "SELECT type, timestampNs, hbm, ddr, deviceId FROM NPU_MEM ORDER BY timestampNs, type"
    wanted = sample.query(query)
    found = sample.table("memory")
    names = {"app": "APP", "device": "Device"}
    found = found[found["component"].isin([*names.values()])].sort_values(["time_ns", "component"])
    own = rows(found, "component", "hbm_bytes", "ddr_bytes", "device_id")
    assert own == [(names[sample.strings[kind]], *sizes) for kind, _, *sizes in wanted]
    for time_ns, row in zip(found["time_ns"], wanted, strict=True):
        assert abs(int(time_ns) - row[1]) <= ROUNDED_NS  # the vendor's float64
    return len(wanted)


def operator_memory(sample: Sample) -> int:
    query = (
        "SELECT timestampNs, operatorName, addr, type, size, totalAllocate, totalReserve, component, deviceId "
        "FROM NPU_OP_MEM ORDER BY timestampNs"
    )
    wanted = sample.query(query)
    blocks, states = sample.table("allocations"), sample.table("memory").query("component == 'GE'")
    moments = sorted(
        (int(row[f"{moment}_ns"]), row["name"], row["address"], kind, row["size_bytes"])
        for row in blocks.to_dict("records")
        for moment, kind in (("allocated", 1), ("released", 0))
        if not pd.isna(row[f"{moment}_ns"])
    )
    assert moments == [(time_ns, sample.strings[name], *rest) for time_ns, name, *rest in (row[:5] for row in wanted)]
    own = rows(states, "time_ns", "allocated_bytes", "reserved_bytes", "component", "device_id")
    assert own == [(row[0], row[5], row[6], sample.strings[row[7]], row[8]) for row in wanted]
    return len(wanted)


def _series(sample: Sample, counter: str, instance: Any = None) -> pd.DataFrame:
    counters = sample.table("counters")
    chosen = counters["counter"] == counter
    if instance is not None:
        chosen &= counters["instance"] == str(instance)
    found: pd.DataFrame = counters[chosen]
    return found


def _at(sample: Sample, counter: str, instance: Any, time_ns: int) -> float:
    found = _series(sample, counter, instance)
    (value,) = found.loc[(found["time_ns"] - time_ns).abs() <= ROUNDED_NS, "value"]
    return float(value)


def hbm(sample: Sample) -> int:
    wanted = sample.query("SELECT timestampNs, hbmId, type, bandwidth FROM HBM")
    for time_ns, instance, kind, bytes_a_second in wanted:
        value = _at(sample, f"HBM {sample.strings[kind]}", instance, time_ns)
        # a first sample has nothing before it, the vendor shows 0; it divides by intervals bent by its float64 stamps
        assert np.nan_to_num(value) * _MIB == pytest.approx(bytes_a_second, rel=3e-5)
    return len(wanted)


def llc(sample: Sample) -> int:
    wanted = sample.query("SELECT timestampNs, llcId, hitRate, throughput FROM LLC")
    for time_ns, instance, *zeros in wanted:
        assert zeros == [0, 0]  # each moment holds one event of the two that are summed: no value here, 0 there
        for name in ("Hit Rate", "Throughput"):
            assert math.isnan(_at(sample, f"LLC read {name}", instance, time_ns))
    return len(wanted)


def _columns(table: str, instance: str, names: Mapping[str, tuple[str, float]]) -> Check:
    """Compare columns of a table with the counters of these names; a value is worth so many of ours."""

    def check(sample: Sample) -> int:
        wanted = sample.query(f"SELECT timestampNs, {instance}, {', '.join(names)} FROM {table}")
        for time_ns, which, *values in wanted:
            which = sample.strings.get(which) if instance == "name" else None if instance == "deviceId" else which
            for (counter, worth), value in zip(names.values(), values, strict=True):
                own = _at(sample, counter, which, time_ns)
                assert own == pytest.approx(value / worth, rel=1e-9, abs=0.0005), (counter, time_ns)
        return len(wanted)

    return check


def _port(label: str) -> Check:
    names = {"bandwidth": (f"{label} Bandwidth", float(_MIB))}
    for side in ("rx", "tx"):
        ends = {"PacketRate": "Packets", "ByteRate": "Bytes", "Packets": "Packets total", "Bytes": "Bytes total"}
        ends |= {"Errors": "Errors", "Dropped": "Dropped"}
        names |= {f"{side}{end}": (f"{label} Port {side.title()} {name}", 1.0) for end, name in ends.items()}
    return _columns(label.upper(), "funcId", names)


_PCIE = {
    f"{side}{column}{end}": (f"PCIe {name} {side.title()}{suffix}", 1000.0 if "Latency" in column else float(_MIB))
    for side in ("tx", "rx")
    for column, name in {
        "Post": "post",
        "Nonpost": "nonpost",
        "Cpl": "cpl",
        **({"NonpostLatency": "nonpost_latency"} if side == "tx" else {}),
    }.items()
    for end, suffix in (("Min", " min"), ("Max", " max"), ("Avg", ""))
}
_ACCELERATOR = {
    "readBwLevel": ("Acc PMU read_bandwidth", 1.0),
    "writeBwLevel": ("Acc PMU write_band_width", 1.0),
    "readOstLevel": ("Acc PMU read_ost", 1.0),
    "writeOstLevel": ("Acc PMU write_ost", 1.0),
}
_SIO = {
    f"{side}{kind}": (f"SIO {kind.lower()}_{side}", float(_MIB))
    for side in ("rx", "tx")
    for kind in ("Req", "Rsp", "Snp", "Dat")
}
_LEVEL = {
    "l2BufferBwLevel": ("Stars Soc Info L2 Buffer Bw Level", 1.0),
    "mataBwLevel": ("Stars Soc Info Mata Bw Level", 1.0),
}
_HCCS = {"txThroughput": ("HCCS Tx", float(_MIB)), "rxThroughput": ("HCCS Rx", float(_MIB))}


def machine(table: str) -> Check:
    """Compare a table of one row about the run with `Info`."""

    def check(sample: Sample) -> int:
        info = sample.decoded.info
        (row,) = sample.query(f"SELECT * FROM {table}")
        if table == "HOST_INFO":
            assert row[1] == info.environment["hostname"]
        elif table == "NPU_INFO":
            assert row == (info.devices[0], info.chip.replace(" ", ""))
        elif table == "RANK_DEVICE_MAP":
            assert row == (-1 if info.rank is None else info.rank, info.devices[0])
        else:
            assert row[0] == info.started_ns
            assert info.stopped_ns is not None
            assert 0 <= info.stopped_ns - row[1] < 1000  # the vendor keeps microseconds of the end
        return 1

    return check


def enumeration(name: str, own: Mapping[int, str]) -> Check:
    """Compare the names of an enumeration; the numbers of none at its end have no name here."""

    def check(sample: Sample) -> int:
        wanted = sample.query(f"SELECT id, name FROM ENUM_{name}")
        for value, text in wanted:
            assert own.get(value) == (None if value >= 255 else text)
        return len(wanted)

    return check


def levels(sample: Sample) -> int:
    wanted = sample.query("SELECT id, name FROM ENUM_API_TYPE")
    assert dict(wanted) == _LEVELS == dict(enums.LEVELS)
    return len(wanted)


CHECKS: Mapping[str, Check] = {
    "ACC_PMU": _columns("ACC_PMU", "accId", _ACCELERATOR),
    "AICORE_FREQ": frequencies,
    "CANN_API": calls,
    "COMPUTE_TASK_INFO": kernels,
    "ENUM_API_TYPE": levels,
    "ENUM_HCCL_DATA_TYPE": enumeration("HCCL_DATA_TYPE", enums.HCCL_DATA_TYPES),
    "ENUM_HCCL_LINK_TYPE": enumeration("HCCL_LINK_TYPE", enums.HCCL_LINKS),
    "ENUM_HCCL_RDMA_TYPE": enumeration("HCCL_RDMA_TYPE", enums.HCCL_RDMA_TYPES),
    "ENUM_HCCL_TRANSPORT_TYPE": enumeration("HCCL_TRANSPORT_TYPE", enums.HCCL_TRANSPORTS),
    "ENUM_MEMCPY_OPERATION": enumeration("MEMCPY_OPERATION", enums.MEMCPY_DIRECTIONS),
    "ENUM_MODULE": enumeration("MODULE", enums.MEMORY_MODULES),
    "HBM": hbm,
    "HCCS": _columns("HCCS", "deviceId", _HCCS),
    "HOST_INFO": machine("HOST_INFO"),
    "LLC": llc,
    "MEMCPY_INFO": copies,
    "MSTX_EVENTS": marks,
    "NIC": _port("NIC"),
    "NPU_INFO": machine("NPU_INFO"),
    "NPU_MEM": memory,
    "NPU_OP_MEM": operator_memory,
    "OVERLAP_ANALYSIS": overlap,
    "PCIE": _columns("PCIE", "deviceId", _PCIE),
    "RANK_DEVICE_MAP": machine("RANK_DEVICE_MAP"),
    "ROCE": _port("RoCE"),
    "SESSION_TIME_INFO": machine("SESSION_TIME_INFO"),
    "SIO": _columns("SIO", "name", _SIO),
    "SOC_BANDWIDTH_LEVEL": _columns("SOC_BANDWIDTH_LEVEL", "deviceId", _LEVEL),
    "TASK": tasks,
    "TASK_PMU_INFO": performance_counters,
}
