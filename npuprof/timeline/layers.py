"""The layers of a timeline and their tracks, from steps down to the device, and their groups in the explorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.loops import holds_steps
from npuprof.arrays import Bools, Int64
from npuprof.tables import matching, owner
from npuprof.timeline.own_tracks import TRACK
from npuprof.timeline.slices import Slices

Key: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """Slices that are drawn together, divided into tracks."""

    title: str
    kind: str  # the colour family (`FAMILIES`), or `device` or `overlap`, where each slice has its own
    frames: tuple[pd.DataFrame, ...]  # tables with the rows to draw, numbered consecutively
    slices: Int64  # the number of each row's slice, unique among all layers; see `Slices`
    by: tuple[str, ...] = ()  # columns that divide the rows into tracks; empty for a single track
    # most_tracks, most_lanes: maximum number of tracks, and of lanes per track; the rest is folded into one lane.
    most_tracks: int = 1
    most_lanes: int = 2
    stages: Mapping[int, int] = field(default_factory=dict)  # the pipeline stage of each rank, which titles name

    def column(self, name: str) -> Int64:
        """Return an integer column, concatenated over all frames."""
        parts = [whole_numbers(frame[name]) for frame in self.frames]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def within(self, start_ns: int | None, end_ns: int | None) -> Layer:
        """Return the layer with the slices that touch a window."""
        if start_ns is None and end_ns is None:
            return self
        touching = [_touches(frame, start_ns, end_ns) for frame in self.frames]
        frames = tuple(frame[is_selected] for frame, is_selected in zip(self.frames, touching, strict=True))
        return replace(self, frames=frames, slices=self.slices[np.concatenate(touching)])

    def rows(self, is_selected: Bools, title: str) -> Layer:
        """Return the chosen rows as a layer with a new title; this layer must have one frame."""
        (frame,) = self.frames
        return replace(self, title=title, frames=(frame[is_selected],), slices=self.slices[is_selected])

    def of_columns(self) -> Layer:
        """Return the layer with only the columns that tracks need, so that rows are chosen sooner."""
        return replace(self, frames=tuple(frame[[*self.by, "start_ns", "duration_ns"]] for frame in self.frames))

    def tracks(self) -> tuple[Int64, list[Key]]:
        """Return the track of each row, and the sorted keys of the tracks."""
        rows = sum(len(frame) for frame in self.frames)
        codes = np.zeros(rows, np.int64)
        keys: list[Key] = [()]
        for name in self.by:
            column = self.column(name)
            if rows and (column == column[0]).all():  # most often: one rank, one device
                keys = [(*key, int(column[0])) for key in keys]
                continue
            code, values = pd.factorize(column, sort=True)
            codes, used = pd.factorize(codes * len(values) + code, sort=True)
            keys = [(*keys[old], int(values[new])) for old, new in zip(*np.divmod(used, len(values)), strict=True)]
        return codes, keys

    def track_title(self, key: Key, keys: list[Key]) -> str:
        """Return the title of a track, without the parts that all tracks share, or a thread that its rank tells."""
        words = {"rank": "rank", "run": "run", "thread_id": "thread", "device_id": "device", "stream_id": "stream"}
        parts = []
        for position, (name, value) in enumerate(zip(self.by, key, strict=True)):
            beside = [other for other in keys if name != "thread_id" or other[:position] == key[:position]]
            if name in ("stream_id", "rank", "run") or len({other[position] for other in beside}) > 1:
                parts.append(f"{words[name]} {'?' if value < 0 else value}")
            if name == "rank" and value in self.stages:
                parts.append(f"stage {self.stages[value]}")
        shown = " · ".join(parts)
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


def layers(slices: Slices) -> list[Layer]:
    """Return the layers from top to bottom, the device above the host, for one run or for tables with a rank column."""
    rank = max(map(owner, slices.tables.values())) if "rank" in slices.tables["kernels"] else ()
    thread, device = (*rank, "thread_id"), (*rank, "device_id")
    streams, numbers = _device_slices(slices)

    def layer(title: str, kind: str, table: str, by: tuple[str, ...] = (), **most: Any) -> Layer:
        return Layer(title, kind, (slices.tables[table],), slices.of_table(table), by, **most, stages=slices.stages)

    # Computing and exposed communication do not overlap; free time is not drawn.
    drawn = matching(slices.tables["overlap"]["kind"], _DRAWN_OVERLAP.__contains__)
    overlap = layer("busy", "overlap", "overlap", device, most_tracks=8, most_lanes=1).of_columns()
    loops = layer("outer loops", "step", "iterations", rank, most_tracks=8, most_lanes=4)
    visible_layers = [
        loops.rows(holds_steps(slices.tables["iterations"], slices.tables["steps"]), "outer loops"),
        layer("steps", "step", "steps", rank, most_tracks=8, most_lanes=1) if rank else layer("steps", "step", "steps"),
        layer("marks", "step", "marks", most_lanes=3),
        Layer(
            "stream",
            "device",
            streams,
            numbers,
            (*device, "stream_id"),
            most_tracks=12,
            most_lanes=3,
            stages=slices.stages,
        ),
        overlap.rows(drawn, "busy"),
        layer("collectives", "communication", "communication", device, most_tracks=8, most_lanes=2),
        layer("Python", "python", "python", thread, most_tracks=3, most_lanes=10),
        layer("operators", "operator", "operators", thread, most_tracks=3, most_lanes=4),
        layer(slices.runtime, "api", "api", thread, most_tracks=3, most_lanes=4),
    ]
    return [layer for layer in visible_layers if len(layer.slices)]


def _device_slices(slices: Slices) -> tuple[tuple[pd.DataFrame, ...], Int64]:
    """Return the kernels, and the tasks that are not kernels, with their slice numbers."""
    kernels, tasks = slices.tables["kernels"], slices.tables["tasks"]
    if not len(tasks):
        return (kernels,), slices.of_table("kernels")
    others = _without_kernels(tasks, kernels)
    numbers = np.concatenate([slices.of_table("kernels"), slices.of_table("tasks")[others]])
    return (kernels, tasks[others]) if others.any() else (kernels,), numbers


def _without_kernels(tasks: pd.DataFrame, kernels: pd.DataFrame) -> Bools:
    """Return which tasks are no kernels."""
    of_tasks, of_kernels = task_keys(tasks), task_keys(kernels)
    others = np.ones(len(tasks), bool)
    # In order of time most kernels are found at once; a table in no order, and equal starts, cost the lookup of all.
    place = np.searchsorted(tasks["start_ns"].to_numpy(np.int64), kernels["start_ns"].to_numpy(np.int64))
    place = np.minimum(place, len(tasks) - 1)
    is_same = of_tasks[place] == of_kernels
    others[place[is_same]] = False
    if not is_same.all():
        others[others] = ~pd.Index(of_tasks[others]).isin(of_kernels[~is_same])  # a tenth of the time of NumPy's
    return others


def task_keys(frame: pd.DataFrame) -> npt.NDArray[np.uint64]:
    """Return a number for each row of ``tasks`` or ``kernels``, equal for a kernel and its task."""
    # A mixed 64-bit key instead of a join on five columns: ten times faster for a million tasks. A collision of two
    # tasks, about one run in ten million of that size, costs one bar of the picture.
    key = np.zeros(len(frame), np.uint64)
    runs = ("run",) if "run" in frame else ()
    for name in (*runs, "device_id", "stream_id", "task_id", "batch_id", "start_ns"):
        key = (key ^ whole_numbers(frame[name]).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def whole_numbers(column: pd.Series) -> Int64:
    """Return an integer column as int64; -1 for absent values."""
    return column.array.to_numpy(np.int64, na_value=-1) if column.dtype == "Int64" else column.to_numpy(np.int64)


_DRAWN_OVERLAP = ("computing", "communication_not_overlapped")
_MOST_NAMED = 12  # values of a column that get their own layer: levels, groups, planes
_PYTHON_LANES = 32  # frameworks nest their calls this deep
_LEVELS = ("acl", "model", "node", "communication", "runtime")
_QUEUES = ("enqueue", "dequeue")


@dataclass(frozen=True)
class Group:
    """Layers that are shown or hidden together, such as all levels of CANN's calls; `beside` is the group above it."""

    title: str
    layers: tuple[Layer, ...]
    beside: str = ""


