"""Sampled values of a file as the table `counters`, with the names of counters in timelines.

Source: sources/RESULTS.md sections 2.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Records
from npuprof.sources.columns.builders import optional, recoded
from npuprof.sources.columns.decimals import KB_TO_BYTES, MB_TO_BYTES, US_TO_NS
from npuprof.sources.columns.shares import converted
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import sampled, take
from npuprof.sources.database.memory import process_kinds, process_samples
from npuprof.sources.database.names import TextsById, memory_names


@dataclass(frozen=True)
class _Sampled:
    """A table of samples.

    Attributes
    ----------
    table
        Its name.
    values
        By column: the counter's name, unit and divisor. ``{}`` in a name is the row's mode or core; ``{core}`` is the
        core in the names of kernel counters.
    instance, mode
        The column of the instance, and the column of the mode (read or write).
    named
        Whether `instance` is the number of a name.
    """

    table: str
    values: Mapping[str, tuple[str, str | None, float]]
    instance: str = ""
    mode: str = ""
    named: bool = False


_PORTS = {"NIC": "NIC", "ROCE": "RoCE"}
_PORT_VALUES = (
    ("PacketRate", "Packets", "1/s"),
    ("ByteRate", "Bytes", "byte/s"),
    ("Packets", "Packets total", None),
    ("Bytes", "Bytes total", "byte"),
    ("Errors", "Errors", None),
    ("Dropped", "Dropped", None),
)
_PCIE = {"Post": "post", "Nonpost": "nonpost", "Cpl": "cpl"}
_STATISTICS = {"Min": " min", "Max": " max", "Avg": ""}  # the vendor's timeline shows the averages
_MODES = ("read", "write")
_LATENCY = "NonpostLatency"
_HIT_RATE = "hitRate"  # percent, unlike in a timeline
_NETDEV = (  # packet counts of the card, by the vendor's names
    *("macTxPfcPkt", "macRxPfcPkt", "macTxByte", "macRxByte", "macTxBadByte", "macRxBadByte"),
    *("roceTxPkt", "roceRxPkt", "roceTxErrPkt", "roceRxErrPkt", "roceTxCnpPkt", "roceRxCnpPkt", "roceNewPktRty"),
    *("nicTxByte", "nicRxByte"),
)
_CORES = {
    **dict.fromkeys(("AIC", "AI_CORE"), ("AI Core", "aic")),
    **dict.fromkeys(("AIV", "AI_VECTOR_CORE"), ("AI Vector Core", "aiv")),
}
_TABLES = (
    _Sampled("AICORE_FREQ", {"freq": ("AI Core Freq", "MHz", 1)}, "dieId"),
    _Sampled("HBM", {"bandwidth": ("HBM {}", "MB/s", MB_TO_BYTES)}, "hbmId", "type"),
    _Sampled(
        "LLC",
        {"throughput": ("LLC {} Throughput", "MB/s", MB_TO_BYTES), _HIT_RATE: ("LLC {} Hit Rate", "%", 1)},
        "llcId",
        "mode",
    ),
    _Sampled("DDR", {"read": ("DDR read", "MB/s", MB_TO_BYTES), "write": ("DDR write", "MB/s", MB_TO_BYTES)}),
    _Sampled("QOS", {"bandwidth": ("QoS", "MB/s", MB_TO_BYTES)}, "eventName", named=True),
    _Sampled(
        "ACC_PMU",
        {
            "readBwLevel": ("Acc PMU read_bandwidth", None, 1),
            "writeBwLevel": ("Acc PMU write_band_width", None, 1),
            "readOstLevel": ("Acc PMU read_ost", None, 1),
            "writeOstLevel": ("Acc PMU write_ost", None, 1),
        },
        "accId",
    ),
    _Sampled(
        "SOC_BANDWIDTH_LEVEL",
        {
            "l2BufferBwLevel": ("Stars Soc Info L2 Buffer Bw Level", None, 1),
            "mataBwLevel": ("Stars Soc Info Mata Bw Level", None, 1),
        },
    ),
    _Sampled(
        "SAMPLE_PMU_TIMELINE",
        {
            "usage": ("{} Utilization Core", "%", 1),
            "freq": ("{} Utilization Freq", "MHz", 1),
            "totalCycle": ("{core}_total_cycles", None, 1),
        },
        "coreId",
        "coreType",
    ),
    _Sampled(
        "HCCS",
        {"txThroughput": ("HCCS Tx", "MB/s", MB_TO_BYTES), "rxThroughput": ("HCCS Rx", "MB/s", MB_TO_BYTES)},
    ),
    _Sampled(
        "PCIE",
        {
            f"{side}{column}{statistic}": (f"PCIe {name} {side.capitalize()}{word}", "MB/s", MB_TO_BYTES)
            for side in ("tx", "rx")
            for column, name in _PCIE.items()
            for statistic, word in _STATISTICS.items()
        }
        | {
            f"tx{_LATENCY}{statistic}": (f"PCIe nonpost_latency Tx{word}", "us", US_TO_NS)
            for statistic, word in _STATISTICS.items()
        },
    ),
    *(
        _Sampled(
            table,
            {
                "bandwidth": (f"{process} Bandwidth", "MB/s", MB_TO_BYTES),
                **{
                    f"{side}{column}": (f"{process} Port {side.capitalize()} {name}", unit, 1)
                    for side in ("rx", "tx")
                    for column, name, unit in _PORT_VALUES
                },
            },
            "funcId",
        )
        for table, process in _PORTS.items()
    ),
    _Sampled(
        "NETDEV_STATS",
        {name: (f"NetDev Stats {name}", "byte" if name.endswith("Byte") else None, 1) for name in _NETDEV}
        | {
            f"{card}{side}Bandwidth": (f"NetDev Stats {card}{side}Bandwidth", "MB/s", MB_TO_BYTES)
            for card in ("mac", "nic")
            for side in ("Tx", "Rx")
        },
    ),
    _Sampled(
        "SIO",
        {
            f"{side}{kind.capitalize()}": (f"SIO {kind}_{side}", "MB/s", MB_TO_BYTES)
            for side in ("rx", "tx")
            for kind in ("req", "rsp", "snp", "dat")
        },
        "name",
        named=True,
    ),
    _Sampled("CPU_USAGE", {"usage": ("CPU Usage CPU", "%", 1)}, "cpuId"),
    _Sampled("HOST_MEM_USAGE", {"usage": ("Memory Usage", "%", 1)}),
    _Sampled(
        "HOST_DISK_USAGE",
        {
            "readRate": ("Disk Usage Read", "KB/s", KB_TO_BYTES),
            "writeRate": ("Disk Usage Write", "KB/s", KB_TO_BYTES),
            "usage": ("Disk Usage", "%", 1),
        },
    ),
    _Sampled(
        "HOST_NETWORK_USAGE",
        {"usage": ("Network Usage", "%", 1), "speed": ("Network Usage Rate", "KB/s", KB_TO_BYTES)},
    ),
)
READ = frozenset(samples.table for samples in _TABLES)
"""The tables that are read here."""


def columns_of(table: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the columns that are read from a table of samples: required, and optional ones."""
    samples = next(samples for samples in _TABLES if samples.table == table)
    return frozenset(("timestampNs", *samples.values)), frozenset(("deviceId", "dieId", samples.instance, samples.mode))


