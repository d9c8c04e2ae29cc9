"""What the bars of a timeline say and look like: only of those that are drawn, never of all slices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.figures.colours import device_family, shade
from npuprof.figures.labels import label
from npuprof.quantities import count as count_text
from npuprof.quantities import duration as duration_text
from npuprof.timeline.lane_packing import Picture
from npuprof.timeline.layers import Layer

_NAMED_BARS = 100  # only the widest carry their name: text is what makes a picture slow


def described(picture: Picture, first_ns: int, longest_name: int) -> pd.DataFrame:
    """Say of every bar where it lies, what it is called and how it looks.

    Parameters
    ----------
    picture
        Bars on their lanes.
    first_ns
        The moment that hover texts count from, epoch nanoseconds.
    longest_name
        Names are cut in the middle to this many characters.

    Returns
    -------
    pandas.DataFrame
        A row for each bar: ``place``, ``length_ns``, ``start_ns`` (since the first moment), ``count``,
        ``busy_ns``, ``longest_ns``, ``name``, ``family``, ``colour``, ``opacity``, ``text`` (empty for most)
        and ``hover``. Names are escaped.
    """
    bars = picture.bars
    layer_of = np.array([lane.layer for lane in picture.lanes])[bars.lane]
    frame: pd.DataFrame = pd.DataFrame(
        {
            "place": np.array([lane.place for lane in picture.lanes])[bars.lane],
            "length_ns": bars.end_ns - bars.start_ns,
            "start_ns": bars.start_ns - first_ns,
            "count": bars.count,
            "busy_ns": bars.busy_ns,
            "longest_ns": bars.longest_ns,
        }
    )
    of_layers = [np.flatnonzero(layer_of == index) for index in range(len(picture.layers))]
    facts = [_facts(layer, bars.row[some], some) for layer, some in zip(picture.layers, of_layers, strict=True)]
    frame[["name", "family", "shapes"]] = pd.concat(facts)
    frame["colour"] = [shade(*pair) for pair in zip(frame["family"], frame["name"], strict=True)]
    full = frame["length_ns"].clip(lower=1)
    frame["opacity"] = np.where(bars.count > 1, (0.35 + 0.65 * (frame["busy_ns"] / full).clip(upper=1)).round(2), 1.0)
    frame["name"] = [label(name, longest_name) for name in frame["name"]]
    length = frame["length_ns"].where(frame["count"] == 1, -1)
    frame["text"] = frame["name"].where(length.rank(method="first", ascending=False) <= _NAMED_BARS, "")
    frame["hover"] = [_hover(row, longest_name) for row in frame.itertuples(index=False)]
    return frame


def _facts(layer: Layer, rows: Int64, index: Int64) -> pd.DataFrame:
    """Look up name, family and shapes of rows of a layer; only of those that are drawn."""
    bounds = np.cumsum([0, *(len(frame) for frame in layer.frames)])
    parts = []
    for frame, (low, high) in zip(layer.frames, pairwise(bounds), strict=True):
        inside = (rows >= low) & (rows < high)
        some = frame.iloc[rows[inside] - low]
        name = _texts(some, "name", "message", "kind")
        if layer.kind == "overlap":
            name = [kind.replace("_", " ") for kind in name]
        if "step" in some and layer.title == "steps":
            name = ["step" if pd.isna(step) else f"step {step}" for step in some["step"]]
        facts = {"name": name, "family": _families(layer.kind, some), "shapes": _texts(some, "input_shapes")}
        parts.append(pd.DataFrame(facts, index=index[inside]))
    facts_of_all: pd.DataFrame = pd.concat(parts)
    return facts_of_all


def _texts(frame: pd.DataFrame, *columns: str) -> list[str]:
    """Give the first of `columns` that the frame has as strings; an absent value is an empty one."""
    found = next((column for column in columns if column in frame), None)
    if found is None:
        return [""] * len(frame)
    return [value if isinstance(value, str) else "" for value in frame[found].to_numpy(object)]


def _families(kind: str, frame: pd.DataFrame) -> list[str]:
    if kind == "overlap":
        return ["computing" if value == "computing" else "communication" for value in _texts(frame, "kind")]
    if kind != "device":
        return [kind] * len(frame)
    columns = (_texts(frame, "op_type"), _texts(frame, "task_type"), _texts(frame, "name"))
    return [device_family(*row) for row in zip(*columns, strict=True)]


def _hover(row: Any, longest_name: int) -> str:
    start = f"at {duration_text(int(row.start_ns))}"
    if row.count == 1:
        shapes = f"<br>{label(row.shapes, longest_name)}" if row.shapes else ""
        return f"<b>{row.name}</b><br>{duration_text(int(row.longest_ns))}, {start}{shapes}"
    return (
        f"<b>{count_text(int(row.count))} slices</b><br>{duration_text(int(row.busy_ns))} in "
        f"{duration_text(int(row.length_ns))}, {start}<br>longest: {row.name}, {duration_text(int(row.longest_ns))}"
    )
