"""What a flame graph shows as the numbers and texts of a figure: small enough to send at every zoom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Float64
from npuprof.figures.colours import FAINT, FOREGROUND
from npuprof.figures.labels import label
from npuprof.flame.figure import MATCH
from npuprof.flame.frames import Picture
from npuprof.flame.search import Found
from npuprof.flame.state import lefts

MOST_BYTES = 300_000
"""About the most that the answer to a zoom takes; the narrowest frames' hover texts give way."""

_ROOM_FOR_HOVER = 220_000
_LONGEST_NAME = 80
_SHORT_NAME = 12
_LEAST_PIXELS = 0.35  # of a frame that the pointer can find
_LEAST_OUTLINED = 4.0  # pixels: the outlines of narrower ones would hide their colours
_PALE = 0.28
_CHARACTER_PIXELS = 6.7  # of the figure's font, at its widest common letters
_WIDE_CHARACTER = "\u1100"  # from here on letters may be twice as wide
_LEAST_CHARACTERS = 4  # of a name that is cut; shorter ones are shown where all of them fits
_MOST_LABELS = 400


@dataclass(frozen=True)
class FlameView:
    """What is drawn, frame by frame and label by label.

    Attributes
    ----------
    level
        The level of each frame, 0 for the root.
    left, width
        From where to where it reaches, in parts of the root.
    colour, opacity, outline, outline_width
        How it looks; one outline may be that of all.
    hover
        What the pointer shows; escaped.
    label_level, label_left, label, ink
        Names on what is wide enough; escaped.
    levels
        How many levels there are.
    """

    level: npt.NDArray[np.float32]
    left: Float64
    width: Float64
    colour: list[str]
    opacity: npt.NDArray[np.float32]
    outline: list[str] | str
    outline_width: npt.NDArray[np.float32]
    hover: list[str]
    label_level: npt.NDArray[np.float32]
    label_left: Float64
    label: list[str]
    ink: list[str]
    levels: int

    @property
    def size_bytes(self) -> int:
        """About what it takes to send: arrays as they are, texts as JSON."""
        arrays = sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))
        texts = (
            *self.hover,
            *self.label,
            *self.colour,
            *self.ink,
            *([self.outline] if isinstance(self.outline, str) else self.outline),
        )
        return arrays + sum(_bytes(text) for text in texts)


def flame_view(picture: Picture, found: Found | None, pixels: int) -> FlameView:
    """Return where the frames lie, how they look and what they tell.

    Parameters
    ----------
    picture
        The frames.
    found
        What a search found in them; None without one.
    pixels
        How wide the figure is.
    """
    frames = picture.frames
    count = len(frames)
    left, width = lefts(frames), frames.total / max(int(frames.total[0]), 1)
    looks = [picture.look(frame) for frame in range(count)]
    lit = np.ones(count, bool) if found is None else found.lit
    outlined = np.zeros(count, bool) if found is None else found.lit & (width * pixels > _LEAST_OUTLINED)
    labels = {}
    for frame in np.argsort(-width, kind="stable")[:_MOST_LABELS].tolist():
        if text := _label(picture.name(frame), width[frame] * pixels, whole=bool(frames.folded[frame])):
            labels[frame] = text
    labelled = np.array(list(labels), np.int64)
    return FlameView(
        level=frames.depth.astype(np.float32),
        left=left,
        width=width,
        colour=[colour for colour, _ in looks],
        opacity=np.where(lit, 1.0, _PALE).astype(np.float32),
        outline=[MATCH if one else FAINT for one in outlined.tolist()] if outlined.any() else FAINT,
        outline_width=np.where(outlined, 2.0, np.where(width * pixels > _LEAST_OUTLINED, 0.5, 0)).astype(np.float32),
        hover=_hover(picture, width * pixels),
        label_level=frames.depth[labelled].astype(np.float32),
        label_left=left[labelled],
        label=list(labels.values()),
        ink=[looks[frame][1] if lit[frame] else FOREGROUND for frame in labels],
        levels=int(frames.depth.max()) + 1,
    )


def _label(name: str, pixels: float, *, whole: bool) -> str:
    """Return as much of a name as there is room for, or all of it or nothing; escaped."""
    wide = 2 if any(letter >= _WIDE_CHARACTER for letter in name) else 1
    characters = int(pixels / (_CHARACTER_PIXELS * wide) - 1)
    if characters < (len(name) if whole else min(len(name), _LEAST_CHARACTERS)):
        return ""
    return label(name, min(characters, _LONGEST_NAME))


def _hover(picture: Picture, pixels: Float64) -> list[str]:
    """Return all of the widest frames, and the names of the others that the pointer can find."""
    texts = [""] * len(pixels)
    room = _ROOM_FOR_HOVER
    for frame in np.argsort(-pixels, kind="stable").tolist():
        if pixels[frame] < _LEAST_PIXELS:
            break
        text = picture.hover(frame, _LONGEST_NAME if room > 0 else _SHORT_NAME)
        if room < 0:
            text = text.partition("<br>")[0]
        texts[frame] = text
        room -= _bytes(text)
    return texts


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + 3
