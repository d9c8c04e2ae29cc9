"""From the layers of a timeline to bars on numbered lanes, and the lanes' places and titles on the axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.analysis.nesting import time_order
from npuprof.figures.detail import Bars, merged, reduced
from npuprof.figures.lanes import LEFT_OVER, IntArray, assign, clusters
from npuprof.figures.layers import Layer

_GAP = 0.45  # between two layers, in lanes


@dataclass(frozen=True)
class Lane:
    """A row of the picture.

    Attributes
    ----------
    layer
        Index of its layer.
    place
        Its position on the axis, downwards from 0; layers stand a little apart.
    title
        What the axis says beside it; empty below a track's first lane.
    """

    layer: int
    place: float
    title: str


@dataclass(frozen=True)
class Picture:
    """All bars of a timeline with the lanes they lie on; ``bars.row`` counts rows of the lane's layer."""

    layers: list[Layer]
    lanes: list[Lane]
    bars: Bars


def packed(layers: list[Layer], most: int) -> Picture:
    """Lay the slices of all layers out in lanes and merge them to at most `most` bars.

    Raises
    ------
    ValueError
        If `most` is less than the number of lanes, which is below 200.
    """
    lanes: list[Lane] = []
    parts: list[Bars] = []
    place = 0.0
    for index, layer in enumerate(layers):
        for bars, title in tracks(layer):
            height = int(bars.lane.max()) + 1
            parts.append(_moved(bars, len(lanes)))
            lanes += [Lane(index, place + lane, title if lane == 0 else "") for lane in range(height)]
            place += height
        place += _GAP
    return Picture(layers, lanes, reduced(Bars.joined(parts), most))


def tracks(layer: Layer) -> list[tuple[Bars, str]]:
    """Give the bars of each track of a layer, lanes counted from 0, with the track's title."""
    start, duration = layer.column("start_ns"), layer.column("duration_ns")
    codes, keys = layer.tracks()
    order = time_order(start, start + duration)
    if len(keys) > 1:
        order = order[np.argsort(codes[order], kind="stable")]
    bounds = np.searchsorted(codes[order], np.arange(len(keys) + 1))
    rows = [order[bounds[code] : bounds[code + 1]] for code in _busiest(codes, duration, len(keys), layer.most_tracks)]
    drawn = sorted(rows, key=lambda some: int(codes[some[0]]))
    tracks = [
        (_in_lanes(start[some], duration[some], some, layer.most_lanes), layer.track_title(keys[codes[some[0]]], keys))
        for some in drawn
    ]
    if left := len(keys) - len(drawn):
        taken = np.zeros(len(codes), bool)
        taken[np.concatenate(drawn)] = True
        others = np.flatnonzero(~taken)
        others = others[np.argsort(start[others], kind="stable")]
        tracks.append((_folded(start[others], duration[others], others, 0), f"{layer.title} · {left:,} more"))
    return tracks


def _busiest(codes: IntArray, duration: IntArray, count: int, most: int) -> IntArray:
    if count <= most:
        return np.arange(count)
    busy = np.zeros(count, np.int64)
    np.add.at(busy, codes, duration)
    return np.argsort(-busy, kind="stable")[:most]


def _in_lanes(start: IntArray, duration: IntArray, row: IntArray, most: int) -> Bars:
    lanes = assign(start, start + duration, most)
    kept = np.flatnonzero(lanes != LEFT_OVER)
    bars = Bars.of_slices(lanes[kept], start[kept], duration[kept], row[kept])
    left = np.flatnonzero(lanes == LEFT_OVER)
    if not len(left):
        return bars
    return Bars.joined([bars, _folded(start[left], duration[left], row[left], most)])


def _folded(start: IntArray, duration: IntArray, row: IntArray, lane: int) -> Bars:
    """Put slices on one lane whatever they do: those that overlap become one bar."""
    bars = Bars.of_slices(np.full(len(start), lane, np.int64), start, duration, row)
    cluster = clusters(bars.start_ns, bars.end_ns)
    return merged(bars, np.flatnonzero(np.diff(cluster, prepend=-1)))


def _moved(bars: Bars, lanes: int) -> Bars:
    columns = vars(bars) | {"lane": bars.lane + lanes}
    return Bars(**columns)
