"""One window of the timeline as the numbers and texts that a figure shows: small enough to send at every zoom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Float64
from npuprof.figures.colours import FAMILIES, FOREGROUND
from npuprof.figures.labels import label
from npuprof.timeline.bars import Bars
from npuprof.timeline.hover import hover_texts, looks
from npuprof.timeline.slices import Slices

MOST_BYTES = 300_000
"""The most that the answer to a zoom may take; the hover texts give way."""

_PALE = 0.25
_MOST_LABELS = 150
_CHARACTER_PIXELS = 5.9  # of the figure's font, at its widest common letters
_LEAST_CHARACTERS = 6  # of a name that is cut; shorter ones are shown where all of them fits


@dataclass(frozen=True)
class View:
    """What is drawn, bar by bar and label by label. Times are seconds since the run's first slice.

    Attributes
    ----------
    place, base_s, width_s
        Where each bar lies.
    colour
        Its colour, as text: plotly.js takes four times as long to draw numbers of a colour scale.
    opacity
        Paler where a bar that stands for several slices was not busy all the time.
    hover
        What the pointer shows; escaped.
    label_place, label_s, label, ink
        Names on what is wide enough; escaped.
    """

    place: npt.NDArray[np.float32]
    base_s: Float64
    width_s: Float64
    colour: list[str]
    opacity: npt.NDArray[np.float32]
    hover: list[str]
    label_place: npt.NDArray[np.float32]
    label_s: Float64
    label: list[str]
    ink: list[str]

    @property
    def size_bytes(self) -> int:
        """About what it takes to send: arrays as they are, texts as JSON."""
        arrays = sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))
        texts = sum(
            len(text.encode("utf-8", "surrogatepass")) + 3
            for text in (*self.hover, *self.label, *self.colour, *self.ink)
        )
        return arrays + texts


def view(
    bars: Bars,
    places: Float64,
    slices: Slices,
    window: tuple[int, int],
    *,
    first_ns: int,
    pixels: int,
    lit: Bools | None = None,
) -> View:
    """Return where the bars of a window lie, how they look and what they tell.

    Parameters
    ----------
    bars
        At most a few thousand; their rows are numbers of `slices`.
    places
        The place of each lane on the axis.
    slices
        What the slices are called.
    window
        What is visible, epoch nanoseconds; bars may lie or reach outside.
    first_ns
        The moment that times count from.
    pixels
        How wide the picture is.
    lit
        Which bars stand out; the others are pale. All are alike without it.
    """
    look = looks(bars, slices)
    names = look.names
    low = np.maximum(bars.start_ns, window[0])
    visible = np.maximum(np.minimum(bars.end_ns, window[1]) - low, 0)
    pixel_ns = max((window[1] - window[0]) / pixels, 1e-9)
    characters = np.where(bars.count == 1, visible / pixel_ns / _CHARACTER_PIXELS - 0.5, 0).astype(np.int64)
    least = np.array([min(max(len(name), 1), _LEAST_CHARACTERS) for name in names], np.int64)
    labelled = np.flatnonzero(characters >= least)
    labelled = labelled[np.argsort(-characters[labelled], kind="stable")][:_MOST_LABELS]
    place = places[bars.lane].astype(np.float32)
    bright = np.ones(len(bars)) if lit is None else np.where(lit, 1.0, _PALE)
    return View(
        place=place,
        base_s=(bars.start_ns - first_ns) / 1e9,
        width_s=(bars.end_ns - bars.start_ns) / 1e9,
        colour=look.colours,
        opacity=(look.opacity * bright).astype(np.float32).round(2),
        hover=hover_texts(bars, names, slices, first_ns),
        label_place=place[labelled],
        label_s=(low[labelled] + visible[labelled] // 2 - first_ns) / 1e9,
        label=[label(names[at], min(int(characters[at]), 60)) for at in labelled.tolist()],
        ink=[FAMILIES[look.families[at]].ink if bright[at] == 1 else FOREGROUND for at in labelled.tolist()],
    )
