"""Sampled values of a file as the table `counters`, named as a timeline's counters are.

Source: formats/results.md sections 2.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns import ABSENT, Array, optional, recoded
from npuprof.sources.database.connection import Database
from npuprof.sources.database.memory import process_samples
from npuprof.sources.database.names import Names
from npuprof.sources.database.spans import sampled, take
from npuprof.sources.decimals import KB_TO_BYTES, MB_TO_BYTES, US_TO_NS

_INSTANCES = {"app": "APP", "device": "Device"}


@dataclass(frozen=True)
class _Sampled:
    """One table of samples.

    Attributes
    ----------
    table
        Its name.
    values
        By column: the counter's name, its unit, and by what to divide. ``{}`` in a name is the row's mode.
    instance, mode
        The column that says whose value it is, and the one that holds the mode (read or write).
    named
        Whether `instance` numbers a name.
    """

    table: str
    values: Mapping[str, tuple[str, str | None, float]]
    instance: str = ""
    mode: str = ""
    named: bool = False


def _traffic(process: str) -> _Sampled:
    """Describe the tables of network ports."""
    values: dict[str, tuple[str, str | None, float]] = {"bandwidth": (f"{process} Bandwidth", "MB/s", MB_TO_BYTES)}
    for side in ("rx", "tx"):
        counter = f"{process} {side.capitalize()}"
        values[f"{side}PacketRate"] = (f"{counter} Packets", None, 1)
        values[f"{side}Errors"] = (f"{counter} Errors", None, 1)
        values[f"{side}Dropped"] = (f"{counter} Dropped", None, 1)
    return _Sampled(process.upper(), values, "funcId")


_PCIE = {"Post": "post", "Nonpost": "nonpost", "Cpl": "cpl"}
_TABLES = (
    _Sampled("AICORE_FREQ", {"freq": ("AI Core Freq", "MHz", 1)}),
    _Sampled("HBM", {"bandwidth": ("HBM {}", "MB/s", MB_TO_BYTES)}, "hbmId", "type"),
    _Sampled(
        "LLC",
        {"throughput": ("LLC {} Throughput", "MB/s", MB_TO_BYTES), "hitRate": ("LLC {} Hit Rate", "%", 1)},
        "llcId",
        "mode",
    ),
    _Sampled("DDR", {"read": ("DDR read", "MB/s", MB_TO_BYTES), "write": ("DDR write", "MB/s", MB_TO_BYTES)}),
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
        "HCCS",
        {"txThroughput": ("HCCS Tx", "MB/s", MB_TO_BYTES), "rxThroughput": ("HCCS Rx", "MB/s", MB_TO_BYTES)},
    ),
    _Sampled(
        "PCIE",
        {
            f"{side}{column}Avg": (f"PCIe {name} {side.capitalize()}", "MB/s", MB_TO_BYTES)
            for side in ("tx", "rx")
            for column, name in _PCIE.items()
        }
        | {
            f"{side}NonpostLatencyAvg": (f"PCIe nonpost_latency {side.capitalize()}", "us", US_TO_NS)
            for side in ("tx", "rx")
        },
    ),
    _traffic("NIC"),
    _traffic("RoCE"),
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
)
READ = frozenset(one.table for one in _TABLES)
"""The tables that are read here."""


def counters_table(database: Database, strings: Names) -> pd.DataFrame | None:
    """Make `counters`, in order of time: bandwidths in the vendor's MB/s of 2**20 bytes a second.

    The hit rate of the last-level cache is in percent; some timelines write a fraction under the same name.
    """
    series = [part for described in _TABLES for part in _series(database, described, strings)]
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


def _series(database: Database, described: _Sampled, strings: Names) -> Iterator[dict[str, Any]]:
    extra = [name for name in (described.instance, described.mode) if name]
    values = [column for column in described.values if database.has(described.table, column)]
    rows = database.rows(described.table, ["timestampNs", "deviceId", *extra], values)
    rows = sampled(database, described.table, rows, "timestampNs")
    instance = _instances(rows, described, strings)
    modes = strings.column(rows[described.mode]) if described.mode else None
    for column in values:
        counter, unit, worth = described.values[column]
        yield {
            "time_ns": rows["timestampNs"],
            "device": rows["deviceId"],
            "value": rows[column] / worth,
            "counter": _counters(counter, modes, len(instance)),
            "instance": instance,
            "unit": _constant(unit, len(instance)),
        }


def _instances(rows: dict[str, Array], described: _Sampled, strings: Names) -> pd.Categorical:
    if not described.instance:
        return _constant(None, len(rows["timestampNs"]))
    numbers = rows[described.instance]
    if described.named:
        return strings.column(numbers, lambda name: name.removeprefix("die "))
    codes, used = pd.factorize(numbers)
    return recoded(codes.astype(np.int32), [None if number == ABSENT else str(number) for number in used.tolist()])


def _counters(name: str, modes: pd.Categorical | None, count: int) -> pd.Categorical:
    if modes is None:
        return _constant(name, count)
    return recoded(modes.codes.astype(np.int32), [*(name.format(mode) for mode in modes.categories)])


def _process_series(database: Database, strings: Names) -> list[dict[str, Any]]:
    rows = process_samples(database)
    known = (rows["ddr"] >= 0) & (rows["hbm"] >= 0)
    rows = take(rows, known)
    instance = strings.column(rows["type"], lambda kind: _INSTANCES.get(kind, kind))
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
