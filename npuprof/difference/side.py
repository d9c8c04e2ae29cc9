"""One side of a comparison: the steps of one or several runs, divided among kernels, collectives, copies and gaps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, PARTS, Accounting, copies
from npuprof.analysis.balanced_steps import numbered
from npuprof.analysis.basis import basis_among
from npuprof.analysis.correlation import Causes, causes
from npuprof.analysis.launches import framework_operators
from npuprof.analysis.places import Places, lines
from npuprof.arrays import Int64
from npuprof.difference.owners import OWNERS, owned
from npuprof.difference.paths import call_paths
from npuprof.tables.info import Info

KEYS = ("part", "cause", "path", "op", "type", "shapes", "dtypes", "line", "nth")
"""The keys of each stretch of time; an unknown key is absent.

``op`` is the framework's operator, ``type`` the type of the kernel, collective or copy; ``nth`` numbers the
collectives of a type in their step, from 1.
"""


WITHOUT_WORK = ("idle", BETWEEN_STEPS)
"""The parts in which the device has no work, the three idle parts as one."""

_LARGEST = 1 << 62  # limit of the integers that encode combinations
_CALL = r"__\d+(_\d+)*$"  # hcom_allReduce__586_0_1


@dataclass(frozen=True)
class ComparedRun:
    """The data of a compared run."""

    tables: Mapping[str, pd.DataFrame]
    info: Info
    accounting: Accounting
    single_rows: Callable[[], Int64] | None = None
    """Returns the rows of its steps that are single outliers, which gates do not judge."""

    @cached_property
    def places(self) -> Places:
        """The locations in the user's code behind its host rows."""
        return Places(self.tables, causes(self.tables))

    @property
    def lost_steps(self) -> list[int]:
        """The numbers of the steps whose records are not complete, if there are others."""
        steps = self.accounting.steps
        complete = steps["complete"].to_numpy(bool)
        return steps["step"][~complete].dropna().unique().tolist() if complete.any() else []

    def without(self, lost: Collection[int]) -> ComparedRun:
        """Return the run without the steps that are not complete in another one, if others remain."""
        steps = self.accounting.steps
        complete = steps["complete"].to_numpy(bool) & ~steps["step"].isin(lost).to_numpy(bool)
        if not lost or not complete.any():
            return self
        return replace(self, accounting=replace(self.accounting, steps=steps.assign(complete=complete)))

    @property
    def typed(self) -> bool:
        """Whether the types of its kernels are known; also true without kernels."""
        types = self.tables["kernels"]["op_type"]
        return bool(types.notna().any()) or not len(types)


