"""A view of a table: rows filtered, optionally grouped, sorted, with selected columns.

:func:`rows` returns the frame of the view, :func:`code` the pandas expression for the same frame of ``run``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.filters import Condition, understand
from npuprof.errors import OptionsError

WEIGHTS: Mapping[str, str] = {"allocations": "size_bytes"}
"""The column that groups of a table sum, if other than ``duration_ns``."""

_ORDER_KEY = "key=lambda c: c.cat.reorder_categories(sorted(c.cat.categories)) if c.dtype == 'category' else c"


@dataclass(frozen=True)
class View:
    """The shown part of a table."""

    table: str  # the table's name
    group: tuple[str, ...] = ()  # the columns to group by; empty for single rows
    # Pairs of column and filter, see `understand`. Filters on columns of the table select rows; filters on the sums of
    # groups select groups.
    where: tuple[tuple[str, str], ...] = ()
    # Pairs of column and whether it descends; the first column is the primary key.
    sort: tuple[tuple[str, bool], ...] = ()
    columns: tuple[str, ...] = ()  # the columns to show, in this order; empty for all columns

    @property
    def weight(self) -> str:
        """The column that groups sum."""
        return WEIGHTS.get(self.table, "duration_ns")

    @property
    def sums(self) -> tuple[str, str, str, str]:
        """The column names of a group's sum, mean, minimum and maximum."""
        unit = "bytes" if self.weight.endswith("_bytes") else "ns"
        return f"total_{unit}", f"mean_{unit}", f"min_{unit}", f"max_{unit}"

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns of the groups; empty for single rows, which have the columns of the table."""
        return (*self.group, "count", *self.sums, "share") if self.group else ()


def rows(view: View, frame: pd.DataFrame, origin_ns: int = 0) -> pd.DataFrame:
    """Make the frame of a view."""
    before, after = _conditions(view, frame, origin_ns)
    visible_rows = _select(frame, before)
    if view.group:
        visible_rows = _select(_group(view, visible_rows), after)
    if view.sort:
        _check(visible_rows, [column for column, _ in view.sort])
        visible_rows = visible_rows.sort_values(
            [column for column, _ in view.sort],
            ascending=[not descending for _, descending in view.sort],
            kind="stable",
            key=_alphabetic,
        )
    if view.columns:
        _check(visible_rows, view.columns)
        visible_rows = visible_rows[list(view.columns)]
    return visible_rows


def code(view: View, frame: pd.DataFrame, origin_ns: int = 0, *, run: str = "run") -> str:
    """Return the pandas expression for the same frame; `run` is the variable name of the profile."""
    before, after = _conditions(view, frame, origin_ns)
    line = f"{run}.{view.table}{_loc(before)}"
    if view.group:
        total, mean, least, most = view.sums
        line += (
            f".groupby({list(view.group)!r}, observed=True, dropna=False, sort=False)[{view.weight!r}]"
            f".agg(count='size', {total}='sum', {least}='min', {most}='max').reset_index()"
            f".assign({mean}=lambda t: t[{total!r}] // t['count'], share=lambda t: t[{total!r}] / t[{total!r}].sum())"
            f"[{list(view.all_columns)!r}]{_loc(after)}"
        )
    if view.sort:
        columns = [column for column, _ in view.sort]
        is_named = any(isinstance(frame[column].dtype, pd.CategoricalDtype) for column in columns if column in frame)
        line += (
            f".sort_values({columns!r}, ascending={[not descending for _, descending in view.sort]!r}, kind='stable'"
            f"{', ' + _ORDER_KEY if is_named else ''})"
        )
    return line + (f"[{list(view.columns)!r}]" if view.columns else "")


def members(view: View, frame: pd.DataFrame, row: pd.Series[Any], origin_ns: int = 0) -> npt.NDArray[np.int64]:
    """Return the row numbers in the table that a row of the view stands for.

    Parameters
    ----------
    row
        A row of the view: with the columns of `group` for groups, or named by its row number for single rows.
    """
    if not view.group:
        return np.array([row.name], np.int64)
    before, _ = _conditions(view, frame, origin_ns)
    visible_rows = _select(frame, before)
    for column in view.group:
        value = row[column]
        is_equal = visible_rows[column].isna() if pd.isna(value) else (visible_rows[column] == value)
        visible_rows = visible_rows[is_equal.fillna(value=False).astype(bool)]
    return visible_rows.index.to_numpy(np.int64)


def _conditions(view: View, frame: pd.DataFrame, origin_ns: int) -> tuple[list[Condition], list[Condition]]:
    """Separate filters on rows from filters on groups."""
    _check(frame, view.group)
    groups = None
    before, after = [], []
    for column, text in view.where:
        if not text.strip():
            continue
        if view.group and column in view.all_columns and column not in view.group:
            groups = _group(view, frame.iloc[:0]) if groups is None else groups
            after.append(understand(groups, column, text))
        else:
            before.append(understand(frame, column, text, origin_ns))
    return before, after


def _check(frame: pd.DataFrame, columns: tuple[str, ...] | list[str]) -> None:
    for column in columns:
        if column not in frame:
            raise OptionsError(f"there is no column {column}: the columns are {', '.join(map(str, frame.columns))}")


def _select(frame: pd.DataFrame, conditions: list[Condition]) -> pd.DataFrame:
    if not conditions:
        return frame
    matching = np.ones(len(frame), bool)
    for condition in conditions:
        matching &= condition.mask(frame).astype("boolean").fillna(value=False).to_numpy(bool)
    return frame.loc[matching]


def _group(view: View, frame: pd.DataFrame) -> pd.DataFrame:
    total, mean, least, most = view.sums
    groups = frame.groupby(list(view.group), observed=True, dropna=False, sort=False)[view.weight]
    wanted: dict[str, Any] = {"count": "size", total: "sum", least: "min", most: "max"}
    sums: pd.DataFrame = groups.agg(**wanted).reset_index()
    sums[mean] = sums[total] // sums["count"]
    sums["share"] = sums[total] / sums[total].sum()
    return sums[list(view.all_columns)]


def _alphabetic(column: pd.Series[Any]) -> pd.Series[Any]:
    """Order names alphabetically, not by first occurrence."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.reorder_categories(sorted(column.cat.categories))
    return column


def _loc(conditions: list[Condition]) -> str:
    if not conditions:
        return ""
    parts = [condition.code for condition in conditions]
    return f".loc[lambda t: {' & '.join(f'({part})' for part in parts) if len(parts) > 1 else parts[0]}]"
