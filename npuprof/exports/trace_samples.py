"""Samples as counter events: one track for each series of samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.exports.trace_arguments import encoded, metadata, prefixed
from npuprof.sources.exported_trace.layout import SAMPLES, SERIES


def are_drawn(table: str, frame: pd.DataFrame) -> Bools:
    """Return a mask of the samples that viewers can draw: with a time and a value, and none that is infinite."""
    values = [frame[name].to_numpy(np.float64, na_value=np.nan) for name in SAMPLES[table]]
    is_valued = np.any([~np.isnan(value) for value in values], axis=0) & ~np.any(np.isinf(values), axis=0)
    return is_valued & frame["time_ns"].notna().to_numpy(bool)


def sample_events(
    table: str, frame: pd.DataFrame, run: int, process: str, pid: int, us: Callable[[int], str]
) -> Iterator[str]:
    """Yield the samples of a table as counter events."""
    if not len(frame):
        return
    yield metadata("process_name", pid, 0, {"name": process})
    constant = frame.drop(columns=["time_ns", *SAMPLES[table]])
    series, first = _series(constant)
    shared = constant.iloc[first]
    arguments = zip(*(prefixed(str(name), encoded(shared[name])) for name in shared), strict=True)
    for number, values in enumerate(arguments):
        listed = ",".join(filter(None, values))
        detail = f'{{"run":{run},"table":"{table}","columns":{{{listed}}}}}'
        yield f'{{"ph":"M","name":"{SERIES}","pid":{pid},"tid":{number},"args":{detail}}}'
    units = [text or '"value"' for text in encoded(shared["unit"])] if table == "counters" else []
    heads = [f'{{"ph":"C","name":{json.dumps(name)},"pid":{pid},' for name in _names(table, shared)]
    columns = [encoded(frame[name]) for name in SAMPLES[table]]
    rows = zip(series.tolist(), frame["time_ns"].tolist(), zip(*columns, strict=True), strict=True)
    for (number, time_ns, texts), is_drawn in zip(rows, are_drawn(table, frame).tolist(), strict=True):
        if is_drawn:
            keys: Sequence[str] = [units[number]] if units else [f'"{name}"' for name in SAMPLES[table]]
            shown = ",".join(f"{key}:{text}" for key, text in zip(keys, texts, strict=True) if text)
            yield f'{heads[number]}"tid":{number},"ts":{us(time_ns)},"args":{{{shown}}}}}'


def _series(constant: pd.DataFrame) -> tuple[Int64, Int64]:
    """Return the number of each sample's series, and the first row of each series."""
    codes = np.zeros(len(constant), np.int64)
    for name in constant:
        code, values = pd.factorize(constant[name])
        codes = pd.factorize(codes * (len(values) + 1) + code + 1)[0].astype(np.int64)
    return codes, np.unique(codes, return_index=True)[1].astype(np.int64)


def _names(table: str, shared: pd.DataFrame) -> list[str]:
    """Return the name of each track; viewers join samples of one name in a process."""
    devices = shared["device_id"].astype(object).tolist()
    columns = ["component"] if table == "memory" else ["counter", "instance"]
    words = zip(*(shared[name].astype(object).tolist() for name in columns), strict=True)
    names = [" ".join(str(word) for word in row if not pd.isna(word)) or table for row in words]
    several = {name for name, count in Counter(names).items() if count > 1}
    if table == "memory" or several:
        where = ["host" if pd.isna(device) else f"device {device}" for device in devices]
        names = [
            f"{name} of {place}" if table == "memory" or name in several else name
            for name, place in zip(names, where, strict=True)
        ]
    turns = pd.Series(names).groupby(names).cumcount().tolist()
    return [f"{name} ({turn + 1})" if turn else name for name, turn in zip(names, turns, strict=True)]