class Side:
    """The steps of one or several runs.

    Attributes
    ----------
    runs
        The runs.
    typed
        Whether kernels and collectives are identified by type, which both sides must know, or by name.
    repeats
        The numbers of the runs that are ranks of one job, for each time that the program ran.
    every
        A row for each step of each rank and device that figures rest on: ``run``, ``rank``, ``device_id``, ``step``
        and ``duration_ns``.
    basis
        The outliers among them, with the time of a step.
    steps
        Those that are no outliers.
    """

    def __init__(
        self,
        runs: Sequence[ComparedRun],
        *,
        typed: bool = True,
        repeats: Sequence[Sequence[int]] | None = None,
        limit: Fraction | None = None,
    ) -> None:
        self.runs = runs
        self.typed = typed
        self.repeats = [range(len(runs))] if repeats is None else repeats
        self.every = _stack([counted_steps(run).assign(run=number) for number, run in enumerate(runs)])
        alone = basis_among(self._numbers(), self.every["duration_ns"].to_numpy(np.int64))
        self.basis = alone if limit is None else alone.with_limit(limit)
        self.steps: pd.DataFrame = self.every[~self.basis.outlier].reset_index(drop=True)

    def _numbers(self) -> Int64:
        """Number the steps; ranks of one repeat share a number."""
        numbers, run = np.zeros(len(self.every), np.int64), self.every["run"].to_numpy(np.int64)
        first = 0
        for of_repeat in self.repeats:
            at = np.flatnonzero(np.isin(run, list(of_repeat)))
            if len(at):
                steps = self.every.iloc[at].assign(rank=run[at])
                numbers[at] = first + pd.factorize(numbered(steps), sort=True)[0]
                first = int(numbers[at].max()) + 1
        return numbers

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The rows of :attr:`every` that gates judge: steps that no rank has as a single outlier."""
        left_out: list[Int64] = []
        first = 0
        for run in self.runs:
            rows = run.accounting.basis.rows
            if run.single_rows is not None:
                left_out.append(first + np.flatnonzero(np.isin(rows, run.single_rows())))
            first += len(rows)
        numbers = self.basis.number[np.concatenate([np.zeros(0, np.int64), *left_out])]
        return self.every[~np.isin(self.basis.number, numbers)].reset_index(drop=True)

    @cached_property
    def stretches(self) -> pd.DataFrame:
        """The stretches of each step: ``unit`` (row of :attr:`steps`), :data:`KEYS`, ``duration_ns`` and ``count``.

        The stretches of a step add up to its duration; ``count`` is 1 for the first stretch of a kernel, a collective
        or a copy. ``run``, ``table`` and ``row`` identify it.
        """
        first = np.cumsum([0, *(len(counted_steps(run)) for run in self.runs)])
        frames = [_stretches(run, self.typed).assign(run=number) for number, run in enumerate(self.runs)]
        for frame, offset in zip(frames, first.tolist(), strict=False):
            frame["unit"] += offset
        stacked = _stack(frames)
        is_outlier = self.basis.outlier
        if not is_outlier.any():
            return stacked
        kept = stacked[~is_outlier[stacked["unit"].to_numpy(np.int64)]].reset_index(drop=True)
        return kept.assign(unit=(np.cumsum(~is_outlier) - 1)[kept["unit"].to_numpy(np.int64)])

    @property
    def kinds(self) -> pd.DataFrame:
        """The distinct combinations of :data:`KEYS`, absent ones as empty texts, with their total ``duration_ns``."""
        return self._kinds[0]

    @property
    def kind(self) -> Int64:
        """The row of :attr:`kinds` of each stretch."""
        return self._kinds[1]

    @cached_property
    def _kinds(self) -> tuple[pd.DataFrame, Int64]:
        stretches = self.stretches
        number, largest = np.zeros(len(stretches), np.int64), 1
        for name in KEYS:
            column = stretches[name]
            codes = column.cat.codes.to_numpy() if name != "nth" else column.to_numpy(np.int64)
            width = int(codes.max(initial=-1)) + 2
            if width == 1:  # all absent
                continue
            if largest * width >= _LARGEST:
                number, values = pd.factorize(number)
                largest = len(values)
            number, largest = number * width + codes + 1, largest * width
        number, values = pd.factorize(number)
        example = np.full(len(values), -1, np.int64)
        example[number[::-1]] = np.arange(len(number))[::-1]
        kinds = stretches[list(KEYS)].iloc[example].reset_index(drop=True)
        texts = {name: kinds[name].astype(object).where(kinds[name].notna(), "") for name in KEYS if name != "nth"}
        sums = np.zeros(len(kinds), np.int64)
        np.add.at(sums, number, stretches["duration_ns"].to_numpy())
        return kinds.assign(**texts, duration_ns=sums), number.astype(np.int64)

    def has(self, key: str) -> bool:
        """Return whether the key is known for any kernel, collective or copy."""
        return bool((self.kinds[key] != "").any())


def sides(a: Sequence[Sequence[ComparedRun]], b: Sequence[Sequence[ComparedRun]]) -> tuple[Side, Side]:
    """Return both sides of a comparison, each of one or several runs of a program with one or several ranks.

    Kernels are identified by type if all of them know it, else by name. One limit, relative to the median, tells
    outliers on both sides: the larger of the two.
    """
    typed = all(rank.typed for side in (a, b) for run in side for rank in run)
    lost = {step for side in (a, b) for run in side for rank in run for step in rank.lost_steps}
    alone = _side(a, typed, lost), _side(b, typed, lost)
    limits = [side.basis.limit for side in alone if side.basis.limit is not None]
    return (_side(a, typed, lost, max(limits)), _side(b, typed, lost, max(limits))) if limits else alone


def _side(
    runs: Sequence[Sequence[ComparedRun]], typed: bool, lost: Collection[int], limit: Fraction | None = None
) -> Side:
    first = np.cumsum([0, *map(len, runs)]).tolist()
    repeats = [range(start, end) for start, end in itertools.pairwise(first)]
    return Side([rank.without(lost) for run in runs for rank in run], typed=typed, repeats=repeats, limit=limit)


def _stack(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate frames with common categories."""
    if len(frames) == 1:
        return frames[0].reset_index(drop=True)
    columns = {}
    for name in frames[0].columns:
        parts = [frame[name] for frame in frames]
        if isinstance(parts[0].dtype, pd.CategoricalDtype):
            columns[name] = pd.Series(pd.api.types.union_categoricals(parts, ignore_order=True))
        else:
            columns[name] = pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns)


def counted_steps(run: ComparedRun) -> pd.DataFrame:
    """Return the steps of a run that figures per step rest on."""
    steps = run.accounting.steps
    return steps.iloc[run.accounting.basis.rows][["rank", "device_id", "step", "duration_ns"]]


def _stretches(run: ComparedRun, typed: bool) -> pd.DataFrame:
    rows = run.accounting.intervals
    counted = counted_steps(run).index.to_numpy()
    unit_of = np.full(len(run.accounting.steps), -1, np.int64)
    unit_of[counted] = np.arange(len(counted))
    divided = owned(run.tables, run.accounting.steps, rows)
    unit = unit_of[rows["row"].to_numpy()[divided.interval]]
    kept_rows = np.flatnonzero(unit >= 0)
    interval, table, row = divided.interval[kept_rows], divided.table[kept_rows], divided.row[kept_rows]
    frame: pd.DataFrame = pd.DataFrame(
        {
            "unit": unit[kept_rows],
            "part": _parts_of(rows["part"], interval),
            "cause": rows["cause"].iloc[interval].array,
            **{name: _row_values(values, table, row) for name, values in _describe(run, typed).items()},
            "duration_ns": divided.duration_ns[kept_rows],
            "count": divided.first[kept_rows],
            "table": table,
            "row": row,
        },
        copy=False,  # avoids gathering columns of millions of rows into blocks
    )
    frame["nth"] = _nth(frame, run.tables["communication"])
    return frame


