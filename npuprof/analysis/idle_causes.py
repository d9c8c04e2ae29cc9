"""What the host did while the device was idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.intervals import Spans, covering, intersection, subtract
from npuprof.arrays import Bools

UNKNOWN = "unknown"
"""The device may still have been busy with work from before the step."""
UNEXPLAINED = "unexplained"
"""No host row covers the time."""
PROFILER = "profiler"
"""Cause: the profiler itself stalls the host, as while it gets room for more records. Also the domain of its marks."""
NOT_OF_THE_HOST = (UNKNOWN, PROFILER)
"""Causes that nothing in the user's program explains, so that no finding blames it."""
MODULE = "nn.Module: "
"""The prefix of Python calls of modules."""

Rows: TypeAlias = Callable[[Mapping[str, pd.DataFrame]], Mapping[str, Bools]]
"""Selects rows of host tables: masks by the name of the table."""

_NAMES = {"marks": "message"}


@dataclass(frozen=True)
class IdleCause:
    """A host activity that leaves the device without work."""

    name: str  # the value of the `cause` column
    rows: Rows  # by table, which rows are the activity, on all host threads

    def spans(self, tables: Mapping[str, pd.DataFrame]) -> Spans:
        """Return the time of the activity."""
        edges = [
            tuple(tables[name][column].to_numpy(np.int64)[is_selected] for column in ("start_ns", "duration_ns"))
            for name, is_selected in self.rows(tables).items()
        ]
        return covering(*(np.concatenate(column) for column in zip(*edges, strict=True)))


def named(table: str, wanted: Callable[[str], bool]) -> Rows:
    """Return a function that selects the rows of a host table by their names."""
    return lambda tables: {table: schema.matching(tables[table][_NAMES.get(table, "name")], wanted)}


def _with(table: str, *parts: str) -> Rows:
    found = re.compile("|".join(map(re.escape, parts))).search
    return named(table, lambda name: found(name) is not None)


def collections(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Bools]:
    """Return the runs of Python's garbage collector."""
    return named("marks", lambda name: name == "GC")(tables)


def of_profiler(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Bools]:
    """Return the slices of the profiler itself."""
    return {"marks": schema.matching(tables["marks"]["domain"], lambda name: name == PROFILER)}


def forward(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Bools]:
    """Return the rows of the forward pass: DDP's wrapper, and modules."""
    return {
        **_with("operators", "DistributedDataParallel.forward")(tables),
        **named("python", lambda name: name.startswith(MODULE))(tables),
    }


CAUSES = (
    IdleCause(PROFILER, of_profiler),
    IdleCause("op_compile", _with("api", "ompile")),
    IdleCause("sync_call", _with("api", "Synchronize")),
    IdleCause("dataloader", _with("operators", "DataLoader")),
    IdleCause("python_gc", collections),
    IdleCause("alloc", _with("api", "Malloc", "Free", "EmptyCache")),
    IdleCause("copy_call", named("operators", lambda name: name == "aten::copy_")),
    IdleCause("optimizer", _with("operators", "Optimizer")),
    IdleCause("backward_dispatch", _with("operators", "autograd::engine")),
    IdleCause("forward_dispatch", forward),
    IdleCause("other_operators", named("operators", lambda _: True)),
    IdleCause("python", named("python", lambda _: True)),
)
"""The causes in order of precedence: each takes its share of the idle time that earlier causes leave."""


def idle_causes(tables: Mapping[str, pd.DataFrame], idle: Spans) -> Iterator[tuple[str, Spans]]:
    """Yield disjoint parts of the idle time with their causes; time that no host row covers is :data:`UNEXPLAINED`."""
    yield from divided(CAUSES, tables, idle)


def divided(
    causes: Iterable[IdleCause], tables: Mapping[str, pd.DataFrame], time: Spans
) -> Iterator[tuple[str, Spans]]:
    """Yield disjoint parts of a time by cause, in order of precedence; what no row covers is :data:`UNEXPLAINED`."""
    for cause in causes:
        if not len(time[0]):
            return
        spans = cause.spans(tables)
        yield cause.name, intersection(time, spans)
        time = subtract(time, spans)
    yield UNEXPLAINED, time


def unmeasured_causes(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return the causes for which the run has no rows, with the option that records them."""
    missing: dict[str, str] = {}
    if not len(tables["api"]):
        missing |= dict.fromkeys(("op_compile", "sync_call", "alloc"), "level=1")
    if not len(tables["operators"]):
        names = ("dataloader", "copy_call", "optimizer", "backward_dispatch", "other_operators")
        missing |= dict.fromkeys(names, "the front end of a framework")
    if not len(tables["python"]):
        missing["python"] = "the activity cpu, in at least 5 ms of Python (with a framework also stacks=True)"
    if not schema.matching(tables["marks"]["message"], lambda name: name == "GC").any():
        missing["python_gc"] = "gc_detect_threshold=1 (where the front end has it)"
    return missing
