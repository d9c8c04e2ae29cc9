"""Host times of a run without a device: what the host did, and the operators, lines and functions that took it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, NOT_RECORDED, Accounting
from npuprof.analysis.by import Key, operator_rows, sums
from npuprof.analysis.correlation import Causes, causes
from npuprof.analysis.host_accounting import ACTIVITY_LABELS, is_of_host
from npuprof.analysis.intervals import total, union
from npuprof.analysis.memory_peak import memory_peak
from npuprof.lines.frames import Frame, cell_name, frame_text
from npuprof.tables import sampled

_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-f]+")
_GROUPS: Mapping[str, tuple[Key, ...]] = {"line": ("line",), "module": ("module",), "operator": ("op", "shapes")}

HOST_LABELS: Mapping[str, str] = {**ACTIVITY_LABELS, BETWEEN_STEPS: "between steps", NOT_RECORDED: "not recorded"}
"""Names of the parts of a run without a device, in reports and findings."""


class HostTimes:
    """What the host did in a run without a device: the report of other runs is about the device.

    Each answer is computed when it is first asked for. Tables that the run lacks are None or an empty frame.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], accounting: Accounting, top: int) -> None:
        self._tables = tables
        self._accounting = accounting
        self._top = top

    @cached_property
    def alone(self) -> bool:
        """Whether the run has host rows but no device rows."""
        return is_of_host(self._tables)

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """Time of the steps by activity (:data:`npuprof.analysis.host_accounting.ACTIVITIES`), the most first.

        That between their marks is :data:`npuprof.analysis.accounting.BETWEEN_STEPS`, whatever the host did.
        """
        return _parts(self._accounting) if self.alone else {}

    @property
    def span_ns(self) -> int:
        """The time of the steps, or of the run."""
        return sum(self.parts.values())

    @property
    def steps(self) -> int:
        """The number of steps; 0 for a run without steps, whose times cover the whole run."""
        has_steps = self._accounting.has_steps
        return self._accounting.basis.count if self.alone and has_steps else 0

    @cached_property
    def _operators(self) -> pd.DataFrame:
        operators = self._tables["operators"]
        return operators[(operators["kind"] == "op").to_numpy(bool) & self.alone]

    @property
    def operators(self) -> int | None:
        """The number of framework operators."""
        return len(self._operators) or None

    @cached_property
    def operators_ns(self) -> int | None:
        """Time in which at least one operator ran, on any thread."""
        if not len(self._operators):
            return None
        starts, durations = (self._operators[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        return total(union(starts, starts + durations))

    @property
    def python(self) -> int | None:
        """The number of Python calls; None where they were sampled."""
        calls = self._tables["python"]
        return len(calls) or None if self.alone and not sampled(calls).any() else None

    @cached_property
    def _causes(self) -> Causes:
        return causes(self._tables)

    @cached_property
    def operators_by(self) -> Mapping[str, pd.DataFrame]:
        """By ``line``, ``module`` and ``operator`` (and shapes of its inputs), the operators with the most own time.

        They are as :func:`npuprof.analysis.by.sums` returns them.
        """
        if not len(self._operators):
            return {}
        groups = {
            name: sums(operator_rows(self._tables, keys, correlation=self._causes), keys).dropna(subset=list(keys[:1]))
            for name, keys in _GROUPS.items()
        }
        return {name: table.head(self._top).reset_index(drop=True) for name, table in groups.items()}

    @cached_property
    def functions(self) -> pd.DataFrame:
        """The Python functions with the most time of their own: ``name, count, sampled, own_ns, total_ns``.

        The count of one that samples saw is how often it was seen.
        """
        python = self._tables["python"]
        return _functions(python, self._causes, self._top) if self.alone and len(python) else pd.DataFrame()

    @cached_property
    def memory(self) -> pd.DataFrame:
        """The owners of the most memory at its peak; see :func:`npuprof.analysis.memory_peak.memory_peak`."""
        has_memory = len(self._tables["allocations"]) or len(self._tables["memory"])
        return memory_peak(self._tables).head(self._top) if self.alone and has_memory else pd.DataFrame()


def _parts(accounting: Accounting) -> dict[str, int]:
    rows = accounting.intervals
    rows = rows[np.isin(rows["row"].to_numpy(), accounting.basis.rows)]
    names = rows["cause"].astype(str).where(rows["part"] != BETWEEN_STEPS, BETWEEN_STEPS)
    times = rows.groupby(names)["duration_ns"].sum().sort_values(ascending=False, kind="stable")
    return {str(name): int(time) for name, time in times.items() if time}


def _functions(python: pd.DataFrame, correlation: Causes, top: int) -> pd.DataFrame:
    """Return the Python functions with the most time without what they called."""
    own_ns = correlation.self_ns[correlation.first_row["python"] :][: len(python)]
    names = python["name"].cat.categories.astype(str)
    cells = {frame.file for name in names if (frame := Frame.parse(name)) and cell_name(frame.file)}
    # Methods of different objects are one function, and the file of the only cell needs no name.
    short = np.array([_ADDRESS.sub("", name) for name in names], dtype=object)
    if len(cells) == 1:
        (cell,) = cells
        short = np.array([name.replace(cell, cell_name(cell), 1) for name in short], dtype=object)
    short = np.array([frame_text(name) for name in short], dtype=object)
    calls = python.assign(name=short[python["name"].cat.codes], own_ns=own_ns, sampled=sampled(python))
    table = calls.groupby("name").agg(
        count=("own_ns", "size"), sampled=("sampled", "any"), own_ns=("own_ns", "sum"), total_ns=("duration_ns", "sum")
    )
    ordered: pd.DataFrame = table.reset_index().sort_values("own_ns", ascending=False, kind="stable")
    return ordered.head(top).reset_index(drop=True)
