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
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.trace.columns import Trace

_INSTANCE_KEYS = ("acc_id", "PA Link ID", "PCIE ID")  # arguments that say whose value it is
_DIE = re.compile(r"die \d+")
_SPELLINGS = {"write_bandwidth": "write_band_width"}  # newer versions spell a counter differently
_UNIT = re.compile(r"(.*?)\(([^()]*)\)")
_PROCESS_UNITS = {"PCIe": "MB/s", "SIO": "MB/s", "QoS": "MB/s"}  # where the names do not tell
_UNITS = {"KB", "MHz", "MB/s", "%", "mV", "W", "C"}
_PORTS = ("NIC", "RoCE")
_SHARES = ("Bandwidth Efficiency", "Error Rate", "Dropped Rate")  # fractions in a timeline, without a unit
_HIT_RATE = "Hit Rate"
_NOT_MEASURED = ("PCIe_nonpost_latency", "Rx")  # no device measures it; the vendor fills in 0


def counters_table(trace: Trace, devices: dict[Any, int], notes: Notes, source: str) -> pd.DataFrame:
    """Make ``counters``: a row for each number, its counter named ``<process> <metric>``.

    One event may hold several numbers, and one counter's name may stand for several instances (an
    accelerator's id is an argument beside the value). Names and units are those of
    :mod:`npuprof.sources.raw.samples.counter_rows`.
    """
    counters = trace.counters
    keys = counters.names("key")
    is_instance = np.isin(counters["key"], [code for code, key in enumerate(keys) if key in _INSTANCE_KEYS])
    filled_in = _filled_in(counters)
    chosen = ~is_instance & ~filled_in
    _account(counters["event"], chosen, filled_in, notes, source)
    good = np.abs(counters["value"]) < 1 << 31  # false for NaN too
    if strange := int((is_instance & ~good).sum()):
        notes.warning(source, "the number of a counter's instance is none, or too large for one", strange)
    instance = _instances(counters["event"], counters["value"], is_instance & good)[counters["event"][chosen]]
    columns = [*(counters[name][chosen].astype(np.int64) for name in ("pid", "name", "key")), instance]
    row, first = _distinct(columns)
    series = [tuple(column[one] for column in columns) for one in first.tolist()]
    pids, names = trace.pid_book.values, counters.names("name")
    unnamed = np.array([pids[pid] not in trace.processes for pid, *_ in series], np.bool_)[row]
    if unnamed.any():
        notes.warning(source, "a counter is of a process that is not named", int(unnamed.sum()))
    described = [
        _describe(trace.processes.get(pids[pid], ""), names[name], keys[key], None if number < 0 else str(number))
        for pid, name, key, number in series
    ]
    device = pd.array([devices.get(pids[pid], pd.NA) for pid, *_ in series], dtype="Int64")
    frame = tables.build(
        "counters",
        {
            "time_ns": counters["start_ns"][chosen],
            "device_id": device[row],
            "counter": recoded(row, [one[0] for one in described]),
            "instance": recoded(row, [one[1] for one in described]),
            "value": _in_percent(counters["value"][chosen], [one[0] for one in described], row),
            "unit": recoded(row, [one[2] for one in described]),
        },
    )
    return tables.sort_by_time(frame)


def _account(event: Int64, chosen: Any, filled_in: Any, notes: Notes, source: str) -> None:
    """Account for the events that are rows: one may hold several numbers, or none that was measured."""
    # They come in order.
    kept, measured, every = (
        int(np.count_nonzero(np.diff(event[rows], prepend=-1))) for rows in (chosen, chosen | filled_in, slice(None))
    )
    notes.ledger.keep(source, "counters", kept, int(np.count_nonzero(chosen)))
    notes.ledger.use(source, measured - kept)
    notes.leave_out(source, "a counter event holds no value", every - measured, affects="counters")


def _filled_in(counters: Columns) -> Any:
    event, key = (
        np.array([name == wanted for name in counters.names(column)], np.bool_)[counters[column]]
        for column, wanted in zip(("name", "key"), _NOT_MEASURED, strict=True)
    )
    return event & key


def _in_percent(values: Any, names: list[str], row: Int64) -> Any:
    """Return shares in percent.

    Ports' shares are fractions. The hit rates of most versions are fractions too, under a name that says percent;
    where one is above 1, they are what the name says.
    """
    ports = np.array([name.startswith(_PORTS) and name.endswith(_SHARES) for name in names], np.bool_)[row]
    hits = np.array([name.endswith(_HIT_RATE) for name in names], np.bool_)[row]
    fraction = ports | hits if not (values[hits] > 1).any() else ports
    return np.where(fraction, values * 100, values)


def _instances(events: Any, values: Any, chosen: Any) -> Any:
    """Return the instance number of every event; -1 where it names none."""
    found = np.full(int(events.max(initial=-1)) + 1, -1, np.int64)
    found[events[chosen]] = values[chosen].astype(np.int64)
    return found


def _distinct(columns: list[Int64]) -> tuple[Int64, Int64]:
    """Return the number of each row's combination of values, and the first row of each number."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own = pd.factorize(column)[0].astype(np.int64)
        code = pd.factorize(code * (int(own.max(initial=0)) + 1) + own)[0].astype(np.int64)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first


def _describe(process: str, event: str, key: str, instance: str | None) -> tuple[str, str | None, str | None]:
    """Return counter, instance and unit of ``HBM 0/Read {"Read(MB/s)": ...}`` and the like."""
    match = _UNIT.fullmatch(key)
    named: str | None
    unit = match[2] if match else key if key in _UNITS else _PROCESS_UNITS.get(process)
    unit = "us" if event == "PCIe_nonpost_latency" else unit
    if process in _PORTS:
        unit = "%" if key.endswith(_SHARES) else "1/s" if key.endswith("Packets") else unit
    words = _SPELLINGS.get(event, event).replace("/", " ").removeprefix(process).lstrip("_").split()
    if process in ("PCIe", *_PORTS):  # one event holds several values there
        words = [*(word for word in words if word not in ("Rx", "Tx")), *key.split()]
    die = _DIE.fullmatch(key)
    if process in ("NPU MEM", "QoS") and words:
        named, words = (words[0], words[1:]) if process == "NPU MEM" else (" ".join(words), [])
    else:
        named = next((word for word in words if word.isdigit()), None)
        words = [word for word in words if word != named]
    words = [word.lower() if word in ("Read", "Write") else word for word in words]  # as the raw samples are named
    return " ".join([process, *words]).strip() or event, instance or (die[0] if die else named), unit
