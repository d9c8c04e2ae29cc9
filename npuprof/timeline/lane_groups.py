"""Which slices the explorer draws, in which order: groups from the run's steps down to the devices' overlap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from npuprof.timeline.layers import Layer, layers, whole_numbers
from npuprof.timeline.slices import Slices

_MOST_NAMED = 12  # values of one column that get layers of their own: levels, groups, planes
_PYTHON_LANES = 32  # frameworks call as deep as this
_LEVELS = ("acl", "model", "node", "communication", "runtime")
_QUEUES = ("enqueue", "dequeue")


@dataclass(frozen=True)
class Group:
    """Layers that belong together, such as all CANN levels; shown or hidden as one."""

    title: str
    layers: tuple[Layer, ...]


def groups(slices: Slices) -> list[Group]:
    """Return the groups that a run has, from top to bottom."""
    table_of: Mapping[str, tuple[str, Callable[[Layer, Slices], list[Layer]]]] = {
        "steps": ("Steps", _whole),
        "marks": ("Marks", _whole),
        "Python": ("Python", _python),
        "operators": ("Operators", _operators),
        "CANN": ("CANN", _levels),
        "stream": ("Device", _whole),
        "collectives": ("Communication", _communication),
        "busy": ("Overlap", _whole),
    }
    found = []
    for layer in layers(slices):
        title, divide = table_of[layer.title]
        parts = [part for part in divide(layer, slices) if len(part.slices)]
        if queues := tuple(part for part in parts if part.title == "queue"):
            found.append(Group("Queues", queues))
        if others := tuple(part for part in parts if part.title != "queue"):
            found.insert(len(found) - bool(queues), Group(title, others))
    return found


def _whole(layer: Layer, _: Slices) -> list[Layer]:
    return [layer]


def _python(layer: Layer, _: Slices) -> list[Layer]:
    return [replace(layer, most_lanes=_PYTHON_LANES)]


def _operators(layer: Layer, _: Slices) -> list[Layer]:
    (frame,) = layer.frames
    queued = frame["kind"].isin(_QUEUES).to_numpy()
    return [layer.rows(~queued, "operators"), layer.rows(queued, "queue")]


def _levels(layer: Layer, _: Slices) -> list[Layer]:
    (frame,) = layer.frames
    level = frame["level"]
    parts = [layer.rows((level == name).to_numpy(), f"CANN {name}") for name in _LEVELS]
    return [*parts, layer.rows(~level.isin(_LEVELS).to_numpy(), "CANN")]


def _communication(layer: Layer, slices: Slices) -> list[Layer]:
    (frame,) = layer.frames
    return _by_name(layer, frame["group"], "collectives") + _planes(slices)


def _planes(slices: Slices) -> list[Layer]:
    tasks, numbers = slices.tables["communication_tasks"], slices.of_table("communication_tasks")
    layer = Layer("planes", "communication", (tasks,), numbers, ("device_id",), most_tracks=8, most_lanes=2)
    plane = whole_numbers(tasks["plane_id"])
    used = np.unique(plane)[:_MOST_NAMED].tolist()
    named = [layer.rows(plane == one, f"plane {one}" if one >= 0 else "no plane") for one in used]
    return [*named, layer.rows(~np.isin(plane, used), "other planes")]


def _by_name(layer: Layer, names: pd.Series, title: str) -> list[Layer]:
    """Divide a layer by a column of names, those with the most rows for themselves."""
    counts = names.value_counts()
    common = [name for name in counts.index[:_MOST_NAMED] if counts[name]]
    if len(common) < 2:
        return [layer]
    parts = [layer.rows((names == name).to_numpy(), f"{title} · {name}") for name in sorted(common)]
    return [*parts, layer.rows(~names.isin(common).to_numpy(), title)]
