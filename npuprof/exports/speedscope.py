"""The timeline as JSON for speedscope: a profile for each host thread, stream and group of ranks.

Calls of Python, of the framework and of CANN are frames of one stack, nested by time; slices that overlap others of
their thread without nesting are in an additional profile of that thread. Times are nanoseconds since the first slice.

Source: speedscope's file format schema (evented profiles).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any, TextIO

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, outer_first
from npuprof.exports.device_tasks import every_task
from npuprof.exports.nesting import begins_and_ends, nested_tracks
from npuprof.lines.frames import Frame, cell_text
from npuprof.tables.info import Info

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_HOST = ("python", "operators", "api")  # callers first: slices with equal bounds nest in this order
_GROUPS = ((_HOST, "thread_id", "Thread"), (("tasks",), "stream_id", "Stream"), (("communication",), "group", "Group"))


class _Frames:
    """The distinct frames, numbered in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for name in self._numbers:
            frame = Frame.parse(name)
            if frame is None:
                yield {"name": name or "(unnamed)"}
            else:
                yield {"name": frame.function, "file": cell_text(frame.file) or frame.file, "line": frame.line}


def write(out: TextIO, tables: Mapping[str, pd.DataFrame], info: Info) -> int:
    """Write a run, or the merged tables of several ranks; return the number of slices."""
    tables = {**tables, "tasks": every_task(tables)}
    starts = [tables[name]["start_ns"].min() for names, *_ in _GROUPS for name in names if len(tables[name])]
    base_ns = int(min(starts, default=0))
    frames, count, separator = _Frames(), 0, ""
    name = f"{info.name}{' (simulated NPU)' * info.simulated}"
    about = {"$schema": SCHEMA, "exporter": "npuprof", "name": name, "activeProfileIndex": 0}
    out.write(json.dumps(about)[:-1] + ', "profiles": [')
    for names, column, label in _GROUPS:
        for title, events, last in _profiles(tables, names, column, label, base_ns, frames):
            profile = {"type": "evented", "name": title, "unit": "nanoseconds", "startValue": 0, "endValue": last}
            out.write(separator + json.dumps(profile)[:-1] + ', "events": [' + ",".join(events) + "]}")
            count, separator = count + len(events) // 2, ",\n"
    out.write('], "shared": {"frames": ' + json.dumps(list(frames)) + "}}")
    return count


def _profiles(
    tables: Mapping[str, pd.DataFrame], names: tuple[str, ...], column: str, label: str, base_ns: int, frames: _Frames
) -> Iterator[tuple[str, list[str], int]]:
    """Yield the title, the events and the end of each profile in the tables `names`."""
    parts = [tables[name] for name in names if len(tables[name])]
    if not parts:
        return
    start, duration = (np.concatenate([part[name].to_numpy(np.int64) for part in parts]) for name in _TIMES)
    titles = np.concatenate([_titles(part, column, label) for part in parts])
    numbers = np.concatenate([_frame_numbers(part["name"], frames) for part in parts])
    group, distinct = pd.factorize(titles)
    end = start + duration
    track = nested_tracks(start, end, group)
    order = outer_first(start, end, track, group)
    changes = np.flatnonzero((np.diff(group[order]) != 0) | (np.diff(track[order]) != 0)) + 1
    columns = ((start, base_ns), (end, base_ns), (numbers, 0))
    for rows in np.split(order, changes):
        number = int(track[rows[0]])
        title = str(distinct[group[rows[0]]]) + f" ({number + 1})" * bool(number)
        slices = zip(*((part[rows] - offset).tolist() for part, offset in columns), strict=True)
        yield title, list(starmap(_event, begins_and_ends(slices))), int(end.max()) - base_ns


_TIMES = ("start_ns", "duration_ns")


def _event(time_ns: int, frame: int, is_end: bool) -> str:
    return f'{{"type":"{"C" if is_end else "O"}","frame":{frame},"at":{time_ns}}}'


def _frame_numbers(names: pd.Series[Any], frames: _Frames) -> Int64:
    codes, texts = pd.factorize(names, use_na_sentinel=False)
    numbers = [frames.number("" if pd.isna(text) else str(text)) for text in texts]
    return np.array(numbers, np.int64)[codes]


def _titles(part: pd.DataFrame, column: str, label: str) -> Any:
    """Return the profile title of each row: its thread, stream or group, with device and rank if known."""
    keys = [
        name for name in ("rank", "device_id", column) if name in part and (name != "device_id" or label != "Thread")
    ]
    codes, distinct = pd.factorize(pd.MultiIndex.from_frame(part[keys].astype(object)), use_na_sentinel=False)
    words = {"rank": "rank", "device_id": "device", column: label}
    titles = [
        " ".join(f"{words[key]} {value}" for key, value in zip(keys, values, strict=True) if not pd.isna(value))
        for values in distinct
    ]
    return np.array([title or label for title in titles], object)[codes]
