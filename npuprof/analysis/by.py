"""Sums over kernels by what launched them and what they are: lines, modules, operators, names, shapes and more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import RUNS_OVER
from npuprof.analysis.correlation import Causes, causes
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.places import BETWEEN, GUESSED, Places, lines
from npuprof.arrays import Int64
from npuprof.errors import OptionsError
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS
from npuprof.tables import matching
from npuprof.tables.shown_frame import ShownFrame

Key: TypeAlias = Literal[
    "line", "module", "op", "op_type", "kernel", "shapes", "dtypes", "core", "step", "stream", "device", "rank"
]
"""The keys by which kernels can be grouped."""

KEYS: tuple[Key, ...] = get_args(Key)

_OF_KERNELS: Mapping[str, str] = {
    "op_type": "op_type",
    "kernel": "name",
    "shapes": "input_shapes",
    "dtypes": "input_dtypes",
    "core": "core",
    "stream": "stream_id",
    "device": "device_id",
}


_REPLAY = re.compile(r"GraphLaunch|aclmdlRIExecute")
CAPTURED = "captured graph"
"""The operator of kernels that no recorded operator launched, but the replay of a graph."""
_OF_95_PERCENT = 1.96  # standard errors

_OF_OPERATORS: Mapping[str, str] = {"op": "name", "shapes": "input_shapes", "dtypes": "input_dtypes", "step": "step"}


def checked_keys(keys: Sequence[str]) -> tuple[Key, ...]:
    """Check the keys, and return them."""
    valid = f"valid keys are {', '.join(KEYS)}"
    if not keys:
        raise OptionsError(f'by() needs at least one key, as in by("line"); {valid}')
    for place, key in enumerate(keys):
        if key not in KEYS:
            raise OptionsError(f"cannot group kernels by {key!r}; {valid}")
        if key in keys[:place]:
            raise OptionsError(f"{key!r} is given twice to by()")
    return cast("tuple[Key, ...]", tuple(keys))


def kernel_rows(
    tables: Mapping[str, pd.DataFrame], launches: pd.DataFrame, keys: Sequence[Key], rank: int | None = None
) -> pd.DataFrame:
    """Return the rows that :func:`sums` adds up: a row per kernel with the requested keys.

    Returns
    -------
    pandas.DataFrame
        The keys, absent where a kernel has no value, ``duration_ns``, ``host_ns`` and ``launch_delay_ns``.
    """
    kernels = tables["kernels"]
    made: dict[str, Any] = {}
    for key in keys:
        if key == "line":
            made[key] = lines(launches)
            made["guessed"] = launches["known"].isin(GUESSED).to_numpy(bool)
            made["launch_ns"] = launches["launch_ns"].array
        elif key == "op":
            made[key] = _operators(launches)
        elif key in ("module", "step"):
            made[key] = launches[key].array
        elif key == "rank":
            made[key] = pd.array([rank], "Int64").repeat(len(kernels))
        else:
            made[key] = kernels[_OF_KERNELS[key]].array
    made["duration_ns"] = kernels["duration_ns"].to_numpy(np.int64)
    if RUNS_OVER in kernels:
        made["over"] = (kernels[RUNS_OVER] > 0).to_numpy(bool)
    made["host_ns"] = _host_ns(tables, launches)
    made["launch_delay_ns"] = launches["launch_delay_ns"].array
    return pd.DataFrame(made)


def _operators(launches: pd.DataFrame) -> Any:
    """Return the operator of each kernel; those that a captured graph launched without one have the name of that."""
    operators = launches["op"]
    replayed = operators.isna().to_numpy(bool) & matching(
        launches["api"], lambda name: _REPLAY.search(name) is not None
    )
    if not replayed.any():
        return operators.array
    named = operators.cat.add_categories([] if CAPTURED in operators.cat.categories else [CAPTURED])
    return named.mask(replayed, CAPTURED).array


def operator_rows(
    tables: Mapping[str, pd.DataFrame], keys: Sequence[Key], rank: int | None = None, correlation: Causes | None = None
) -> pd.DataFrame:
    """Return the rows that :func:`sums` adds up for a run without a device: a row per operator.

    Its duration is its own time on the host, without what it called, so that no time of a thread counts twice.
    """
    known = causes(tables) if correlation is None else correlation
    operators = tables["operators"]
    rows = np.flatnonzero((operators["kind"] == "op").to_numpy(bool))
    made: dict[str, Any] = {}
    places = Places.build(tables, known).of("operators", rows) if {"line", "module"} & set(keys) else None
    for key in keys:
        if key in ("line", "module") and places is not None:
            made[key] = lines(places) if key == "line" else places["module"].array
        elif key == "rank":
            made[key] = pd.array([rank], "Int64").repeat(len(rows))
        elif key in _OF_OPERATORS:
            made[key] = operators[_OF_OPERATORS[key]].iloc[rows].array
        else:
            made[key] = pd.Series(pd.NA, index=range(len(rows)), dtype="object").astype("category").array
    own_ns = known.self_ns[known.first_row["operators"] + rows]
    made |= {"duration_ns": own_ns, "host_ns": pd.arrays.IntegerArray(own_ns, np.zeros(len(rows), bool))}
    made["launch_delay_ns"] = pd.arrays.IntegerArray(np.zeros(len(rows), np.int64), np.ones(len(rows), bool))
    return pd.DataFrame(made)


def sums(rows: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    """Sum kernels, or operators, by keys.

    Returns
    -------
    pandas.DataFrame
        The keys, ``count``, ``total_ns``, ``mean_ns``, ``std_ns``, ``min_ns``, ``median_ns``, ``p95_ns`` and ``max_ns``
        of device time, ``share`` of all kernel time (0..1), ``host_ns`` and ``launch_delay_ns``; the greatest total
        first. Kernels without a value for a key are in a row with an absent key, so that no kernel is left out.
        ``mean_ns`` and medians are rounded down, ``std_ns`` is the standard deviation of the population, rounded, and
        ``p95_ns`` the value before the last 5 % (nearest rank).
    """
    number, groups = group_sums(rows, keys)
    durations = rows["duration_ns"].to_numpy(np.int64)
    order = np.argsort(durations, kind="stable")
    order = order[np.argsort(_narrow(number, len(groups))[order], kind="stable")]
    count = groups["count"].to_numpy(np.int64)
    ends = np.cumsum(count)
    ordered = durations[order]
    return described(
        groups,
        median_ns=_middle(ordered, ends - count, count),
        p95_ns=ordered[ends - 1 - count // 20],
        launch_delay_ns=_medians(rows["launch_delay_ns"], number, len(groups)),
    )


def with_share_errors(table: pd.DataFrame, rows: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    """Return the sums by line with an error of each share, where samples tell lines; else as they are.

    The true share lies within the error, with a probability of 95 %: half of the interval that Agresti and Coull give
    for the share of n samples, and the share of kernels between samples, which may be of any line. n is the number of
    sampling intervals in which kernels were launched whose lines are not certain.
    """
    if "line" not in keys or "guessed" not in rows or not rows["guessed"].any():
        return table
    guessed = rows["guessed"].to_numpy(bool)
    launched = rows["launch_ns"].to_numpy(np.int64, na_value=0)[guessed]
    samples = len(np.unique(launched // SAMPLING_INTERVAL_NS))
    number, groups = group_sums(rows, keys)
    order = np.argsort(-groups["total_ns"].to_numpy(np.int64), kind="stable")  # that of the table
    is_guessed = (np.bincount(number, guessed, minlength=len(groups)) > 0)[order]
    share = table["share"].to_numpy(np.float64)
    is_between = (table["line"] == BETWEEN).fillna(value=False).to_numpy(bool)
    taken = samples + _OF_95_PERCENT**2
    middle = (share * samples + _OF_95_PERCENT**2 / 2) / taken
    error = _OF_95_PERCENT * np.sqrt(middle * (1 - middle) / taken) + np.abs(middle - share) + share[is_between].sum()
    error = np.where(is_guessed & ~is_between, np.minimum(error, np.maximum(share, 1 - share)), 0.0)
    table.insert(table.columns.tolist().index("share") + 1, "share_error", error)
    return table


def with_overruns(table: pd.DataFrame, rows: pd.DataFrame, keys: Sequence[Key]) -> pd.DataFrame:
    """Add the number of kernels that run over the next one of their stream, if there are any."""
    if "over" not in rows or not rows["over"].any():
        return table
    number, groups = group_sums(rows, keys)
    order = np.argsort(-groups["total_ns"].to_numpy(np.int64), kind="stable")  # that of the table
    wrong = np.bincount(number, rows["over"], minlength=len(groups)).astype(np.int64)[order]
    table.insert(table.columns.tolist().index("share") + 1, "overruns", wrong)
    return table


def group_sums(rows: pd.DataFrame, keys: Sequence[Key]) -> tuple[Int64, pd.DataFrame]:
    """Return the group of each kernel, and the sums of each group, which can be merged with those of other runs.

    Returns
    -------
    group, sums
        The sums are the keys, ``count``, ``total_ns``, ``squares`` (of deviations from the mean, in ns²), ``min_ns``,
        ``max_ns`` and ``host_ns``.
    """
    number, groups = grouped(rows, keys)
    durations = rows["duration_ns"].to_numpy(np.int64)
    first = np.unique(number, return_index=True)[1]
    count = np.bincount(number, minlength=groups)
    total, least, largest = np.zeros(groups, np.int64), durations[first], durations[first]
    np.add.at(total, number, durations)
    np.minimum.at(least, number, durations)
    np.maximum.at(largest, number, durations)
    deviation = durations - (total / np.maximum(count, 1))[number]
    is_known = rows["host_ns"].notna().to_numpy()
    host = np.zeros(groups, np.int64)
    np.add.at(host, number[is_known], rows["host_ns"].to_numpy(np.int64, na_value=0)[is_known])
    table: pd.DataFrame = rows[list(keys)].iloc[first].reset_index(drop=True)
    table = table.assign(
        count=count,
        total_ns=total,
        squares=np.bincount(number, deviation * deviation, minlength=groups),
        min_ns=least,
        max_ns=largest,
        host_ns=pd.arrays.IntegerArray(host, np.bincount(number[is_known], minlength=groups) == 0),
    )
    return number, table


def described(groups: pd.DataFrame, *, median_ns: Int64, p95_ns: Int64, launch_delay_ns: Any) -> pd.DataFrame:
    """Return the table of :func:`sums` from the sums of groups and their quantiles."""
    count, total = (groups[name].to_numpy(np.int64) for name in ("count", "total_ns"))
    whole = int(total.sum())
    keys = groups.drop(columns=["count", "total_ns", "squares", "min_ns", "max_ns", "host_ns"])
    table: pd.DataFrame = keys.assign(
        count=count,
        total_ns=total,
        mean_ns=total // np.maximum(count, 1),
        std_ns=np.rint(np.sqrt(groups["squares"].to_numpy(np.float64) / np.maximum(count, 1))).astype(np.int64),
        min_ns=groups["min_ns"],
        median_ns=median_ns,
        p95_ns=p95_ns,
        max_ns=groups["max_ns"],
        share=total / whole if whole else np.full(len(count), np.nan),
        host_ns=groups["host_ns"],
        launch_delay_ns=launch_delay_ns,
    )
    first: pd.DataFrame = table.iloc[np.argsort(-total, kind="stable")].reset_index(drop=True)
    names = [name for name in keys if isinstance(first[name].dtype, pd.CategoricalDtype)]
    return ShownFrame(first.astype(dict.fromkeys(names, "string")))


def grouped(rows: pd.DataFrame, keys: Sequence[Key]) -> tuple[Int64, int]:
    """Return the group of each row by its combination of keys, and the number of groups; absent keys count as keys."""
    number, groups = np.zeros(len(rows), np.int64), 1
    for key in keys:
        values = rows[key]
        if isinstance(values.dtype, pd.CategoricalDtype):
            codes, distinct = values.cat.codes.to_numpy().astype(np.int64), len(values.cat.categories)
        else:
            codes, names = pd.factorize(values)
            distinct = len(names)
        number, combinations = pd.factorize(number * (distinct + 1) + codes + 1)
        groups = len(combinations)
    return number.astype(np.int64), groups if len(rows) else 0


def _narrow(number: Int64, groups: int) -> Any:
    return number.astype(np.int16) if groups < 1 << 15 else number  # NumPy sorts 16-bit integers in linear time


def _middle(ordered: Int64, begins: Int64, count: Int64) -> Int64:
    """Return the median of each segment of sorted values; an even count takes the mean of the middle two, floored."""
    low, high = ordered[begins + (count - 1) // 2], ordered[begins + count // 2]
    return low + (high - low) // 2


def _medians(values: pd.Series[Any], number: Int64, groups: int) -> Any:
    """Return the median of each group's known values; absent if a group has none."""
    is_known = values.notna().to_numpy()
    kept, number = values.to_numpy(np.int64, na_value=0)[is_known], number[is_known]
    count = np.bincount(number, minlength=groups)
    order = np.argsort(kept, kind="stable")
    order = order[np.argsort(_narrow(number, groups)[order], kind="stable")]
    median = np.zeros(groups, np.int64)
    selected_rows = np.flatnonzero(count)
    median[selected_rows] = _middle(kept[order], (np.cumsum(count) - count)[selected_rows], count[selected_rows])
    return pd.arrays.IntegerArray(median, count == 0)


