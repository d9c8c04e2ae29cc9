"""The data of a saved explorer: slices, calls and their details, in a few bytes a slice.

The data is a header, deflated JSON, and packed columns behind it (:mod:`npuprof.browser.packing`), which a page unpacks
when it needs them; ``scripts/run.js`` reads both. Slices keep the numbers that they have in the kernel
(:class:`npuprof.timeline.slices.Slices`), so that a page with data and kernel can ask either.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64
from npuprof.browser.packing import Packed, deflated, pack, pack_floats
from npuprof.browser.saved_details import saved_detail
from npuprof.browser.setup import timeline_setup
from npuprof.browser.tables import described, kind_of
from npuprof.errors import NpuprofError
from npuprof.figures.time_axis import thinned
from npuprof.flame.tree import MergedCalls, merged_calls
from npuprof.timeline.labels import FAMILY_KEYS, Labels, shade_of
from npuprof.timeline.lane_packing import Bars
from npuprof.timeline.slices import TABLES, Slices
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import printable

VERSION = 2
"""The version of the format; a page refuses any other."""

_MAGIC = b"npuprof\x00"
_LENGTH = struct.Struct("<I")  # of the header
_DETAIL_BYTES = 40  # what the header says of a column of details, besides its name and texts
_LONGEST_NAME = 300
_MOST_SAMPLES = 2_000  # of a counter
_MOST_TRIES = 6  # to find how many bars fit
_LAYERS = ("python", "operators", "api", "kernels")
_FAMILIES = {"python": "python", "operators": "operator", "api": "api", "kernels": "vector"}
_DRAWN = ("start_ns", "duration_ns", "name")  # columns that every slice has


@dataclass(frozen=True)
class SavedRun:
    """The data of a saved explorer."""

    data: bytes  # header and columns
    slices: int  # number of slices of the run
    merged: int  # number of slices that share a bar, because the data would be too large
    left_out: tuple[str, ...]  # columns of details that did not fit, as `table.column`


@dataclass
class _Writer:
    """Collects packed columns."""

    places: list[list[int]] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)
    size: int = 0
    known: dict[Packed, int] = field(default_factory=dict)

    def add(self, column: Packed) -> int:
        """Append a column unless there is an equal one, and return its number."""
        if (known := self.known.get(column)) is not None:
            return known
        self.known[column] = len(self.places)
        self.places.append([self.size, len(column.data), column.count, column.width, int(column.is_delta), column.low])
        self.body.append(column.data)
        self.size += len(column.data)
        return len(self.places) - 1

    def numbers(self, values: npt.NDArray[Any]) -> int:
        """Append whole numbers that a page can hold, and return the number of their column."""
        column = pack(values.astype(np.int64))
        if column is None:
            raise NpuprofError(
                "times of the run lie more than 104 days apart, which no page can draw: show a part of it, "
                "run.select(start=..., end=...).selection"
            )
        return self.add(column)


def save_run(
    timeline: Timeline,
    *,
    limit_bytes: int | None = None,
    findings: Sequence[Mapping[str, Any]] = (),
    lines: Mapping[str, tuple[Int64, Sequence[str]]] | None = None,
    path: Sequence[Sequence[int]] | None = (),
    notes: Sequence[Sequence[Any]] = (),
    link: Mapping[str, Any] | None = None,
    calls: MergedCalls | None = None,
) -> SavedRun:
    """Return a run as the data of a saved explorer.

    Parameters
    ----------
    limit_bytes
        The largest size of the data. Columns of details that do not fit are left out, and then the shortest slices
        share bars, as in a window that shows them all; None for no limit.
    findings, path, notes
        Findings, the critical path and notes of the user as a page draws them; see :mod:`npuprof.browser.findings`.
        None for a path that is not known here.
    lines
        The row among the costs of lines for each row of a table, -1 for none, and the texts of those lines.
    link
        The timelines of a page that move together, as :class:`npuprof.timeline.linking.Link` has them.
    """
    calls = merged_calls(timeline.tables) if calls is None else calls
    most: int | None = None
    shown: dict[str, tuple[str, int]] = {}
    for _ in range(_MOST_TRIES):
        bars = timeline.bars(most)
        run = _Run(timeline, calls, bars, lines or {}, shown, is_limited=most is not None)
        run.link, run.notes = link, notes
        run.add_findings(findings, path)
        fixed = len(_MAGIC) + _LENGTH.size + run.writer.size + len(run.header())
        if limit_bytes is None or fixed <= limit_bytes or len(bars) <= len(timeline.lanes):
            break
        most = max(int(len(bars) * limit_bytes / fixed * 0.9), len(timeline.lanes))
    if limit_bytes is None or fixed <= limit_bytes:
        run.add_details(None if limit_bytes is None else limit_bytes - fixed)
    header = run.header()
    merged = int(bars.count[bars.count > 1].sum()) if most is not None else 0
    return SavedRun(_data(header, run.writer), int(bars.count.sum()), merged, run.left_out)


@dataclass
class _Looks:
    """Numbers the names and colour families of a run."""

    shown: dict[str, tuple[str, int]]  # of each name the text and the shade: a try to fit keeps those of the one before
    texts: dict[str, int] = field(default_factory=dict)
    all: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def number(self, text: str, family: int) -> int:
        """Return the number of a name and a colour family."""
        if text not in self.shown:
            shown = printable(text, _LONGEST_NAME)
            self.shown[text] = shown, shade_of(shown)
        shown, shade = self.shown[text]
        look = (self.texts.setdefault(shown, len(self.texts)), family, shade)
        return self.all.setdefault(look, len(self.all))

    def of_paths(self, calls: MergedCalls, labels: Labels, first: int) -> Int64:
        """Return the look of each path: its first kernel's look, or its layer's; `first` is a row of kernels."""
        family = np.array([FAMILY_KEYS.index(_FAMILIES[layer]) for layer in calls.layers.tolist()], np.int64)[
            calls.label
        ]
        rows = np.arange(len(calls.kernel_path))[::-1]
        family[calls.kernel_path[::-1]] = labels.families(rows + first)
        pairs, back = np.unique(calls.label * 256 + family, return_inverse=True)
        looks = [self.number(str(calls.names[pair // 256]), pair % 256) for pair in pairs.tolist()]
        return np.array(looks, np.int64)[back] if len(looks) else np.zeros(0, np.int64)

    def columns_of_paths(
        self, writer: _Writer, calls: MergedCalls, tables: Mapping[str, pd.DataFrame], slices: Slices, labels: Labels
    ) -> dict[str, int]:
        """Save the call tree with its sums of the whole run."""
        sums = calls.whole(tables)
        return {
            "parent": writer.numbers(np.arange(len(calls)) - calls.parent),
            "look": writer.numbers(self.of_paths(calls, labels, slices.first["kernels"])),
            "host_ns": writer.numbers(sums["host"].exclusive),
            "device_ns": writer.numbers(sums["device"].exclusive),
            "slices": writer.numbers(sums["count"].exclusive),
            "seen": writer.numbers(calls.only_seen.astype(np.int64)),
        }


def save_tree(tables: Mapping[str, pd.DataFrame], calls: MergedCalls) -> bytes:
    """Return the call tree of a run as data in the format of :func:`save_run`, without slices."""
    writer, looks, slices = _Writer(), _Looks({}), Slices(tables)
    paths = looks.columns_of_paths(writer, calls, tables, slices, Labels(slices))
    content = {
        "version": VERSION,
        "texts": list(looks.texts),
        "looks": [list(look) for look in looks.all],
        "columns": writer.places,
        "paths": paths,
    }
    return _data(_header(content), writer)


def _header(content: Mapping[str, Any]) -> bytes:
    return deflated(json.dumps(content, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def _data(header: bytes, writer: _Writer) -> bytes:
    return _MAGIC + _LENGTH.pack(len(header)) + header + b"".join(writer.body)


class _Run:
    """A run while it is saved: the slices that bars leave, and their columns."""

    def __init__(
        self,
        timeline: Timeline,
        calls: MergedCalls,
        bars: Bars,
        lines: Mapping[str, tuple[Int64, Sequence[str]]],
        shown: dict[str, tuple[str, int]],
        *,
        is_limited: bool,
    ) -> None:
        self.writer = _Writer()
        self.link: Mapping[str, Any] | None = None
        self.notes: Sequence[Sequence[Any]] = ()
        self._findings: Sequence[Mapping[str, Any]] = ()
        self._path: list[int] | None = None
        self._timeline, self._calls, self._lines = timeline, calls, lines
        self._counts, self._is_limited = bars.count, is_limited
        self._looks = _Looks(shown)
        self._look_of_rows: dict[str, Int64] = {}
        self._places = _places(timeline, bars, is_limited=is_limited)
        self._rows = {name: self._kept(name) for name in TABLES}
        self._paths = self._save_paths()
        self._tables = [self._save_table(name) for name in TABLES if len(self._rows[name])]
        self._bars = self._save_bars(bars)
        self._links = self._save_links()
        self._counters = [self._save_line(line.time_ns, line.value) for line in timeline.lines]
        self._overview = self._save_overview()
        self._left_out = [(saved["name"], column) for saved in self._tables for column in self._details(saved["name"])]
        self._gaps = self._save_spans(
            [[low - timeline.origin, high - timeline.origin] for low, high in timeline.gaps], 2
        )

    def header(self) -> bytes:
        """Return the header as deflated JSON."""
        timeline = self._timeline
        content = {
            "version": VERSION,
            "setup": {**timeline_setup(timeline), "link": self.link},
            "texts": list(self._looks.texts),
            "looks": [list(look) for look in self._looks.all],
            "columns": self.writer.places,
            "tables": self._tables,
            "bars": self._bars,
            "paths": self._paths,
            "links": self._links,
            "counters": self._counters,
            "overview": self._overview,
            "gaps": self._gaps,
            "slices": int(self._counts.sum()),
            "merged": int(self._counts[self._counts > 1].sum()) if self._is_limited else 0,
            "findings": self._findings,
            "path": self._path,
            "notes": self.notes,
            "left_out": [*dict.fromkeys(table for table, _ in self._left_out)],
            "thinned": any(len(line.time_ns) > _MOST_SAMPLES for line in timeline.lines),
        }
        return _header(content)

    def _kept(self, name: str) -> Int64:
        first = self._timeline.slices.first[name]
        return np.flatnonzero(self._places[first : first + len(self._timeline.tables[name])] >= 0)

    def _look_of(self, slices: Int64) -> Int64:
        """Return the number of the name and colour family of each slice."""
        labels, families = self._timeline.labels.of(slices), self._timeline.labels.families(slices).astype(np.int64)
        pairs, back = np.unique(labels * 256 + families, return_inverse=True)
        texts = self._timeline.labels.texts((pairs // 256).tolist())
        looks = [self._looks.number(text, family) for text, family in zip(texts, (pairs % 256).tolist(), strict=True)]
        return np.array(looks, np.int64)[back] if len(looks) else np.zeros(0, np.int64)

    def _save_table(self, name: str) -> dict[str, Any]:
        timeline, rows = self._timeline, self._rows[name]
        frame, first = timeline.tables[name], timeline.slices.first[name]
        numbers = rows + first
        start = frame["start_ns"].to_numpy(np.int64)[rows] - timeline.origin
        saved: dict[str, Any] = {"name": name, "first": first, "count": len(rows), "all": len(frame), "details": []}
        saved["described"] = None if (kind := kind_of(name)) is None else described(kind, frame)
        if len(rows) < len(frame):
            saved["rows"] = self.writer.numbers(rows)
        saved["start"] = self.writer.numbers(start)
        saved["duration"] = self.writer.numbers(frame["duration_ns"].to_numpy(np.int64)[rows])
        saved["place"] = self.writer.numbers(self._places[numbers])
        self._look_of_rows[name] = self._look_of(numbers)
        saved["look"] = self.writer.numbers(self._look_of_rows[name])
        if name in _LAYERS:
            host, kernels = self._calls.host_path, self._calls.kernel_path
            above = self._calls.causes
            at = rows if name == "kernels" else rows + above.first_row[name]
            saved["path"] = self.writer.numbers((kernels if name == "kernels" else host)[at])
            saved["caller"] = self._save_callers(numbers, (above.launchers if name == "kernels" else above.callers)[at])
        if name in self._lines:
            line, texts = self._lines[name]
            used, back = np.unique(line[rows], return_inverse=True)
            values = [texts[at] if at >= 0 else None for at in used.tolist()]
            saved["details"].append(
                {"name": "line", "kind": "text", "values": values, "column": self.writer.numbers(back)}
            )
            saved["line"] = {"rows": used.tolist(), "column": saved["details"][-1]["column"]}
        return saved

    def _save_callers(self, numbers: Int64, callers: Int64) -> int:
        """Save how far back the slice is that called each one; 0 for none, or for one that is left out."""
        above = callers + self._timeline.slices.first["python"]
        is_there = (callers >= 0) & (self._places[np.maximum(above, 0)] >= 0)
        return self.writer.numbers(np.where(is_there, numbers - above, 0))

    def _save_paths(self) -> dict[str, int]:
        calls, timeline = self._calls, self._timeline
        columns = self._looks.columns_of_paths(self.writer, calls, timeline.tables, timeline.slices, timeline.labels)
        holders = calls.causes.holders
        elsewhere = np.flatnonzero(holders != calls.causes.callers)
        first = timeline.slices.first["python"]
        return {
            **columns,
            "held": self.writer.numbers(elsewhere + first),
            "holder": self.writer.numbers(np.where(holders[elsewhere] >= 0, holders[elsewhere] + first, -1)),
        }

    def _save_bars(self, bars: Bars) -> dict[str, int]:
        """Save the bars that several slices share."""
        some = bars.count > 1
        look = self._look_of(bars.row[some])
        columns = {
            "lane": bars.lane[some],
            "start": bars.start_ns[some] - self._timeline.origin,
            "length": (bars.end_ns - bars.start_ns)[some],
            "count": bars.count[some],
            "busy": bars.busy_ns[some],
            "longest": bars.longest_ns[some],
            "slice": bars.row[some],
            "look": look,
        }
        return {name: self.writer.numbers(values) for name, values in columns.items()}

    def _save_links(self) -> dict[str, int]:
        """Save the recorded links between slices, except calls and launches."""
        first, links = self._timeline.slices.first, self._timeline.tables["links"]
        ends = []
        for end in ("source", "target"):
            table = links[f"{end}_table"].map(first).astype("Float64").fillna(-1).to_numpy(np.float64).astype(np.int64)
            row = links[f"{end}_row"].to_numpy(np.int64)
            ends.append(np.where((table >= 0) & (row >= 0), table + row, -1))
        source, target = ends
        count = len(self._places)
        is_there = (source >= 0) & (source < count) & (target >= 0) & (target < count)
        source, target = source[is_there], target[is_there]
        is_shown = (self._places[source] >= 0) & (self._places[target] >= 0) & (source != self._caller_of(target))
        return {
            "source": self.writer.numbers(source[is_shown]),
            "target": self.writer.numbers(target[is_shown]),
        }

    def _caller_of(self, numbers: Int64) -> Int64:
        """Return the slice that called each slice, -1 for none."""
        causes, first = self._calls.causes, self._timeline.slices.first
        callers = np.full(len(self._places) + 1, -1, np.int64)
        callers[first["python"] : first["python"] + len(causes.callers)] = causes.callers
        callers[first["kernels"] : first["kernels"] + len(causes.launchers)] = causes.launchers
        of_numbers = callers[numbers]
        return np.where(of_numbers >= 0, of_numbers + first["python"], -1)

    def _save_line(self, times: Int64, values: npt.NDArray[np.float64]) -> list[int]:
        kept = thinned(values, _MOST_SAMPLES)
        return [self.writer.numbers(times[kept] - self._timeline.origin), self.writer.add(pack_floats(values[kept]))]

    def _save_overview(self) -> dict[str, int]:
        strip = self._timeline.overview(*self._timeline.whole)
        shares = np.round(np.clip(strip.shares, 0, 1) * 255).astype(np.int64)
        return {
            "devices": strip.devices,
            "columns": strip.shares.shape[1],
            "shares": self.writer.numbers(shares.ravel()),
        }

    def _save_spans(self, rows: Sequence[Sequence[int]], width: int) -> list[int]:
        """Save rows that end with a start, from the end of the row before, and an end, as the length."""
        columns = np.array(rows, np.int64).reshape(-1, width)
        ends = columns[:-1, -1].copy()
        columns[:, -1] -= columns[:, -2]
        columns[1:, -2] -= ends
        return [self.writer.numbers(column) for column in columns.T]

    def add_findings(self, findings: Sequence[Mapping[str, Any]], path: Sequence[Sequence[int]] | None) -> None:
        """Save findings and the critical path."""
        self._findings = [
            {
                **finding,
                "slices": self.writer.numbers(np.array(finding["slices"], np.int64)),
                "drawn": self._save_spans(finding["drawn"], 4),
            }
            for finding in findings
        ]
        self._path = None if path is None else self._save_spans(path, 3)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of details that are not saved, as ``table.column``."""
        return tuple(f"{table}.{column}" for table, column in self._left_out)

    def _details(self, name: str) -> list[str]:
        frame = self._timeline.tables[name]
        return [str(column) for column in frame if column not in _DRAWN and not frame[column].isna().all()]

    def add_details(self, room: int | None) -> None:
        """Save the other columns of each table, as far as there is room, in bytes; the others stay left out."""
        for saved in self._tables:
            name = saved["name"]
            frame, rows = self._timeline.tables[name], self._rows[name]
            looks = self._look_of_rows[name]
            for column in self._details(name):
                detail = saved_detail(str(column), frame[column], rows, looks, len(self._looks.all))
                size = 0 if detail is None else len(detail.column.data) + detail.texts_bytes + _DETAIL_BYTES
                if detail is None or (room is not None and size > room):
                    continue
                room = None if room is None else room - size
                self._left_out.remove((name, column))
                saved["details"].append({**detail.facts, "column": self.writer.add(detail.column)})


def _places(timeline: Timeline, bars: Bars, *, is_limited: bool) -> Int64:
    """Return for each slice twice its lane, and one more if it shares a bar; -1 for a slice that is not saved.

    Of each bar only the longest slice is saved where their number is limited.
    """
    lanes = timeline.lanes_of_slices()
    single = bars.count == 1
    places = np.full(timeline.slices.count, -1, np.int64)
    if not is_limited:
        places = np.where(lanes >= 0, 2 * lanes + 1, -1)
    places[bars.row[~single]] = 2 * bars.lane[~single] + 1
    places[bars.row[single]] = 2 * bars.lane[single]
    return places
