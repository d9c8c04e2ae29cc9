"""Locations in the user's code that called a host row: file, line, function and module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import LAYERS, Causes, callers_without_python, causes, forward_operators, nearest
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.sampled_functions import come_and_go, paths
from npuprof.analysis.statements import FRAME, statements_of
from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import Frame, cell_name, cell_text, is_whole
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS

_NEVER = np.iinfo(np.int64).max
_MODULE = "nn.Module: "
_NO_FRAME = Frame("", 0, "")

BETWEEN = "between samples"
KNOWN = ("stack", "statement", "about", "sample", BETWEEN)
"""How a line is known: from the stack of an operator or a call, or a traced function; from the statement of the
profiled cell that called it; from the statement that the cell's thread ran meanwhile, which is about right; from the
same sampled function before and after; not at all, between samples of different functions or far from any."""
GUESSED = KNOWN[2:]
"""The ways to know a line that are not certain."""


@dataclass(frozen=True)
class _Part:
    """The frames of the rows of a table."""

    codes: Int64  # the code of the frame of each host row, -1 for none
    sources: Bools  # the rows that have a frame, or may inherit one
    table: str
    is_entered: bool  # whether the lines are where the functions were entered


@dataclass(frozen=True)
class Places:
    """The locations of all host rows of a run: build it once, then ask for any rows.

    The line is that of the innermost frame of the user's code in the stack of the innermost operator around the row. A
    row of the backward pass without its own stack has the line of the forward operator that its operator was derived
    from. Without such an operator, it is that of the stack that was taken at the CANN call, or else the statement of
    the profiled cell that ran; see :mod:`npuprof.analysis.statements`. Elsewhere, the innermost Python function of the
    user gives file and function; the number in its name is where the function was entered (or was when the recording
    began), not the line of the call, so `entered` is set. If no code of the user is known, the frame is the innermost
    of all.
    """

    # The tables of the run by name; `python`, `operators`, `api`, `links` and `statements` are read.
    tables: Mapping[str, pd.DataFrame]
    causes: Causes  # the callers of their rows

    @classmethod
    def build(cls, tables: Mapping[str, pd.DataFrame], correlation: Causes | None = None) -> Places:
        """Build the locations of a run; `correlation` is a result of :func:`npuprof.analysis.correlation.causes`."""
        return cls(tables, causes(tables) if correlation is None else correlation)

    def of(self, table: Literal["python", "operators", "api"], rows: Int64 | None = None) -> pd.DataFrame:
        """Return the locations of rows of a host table.

        Returns
        -------
        pandas.DataFrame
            A row per requested row: ``file``, ``line`` and ``function``, ``module`` (the innermost ``nn.Module`` around
            it, if modules were recorded), ``entered`` (whether the line is where the function was entered) and
            ``known`` (:data:`KNOWN`: how the line is known). Unknown values are absent.
        """
        wanted = np.arange(len(self.tables[table]), dtype=np.int64) if rows is None else np.asarray(rows, np.int64)
        return self.at(np.where(wanted >= 0, wanted + self.causes.first_row[table], -1))

    def at(self, rows: Int64) -> pd.DataFrame:
        """Return the locations of host rows, numbered as in the causes; see :meth:`of`."""
        (frame, known, entered), (modules, module) = self._frames_of(rows), self._module_of_rows
        within = np.where(rows >= 0, module[rows] if len(module) else -1, -1)
        files, functions, numbers = self._columns
        return pd.DataFrame(
            {
                "file": files.of(frame),
                "line": pd.arrays.IntegerArray(numbers[frame], frame < 0),
                "function": functions.of(frame),
                "module": _names(within, modules),
                "entered": entered,
                "known": schema.categorical(known, list(KNOWN)),
            }
        )

    def _frames_of(self, rows: Int64) -> tuple[Int64, Int64, Bools]:
        """Return for each of some host rows the code of its frame, how it is known, and whether it was only entered."""
        frame, known = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
        entered = np.zeros(len(rows), bool)
        unknown = np.flatnonzero(rows >= 0)
        for part in self._frames_and_texts[0]:
            if part is None:
                taken, how = self._statements_at(rows[unknown])
            else:
                callers = self.causes.callers if part.table == "python" else self._unsampled
                taken = self._inherit_codes(
                    rows[unknown], part.codes, part.sources, callers, forward_first=part.table == "api"
                )
                is_sampled = part.table == "python" and "sampled" in self.tables["python"]
                how = np.full(len(taken), KNOWN.index("sample" if is_sampled else "stack"))
                if is_sampled:
                    how[self._is_between(rows[unknown], part.codes)] = KNOWN.index(BETWEEN)
                entered[unknown] = (taken >= 0) & part.is_entered
                if part.is_entered:  # of the cell itself, which it entered long before: its statement is known
                    statement, how_known = self._statements_at(rows[unknown])
                    is_cell = np.append(self._are_cells, False)[taken] & (statement >= 0)
                    taken, how = np.where(is_cell, statement, taken), np.where(is_cell, how_known, how)
                    entered[unknown] &= ~is_cell
            frame[unknown], known[unknown] = taken, np.where(taken >= 0, how, -1)
            unknown = unknown[taken < 0]
        between = known == KNOWN.index(BETWEEN)
        return np.where(between, -1, frame), known, entered & ~between

    def _is_between(self, rows: Int64, codes: Int64) -> Bools:
        """Return which host rows no sample vouches for; sampled calls themselves do not count.

        These are rows between a sample of another function and the first one of their own, those that lie farther
        from any sample of their thread than the sampling interval, and all of a thread whose functions are shorter than
        that. A sampled call begins with the last sample before it was seen. Without the times of samples, it is taken
        as seen an interval later.
        """
        starts, threads = (
            np.concatenate([self.tables[name][column].to_numpy(np.int64) for name in LAYERS])
            for column in ("start_ns", "thread_id")
        )
        function = nearest(self.causes.callers, rows, codes >= 0)
        seen = starts[function] + SAMPLING_INTERVAL_NS
        far = np.zeros(len(rows), bool)
        samples = self.tables["sampled_lines"].sort_values("time_ns", kind="stable")
        seen_paths = self._paths_at(samples, codes)
        for thread in np.unique(threads[rows]).tolist():
            is_of_thread = (samples["thread_id"] == thread).to_numpy(bool)
            times = samples["time_ns"].to_numpy(np.int64)[is_of_thread]
            if come_and_go(seen_paths[is_of_thread]):
                far[threads[rows] == thread] = True
            elif len(times):
                of_thread = np.flatnonzero(threads[rows] == thread)
                edges = np.append(times, _NEVER)
                seen[of_thread] = edges[np.searchsorted(times, starts[function[of_thread]], side="right")]
                after = np.searchsorted(times, starts[rows[of_thread]])
                before = np.where(after > 0, starts[rows[of_thread]] - times[after - 1], _NEVER)
                far[of_thread] = np.minimum(before, edges[after] - starts[rows[of_thread]]) > SAMPLING_INTERVAL_NS
        between: Bools = (function >= 0) & ((starts[rows] < seen) | far)
        return between & (rows >= self.causes.first_row["operators"])

    def _paths_at(self, samples: pd.DataFrame, codes: Int64) -> Int64:
        """Return for each sample the number of the functions that were running."""
        python = self.tables["python"]
        if "sampled" in python:  # not the statements, which are known whatever was sampled
            seen = schema.sampled(python)
            codes, python = codes[: len(python)][seen], python[seen]
        start, duration, thread = (python[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns", "thread_id"))
        nesting = Nesting.build(start, start + duration, thread)
        path = paths(nesting.parents, nesting.depths(), codes[: len(python)][nesting.order])
        moments, threads = (samples[name].to_numpy(np.int64) for name in ("time_ns", "thread_id"))
        return np.append(path, -1)[nesting.innermost(moments, threads)]

    def statements(self, rows: Int64) -> tuple[Int64, Bools]:
        """Return for each of some host rows the row of ``statements`` that called it, -1 for none, and if surely."""
        return statements_of(self.tables, self.causes.first_row, self._unsampled, self._forward, rows)

    def _statements_at(self, rows: Int64) -> tuple[Int64, Int64]:
        """Return for each of some host rows the code of the statement that called it, and how that is known."""
        statements, is_certain = self.statements(rows)
        codes = np.append(self._statement_codes, -1)[statements]
        return codes, np.where(is_certain, KNOWN.index("statement"), KNOWN.index("about"))

    @cached_property
    def _module_of_rows(self) -> tuple[list[str], Int64]:
        """The distinct modules, and for each host row the number of its module, -1 without a module."""
        texts: dict[str, int] = {}
        names = [_module(name) for name in _categories(self.tables["python"]["name"])]
        codes = self._codes("python", "name", names, texts)
        if (modules := self.tables["operators"].get("modules")) is not None:
            codes = np.maximum(codes, self._codes("operators", "modules", _categories(modules), texts))
        sources = (codes >= 0) | (self._forward >= 0)
        return list(texts), self._inherit_codes(np.arange(len(codes)), codes, sources, self.causes.callers)

    @cached_property
    def _unsampled(self) -> Int64:
        """The callers of host rows without sampled calls, which may seem to begin and end within an operator."""
        return callers_without_python(self.tables, self.causes)

    def _inherit_codes(
        self, rows: Int64, codes: Int64, sources: Bools, callers: Int64, *, forward_first: bool = False
    ) -> Int64:
        """Return for each row the code of its nearest caller that has a code, if necessary via the forward pass.

        With `forward_first` a row of the backward pass has no code unless its forward operator has one.
        """
        is_known = codes >= 0
        if not is_known.any():
            return np.full(len(rows), -1, np.int64)
        forward = self._forward
        if forward_first:
            derived = nearest(callers, rows, forward >= 0)
            base = nearest(callers, np.where(derived >= 0, forward[derived], rows), is_known)
            return np.where(base >= 0, codes[base], -1)
        nearest_known = nearest(callers, rows, sources)
        derived = np.flatnonzero((nearest_known >= 0) & (forward[nearest_known] >= 0))
        if len(derived):
            nearest_known[derived] = nearest(callers, forward[nearest_known[derived]], is_known)
            remaining = derived[nearest_known[derived] < 0]
            nearest_known[remaining] = nearest(callers, rows[remaining], is_known)
        return np.where(nearest_known >= 0, codes[nearest_known], -1)

    @cached_property
    def _forward(self) -> Int64:
        """For each host row the forward operator that autograd derived it from, -1 for most rows."""
        return forward_operators(self.tables, self.causes.first_row, len(self.causes.callers))

    @cached_property
    def _texts(self) -> list[str]:
        """The distinct frames of all rows; their positions are the codes."""
        return self._frames_and_texts[1]

    @cached_property
    def _frames(self) -> list[Frame | None]:
        return [Frame.parse(text) for text in self._texts]

    @cached_property
    def _columns(self) -> tuple[_Names, _Names, Int64]:
        """The files, functions and lines of the distinct frames; the last line stands for no frame."""
        files, numbers, functions = zip(*(each or _NO_FRAME for each in (*self._frames, None)), strict=True)
        return _Names.build(files[:-1]), _Names.build(functions[:-1]), np.array(numbers, np.int64)

    @cached_property
    def _are_cells(self) -> Bools:
        """Whether each distinct frame is the code of a cell, not of a function in it."""
        return np.array(
            [
                bool(each and each.function == "<module>" and cell_text(cell_name(each.file) or each.file))
                for each in self._frames
            ],
            bool,
        )

    @cached_property
    def _frames_and_texts(self) -> tuple[list[_Part | None], list[str]]:
        texts = self._statement_texts.copy()
        parts: list[_Part | None] = []
        found = {
            (table, column): [_innermost(name) for name in _categories(self.tables[table][column])]
            for table, column in (("operators", "stack"), ("api", "stack"), ("python", "name"))
            if column in self.tables[table]
        }
        for is_users in (True, False):
            for table, column in (("operators", "stack"), ("api", "stack"), ("python", "name")):
                if (table, column) in found:
                    names = [users if is_users else of_any for users, of_any in found[table, column]]
                    codes = self._codes(table, column, names, texts)
                    sources = (codes >= 0) | (self._forward >= 0)
                    is_entered = table == "python" or (table == "operators" and self._is_entered)
                    parts.append(_Part(codes, sources, table, is_entered))
                if table == "api" and is_users:
                    parts.append(None)
        return parts, list(texts)

    @property
    def _is_entered(self) -> bool:
        """Whether the lines in stacks of operators are where the functions were entered, as torch's own tracer says."""
        return bool("entered" in self.tables["operators"] and self.tables["operators"]["entered"].any())

    @cached_property
    def _statement_texts(self) -> dict[str, int]:
        """The frames of the cell's statements; their positions are the codes."""
        distinct = self.tables["statements"][["file", "line"]].drop_duplicates()
        frames = (FRAME.format(file=file, line=line) for file, line in distinct.itertuples(index=False))
        return {text: code for code, text in enumerate(frames)}

    @cached_property
    def _statement_codes(self) -> Int64:
        """The code of the frame of each row of ``statements``."""
        statements = self.tables["statements"]
        return statements.groupby(["file", "line"], observed=True, sort=False).ngroup().to_numpy(np.int64)

    def _codes(self, table: str, column: str, names: Sequence[str], texts: dict[str, int]) -> Int64:
        """Return for each host row the number of its text in a column, -1 for none; new texts get new numbers.

        `names` has the text of each category of the column, empty for none.
        """
        values = self.tables[table][column].astype("category")
        of_name = [texts.setdefault(text, len(texts)) if text else -1 for text in names]
        codes = np.full(len(self.causes.callers), -1, np.int64)
        first = self.causes.first_row[table]
        codes[first : first + len(values)] = np.array([*of_name, -1], np.int64)[values.cat.codes.to_numpy()]
        return codes


