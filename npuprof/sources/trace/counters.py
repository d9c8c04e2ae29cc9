"""Counter events of a timeline as the ``counters`` table.

Source: sources/RESULTS.md section 2.3.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.sources.columns.builders import GatheredColumns, recoded
from npuprof.sources.columns.shares import HIT_RATE, PORT_SHARES, converted
from npuprof.sources.trace.columns import Trace
from npuprof.tables.notes import Notes

_INSTANCE_KEYS = ("acc_id", "PA Link ID", "PCIE ID")  # arguments that identify the instance of a counter
_DIE = re.compile(r"die \d+")
_SPELLINGS = {"write_bandwidth": "write_band_width"}  # spellings of newer versions
_UNIT = re.compile(r"(.*?)\(([^()]*)\)")
_PROCESS_UNITS = {"PCIe": "MB/s", "SIO": "MB/s", "QoS": "MB/s"}  # units of counters whose names state none
_UNITS = {"KB", "MHz", "MB/s", "%", "mV", "W", "C"}
_PORTS = ("NIC", "RoCE")
_NOT_MEASURED = ("PCIe_nonpost_latency", "Rx")  # not measured on any device; the vendor writes 0


def counters_table(trace: Trace, devices: dict[Any, int], notes: Notes, source: str) -> pd.DataFrame:
    """Build ``counters``: a row per number, with the counter name ``<process> <metric>``.

    An event may hold several numbers, and a counter may have several instances (the id of an accelerator is an argument
    next to the value). Names and units are those of :mod:`npuprof.sources.raw.samples.counter_rows`.
    """
    counters = trace.counters
    keys = counters.names("key")
    is_instance = np.isin(counters["key"], [code for code, key in enumerate(keys) if key in _INSTANCE_KEYS])
    filled_in = _filled_in(counters)
    is_selected = ~is_instance & ~filled_in
    _account(counters["event"], is_selected, filled_in, notes, source)
    good = np.abs(counters["value"]) < 1 << 31  # false for NaN too
    if invalid := int((is_instance & ~good).sum()):
        notes.warning(source, "the instance of a counter is no number, or too large a number", invalid)
    instance = _instances(counters["event"], counters["value"], is_instance & good)[counters["event"][is_selected]]
    columns = [*(counters[name][is_selected].astype(np.int64) for name in ("pid", "name", "key")), instance]
    row, first = _distinct(columns)
    series = [tuple(column[index] for column in columns) for index in first.tolist()]
    pids, names = trace.pid_book.values, counters.names("name")
    unnamed = np.array([pids[pid] not in trace.processes for pid, *_ in series], np.bool_)[row]
    if unnamed.any():
        notes.warning(source, "the process of a counter has no name", int(unnamed.sum()))
    described = [
        _describe(trace.processes.get(pids[pid], ""), names[name], keys[key], None if number < 0 else str(number))
        for pid, name, key, number in series
    ]
    counter_names = [counter for counter, _, _ in described]
    device = pd.array([devices.get(pids[pid], pd.NA) for pid, *_ in series], dtype="Int64")
    frame = tables.build(
        "counters",
        {
            "time_ns": counters["start_ns"][is_selected],
            "device_id": device[row],
            "counter": recoded(row, list(counter_names)),
            "instance": recoded(row, [number for _, number, _ in described]),
            "value": _in_percent(counters["value"][is_selected], counter_names, row, notes, source),
            "unit": recoded(row, [unit for _, _, unit in described]),
        },
    )
    return tables.sort_by_time(frame)


def _account(event: Int64, chosen: Any, filled_in: Any, notes: Notes, source: str) -> None:
    """Account for the events in order: an event may hold several numbers, or no measured number."""
    kept, measured, total = (
        int(np.count_nonzero(np.diff(event[rows], prepend=-1))) for rows in (chosen, chosen | filled_in, slice(None))
    )
    notes.ledger.keep(source, "counters", kept, int(np.count_nonzero(chosen)))
    notes.ledger.use(source, measured - kept)
    notes.leave_out(source, "a counter event holds no value", total - measured, affects=("counters",))


def _filled_in(counters: GatheredColumns) -> Any:
    event, key = (
        np.array([name == wanted for name in counters.names(column)], np.bool_)[counters[column]]
        for column, wanted in zip(("name", "key"), _NOT_MEASURED, strict=True)
    )
    return event & key


def _in_percent(values: Any, names: list[str], row: Int64, notes: Notes, source: str) -> Any:
    """Convert hit rates and shares of ports, which timelines write as fractions under any name, to percent."""
    result = values.copy()
    kinds = [(HIT_RATE, [name.endswith(HIT_RATE) for name in names])]
    kinds += [(kind, [name.startswith(_PORTS) and name.endswith(kind) for name in names]) for kind in PORT_SHARES]
    for kind, is_share in kinds:
        rows = np.array(is_share, np.bool_)[row]
        result[rows] = converted(values[rows], "fraction", "percent", notes, source, f"values of {kind}")
    return result


def _instances(events: Any, values: Any, chosen: Any) -> Any:
    """Return the instance number of each event; -1 for none."""
    numbers = np.full(int(events.max(initial=-1)) + 1, -1, np.int64)
    numbers[events[chosen]] = values[chosen].astype(np.int64)
    return numbers


def _distinct(columns: list[Int64]) -> tuple[Int64, Int64]:
    """Return a code for each row's combination of values, and the first row of each code."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = pd.factorize(column)[0].astype(np.int64)
        code = pd.factorize(code * (int(codes.max(initial=0)) + 1) + codes)[0].astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def _describe(process: str, event: str, key: str, instance: str | None) -> tuple[str, str | None, str | None]:
    """Return counter, instance and unit, e.g. of ``HBM 0/Read {"Read(MB/s)": ...}``."""
    match = _UNIT.fullmatch(key)
    number: str | None
    unit = match[2] if match else key if key in _UNITS else _PROCESS_UNITS.get(process)
    unit = "us" if event == "PCIe_nonpost_latency" else unit
    if process in _PORTS:
        unit = "%" if key.endswith(PORT_SHARES) else "1/s" if key.endswith("Packets") else unit
    words = _SPELLINGS.get(event, event).replace("/", " ").removeprefix(process).lstrip("_").split()
    if process in ("PCIe", *_PORTS):  # an event holds several values
        words = [*(word for word in words if word not in ("Rx", "Tx")), *key.split()]
    die = _DIE.fullmatch(key)
    if process in ("NPU MEM", "QoS") and words:
        number, words = (words[0], words[1:]) if process == "NPU MEM" else (" ".join(words), [])
    else:
        number = next((word for word in words if word.isdigit()), None)
        words = [word for word in words if word != number]
    words = [word.lower() if word in ("Read", "Write") else word for word in words]  # numbered like the raw samples
    return " ".join([process, *words]).strip() or event, instance or (die[0] if die else number), unit
