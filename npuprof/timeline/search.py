"""Search by name: which slices match a text or a regular expression, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.patterns import contains_pattern
from npuprof.arrays import Int64
from npuprof.timeline.slices import NAME_COLUMNS, Slices

_SEARCHED = ("marks", "python", "operators", "api", "kernels", "tasks", "communication", "communication_tasks")


@dataclass(frozen=True)
class Matches:
    """What was found.

    Attributes
    ----------
    text
        What was searched for.
    slices
        Numbers of the slices, in the order of their starts.
    start_ns
        Their starts, epoch nanoseconds.
    total_ns
        The sum of their durations.
    """

    text: str
    slices: Int64
    start_ns: Int64
    total_ns: int

    def __len__(self) -> int:
        return len(self.slices)


def search(slices: Slices, text: str, *, regex: bool = False, hidden: Int64 | None = None) -> Matches:
    """Find all slices whose name contains a text, whatever the case of its letters.

    Parameters
    ----------
    slices
        Where to search.
    text
        What to search for; nothing matches an empty one.
    regex
        Whether it is a regular expression.
    hidden
        Rows of ``tasks`` that are shown as kernels and are not to be found twice.

    Raises
    ------
    OptionsError
        If the regular expression cannot be read; the message says where.
    """
    numbers, starts, total = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for table in _SEARCHED if text else ():
        frame = slices.tables[table]
        rows = np.flatnonzero(_matching(frame[NAME_COLUMNS[table]], text, regex=regex))
        if table == "tasks" and hidden is not None:
            rows = rows[~np.isin(rows, hidden)]
        numbers.append(rows + slices.first[table])
        starts.append(frame["start_ns"].to_numpy()[rows])
        total += int(frame["duration_ns"].to_numpy()[rows].sum())
    start = np.concatenate(starts)
    order = np.argsort(start, kind="stable")
    return Matches(text, np.concatenate(numbers)[order], start[order], total)


def _matching(names: pd.Series, text: str, *, regex: bool) -> npt.NDArray[np.bool_]:
    """Look at each distinct name once."""
    distinct, folded = names.cat.categories.tolist(), text.upper()
    found = (
        contains_pattern(distinct, text)
        if regex
        else [isinstance(name, str) and folded in name.upper() for name in distinct]
    )
    of_code = np.array([*found, False], bool)  # the last one is for the code -1, an absent name
    matching: npt.NDArray[np.bool_] = of_code[names.cat.codes.to_numpy()]
    return matching