def _nth(stretches: pd.DataFrame, communication: pd.DataFrame) -> pd.Series[Any]:
    """Number the stretches of collectives by type within a step, from 1; else 0."""
    nth = pd.Series(np.zeros(len(stretches), np.int64))
    is_selected = stretches["table"].to_numpy() == OWNERS.index("communication")
    of = stretches[is_selected][["unit", "type", "row"]]
    ops = of.drop_duplicates().assign(start=lambda frame: communication["start_ns"].to_numpy()[frame["row"].to_numpy()])
    ops["nth"] = (
        ops.sort_values("start", kind="stable").groupby(["unit", "type"], observed=True, dropna=False).cumcount() + 1
    )
    nth[is_selected] = of.merge(ops, on=["unit", "type", "row"], how="left")["nth"].to_numpy()
    return nth


def _describe(run: ComparedRun, typed: bool) -> Mapping[str, Mapping[str, pd.Categorical]]:
    """Return the values of each key for the rows of each table."""
    kernels, communication, tasks = (run.tables[name] for name in OWNERS)
    correlation = run.places.causes
    named_name = "op_type" if typed else "name"
    types = {
        "kernels": kernels[named_name].array,
        "communication": _types_of(communication),
        "tasks": tasks["name"].array,
    }
    return {
        "path": {"kernels": call_paths(run.tables, correlation)},
        "op": {"kernels": framework_operators(run.tables, correlation)},
        "type": types,
        "shapes": {"kernels": kernels["input_shapes"].array},
        "dtypes": {"kernels": kernels["input_dtypes"].array},
        "line": _lines(run),
    }


def _lines(run: ComparedRun) -> Mapping[str, pd.Categorical]:
    """Return by table the source lines that launched kernels, collectives and copies, according to links."""
    places, correlation = run.places, run.places.causes
    communication, tasks = (_callers_of(run.tables, correlation, name) for name in ("communication", "tasks"))
    rows = np.flatnonzero(copies(run.tables["tasks"]))
    of_copies = lines(places.at(tasks[rows]))
    codes = np.full(len(tasks), -1, np.int64)
    codes[rows] = of_copies.codes
    return {
        "kernels": lines(places.at(correlation.launchers)),
        "communication": lines(places.at(communication)),
        "tasks": schema.categorical(codes, list(of_copies.categories)),
    }


def _callers_of(tables: Mapping[str, pd.DataFrame], correlation: Causes, table: str) -> Int64:
    """Return for each row of a device table the CANN call that launched it according to links, -1 for none."""
    links = tables["links"]
    is_selected = ((links["target_table"] == table) & (links["source_table"] == "api")).to_numpy(bool, na_value=False)
    sources, targets = (links[f"{end}_row"].to_numpy(np.int64)[is_selected] for end in ("source", "target"))
    callers = np.full(len(tables[table]), -1, np.int64)
    is_known = (sources >= 0) & (sources < len(tables["api"])) & (targets >= 0) & (targets < len(callers))
    callers[targets[is_known]] = sources[is_known] + correlation.first_row["api"]
    return callers


def _types_of(communication: pd.DataFrame) -> pd.Categorical:
    """Return the type of each collective, or its name without the call number if it has no type."""
    types, names = (communication[name].cat for name in ("op_type", "name"))
    texts = [*map(str, types.categories), *(re.sub(_CALL, "_", str(name)) for name in names.categories)]
    number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    of_text = np.array([*(number[text] for text in texts), -1], np.int64)
    code_of_name = np.where(names.codes >= 0, names.codes.to_numpy(np.int64) + len(types.categories), -1)
    return schema.categorical(of_text[np.where(types.codes >= 0, types.codes, code_of_name)], list(number))


def _parts_of(parts: pd.Series[Any], interval: Int64) -> pd.Categorical:
    """Return the part of each interval; the three idle parts count as one."""
    names = [*(part for part in PARTS if part not in IDLE), "idle"]
    of_part = np.array([names.index("idle" if part in IDLE else part) for part in parts.cat.categories], np.int64)
    return schema.categorical(of_part[parts.cat.codes.to_numpy()[interval]], names)


def _row_values(values: Mapping[str, pd.Categorical], table: Int64, row: Int64) -> pd.Categorical:
    """Return the value of each row, given by table and position; absent for tables without values."""
    names: dict[str, int] = {}
    codes = np.full(len(row), -1, np.int64)
    for name, column in values.items():
        of_category = np.array([*(names.setdefault(str(text), len(names)) for text in column.categories), -1], np.int64)
        selected_rows = np.flatnonzero(table == OWNERS.index(name))
        codes[selected_rows] = of_category[column.codes[row[selected_rows]]]
    return schema.categorical(codes, list(names))
