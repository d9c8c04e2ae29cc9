"""The selection of a profile: the part that is selected, by hand in a view or from Python, which is a run itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64
from npuprof.errors import NpuprofError, OptionsError
from npuprof.parameters import checked
from npuprof.profiles.table_attributes import RunFacts
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info, Selected
from npuprof.tables.notes import Notes

if TYPE_CHECKING:
    from npuprof.advice.findings import Advice
    from npuprof.sources.selection import Moment

_Run = TypeVar("_Run", bound="ProfileSelection")

_SELECTED = ("python", "operators", "api", "tasks", "kernels", "communication", "communication_tasks", "marks")
_OF_DEVICE = ("tasks", "kernels", "communication", "communication_tasks")
_LINED = ("python", "operators", "api", "kernels")


@dataclass(frozen=True)
class SelectedRows:
    """The selected part of a run.

    Attributes
    ----------
    start_ns, end_ns
        The range of time; None for no bound.
    rows
        The numbers of the selected rows by table, ascending; None for all rows in the range.
    text
        What was asked for, in words.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    rows: Mapping[str, Int64] | None = None
    text: str = ""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.rows is None and self.start_ns is None and self.end_ns is None


@dataclass
class _Selection:
    """The current selection of a run, and who follows it."""

    selected: SelectedRows = field(default_factory=SelectedRows)
    part: Any = None
    followers: list[Callable[[SelectedRows], None]] = field(default_factory=list)


