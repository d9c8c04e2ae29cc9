"""The layers of a timeline: which tables are drawn, on which tracks, from the cell's steps down to the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64

Key: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """Slices that are drawn together, and how they are told apart.

    Attributes
    ----------
    title
        What the axis calls the layer.
    kind
        The family of colours (:data:`npuprof.figures.colours.FAMILIES`), or ``device`` or ``overlap``, which
        choose one for each slice.
    frames
        Tables whose rows are drawn, counted on from one to the next.
    by
        Columns that divide the rows into tracks; none for a single track.
    most_tracks, most_lanes
        How many tracks, and lanes in each, are drawn in full; the rest is folded, never left out.
    """

    title: str
    kind: str
    frames: tuple[pd.DataFrame, ...]
    by: tuple[str, ...] = ()
    most_tracks: int = 1
    most_lanes: int = 2

    def column(self, name: str) -> Int64:
        """Give a column of integers over all frames."""
        parts = [whole_numbers(frame[name]) for frame in self.frames]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def within(self, start_ns: int | None, end_ns: int | None) -> Layer:
        """Keep only slices that touch the window."""
        if start_ns is None and end_ns is None:
            return self
        frames = tuple(frame[_touches(frame, start_ns, end_ns)] for frame in self.frames)
        return Layer(self.title, self.kind, frames, self.by, self.most_tracks, self.most_lanes)

    def tracks(self) -> tuple[Int64, list[Key]]:
        """Give each row's track, and the key of every track in the order of keys."""
        rows = sum(len(frame) for frame in self.frames)
        codes = np.zeros(rows, np.int64)
        keys: list[Key] = [()]
        for name in self.by:
            code, values = pd.factorize(self.column(name), sort=True)
            codes, used = pd.factorize(codes * len(values) + code, sort=True)
            keys = [(*keys[old], int(values[new])) for old, new in zip(*np.divmod(used, len(values)), strict=True)]
        return codes, keys

    def track_title(self, key: Key, keys: list[Key]) -> str:
        """Name a track on the axis; what all tracks share is left out."""
        words = {"thread_id": "thread", "device_id": "device", "stream_id": "stream"}
        parts = [
            f"{words[name]} {'?' if value < 0 else value}"
            for position, (name, value) in enumerate(zip(self.by, key, strict=True))
            if name == "stream_id" or len({other[position] for other in keys}) > 1
        ]
        shown = ", ".join(parts)
        if self.kind == "device":
            return shown
        return f"{self.title} · {shown}" if shown else self.title


def _touches(frame: pd.DataFrame, start_ns: int | None, end_ns: int | None) -> npt.NDArray[np.bool_]:
    start = frame["start_ns"].to_numpy()
    touches = np.ones(len(frame), bool)
    if start_ns is not None:
        touches &= start + frame["duration_ns"].to_numpy() >= start_ns
    if end_ns is not None:
        touches &= start <= end_ns
    return touches


def layers(tables: Mapping[str, pd.DataFrame]) -> list[Layer]:
    """Give the layers that a run has, from top to bottom."""
    thread = ("thread_id",)
    drawn = [
        Layer("steps", "step", (tables["steps"],)),
        Layer("marks", "step", (tables["marks"],), most_lanes=3),
        Layer("Python", "python", (tables["python"],), thread, most_tracks=3, most_lanes=10),
        Layer("operators", "operator", (tables["operators"],), thread, most_tracks=3, most_lanes=4),
        Layer("CANN", "api", (tables["api"],), thread, most_tracks=3, most_lanes=4),
        Layer("stream", "device", _device_frames(tables), ("device_id", "stream_id"), most_tracks=12, most_lanes=3),
        Layer("collectives", "communication", (tables["communication"],), ("device_id",), most_tracks=8, most_lanes=2),
        Layer("busy", "overlap", (_busy(tables["overlap"]),), ("device_id",), most_tracks=8, most_lanes=1),
    ]
    return [layer for layer in drawn if any(len(frame) for frame in layer.frames)]


def _device_frames(tables: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, ...]:
    """Give all kernels, and those tasks that are not among them."""
    kernels, tasks = tables["kernels"], tables["tasks"]
    if not len(tasks):
        return (kernels,)
    others = tasks[~np.isin(_task_keys(tasks), _task_keys(kernels))]
    return (kernels, others) if len(others) else (kernels,)


def _task_keys(frame: pd.DataFrame) -> npt.NDArray[np.uint64]:
    # A mixed 64-bit key instead of a join of five columns: ten times faster for a million tasks. Two different
    # tasks of one key, about one run in ten million of that size, would cost one bar of the picture.
    key = np.zeros(len(frame), np.uint64)
    for name in ("device_id", "stream_id", "task_id", "batch_id", "start_ns"):
        key = (key ^ whole_numbers(frame[name]).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def whole_numbers(column: pd.Series) -> Int64:
    """Give a column of integers; -1 where a value is absent."""
    values: Int64 = (
        column.array.to_numpy(np.int64, na_value=-1) if column.dtype == "Int64" else column.to_numpy(np.int64)
    )
    return values


def _busy(overlap: pd.DataFrame) -> pd.DataFrame:
    """Keep the kinds that share device time without overlap; free time is where nothing is drawn."""
    kinds = overlap["kind"]
    kept: pd.DataFrame = overlap[((kinds == "computing") | (kinds == "communication_not_overlapped")).to_numpy()]
    return kept
