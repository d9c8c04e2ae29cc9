"""Join the tables of several forms of a run: each table from one form, with matching row numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.forms.database_preview import are_apart, extent, far_more
from npuprof.tables.info import Info
from npuprof.words.quantities import counted

_LINKED = ("operators", "api", "tasks", "communication", "marks")
_STRUCTURED = ("counters", "overlap", "links")  # tables whose row counts differ between forms of a run
_LANES = ("device_id", "thread_id")


@dataclass(frozen=True)
class ResultForm:
    """A form of the run: its name in notes, the `source` that selects it, and its tables."""

    name: str
    form: str
    decoded: Decoded

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return len(self.decoded.tables.get(table, ()))


def join(parts: Sequence[ResultForm]) -> Decoded:
    """Join forms, in order of preference.

    A form of another run, which does not overlap the first in time, is omitted with a warning; then the form with the
    most tables is shown.
    """
    parts = _drop_other_runs(parts)
    if len(parts) == 1:
        return parts[0].decoded
    chosen = _choose_all(parts)
    joined_tables = {
        name: parts[place].decoded.tables[name] for name, place in chosen.items() if parts[place].rows(name)
    }
    first = parts[0].decoded
    joined = Decoded(joined_tables, first.info, first.notes, dict(first.statistics))
    rows = _Rows(parts, chosen)
    place = chosen["communication_tasks"]
    if place != chosen["communication"] and "communication_tasks" in joined_tables:
        joined_tables["communication_tasks"] = rows.with_operators(joined_tables["communication_tasks"], place)
    joined_tables["links"] = rows.links()
    for place, part in enumerate(parts):
        for name in (*(name for name, at in chosen.items() if at != place), "links"):
            part.decoded.notes.ledger.replace(name)
        if place:
            joined.notes.extend(part.decoded.notes)
            _add_facts(joined.info, part.decoded.info)
            more = {name: frame for name, frame in part.decoded.statistics.items() if name not in joined.statistics}
            joined.statistics.update(more)
    joined.derived = {
        name: parts[place].decoded.derived[name]
        for name, place in chosen.items()
        if name in parts[place].decoded.derived
    }
    _note_choice(joined, parts, chosen)
    return joined


def _drop_other_runs(parts: Sequence[ResultForm]) -> Sequence[ResultForm]:
    spans = [extent(part.decoded.tables) for part in parts]
    if not any(are_apart(spans[0], span) for span in spans[1:]):
        return parts
    fullest = max(range(len(parts)), key=lambda place: sum(bool(parts[place].rows(name)) for name in tables.NAMES))
    kept = [part for part, span in zip(parts, spans, strict=True) if not are_apart(spans[fullest], span)]
    kept.sort(key=lambda part: part is not parts[fullest])
    for part in parts:
        if part not in kept:
            kept[0].decoded.notes.warning(
                part.name,
                f"it belongs to another run than {kept[0].name}, which has more tables and is shown: the times differ; "
                f"source='{part.form}' shows it",
            )
    return kept


def _choose_all(parts: Sequence[ResultForm]) -> dict[str, int]:
    """Return the part that each table is taken from; for kernels, that of the tasks that they refer to, if possible."""
    chosen = {name: _choose(parts, name) for name in tables.NAMES if name != "links"}
    of_tasks, of_kernels = (parts[chosen[name]] for name in ("tasks", "kernels"))
    if "kernels" not in of_tasks.decoded.derived and of_tasks.rows("kernels"):
        is_lost = far_more(of_kernels.rows("kernels"), of_tasks.rows("kernels"))
        chosen["kernels"] = chosen["kernels"] if is_lost else chosen["tasks"]
    return chosen


def _choose(parts: Sequence[ResultForm], table: str) -> int:
    """Return the first part that has a table, or a later part with far more rows of it."""
    present = [place for place, part in enumerate(parts) if part.rows(table)]
    original = [place for place in present if table not in parts[place].decoded.derived]
    best = (original or present or [0])[0]
    for place in original if table not in _STRUCTURED else ():
        if far_more(parts[place].rows(table), parts[best].rows(table)):
            best = place
    return best


class _Rows:
    """Row mapping from each part's tables to the selected tables."""

    def __init__(self, parts: Sequence[ResultForm], chosen: Mapping[str, int]) -> None:
        self._parts, self._chosen = parts, chosen
        self._known: dict[tuple[int, str], Int64] = {}

    def of(self, place: int, table: str) -> Int64:
        """Return the row in the selected table for each row of a part's table; -1 for none."""
        if (place, table) not in self._known:
            part_table, chosen_table = (
                self._parts[at].decoded.tables.get(table) for at in (place, self._chosen[table])
            )
            if part_table is None or chosen_table is None:
                self._known[place, table] = np.full(0 if part_table is None else len(part_table), -1, np.int64)
            else:
                is_same = place == self._chosen[table]
                self._known[place, table] = (
                    np.arange(len(part_table)) if is_same else _same_rows(part_table, chosen_table)
                )
        return self._known[place, table]

    def with_operators(self, steps: pd.DataFrame, place: int) -> pd.DataFrame:
        """Return tasks of collectives that refer to the selected table of collectives."""
        numbers = steps["op_id"].to_numpy(np.int64, na_value=-1)
        moved = _take(self.of(place, "communication"), numbers)
        return steps.assign(op_id=pd.arrays.IntegerArray(np.maximum(moved, 0), moved < 0))

    def links(self) -> pd.DataFrame:
        """Return the links of the part with most linked tables, and the other parts' links that it lacks."""
        order = sorted(
            range(len(self._parts)), key=lambda place: -sum(bool(self._parts[place].rows(name)) for name in _LINKED)
        )
        frames, covered = [], set[str]()
        for place in order:
            links = self._parts[place].decoded.tables.get("links")
            if links is not None and len(links):
                new = ~(links["source_table"].isin(covered) & links["target_table"].isin(covered))
                frames.append(self._move(links[new.to_numpy()], place))
            covered |= {name for name in _LINKED if self._parts[place].rows(name)}
        frames = [frame for frame in frames if len(frame)]
        return stacked(frames) if frames else tables.empty("links")

    def _move(self, links: pd.DataFrame, place: int) -> pd.DataFrame:
        moved = {}
        for side in ("source", "target"):
            names, numbers = links[f"{side}_table"], links[f"{side}_row"].to_numpy(np.int64)
            placed = np.full(len(links), -1, np.int64)
            for name in names.unique():
                matching = (names == name).to_numpy()
                placed[matching] = _take(self.of(place, str(name)), numbers[matching])
            moved[f"{side}_row"] = placed
        is_known = (moved["source_row"] >= 0) & (moved["target_row"] >= 0)
        return links.assign(**moved)[is_known].reset_index(drop=True)


