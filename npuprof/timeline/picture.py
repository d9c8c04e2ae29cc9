"""A window of the timeline as one picture: what the figure and the SVG draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.figures.labels import label
from npuprof.timeline.bars import Bars
from npuprof.timeline.hover import Looks, hover_texts, looks
from npuprof.timeline.lane_packing import Lane
from npuprof.timeline.layers import layers
from npuprof.timeline.level_of_detail import WindowIndex
from npuprof.timeline.slices import Slices

_NAMED_BARS = 100  # only the widest carry their name: text is what makes a picture slow
_FACTS = 1  # shapes; a saved notebook has no room for stacks


@dataclass(frozen=True)
class Picture:
    """Bars on lanes, and the window that they fill.

    Attributes
    ----------
    lanes
        Every lane with its place on the axis.
    bars
        The bars; ``bars.lane`` counts `lanes`.
    slices
        What the bars stand for.
    first_ns, last_ns
        The window, epoch nanoseconds; bars may reach out of it.
    """

    lanes: list[Lane]
    bars: Bars
    slices: Slices
    first_ns: int
    last_ns: int

    @property
    def height(self) -> float:
        """How far down the lanes reach."""
        return self.lanes[-1].place + 1

    @property
    def places(self) -> list[float]:
        """The place of each bar's lane on the axis."""
        return [self.lanes[lane].place for lane in self.bars.lane.tolist()]

    @property
    def shared(self) -> tuple[int, int] | None:
        """How many slices are drawn as how many bars; None where each slice has its own."""
        count, bars = int(self.bars.count.sum()), len(self.bars)
        return None if count == bars else (count, bars)

    def looks(self) -> Looks:
        """Return names, colours and opacity of the bars."""
        return looks(self.bars, self.slices)

    def labels(self, names: list[str], longest: int) -> list[str]:
        """Return the escaped names of the widest bars of one slice, and an empty text for the others."""
        length = np.where(self.bars.count == 1, self.bars.end_ns - self.bars.start_ns, -1)
        widest = np.argsort(-length, kind="stable")[:_NAMED_BARS]
        texts = [""] * len(names)
        for at in widest[length[widest] >= 0].tolist():
            texts[at] = label(names[at], longest)
        return texts

    def hover(self, names: list[str], longest: int) -> list[str]:
        """Return what the pointer shows over each bar."""
        return hover_texts(self.bars, names, self.slices, self.first_ns, lengths=(longest,), most_facts=_FACTS)


def picture(tables: Mapping[str, pd.DataFrame], start_ns: int | None, end_ns: int | None, most: int) -> Picture | None:
    """Lay out the slices that touch a window, in at most so many bars where each lane has one.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    start_ns, end_ns
        The window, epoch nanoseconds; from the first slice, and to the last, where absent.
    most
        How many bars there may be.

    Returns
    -------
    None where no slice touches the window.
    """
    slices = Slices(tables)
    index = WindowIndex([part for layer in layers(slices) if len((part := layer.within(start_ns, end_ns)).slices)])
    if index.span is None:
        return None
    first, last = index.span
    bars = index.within(first, last, pixels=None, most=max(most, len(index.lanes)))
    first = first if start_ns is None else start_ns
    return Picture(index.lanes, bars, slices, first, last if end_ns is None else end_ns)
