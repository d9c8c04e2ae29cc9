"""Flow arrows of a slice: its causes, from Python down to the kernel, and its effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import LAYERS, Causes, causes, nearest
from npuprof.arrays import Int64
from npuprof.timeline.slices import TABLES, Slices

MOST_ARROWS = 60
"""Maximum number of arrows per slice; the earliest effects come first."""

_MOST_VISITED = 20_000  # callees searched for kernels, where a slice holds much of the run


@dataclass(frozen=True)
class Arrow:
    """A cause and its effect by slice number, and their relation: ``call``, or the kind of the recorded link."""

    cause: int
    effect: int
    kind: str


@dataclass(frozen=True)
class Arrows:
    """The arrows of a slice, to its causes, then to its effects; `more` says whether some effects are left out."""

    arrows: tuple[Arrow, ...]
    more: bool


class Relations:
    """The causes and effects of slices, computed at first use."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], slices: Slices) -> None:
        self._tables = tables
        self._slices = slices
        self._thread = [tables[name]["thread_id"].to_numpy(np.int64) for name in LAYERS]

    def of(self, number: int) -> Arrows:
        """Return the arrows of a slice."""
        arrows = [Arrow(cause, effect, "call") for effect, cause in pairwise(self.causes(number))]
        effects, has_more = self._effects(number)
        arrows += effects
        pairs = {(arrow.cause, arrow.effect) for arrow in arrows}
        arrows += [arrow for arrow in self._linked_arrows(number) if (arrow.cause, arrow.effect) not in pairs]
        return Arrows(tuple(arrows[:MOST_ARROWS]), has_more or len(arrows) > MOST_ARROWS)

    def causes(self, number: int) -> list[int]:
        """Return the slice and its chain of causes: on each layer and thread, the innermost caller."""
        chain: list[int] = []
        seen = set()
        for each in self._above(number):
            if (station := self._station(each)) not in seen:
                seen.add(station)
                chain.append(each)
        return chain

    def caller(self, number: int) -> int | None:
        """Return the direct cause of a slice, None if it has none."""
        above = list(islice(self._above(number), 2))
        return above[1] if len(above) == 2 else None

    def callee(self, number: int) -> int | None:
        """Return the first direct effect of a slice, None if it has none."""
        row = self._host_row(number)
        if row is None:
            return None
        below = _of_callers(self._callees, self._sorted_callers, np.array([row]))
        if len(below):
            return self._number(int(below[0]))
        kernels = _of_callers(self._kernels, self._sorted_launchers, np.array([row]))
        return int(kernels[0]) + self._slices.first["kernels"] if len(kernels) else None

    def first_kernels(self, numbers: Sequence[int]) -> list[int | None]:
        """Return for each slice the kernel that starts first among those below it and those linked with it."""
        host_rows = [self._host_row(number) for number in numbers]
        wanted = np.array([row for row in host_rows if row is not None], np.int64)
        callers, launchers = self._causes.callers, self._causes.launchers
        is_wanted = np.zeros(len(callers), np.bool_)
        is_wanted[wanted] = True
        starts = self._tables["kernels"]["start_ns"].to_numpy(np.int64)
        by_start = np.argsort(starts, kind="stable")
        earliest: dict[int, int] = {}  # place among the kernels in order of start, by host row
        for row, place in zip(*_first_of_each(nearest(callers, launchers[by_start], is_wanted)), strict=True):
            while row >= 0:
                earliest[row] = min(earliest.get(row, place), place)
                row = int(nearest(callers, callers[row : row + 1], is_wanted)[0])
        places = np.empty(len(by_start), np.int64)
        places[by_start] = np.arange(len(by_start))
        linked: dict[int, int] = {}
        sources, kernels = self._links_to_kernels
        for at in np.flatnonzero(np.isin(sources, numbers)).tolist():
            source, place = int(sources[at]), int(places[kernels[at]])
            linked[source] = min(linked.get(source, place), place)
        first = self._slices.first["kernels"]
        found: list[int | None] = []
        for number, host_row in zip(numbers, host_rows, strict=True):
            below = len(starts) if host_row is None else earliest.get(host_row, len(starts))
            place = min(below, linked.get(number, len(starts)))
            found.append(int(by_start[place]) + first if place < len(starts) else None)
        return found

    @cached_property
    def _links_to_kernels(self) -> tuple[Int64, Int64]:
        """The slices that recorded links lead from, and the kernels that they lead to."""
        links, kernels = self._tables["links"], len(self._tables["kernels"])
        links = links[(links["target_table"] == "kernels").to_numpy(bool)]
        rows, targets = (links[f"{end}_row"].to_numpy(np.int64) for end in ("source", "target"))
        tables = links["source_table"].astype(object)
        exist = (rows >= 0) & (targets >= 0) & (targets < kernels)
        exist &= rows < tables.map({name: len(self._tables[name]) for name in TABLES}).fillna(-1).to_numpy(np.int64)
        first = tables.map(self._slices.first).fillna(0).to_numpy(np.int64)
        return (rows + first)[exist], targets[exist]

    @cached_property
    def _causes(self) -> Causes:
        return causes(self._tables)

    @cached_property
    def _callees(self) -> Int64:
        return np.argsort(self._causes.callers, kind="stable")

    @cached_property
    def _sorted_callers(self) -> Int64:
        return self._causes.callers[self._callees]

    @cached_property
    def _kernels(self) -> Int64:
        return np.argsort(self._causes.launchers, kind="stable")

    @cached_property
    def _sorted_launchers(self) -> Int64:
        return self._causes.launchers[self._kernels]

    def _above(self, number: int) -> Iterator[int]:
        """Yield the slice, its cause, the cause's cause, and so on."""
        yield number
        table, row = self._slices.row(number)
        if table not in LAYERS:
            above = int(self._causes.launchers[row]) if table == "kernels" else -1
            if above < 0 and (cause := self._linked_cause(number)) is not None:
                above = self._host_row(cause) if self._host_row(cause) is not None else -1  # type: ignore[assignment]
        else:
            above = int(self._causes.callers[row + self._causes.first_row[table]])
        while above >= 0:  # `causes` is free of cycles
            yield self._number(above)
            above = int(self._causes.callers[above])

    def _linked_cause(self, number: int) -> int | None:
        return next((arrow.cause for arrow in self._linked_arrows(number) if arrow.effect == number), None)

    def _station(self, number: int) -> tuple[str, int]:
        table, row = self._slices.row(number)
        return table, int(self._thread[LAYERS.index(table)][row]) if table in LAYERS else 0

    def _host_row(self, number: int) -> int | None:
        table, row = self._slices.row(number)
        return row + self._causes.first_row[table] if table in LAYERS else None

    def _number(self, host_row: int) -> int:
        table = max((name for name in LAYERS if self._causes.first_row[name] <= host_row), key=LAYERS.index)
        # Empty tables begin at the same row as the table after them: the last table that begins there has the row.
        return host_row - self._causes.first_row[table] + self._slices.first[table]

    def _effects(self, number: int) -> tuple[list[Arrow], bool]:
        """Return arrows to the kernels below a slice and calls between; without kernels, to calls on other threads."""
        top = self._host_row(number)
        if top is None:
            return [], False
        below, has_more = self._below(top)
        kernels = _of_callers(self._kernels, self._sorted_launchers, below)
        kernels = kernels[np.argsort(self._tables["kernels"]["start_ns"].to_numpy()[kernels], kind="stable")]
        ends = (kernels + self._slices.first["kernels"]).tolist()
        if not ends:
            ends = [each for row in below.tolist() if self._station(each := self._number(row)) != self._station(number)]
        arrows: dict[tuple[int, int], Arrow] = {}
        for end in ends:
            if len(arrows) >= MOST_ARROWS:
                return list(arrows.values()), True
            chain = self.causes_below(end, number)
            for effect, cause in pairwise(chain):
                arrows.setdefault((cause, effect), Arrow(cause, effect, "call"))
        return list(arrows.values()), has_more

    def causes_below(self, number: int, top: int) -> list[int]:
        """Return the chain of causes from a slice up to `top`, both included, as :meth:`causes` does."""
        chain: list[int] = []
        seen = {self._station(top)}
        for each in self._above(number):
            if each == top:
                break
            if (station := self._station(each)) not in seen:
                seen.add(station)
                chain.append(each)
        return [*chain, top]

    def _below(self, top: int) -> tuple[Int64, bool]:
        """Return a host row and all rows that it calls, directly and indirectly."""
        visited = level = np.array([top])
        while len(level) and len(visited) <= _MOST_VISITED:
            level = _of_callers(self._callees, self._sorted_callers, level)
            visited = np.concatenate([visited, level])
        return visited[:_MOST_VISITED], len(visited) > _MOST_VISITED

    def _linked_arrows(self, number: int) -> list[Arrow]:
        """Return arrows for the recorded links of a slice."""
        links = self._tables["links"]
        table, row = self._slices.row(number)
        touching = np.zeros(len(links), bool)
        for end in ("source", "target"):
            touching |= (links[f"{end}_row"].to_numpy() == row) & (links[f"{end}_table"] == table).to_numpy()
        arrows = []
        for link in links[touching].iloc[:MOST_ARROWS].itertuples(index=False):
            ends = [self._linked_slice(link, end) for end in ("source", "target")]
            if ends[0] is not None and ends[1] is not None:
                arrows.append(Arrow(ends[0], ends[1], str(link.kind)))
        return arrows

    def _linked_slice(self, link: object, end: str) -> int | None:
        table, row = getattr(link, f"{end}_table"), int(getattr(link, f"{end}_row"))
        exists = table in TABLES and 0 <= row < len(self._tables[table])
        return row + self._slices.first[table] if exists else None


def _first_of_each(rows: Int64) -> tuple[list[int], list[int]]:
    """Return the distinct rows but -1, and where each is first."""
    distinct, first = np.unique(rows, return_index=True)
    return distinct[distinct >= 0].tolist(), first[distinct >= 0].tolist()


def _of_callers(ordered: Int64, callers: Int64, wanted: Int64) -> Int64:
    """Return the rows of `ordered` whose caller, in `callers`, is among `wanted`."""
    low = np.searchsorted(callers, wanted, side="left")
    high = np.searchsorted(callers, wanted, side="right")
    lengths = high - low
    offsets = np.repeat(low - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return ordered[np.arange(int(lengths.sum())) + offsets]