def places_of_stacks(stacks: pd.Series[Any]) -> pd.DataFrame:
    """Return the locations, as :meth:`Places.of` does, of a column of stacks: names with one frame per line."""
    innermost = map(_innermost, _categories(stacks))
    frames = [Frame.parse(users or of_any) for users, of_any in innermost]
    codes = stacks.cat.codes.to_numpy(np.int64)
    known = np.array([*(each is not None for each in frames), False])[codes]
    numbers = np.array([*(each.line if each else 0 for each in frames), 0], np.int64)
    return pd.DataFrame(
        {
            "file": _names(codes, [each.file if each else "" for each in frames]),
            "line": pd.arrays.IntegerArray(numbers[codes], ~known),
            "function": _names(codes, [each.function if each else "" for each in frames]),
            "module": schema.categorical(np.full(len(codes), -1), []),
            "entered": np.zeros(len(codes), bool),
            "known": schema.categorical(np.where(known, KNOWN.index("stack"), -1), list(KNOWN)),
        }
    )


def has_user_frames(stacks: pd.Series[Any]) -> bool:
    """Return whether a column of stacks or of calls has a frame of the user's code."""
    return len(stacks) > 0 and any(_innermost(stack)[0] for stack in _categories(stacks))


def lines(places: pd.DataFrame) -> pd.Categorical:
    """Return the names of locations: ``main.py:350``, or ``main.py: train`` if only the function is known.

    Lines of cells are ``In [12], line 14``. Rows between samples of different functions have the name :data:`BETWEEN`.

    Parameters
    ----------
    places
        Rows with the columns of :meth:`Places.of`. Files of the same name keep enough folders to be distinct.
    """
    file, function = (places[name].cat for name in ("file", "function"))
    names_of = {"file": list(file.categories), "function": list(function.categories)}
    entered = places["entered"].to_numpy(bool)
    # The location in a file: a line or, below zero, a function that was entered.
    called = np.where(entered, -1 - function.codes.to_numpy(np.int64), places["line"].to_numpy(np.int64, na_value=0))
    numbers, distinct = pd.factorize(called * (len(names_of["file"]) + 1) + file.codes.to_numpy(np.int64) + 1)
    used = (distinct % (len(names_of["file"]) + 1)).tolist()
    short = _short_names({names_of["file"][where - 1] for where in used if where})
    names = []
    for place in distinct.tolist():
        what, where = divmod(place, len(names_of["file"]) + 1)
        file_name = short[names_of["file"][where - 1]] if where else ""
        cell = cell_text(file_name)
        if what >= 0:
            name = f"{cell}, line {what}" if cell else f"{file_name}:{what}"
        else:
            function = names_of["function"][-1 - what]
            name = cell if cell and is_whole(function) else f"{cell or file_name}: {function}"
        names.append(name if where else "")
    if "known" in places and (between := (places["known"] == BETWEEN).to_numpy(bool)).any():
        numbers, names = np.where(between, len(names), numbers), [*names, BETWEEN]
    return _names(numbers.astype(np.int64), names)