def counters_table(database: Database, strings: TextsById) -> pd.DataFrame | None:
    """Build `counters` in order of time, with the names and units of raw data (`counter_rows`)."""
    series = [part for described in _TABLES for part in _series(database, described, strings)]
    series += [part for table in _PORTS for part in _shares(database, table)]
    series += _process_series(database, strings)
    series = [part for part in series if len(part["time_ns"])]
    if not series:
        return None
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in series]) for name in ("time_ns", "device", "value")
    }
    columns |= {
        name: pd.api.types.union_categoricals([part[name] for part in series])
        for name in ("counter", "instance", "unit")
    }
    columns["device_id"] = optional(columns.pop("device"), (-1,))
    return tables.sort_by_time(tables.build("counters", columns))


def _series(database: Database, described: _Sampled, strings: TextsById) -> Iterator[dict[str, Any]]:
    extra = [name for name in (described.instance, described.mode) if name]
    values = [column for column in described.values if database.has(described.table, column)]
    rows = database.rows(described.table, ["timestampNs", "deviceId", *extra], values)
    rows = sampled(database, described.table, rows, "timestampNs")
    count = len(rows["timestampNs"])
    database.accounts.keep(described.table, "counters", count, count * len(values))
    instance = _instances(rows, described, strings)
    modes = None
    if described.mode:
        numbers = rows[described.mode]
        modes = memory_names(database, strings, numbers, _MODES).column(numbers)
    for column in values:
        counter, unit, worth = described.values[column]
        value = rows[column] / worth
        if column == _HIT_RATE:
            notes, source = database.notes, f"{database.path.name}: {described.table}"
            value = converted(value, "percent", "percent", notes, source, f"values of {column}")
        yield {
            "time_ns": rows["timestampNs"],
            "device": rows["deviceId"],
            "value": value,
            "counter": _counters(counter, modes, len(instance)),
            "instance": instance,
            "unit": _constant(unit, len(instance)),
        }