def _take(rows: Int64, numbers: Int64) -> Int64:
    if not len(rows):
        return np.full(len(numbers), -1, np.int64)
    inside = (numbers >= 0) & (numbers < len(rows))
    return np.where(inside, rows[np.where(inside, numbers, 0)], -1)


def _same_rows(theirs: pd.DataFrame, ours: pd.DataFrame) -> Int64:
    """Return for each row of `theirs` the row of `ours` with equal start and device or thread; -1 for none."""
    start = "start_ns" if "start_ns" in ours else "time_ns"
    keys = [start, *(name for name in _LANES if name in ours and name in theirs)]
    sides = [frame[keys].reset_index(drop=True) for frame in (theirs, ours)]
    turns = [side.assign(turn=side.groupby(keys, dropna=False).cumcount(), row=np.arange(len(side))) for side in sides]
    pairs = turns[0].merge(turns[1], on=[*keys, "turn"], suffixes=("", "_of_ours"))
    rows = np.full(len(theirs), -1, np.int64)
    rows[pairs["row"].to_numpy(np.int64)] = pairs["row_of_ours"].to_numpy(np.int64)
    return rows


def _add_facts(info: Info, other: Info) -> None:
    """Add missing facts from another form."""
    info.chip = info.chip or other.chip
    info.rank = other.rank if info.rank is None else info.rank
    info.devices = sorted({*info.devices, *other.devices})
    info.started_ns = other.started_ns if info.started_ns is None else info.started_ns
    info.stopped_ns = other.stopped_ns if info.stopped_ns is None else info.stopped_ns
    for name in ("versions", "options", "environment", "metadata"):
        setattr(info, name, {**getattr(other, name), **getattr(info, name)})


def _note_choice(joined: Decoded, parts: Sequence[ResultForm], chosen: Mapping[str, int]) -> None:
    """Note the form of each table, and forms with more rows of a table than the selected form."""
    taken = [
        [name for name in chosen if name in joined.tables and chosen[name] == place] for place in range(len(parts))
    ]
    origins = [f"of {part.name}: {', '.join(names)}" for part, names in zip(parts, taken, strict=True) if names]
    joined.notes.info("source", f"several forms of this run are here; {'; '.join(origins)}")
    joined.info.source = " and ".join(
        [
            joined.info.source,
            *(part.decoded.info.source for part, names in zip(parts[1:], taken[1:], strict=True) if names),
        ]
    )
    for name, place in chosen.items():
        for other, part in enumerate(parts):
            if name not in _STRUCTURED and other != place and part.rows(name) > parts[place].rows(name) > 0:
                joined.notes.info(
                    part.name,
                    f"it has {counted(part.rows(name), 'row')} of {name}, where {parts[place].name}, which is shown, "
                    f"has {parts[place].rows(name)}",
                )