def _host_ns(tables: Mapping[str, pd.DataFrame], launches: pd.DataFrame) -> Any:
    """Return the host time of each kernel, absent if its launch is unknown.

    It is the time of the innermost operator around the launch, minus nested operators that launched other kernels;
    without an operator, it is the time of the CANN call. Kernels of the same operator share its time, so that no time
    of a thread counts twice.
    """
    host, absent = np.zeros(len(launches), np.int64), np.ones(len(launches), bool)
    for table in ("operators", "api"):
        row = launches["operator_row" if table == "operators" else "api_row"]
        open_rows = np.flatnonzero(row.notna().to_numpy() & absent)
        called, number = np.unique(row.to_numpy(np.int64, na_value=-1)[open_rows], return_inverse=True)
        calls = tables[table].iloc[called]
        start, duration = calls["start_ns"].to_numpy(np.int64), calls["duration_ns"].to_numpy(np.int64)
        nesting = Nesting.build(start, start + duration, calls["thread_id"].to_numpy(np.int64))
        held_rows = np.flatnonzero(nesting.parents >= 0)
        np.subtract.at(
            self_ns := duration.copy(), nesting.order[nesting.parents[held_rows]], duration[nesting.order[held_rows]]
        )
        self_ns, share = np.maximum(self_ns, 0), np.bincount(number, minlength=len(called))
        host[open_rows] = self_ns[number] // np.maximum(share, 1)[number]
        first = open_rows[np.unique(number, return_index=True)[1]]
        host[first] += self_ns % np.maximum(share, 1)
        absent[open_rows] = False
    return pd.arrays.IntegerArray(host, absent)