def _instances(rows: dict[str, Records], described: _Sampled, strings: TextsById) -> pd.Categorical:
    if not described.instance:
        return _constant(None, len(rows["timestampNs"]))
    numbers = rows[described.instance]
    return strings.column(numbers) if described.named else _instance_names(numbers)


def _instance_names(numbers: Records) -> pd.Categorical:
    """Build instance names from numbers; -1 is absent."""
    codes, used = pd.factorize(numbers)
    return recoded(codes.astype(np.int32), [str(number) if number >= 0 else None for number in used.tolist()])


def _counters(name: str, modes: pd.Categorical | None, count: int) -> pd.Categorical:
    if modes is None:
        return _constant(name, count)
    cores = (_CORES.get(mode, (mode, mode.lower())) for mode in modes.categories)
    return recoded(modes.codes.astype(np.int32), [name.format(label, core=core) for label, core in cores])


def _shares(database: Database, table: str) -> Iterator[dict[str, Any]]:
    """Yield each port's utilization and packet error rate, computed as in the timeline."""
    columns = ["bandwidth", *(f"{side}{column}" for side in ("rx", "tx") for column, *_ in _PORT_VALUES)]
    rows = database.rows(table, ["timestampNs", "deviceId", "funcId"], columns)
    rows = sampled(database, table, rows, "timestampNs")
    count = len(rows["timestampNs"])
    database.accounts.keep(table, "counters", 0, 6 * count)
    for side in ("rx", "tx"):
        packets = rows[f"{side}Packets"]
        for name, part, whole in (
            ("Bandwidth Efficiency", rows[f"{side}ByteRate"] * 8, rows["bandwidth"]),
            ("Error Rate", rows[f"{side}Errors"], packets),
            ("Dropped Rate", rows[f"{side}Dropped"], packets),
        ):
            share = np.full(count, np.nan)
            np.divide(part * 100, whole, out=share, where=whole > 0)
            yield {
                "time_ns": rows["timestampNs"],
                "device": rows["deviceId"],
                "value": share,
                "counter": _constant(f"{_PORTS[table]} Port {side.capitalize()} {name}", count),
                "instance": _instance_names(rows["funcId"]),
                "unit": _constant("%", count),
            }


def _process_series(database: Database, strings: TextsById) -> list[dict[str, Any]]:
    rows = process_samples(database, strings)
    is_known = (rows["ddr"] >= 0) & (rows["hbm"] >= 0)
    neither = int((~is_known & ~rows["in_memory"]).sum())
    database.accounts.keep("NPU_MEM", "counters", int((is_known & ~rows["in_memory"]).sum()), 3 * int(is_known.sum()))
    database.accounts.leave_out("NPU_MEM", "a sample has no readable size", neither, affects=("counters",))
    rows = take(rows, is_known)
    instance = process_kinds(database, strings, rows)
    held = {"DDR": rows["ddr"], "HBM": rows["hbm"], "Memory": rows["ddr"] + rows["hbm"]}
    return [
        {
            "time_ns": rows["timestampNs"],
            "device": rows["deviceId"],
            "value": values / KB_TO_BYTES,
            "counter": _constant(f"NPU MEM {name}", len(values)),
            "instance": instance,
            "unit": _constant("KB", len(values)),
        }
        for name, values in held.items()
    ]


def _constant(name: str | None, count: int) -> pd.Categorical:
    return recoded(np.zeros(count, np.int32), [name])
