"""Frames of a flame graph as a figure draws them: names, colours, hover texts, places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Float64
from npuprof.figures.chart import label
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, device_family, shade
from npuprof.flame.fold import Frames, Root
from npuprof.flame.scope import Scope
from npuprof.flame.search import Found
from npuprof.flame.tree import MergedCalls, Sums, Weight
from npuprof.quantities import count as count_text
from npuprof.quantities import duration as duration_text
from npuprof.quantities import share as share_text

TITLES: Mapping[Weight, str] = {
    "host": "host time",
    "device": "device time",
    "count": "number of calls and kernels",
}
"""The title of each weight."""

_SHARED: Mapping[Weight, str] = {**TITLES, "count": "all calls and kernels"}
_TIMES: tuple[Weight, ...] = ("host", "device")
_LAYER_FAMILIES: Mapping[str, str] = {"python": "python", "operators": "operator", "api": "api"}
_LAYER_WORDS: Mapping[str, tuple[str, str]] = {
    "python": ("Python", "call"),
    "operators": ("operator", "call"),
    "api": ("CANN API", "call"),
    "kernels": ("kernel", "launch"),
}


@dataclass(frozen=True, eq=False)
class Picture:
    """Frames of a view, with the paths, weights and scope that they show."""

    calls: MergedCalls
    sums: Mapping[Weight, Sums]
    weight: Weight
    scope: Scope
    root: Root
    frames: Frames

    @property
    def whole(self) -> int:
        """The weight of the whole scope."""
        return int(self.sums[self.weight].own.sum())

    def name(self, frame: int) -> str:
        """Return a frame's name, not escaped."""
        folded, path = int(self.frames.folded[frame]), int(self.frames.path[frame])
        if folded:
            return f"({folded:,} more)"
        if frame == 0 and self.root.without:
            return f"the rest of {self.calls.name(path)}" if path >= 0 else "the rest"
        return self.calls.name(path) if path >= 0 else "all"

    def layer(self, frame: int) -> str:
        """Return a frame's layer; empty for a folded frame and the whole tree."""
        path = int(self.frames.path[frame])
        if path < 0 or self.frames.folded[frame] or (frame == 0 and self.root.without):
            return ""
        return self.calls.layer(path)

    def look(self, frame: int) -> tuple[str, str]:
        """Return a frame's colour and text colour."""
        layer = self.layer(frame)
        return _look(layer, self.name(frame)) if layer else (FAINT, FOREGROUND)

    def facts(self, frame: int) -> list[str]:
        """Return a frame's amounts as lines, without text from the recording."""
        frames = self.frames
        lines = [amount_text(int(frames.total[frame]), self.weight)]
        if layer := self.layer(frame):
            path = int(frames.path[frame])
            lines = [
                f"{key} {duration_text(int(self.sums[key].total[path]))}"
                f", {duration_text(int(self.sums[key].own[path]))} self"
                for key in _TIMES
                if key == self.weight or self.sums[key].total[path]
            ]
            count = self.sums["count"]
            called = int(count.own[path])
            kind, word = _LAYER_WORDS[layer]
            many = ("es" if word == "launch" else "s") if called != 1 else ""
            below = f", {count_text(int(count.total[path]))} with all below" if self.weight == "count" else ""
            where = "" if called else f" in {scope_text(self.scope)}"
            lines.insert(0, f"{kind}, {count_text(called)} {word}{many}{where}{below}")
        total = int(frames.total[frame])
        share = f"{share_text(total, self.whole)} of {_SHARED[self.weight]}"
        if self.root != Root():
            share += f", {share_text(total, int(frames.total[0]))} of what is shown"
        return [*lines, share]

    def hover(self, frame: int, longest: int) -> str:
        """Return a frame's name, escaped, and its facts."""
        return "<br>".join([f"<b>{label(self.name(frame), longest)}</b>", *self.facts(frame)])

    def found(self, found: Found) -> str:
        """Return the number of matches and their share, without text from the recording."""
        if not found.frames:
            return "no match"
        number = f"{count_text(found.frames)} frame{'s' if found.frames != 1 else ''}"
        what = _SHARED[self.weight]
        if self.root == Root():
            return f"{number}, {share_text(found.total, self.whole)} of {what}"
        shown = share_text(found.total, int(self.frames.total[0]))
        return f"{number}, {shown} of what is shown, {share_text(found.total, self.whole)} of {what}"


@lru_cache(maxsize=16_384)
def _look(layer: str, name: str) -> tuple[str, str]:
    family = _LAYER_FAMILIES.get(layer) or device_family("", "", name)
    return shade(family, name), FAMILIES[family].ink


def amount_text(amount: int, weight: Weight) -> str:
    """Format an amount of a weight."""
    return count_text(amount) if weight == "count" else duration_text(amount)


def scope_text(scope: Scope) -> str:
    """Return the scope as text; empty for the whole run."""
    parts = [("step", scope.step), ("thread", scope.thread)]
    return ", ".join(f"{what} {number}" for what, number in parts if number is not None)


MATCH = "#d55e00"
"""Outline of a frame that matches the search."""

MOST_BYTES = 300_000
"""Approximate maximum size of a zoom's answer; hover texts of the narrowest frames are dropped first."""

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
    """The numbers and texts of a drawn view.

    Attributes
    ----------
    left, width
        Horizontal extent of each frame, as parts of the root.
    outline
        The outline colour of each frame, or of all.
    hover, label
        Escaped texts; labels only on frames that are wide enough.
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
        """Approximate size to send: arrays as they are, texts as JSON."""
        arrays = sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))
        texts = (
            *self.hover,
            *self.label,
            *self.colour,
            *self.ink,
            *([self.outline] if isinstance(self.outline, str) else self.outline),
        )
        return arrays + sum(_bytes(text) for text in texts)


def flame_view(picture: Picture, matches: Found | None, pixels: int) -> FlameView:
    """Return the positions, colours and texts of frames in a figure of this width."""
    frames = picture.frames
    count = len(frames)
    left, width = frames.left, frames.total / max(int(frames.total[0]), 1)
    looks = [picture.look(frame) for frame in range(count)]
    lit = np.ones(count, bool) if matches is None else matches.lit
    outlined = np.zeros(count, bool) if matches is None else matches.lit & (width * pixels > _LEAST_OUTLINED)
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
        outline=[MATCH if is_outlined else FAINT for is_outlined in outlined.tolist()] if outlined.any() else FAINT,
        outline_width=np.where(outlined, 2.0, np.where(width * pixels > _LEAST_OUTLINED, 0.5, 0)).astype(np.float32),
        hover=_hover(picture, width * pixels),
        label_level=frames.depth[labelled].astype(np.float32),
        label_left=left[labelled],
        label=list(labels.values()),
        ink=[looks[frame][1] if lit[frame] else FOREGROUND for frame in labels],
        levels=int(frames.depth.max()) + 1,
    )


def _label(name: str, pixels: float, *, whole: bool) -> str:
    """Return the part of a name that fits, escaped; with `whole`, all of it or nothing."""
    wide = 2 if any(letter >= _WIDE_CHARACTER for letter in name) else 1
    characters = int(pixels / (_CHARACTER_PIXELS * wide) - 1)
    if characters < (len(name) if whole else min(len(name), _LEAST_CHARACTERS)):
        return ""
    return label(name, min(characters, _LONGEST_NAME))


def _hover(picture: Picture, pixels: Float64) -> list[str]:
    """Return the full texts of the widest frames, and the names of other frames that the pointer can hit."""
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
