"""What bars look like and what the pointer shows over them: only of bars that are drawn, never of all slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Float64
from npuprof.figures.colours import shade
from npuprof.figures.labels import label
from npuprof.quantities import count as count_text
from npuprof.quantities import duration as duration_text
from npuprof.timeline.bars import Bars
from npuprof.timeline.slices import Slices

_ROOM_BYTES = 200_000
_NAME_LENGTHS = (60, 32, 16, 6)
_FACT_LENGTH = 90


@dataclass(frozen=True)
class Looks:
    """Names, colours and opacity of bars; names are those of their longest slices, not escaped.

    Attributes
    ----------
    names, families
        See :class:`npuprof.timeline.slices.Slices`.
    colours
        The shade of each bar.
    opacity
        Paler where a bar of several slices was not busy all the time.
    """

    names: list[str]
    families: list[str]
    colours: list[str]
    opacity: Float64


def looks(bars: Bars, slices: Slices) -> Looks:
    """Return how bars look; their rows are numbers of `slices`."""
    names, families = slices.names(bars.row), slices.families(bars.row)
    pairs = list(zip(families, names, strict=True))
    shades = {pair: shade(*pair) for pair in set(pairs)}
    share = np.minimum(bars.busy_ns / np.maximum(bars.end_ns - bars.start_ns, 1), 1.0)
    opacity = np.where(bars.count > 1, (0.35 + 0.65 * share).round(2), 1.0)
    return Looks(names, families, [shades[pair] for pair in pairs], opacity)


def hover_texts(
    bars: Bars,
    names: list[str],
    slices: Slices,
    first_ns: int,
    *,
    lengths: tuple[int, ...] = _NAME_LENGTHS,
    most_facts: int | None = None,
) -> list[str]:
    """Return a text for each bar: what and when, and of the longest slices all facts that there is room for.

    Parameters
    ----------
    bars, names, slices
        Bars and the names of their slices.
    first_ns
        The moment that times count from, epoch nanoseconds.
    lengths
        To how many characters a name is cut: the first at which all texts fit.
    most_facts
        How many facts of a slice are shown; all of them by default.
    """
    for longest in lengths:
        labels = {name: label(name or None, longest) for name in set(names)}
        starts, ends, counts, busy, longest_ns = (
            values.tolist()
            for values in (bars.start_ns - first_ns, bars.end_ns - first_ns, bars.count, bars.busy_ns, bars.longest_ns)
        )
        rows = zip(map(labels.__getitem__, names), starts, ends, counts, busy, longest_ns, strict=True)
        texts = [_text(*row) for row in rows]
        room = _ROOM_BYTES - sum(len(text.encode("utf-8", "surrogatepass")) + 3 for text in texts)
        if room >= 0:
            break
    single = np.flatnonzero(bars.count == 1)
    single = single[np.argsort(-bars.longest_ns[single], kind="stable")]
    for at, facts in zip(single.tolist(), slices.facts(bars.row[single]), strict=True):
        more = "".join(f"<br>{label(fact, min(_FACT_LENGTH, 2 * longest))}" for fact in facts[:most_facts])
        room -= len(more.encode("utf-8", "surrogatepass"))
        if room < 0:
            break
        texts[at] += more
    return texts


def _text(name: str, start_ns: int, end_ns: int, count: int, busy_ns: int, longest_ns: int) -> str:
    start, longest = f"at {duration_text(start_ns)}", duration_text(longest_ns)
    if count == 1:
        return f"<b>{name}</b><br>{longest}, {start}"
    return (
        f"<b>{count_text(count)} slices</b><br>{duration_text(busy_ns)} in {duration_text(end_ns - start_ns)}, {start}"
        f"<br>longest: {name}, {longest}"
    )