def _short_names(files: set[str]) -> dict[str, str]:
    """Return the last part of each path, with as many folders as tell it apart; ``<cell>`` for the only cell."""
    parts = {file: re.split(r"[/\\]", file) for file in files}
    tails = Counter("/".join(path[-depth:]) for path in parts.values() for depth in range(1, len(path) + 1))
    short = {}
    cells = Counter(map(cell_name, files))
    for file, path in parts.items():
        several = (tail for depth in range(1, len(path) + 1) if tails[tail := "/".join(path[-depth:])] == 1)
        cell = cell_name(file)
        short[file] = cell if cell and cells[cell] == 1 else next(several, file)
    return short


def _categories(column: pd.Series[Any]) -> list[str]:
    return [str(name) for name in column.astype("category").cat.categories]


def _innermost(stack: str) -> tuple[str, str]:
    """Return the innermost frame of the user's code, and the innermost that does not run cells or profile.

    The stack has one frame per line, or is a single call; what it does not have is empty.
    """
    of_any = ""
    for text in stack.split("\n"):
        frame = Frame.parse(text)
        if frame is None:
            continue
        if not of_any and not (frame.is_of_shell or frame.is_npuprofs):
            of_any = text
        if frame.is_users:
            return text, of_any
    return "", of_any


def _module(name: str) -> str:
    return name.removeprefix(_MODULE) if name.startswith(_MODULE) else ""


class _Names(NamedTuple):
    """Names that may repeat or be empty: the distinct ones, and for each its number among these, last -1 for none."""

    distinct: list[str]
    numbers: Int64

    @classmethod
    def build(cls, names: Sequence[str]) -> _Names:
        number = {name: code for code, name in enumerate(dict.fromkeys(filter(None, names)))}
        return cls(list(number), np.array([*(number.get(name, -1) for name in names), -1], np.int64))

    def of(self, codes: Int64) -> pd.Categorical:
        """Return a name column from codes into the names; rows without a name are absent."""
        return schema.categorical(self.numbers[codes], self.distinct)


def _names(codes: Int64, names: Sequence[str]) -> pd.Categorical:
    return _Names.build(names).of(codes)
