"""Host times of a run without a device: what the host did, and the operators, lines and functions that took it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class HostTimes:
    """What the host did. Tables that the run lacks are None or an empty frame.

    Attributes
    ----------
    alone
        Whether the run has host rows but no device rows.
    parts
        Time of the steps by activity (:data:`npuprof.analysis.host_accounting.ACTIVITIES`), the most first; that
        between their marks is :data:`npuprof.analysis.accounting.BETWEEN_STEPS`, whatever the host did.
    steps
        The number of these steps; 0 for a run without steps, whose times are those of the whole run.
    operators, python
        Numbers of framework operators and of Python calls; of sampled ones the number is not known.
    operators_ns
        Time in which at least one operator ran, on any thread.
    operators_by
        By ``line``, by ``module`` and by ``operator`` (and shapes of its inputs), the operators with the most time of
        their own, as :func:`npuprof.analysis.by.sums` returns them.
    functions
        The Python functions with the most time of their own: ``name, count, sampled, own_ns, total_ns``;
        the count of one that samples saw is how often it was seen.
    memory
        The owners of the most memory at its peak; see :func:`npuprof.analysis.memory_peak.memory_peak`.
    """

    alone: bool
    parts: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    operators: int | None = None
    python: int | None = None
    operators_ns: int | None = None
    operators_by: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    functions: pd.DataFrame = field(default_factory=pd.DataFrame)
    memory: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def span_ns(self) -> int:
        """The time of the steps, or of the run."""
        return sum(self.parts.values())


def host_times(tables: Mapping[str, pd.DataFrame], accounting: Accounting, top: int) -> HostTimes:
    """Sum the host tables, only for a run without a device: the report of other runs is about the device.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    accounting
        The steps of the run.
    top
        Maximum number of lines, operators, functions and owners to list.
    """
    if not is_of_host(tables):
        return HostTimes(alone=False)
    correlation = causes(tables)
    calls = tables["operators"][(tables["operators"]["kind"] == "op").to_numpy(bool)]
    starts = calls["start_ns"].to_numpy(np.int64)
    groups = {
        name: sums(operator_rows(tables, keys, correlation=correlation), keys).dropna(subset=list(keys[:1]))
        for name, keys in _GROUPS.items()
    }
    has_steps = bool((accounting.steps["basis"] != "run").any())
    return HostTimes(
        alone=True,
        parts=_parts(accounting),
        steps=accounting.basis.count if has_steps else 0,
        operators=len(calls) or None,
        python=None if sampled(tables["python"]).any() else len(tables["python"]) or None,
        operators_ns=total(union(starts, starts + calls["duration_ns"].to_numpy(np.int64))) if len(calls) else None,
        operators_by={name: table.head(top).reset_index(drop=True) for name, table in groups.items()},
        functions=_functions(tables["python"], correlation, top),
        memory=memory_peak(tables).head(top),
    )


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
    first: pd.DataFrame = ordered.head(top).reset_index(drop=True)
    return first
