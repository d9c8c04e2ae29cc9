"""Frames of a flame graph as figures draw them: names, colours, hover texts, places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from npuprof.figures.chart import label
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, device_family, shade
from npuprof.flame.fold import Frames, Root
from npuprof.flame.scope import Scope
from npuprof.flame.search import FrameMatches
from npuprof.flame.tree import MergedCalls, PathWeights, Weight
from npuprof.words.quantities import count as count_text
from npuprof.words.quantities import counted
from npuprof.words.quantities import duration as duration_text
from npuprof.words.quantities import share as share_text

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
    "api": ("{} API", "call"),  # of the runtime
    "kernels": ("kernel", "launch"),
}


@dataclass(frozen=True, eq=False)
class DrawnFlames:
    """Frames of a view, with their paths, weights and scope."""

    calls: MergedCalls
    sums: Mapping[Weight, PathWeights]
    weight: Weight
    scope: Scope
    root: Root
    frames: Frames

    @property
    def whole(self) -> int:
        """The weight of the whole scope."""
        return int(self.sums[self.weight].exclusive.sum())

    def name(self, frame: int) -> str:
        """Return the name of a frame, not escaped."""
        folded, path = int(self.frames.folded[frame]), int(self.frames.path[frame])
        if folded:
            return f"({folded:,} more)"
        return self.calls.name(path) if path >= 0 else "all"

    def layer(self, frame: int) -> str:
        """Return the layer of a frame; empty for folded frames and the whole tree."""
        path = int(self.frames.path[frame])
        if path < 0 or self.frames.folded[frame]:
            return ""
        return self.calls.layer(path)

    def look(self, frame: int) -> tuple[str, str]:
        """Return the colour and the text colour of a frame."""
        family = self.family(frame)
        return (shade(family, self.name(frame)), FAMILIES[family].ink) if family else (FAINT, FOREGROUND)

    def family(self, frame: int) -> str:
        """Return the family of a frame's colour; empty for folded frames and the whole tree."""
        layer = self.layer(frame)
        return _LAYER_FAMILIES.get(layer) or _family(self.name(frame)) if layer else ""

    def facts(self, frame: int) -> list[str]:
        """Return the amounts of a frame as lines; they contain no text from the recording."""
        frames = self.frames
        lines = [amount_text(int(frames.total[frame]), self.weight)]
        if layer := self.layer(frame):
            path = int(frames.path[frame])
            lines = [
                f"{key} {duration_text(int(self.sums[key].total[path]))}"
                f", {duration_text(int(self.sums[key].exclusive[path]))} self"
                for key in _TIMES
                if key == self.weight or self.sums[key].total[path]
            ]
            lines.insert(0, self._known_from(path, layer))
        total = int(frames.total[frame])
        share = f"{share_text(total, self.whole)} of {_SHARED[self.weight]}"
        if self.root != Root():
            share += f", {share_text(total, int(frames.total[0]))} of the view"
        return [*lines, share]

    def _known_from(self, path: int, layer: str) -> str:
        """Return the kind of a path, and the number of its slices, or where it is known from without any."""
        count = self.sums["count"]
        called = int(count.exclusive[path])
        kind, word = _LAYER_WORDS[layer][0].format(self.calls.runtime), _LAYER_WORDS[layer][1]
        below = f", {count_text(int(count.total[path]))} including all callees" if self.weight == "count" else ""
        if self.calls.only_stacked[path]:
            return f"{kind}, from the stacks taken at launches{below}"
        if self.calls.only_seen[path] and called:
            return f"{kind}, {seen_text(called)} in samples{below}"
        where = "" if called else f" in {scope_text(self.scope)}"
        return f"{kind}, {counted(called, word, 'launches' if word == 'launch' else '')}{where}{below}"

    def hover(self, frame: int, longest: int) -> str:
        """Return the escaped name of a frame, and its amounts."""
        return "<br>".join([f"<b>{label(self.name(frame), longest)}</b>", *self.facts(frame)])

    def match_text(self, matches: FrameMatches) -> str:
        """Return the number of matches and their share; it contains no text from the recording."""
        if not matches.frames:
            return "no match"
        number = counted(matches.frames, "frame")
        subject = _SHARED[self.weight]
        if self.root == Root():
            return f"{number}, {share_text(matches.total, self.whole)} of {subject}"
        shown = share_text(matches.total, int(self.frames.total[0]))
        return f"{number}, {shown} of the view, {share_text(matches.total, self.whole)} of {subject}"


@lru_cache(maxsize=16_384)
def _family(name: str) -> str:
    return device_family("", "", name)


def seen_text(number: int) -> str:
    """Return how often samples saw something, which is not how often it was called."""
    return "seen once" if number == 1 else f"seen {count_text(number)} times"


def amount_text(amount: int, weight: Weight) -> str:
    """Format an amount in the unit of its weight."""
    return count_text(amount) if weight == "count" else duration_text(amount)


def scope_text(scope: Scope) -> str:
    """Return the scope as text; empty for the whole run."""
    parts = [("step", scope.step), ("thread", scope.thread)]
    return ", ".join(f"{subject} {number}" for subject, number in parts if number is not None)
