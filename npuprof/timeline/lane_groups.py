"""Which slices the explorer draws, in which order: groups from the run's steps down to the devices' overlap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.timeline.layers import Layer, layers, whole_numbers
from npuprof.timeline.level_of_detail import Rows
from npuprof.timeline.slices import Slices

_MOST_NAMED = 12  # values of one column that get layers of their own: levels, groups, planes
_PYTHON_LANES = 32  # frameworks call as deep as this
_LEVELS = ("acl", "model", "node", "communication", "runtime")
_QUEUES = ("enqueue", "dequeue")


@dataclass(frozen=True)
class Group:
    """Layers that belong together, such as all CANN levels; shown or hidden as one."""

    title: str
    rows: tuple[Rows, ...]


def groups(tables: Mapping[str, pd.DataFrame], slices: Slices) -> list[Group]:
    """Give the groups that a run has, from top to bottom.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    slices
        The numbers of their rows.
    """
    table_of: Mapping[str, tuple[str, Callable[[Layer, Slices], list[Rows]]]] = {
        "steps": ("Steps", _whole("steps")),
        "marks": ("Marks", _whole("marks")),
        "Python": ("Python", _python),
        "operators": ("Operators", _operators),
        "CANN": ("CANN", _levels),
        "stream": ("Device", _streams),
        "collectives": ("Communication", _communication),
        "busy": ("Overlap", _overlap),
    }
    found = []
    for layer in layers(tables):
        title, divide = table_of[layer.title]
        rows = [some for some in divide(layer, slices) if len(some.slices)]
        if queues := tuple(some for some in rows if some.layer.title == "queue"):
            found.append(Group("Queues", queues))
        if others := tuple(some for some in rows if some.layer.title != "queue"):
            found.insert(len(found) - bool(queues), Group(title, others))
    return found


def _whole(table: str) -> Callable[[Layer, Slices], list[Rows]]:
    return lambda layer, slices: [Rows(layer, slices.of_table(table))]


def _part(layer: Layer, numbers: Int64, chosen: Bools, title: str) -> Rows:
    """Give the chosen rows of a layer of one frame as a layer of their own."""
    (frame,) = layer.frames
    return Rows(replace(layer, title=title, frames=(frame[chosen],)), numbers[chosen])


def _python(layer: Layer, slices: Slices) -> list[Rows]:
    return [Rows(replace(layer, most_lanes=_PYTHON_LANES), slices.of_table("python"))]


def _operators(layer: Layer, slices: Slices) -> list[Rows]:
    (frame,) = layer.frames
    queued = frame["kind"].isin(_QUEUES).to_numpy()
    numbers = slices.of_table("operators")
    return [_part(layer, numbers, ~queued, "operators"), _part(layer, numbers, queued, "queue")]


def _levels(layer: Layer, slices: Slices) -> list[Rows]:
    (frame,) = layer.frames
    level, numbers = frame["level"], slices.of_table("api")
    parts = [_part(layer, numbers, (level == name).to_numpy(), f"CANN {name}") for name in _LEVELS]
    return [*parts, _part(layer, numbers, ~level.isin(_LEVELS).to_numpy(), "CANN")]


def _streams(layer: Layer, slices: Slices) -> list[Rows]:
    kernels = slices.of_table("kernels")
    if len(layer.frames) == 1:
        return [Rows(layer, kernels)]
    # Tasks that are no kernels keep the labels of their rows.
    others = slices.tables["tasks"].index.get_indexer(layer.frames[1].index)
    return [Rows(layer, np.concatenate([kernels, others + slices.first["tasks"]]))]


def _communication(layer: Layer, slices: Slices) -> list[Rows]:
    (frame,) = layer.frames
    numbers = slices.of_table("communication")
    rows = _by_name(layer, numbers, frame["group"], "collectives")
    return rows + _planes(slices)


def _planes(slices: Slices) -> list[Rows]:
    tasks, numbers = slices.tables["communication_tasks"], slices.of_table("communication_tasks")
    layer = Layer("planes", "communication", (tasks,), ("device_id",), most_tracks=8, most_lanes=2)
    plane = whole_numbers(tasks["plane_id"])
    used = np.unique(plane)[:_MOST_NAMED].tolist()
    named = [_part(layer, numbers, plane == one, f"plane {one}" if one >= 0 else "no plane") for one in used]
    return [*named, _part(layer, numbers, ~np.isin(plane, used), "other planes")]


def _by_name(layer: Layer, numbers: Int64, names: pd.Series, title: str) -> list[Rows]:
    """Divide a layer by a column of names, those with the most rows for themselves."""
    counts = names.value_counts()
    common = [name for name in counts.index[:_MOST_NAMED] if counts[name]]
    if len(common) < 2:
        return [Rows(layer, numbers)]
    parts = [_part(layer, numbers, (names == name).to_numpy(), f"{title} · {name}") for name in sorted(common)]
    return [*parts, _part(layer, numbers, ~names.isin(common).to_numpy(), title)]


def _overlap(layer: Layer, slices: Slices) -> list[Rows]:
    (frame,) = layer.frames
    shown = slices.tables["overlap"].index.get_indexer(frame.index)
    return [Rows(layer, shown + slices.first["overlap"])]
