"""Sampled values of a file as the table `counters`, with the names of counters in timelines.

Source: sources/RESULTS.md sections 2.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Records
from npuprof.sources.columns.builders import optional, recoded
from npuprof.sources.columns.decimals import KB_TO_BYTES, MB_TO_BYTES, US_TO_NS
from npuprof.sources.columns.shares import converted
from npuprof.sources.database.declaration import SqlColumn, SqlTable
from npuprof.sources.database.format import TABLES
from npuprof.sources.database.memory import process_samples
from npuprof.sources.database.reader import Reader, Rows

_PORTS = {"NIC": "NIC", "ROCE": "RoCE"}
_WORTH = {"MB/s": MB_TO_BYTES, "KB/s": KB_TO_BYTES, "us": US_TO_NS}  # of the units of counters in those of the file
_HIT_RATE = "hitRate"  # percent, unlike in a timeline
_CORES = {
    **dict.fromkeys(("AIC", "AI_CORE"), ("AI Core", "aic")),
    **dict.fromkeys(("AIV", "AI_VECTOR_CORE"), ("AI Vector Core", "aiv")),
}


def counters_table(reader: Reader) -> pd.DataFrame | None:
    """Build `counters` in order of time, with the names and units of raw data (`counter_rows`)."""
    series = [part for table in TABLES.values() if table.samples for part in _series(reader, table)]
    series += [part for table in _PORTS for part in _shares(reader, table)]
    series += _process_series(reader)
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


def _series(reader: Reader, table: SqlTable) -> Iterator[dict[str, Any]]:
    rows = reader.rows(table.name).sampled()
    columns = [column for column in table.columns if column.to == "value" and column.name in rows.values]
    reader.accounts.keep(table.name, "counters", len(rows), len(rows) * len(columns))
    instance = _instances(rows)
    mode = next((column.name for column in table.columns if column.to == "mode"), "")
    modes = rows.column(mode) if mode else None
    for column in columns:
        unit, *words = (column.kind, *column.more)
        value = rows[column.name] / _WORTH.get(unit, 1)
        if column.name == _HIT_RATE:
            source = f"{reader.database.path.name}: {table.name}"
            value = converted(value, "percent", "percent", reader.notes, source, f"values of {_HIT_RATE}")
        yield _part(rows, value, _counters(" ".join(words), modes, len(rows)), instance, None if unit == "-" else unit)


def _part(
    rows: Rows, value: Records, counter: pd.Categorical, instance: pd.Categorical, unit: str | None
) -> dict[str, Any]:
    return {
        "time_ns": rows["timestampNs"],
        "device": rows["deviceId"],
        "value": value,
        "counter": counter,
        "instance": instance,
        "unit": _constant(unit, len(value)),
    }


def _instances(rows: Rows) -> pd.Categorical:
    """Return the names of instances, or their numbers as names; -1 is absent."""
    column: SqlColumn | None = next((column for column in rows.table.columns if column.to == "instance"), None)
    if column is None:
        return _constant(None, len(rows))
    if column.kind == "text":
        return rows.column(column.name)
    codes, used = pd.factorize(rows[column.name])
    return recoded(codes.astype(np.int32), [str(number) if number >= 0 else None for number in used.tolist()])


def _counters(name: str, modes: pd.Categorical | None, count: int) -> pd.Categorical:
    if modes is None:
        return _constant(name, count)
    cores = (_CORES.get(mode, (mode, mode.lower())) for mode in modes.categories)
    return recoded(modes.codes.astype(np.int32), [name.format(label, core=core) for label, core in cores])


def _shares(reader: Reader, table: str) -> Iterator[dict[str, Any]]:
    """Yield each port's utilization and packet error rate, computed as in the timeline."""
    rows = reader.rows(table).sampled()
    count = len(rows)
    reader.accounts.keep(table, "counters", 0, 6 * count)
    instance, none = _instances(rows), np.full(count, np.nan)
    for side in ("Rx", "Tx"):
        rate, packets, errors, dropped = (
            rows.values.get(f"{side.lower()}{what}", none) for what in ("ByteRate", "Packets", "Errors", "Dropped")
        )
        for name, part, whole in (
            ("Bandwidth Efficiency", rate * 8, rows.values.get("bandwidth", none)),
            ("Error Rate", errors, packets),
            ("Dropped Rate", dropped, packets),
        ):
            share = np.full(count, np.nan)
            np.divide(part * 100, whole, out=share, where=whole > 0)
            yield _part(rows, share, _constant(f"{_PORTS[table]} Port {side} {name}", count), instance, "%")


def _process_series(reader: Reader) -> list[dict[str, Any]]:
    rows, in_memory = process_samples(reader)
    is_known = (rows["ddr"] >= 0) & (rows["hbm"] >= 0)
    neither = int((~is_known & ~in_memory).sum())
    reader.accounts.keep("NPU_MEM", "counters", int((is_known & ~in_memory).sum()), 3 * int(is_known.sum()))
    reader.leave_out("NPU_MEM", "a sample has no readable size", neither, ("counters",))
    rows = rows.take(is_known)
    owners = rows.column("type")
    held = {"DDR": rows["ddr"], "HBM": rows["hbm"], "Memory": rows["ddr"] + rows["hbm"]}
    return [
        _part(rows, values / KB_TO_BYTES, _constant(f"NPU MEM {name}", len(values)), owners, "KB")
        for name, values in held.items()
    ]


def _constant(name: str | None, count: int) -> pd.Categorical:
    return recoded(np.zeros(count, np.int32), [name])