_ORDER = (
    "Loops",
    "Steps",
    "Marks",
    "Device",
    "Overlap",
    "Communication",
    "Python",
    "Operators",
    "Queues",
)  # then the runtime


def groups(slices: Slices) -> list[Group]:
    """Return the groups of a run from top to bottom: the device above the host."""
    table_of: Mapping[str, tuple[str, Callable[[Layer, Slices], list[Layer]]]] = {
        "outer loops": ("Loops", _whole),
        "steps": ("Steps", _whole),
        "marks": ("Marks", _marks),
        "Python": ("Python", _python),
        "operators": ("Operators", _operators),
        slices.runtime: (slices.runtime, _levels),
        "stream": ("Device", _whole),
        "collectives": ("Communication", _communication),
        "busy": ("Overlap", _whole),
    }
    groups_of_run = []
    for layer in layers(slices):
        title, divide = table_of[layer.title]
        by_group: dict[str, list[Layer]] = {}
        for part in divide(layer, slices):
            if len(part.slices):
                by_group.setdefault("Queues" if part.title == "queue" else title, []).append(part)
        groups_of_run += [Group(name, tuple(parts)) for name, parts in by_group.items()]
    order = [*_ORDER, slices.runtime]
    return sorted(_with_own_tracks(groups_of_run), key=lambda group: order.index(group.beside or group.title))


