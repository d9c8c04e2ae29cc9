"""How the frames of a flame graph look and what they tell: names, colours, hover texts, the share of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, device_family, shade
from npuprof.figures.labels import label
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
"""What each weight is called."""

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
    """Frames and all that is to be told of them.

    Attributes
    ----------
    calls, sums, weight, scope, root
        What is looked at: paths, what they have of each weight in the scope, and the path at the top.
    frames
        What is shown of it.
    """

    calls: MergedCalls
    sums: Mapping[Weight, Sums]
    weight: Weight
    scope: Scope
    root: Root
    frames: Frames

    @property
    def whole(self) -> int:
        """What all of the scope has of the weight."""
        return int(self.sums[self.weight].own.sum())

    def name(self, frame: int) -> str:
        """Return a frame's name, whole and not escaped."""
        folded, path = int(self.frames.folded[frame]), int(self.frames.path[frame])
        if folded:
            return f"({folded:,} more)"
        if frame == 0 and self.root.without:
            return f"the rest of {self.calls.name(path)}" if path >= 0 else "the rest"
        return self.calls.name(path) if path >= 0 else "all"

    def layer(self, frame: int) -> str:
        """Return a frame's layer; empty where it is no path of its own."""
        path = int(self.frames.path[frame])
        if path < 0 or self.frames.folded[frame] or (frame == 0 and self.root.without):
            return ""
        return self.calls.layer(path)

    def look(self, frame: int) -> tuple[str, str]:
        """Return a frame's colour, and that of text upon it."""
        layer = self.layer(frame)
        return _look(layer, self.name(frame)) if layer else (FAINT, FOREGROUND)

    def facts(self, frame: int) -> list[str]:
        """Return a frame's amounts, a line each; nothing that is told comes from the recording."""
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
        """Return how many frames match and what they account for; nothing that is told comes from the recording."""
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
    """Write what a frame has of a weight."""
    return count_text(amount) if weight == "count" else duration_text(amount)


def scope_text(scope: Scope) -> str:
    """Return what part of the run is looked at; empty for all of it."""
    parts = [("step", scope.step), ("thread", scope.thread)]
    return ", ".join(f"{what} {number}" for what, number in parts if number is not None)