@checked
class ProfileSelection(RunFacts):
    """The selected part of a run."""

    tables: MutableMapping[str, pd.DataFrame]

    @abstractmethod
    def advice(self) -> Advice:
        """Return the findings of the run."""

    @abstractmethod
    def _part(self: _Run, selected: SelectedRows) -> _Run:
        """Return the selected part as a run."""

    @property
    def _selection(self) -> _Selection:
        return vars(self).setdefault("_selection_of_run", _Selection())

    @property
    def selection(self: _Run) -> _Run:
        """The part that is selected in the views of this run, or by :meth:`select`; the run itself if nothing is.

        A range of time is cut as ``npuprof.load(path, start=..., end=...)`` cuts it. A selection of rows holds these
        rows of ``kernels``, ``operators`` and the other tables of slices, with all calls above them, so that
        :meth:`flamegraph` and :meth:`by` know what launched them; its :meth:`breakdown` has what the selected rows
        cover, and the rest as ``not selected``.
        """
        held = self._selection
        if held.selected.is_all:
            return self
        if held.part is None:
            held.part = self._part(held.selected)
        return held.part

    def select(
        self: _Run,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        name: str | None = None,
        line: int | str | None = None,
        where: str | None = None,
        lanes: Sequence[str] | None = None,
    ) -> _Run:
        """Select a part of the run, show it in all open views of the run, and return it; without arguments, all of it.

        Several conditions must all hold. If no work of a device matches, the kernels that the selected calls launched
        are selected with them; kernels of a line are those that it launched itself.

        Parameters
        ----------
        start, end
            The range of time, as for :func:`npuprof.load`.
        name
            A part of a slice's name, in any case.
        line
            A line of the profiled cell by its number, or of a file as ``"model.py:12"``.
        where
            Comparisons joined by ``and``, such as ``"duration_ns > 1ms and stream_id = 3"``, with
            ``<``, ``<=``, ``>``, ``>=``, ``=``, ``!=`` and ``~`` (a part of a text, in any case), and units of time and
            size.
        lanes
            Titles of lanes or groups of the timeline, such as ``["stream 3", "Communication"]``.

        Raises
        ------
        OptionsError
            If a condition cannot be read, or a line or lane does not exist.
        """
        window = self._window(start, end)
        masks = {
            **({} if name is None else {f"name {name!r}": self._rows_named(name)}),
            **({} if line is None else {f"line {line}": self._rows_of_line(line)}),
            **({} if where is None else {where: self._rows_where(where)}),
            **({} if lanes is None else {", ".join(lanes): self._rows_of_lanes(lanes)}),
        }
        rows = self._joint(list(masks.values()), brings_kernels=line is None) if masks else None
        self._choose(SelectedRows(*window, rows, ", ".join(masks)))
        return self.selection

    def _joint(self, masks: Sequence[Mapping[str, Bools]], *, brings_kernels: bool) -> dict[str, Int64]:
        """Return the rows that are in all masks, with what belongs to them."""
        joint = {
            table: np.logical_and.reduce([mask.get(table, _none(self.tables[table])) for mask in masks])
            for table in _SELECTED
        }
        complete = self._with_calls(joint, brings_kernels=brings_kernels)
        return {table: np.flatnonzero(mask) for table, mask in complete.items() if mask.any()}

    def _choose(self, selected: SelectedRows) -> None:
        """Make this the selection, and tell the views."""
        held = self._selection
        if _same(held.selected, selected):
            return
        held.selected, held.part = selected, None
        for follower in list(held.followers):
            follower(selected)

    def _window(self, start: Moment | None, end: Moment | None) -> tuple[int | None, int | None]:
        from npuprof.sources.selection import choose
        from npuprof.sources.slicing import steps_of

        chosen = choose(None, start, end)
        if chosen is None:
            return None, None
        starts = [int(self.tables[table]["start_ns"].min()) for table in _SELECTED if len(self.tables[table])]
        beginning = self.info.started_ns if self.info.started_ns is not None else min(starts, default=0)
        bounds = chosen.selected(chosen.windows(steps_of(self.tables), beginning))
        return bounds.get("start_ns"), bounds.get("end_ns")

    def _rows_where(self, where: str) -> dict[str, Bools]:
        from npuprof.analysis.where import rows_where
        from npuprof.timeline.slices import NAME_COLUMNS

        origin = self.info.started_ns or 0
        return rows_where({table: self.tables[table] for table in _SELECTED}, where, NAME_COLUMNS, origin)

    def _rows_named(self, name: str) -> dict[str, Bools]:
        from npuprof.timeline.slices import NAME_COLUMNS

        folded, masks = name.casefold(), {}
        for table in _SELECTED:
            names = self.tables[table][NAME_COLUMNS[table]]
            is_named = [folded in str(text).casefold() for text in names.cat.categories]
            masks[table] = np.append(np.array(is_named, bool), False)[names.cat.codes.to_numpy()]
        return masks

    def _rows_of_line(self, line: int | str) -> dict[str, Bools]:
        from npuprof.analysis.code_lines import has_lines
        from npuprof.lines.frames import cell_text

        if not has_lines(self.tables):
            raise OptionsError("the run does not know lines of code: record with Python stacks, or a cell", "line")
        lines = self.advice().facts.code_lines
        wanted = []
        for row in range(len(lines.table()) - 1):
            file, number = lines.place(row)
            names = {file, file.replace("\\", "/").rsplit("/", 1)[-1], cell_text(file)}
            is_cell = bool(cell_text(file))
            if (is_cell and number == line) or any(line == f"{known}:{number}" for known in names):
                wanted.append(row)
        if not wanted:
            raise OptionsError(f"nothing ran in line {line}: run.code() has the lines that did", "line")
        return {
            table: np.isin(lines.of_rows(table, np.arange(len(self.tables[table]), dtype=np.int64)), wanted)
            for table in _LINED
        }

    def _rows_of_lanes(self, lanes: Sequence[str]) -> dict[str, Bools]:
        from npuprof.timeline.state import Timeline

        timeline = Timeline(self.tables, self.info)
        if timeline.left_out:
            raise NpuprofError(timeline.left_out)
        titles: list[tuple[str, str]] = []
        for group, rows in zip(timeline.groups, timeline.rows, strict=True):
            title = ""
            for row in rows:
                title = row.title or title
                titles.append((group.title, title))
        unknown = [lane for lane in lanes if not any(lane in title for title in titles)]
        if unknown:
            known = ", ".join(dict.fromkeys(title for group in titles for title in group))
            raise OptionsError(f"the timeline has no lane {unknown[0]!r}; its groups and lanes are {known}", "lanes")
        is_wanted = np.array([any(lane in title for lane in lanes) for title in titles] + [False])
        chosen = is_wanted[timeline.lanes_of_slices()]
        first = timeline.slices.first
        return {table: chosen[first[table] : first[table] + len(self.tables[table])] for table in _SELECTED}

    def _with_calls(self, masks: Mapping[str, Bools], *, brings_kernels: bool = True) -> dict[str, Bools]:
        """Add what belongs to the selected rows, so that figures of them know what launched them.

        That is the tasks of kernels, and all calls above a row; without work of a device, with `brings_kernels`, the
        kernels that the selected calls launched.
        """
        from npuprof.analysis.correlation import LAYERS, causes, nearest
        from npuprof.timeline.layers import task_keys

        rows, links = dict(masks), causes(self.tables)
        called = np.concatenate([rows[table] for table in LAYERS])
        if brings_kernels and not any(rows[table].any() for table in _OF_DEVICE):
            rows["kernels"] = nearest(links.callers, links.launchers, called) >= 0
        kernels, tasks = self.tables["kernels"], self.tables["tasks"]
        if len(tasks) and rows["kernels"].any():
            rows["tasks"] = rows["tasks"] | np.isin(task_keys(tasks), task_keys(kernels[rows["kernels"]]))
        above = np.unique(np.concatenate([links.launchers[rows["kernels"]], links.callers[called]]))
        while len(above := above[(above >= 0) & ~called[above]]):
            called[above] = True
            above = np.unique(links.callers[above])
        for table in LAYERS:
            first = links.first_row[table]
            rows[table] = called[first : first + len(self.tables[table])]
        return rows


def _none(frame: pd.DataFrame) -> Bools:
    return np.zeros(len(frame), bool)


def _same(first: SelectedRows, second: SelectedRows) -> bool:
    if (first.start_ns, first.end_ns, first.rows is None) != (second.start_ns, second.end_ns, second.rows is None):
        return False
    if first.rows is None or second.rows is None:
        return True
    return first.rows.keys() == second.rows.keys() and all(
        np.array_equal(rows, second.rows[table]) for table, rows in first.rows.items()
    )


def decoded_part(tables: Mapping[str, pd.DataFrame], info: Info, selected: SelectedRows) -> Decoded:
    """Return the selected part of a run."""
    from npuprof.sources.slicing import only_rows, within

    frames = dict(tables)
    if selected.rows is not None:
        masks = {}
        for table in _SELECTED:
            masks[table] = _none(frames[table])
            masks[table][selected.rows.get(table, np.zeros(0, np.int64))] = True
        frames = only_rows(frames, masks)
    bounds = {name: bound for name, bound in vars(selected).items() if name.endswith("_ns") and bound is not None}
    notes = Notes()
    notes.info("selection", f"a selection of {info.name or 'a run'}: {selected.text or 'a range of time'}")
    part = replace(info, selection=cast("Selected", {**info.selection, **bounds}))
    return Decoded(within(frames, selected.start_ns, selected.end_ns), part, notes)