def _with_own_tracks(groups_of_run: Iterable[Group]) -> Iterator[Group]:
    """Yield the groups, with one for each track of the user's own after the markers."""
    for group in groups_of_run:
        count = len(group.layers) if group.title != "Marks" else int(group.layers[0].title == "marks")
        if count:
            yield replace(group, layers=group.layers[:count])
        for layer in group.layers[count:]:
            yield Group(f"{layer.title} " if layer.title in _ORDER else layer.title, (layer,), group.title)


def _whole(layer: Layer, _: Slices) -> list[Layer]:
    return [layer]


def _marks(layer: Layer, _: Slices) -> list[Layer]:
    """Divide markers: a layer for the run, and one for each track of the user's own."""
    (frame,) = layer.frames
    if TRACK not in frame:
        return [layer]
    titles = list(dict.fromkeys(frame[TRACK].dropna().astype(str)))
    tracks = [layer.rows((frame[TRACK] == title).to_numpy(bool), title) for title in titles]
    return [layer.rows(frame[TRACK].isna().to_numpy(bool), layer.title), *tracks]


def _python(layer: Layer, _: Slices) -> list[Layer]:
    return [replace(layer, most_lanes=_PYTHON_LANES)]


def _operators(layer: Layer, _: Slices) -> list[Layer]:
    (frame,) = layer.frames
    queued = frame["kind"].isin(_QUEUES).to_numpy()
    return [layer.rows(~queued, "operators"), layer.rows(queued, "queue")]


def _levels(layer: Layer, slices: Slices) -> list[Layer]:
    (frame,) = layer.frames
    level = frame["level"]
    parts = [layer.rows((level == name).to_numpy(), f"{slices.runtime} {name}") for name in _LEVELS]
    return [*parts, layer.rows(~level.isin(_LEVELS).to_numpy(), slices.runtime)]


def _communication(layer: Layer, slices: Slices) -> list[Layer]:
    (frame,) = layer.frames
    return _by_name(layer, frame["group"], "collectives") + _planes(slices)


def _planes(slices: Slices) -> list[Layer]:
    tasks, numbers = slices.tables["communication_tasks"], slices.of_table("communication_tasks")
    layer = Layer("planes", "communication", (tasks,), numbers, ("device_id",), most_tracks=8, most_lanes=2)
    plane = whole_numbers(tasks["plane_id"])
    used = np.unique(plane)[:_MOST_NAMED].tolist()
    named_layers = [layer.rows(plane == number, f"plane {number}" if number >= 0 else "no plane") for number in used]
    return [*named_layers, layer.rows(~np.isin(plane, used), "other planes")]


def _by_name(layer: Layer, names: pd.Series, title: str) -> list[Layer]:
    """Divide a layer by a column of names: one layer for each of the most frequent names."""
    counts = names.value_counts()
    common = [name for name in counts.index[:_MOST_NAMED] if counts[name]]
    if len(common) < 2:
        return [layer]
    parts = [layer.rows((names == name).to_numpy(), f"{title} · {name}") for name in sorted(common)]
    return [*parts, layer.rows(~names.isin(common).to_numpy(), title)]
