"""What the host did in each step of a run without a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.device_words import has_device
from npuprof.analysis.idle_causes import IdleCause, Rows, collections, divided, forward, named
from npuprof.analysis.intervals import Spans
from npuprof.arrays import Bools

HOST = "host"
"""The part of a step in which the host worked, in a run without a device: all of it."""

_OF_HOST = ("operators", "python")
_COLLECTIVES = ("c10d::", "gloo:", "mpi:", "ucc:", "xccl:")


def _collective(name: str) -> bool:
    return name.startswith(_COLLECTIVES)


def _spanning(wanted: Callable[[str], bool]) -> Rows:
    """Return a function that selects operators and ranges by their names; torch writes both."""
    return lambda tables: {**named("operators", wanted)(tables), **named("marks", wanted)(tables)}


def _forward(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Bools]:
    return {**named("marks", lambda name: "DistributedDataParallel.forward" in name)(tables), **forward(tables)}


def _python(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, Bools]:
    """Return the calls of Python, which samples see late, and the statements of the cell."""
    statements = np.ones(len(tables["statements"]), bool)
    return {**named("python", lambda _: True)(tables), "statements": statements}


ACTIVITIES = (
    IdleCause("dataloader", _spanning(lambda name: "DataLoader" in name)),
    IdleCause("python_gc", collections),
    IdleCause("optimizer", _spanning(lambda name: "Optimizer" in name)),
    IdleCause("backward", named("operators", lambda name: "autograd::engine" in name)),
    IdleCause("forward", _forward),
    IdleCause("other_operators", named("operators", lambda name: not _collective(name))),
    IdleCause("communication", _spanning(_collective)),
    IdleCause("python", _python),
)
"""The activities of the host in order of precedence: each takes its share of the time that earlier ones leave."""

ACTIVITY_LABELS: Mapping[str, str] = {
    "dataloader": "data loader",
    "python_gc": "garbage collection",
    "optimizer": "optimizer",
    "backward": "backward",
    "forward": "forward",
    "other_operators": "other operators",
    "communication": "communication",
    "python": "Python",
    "unexplained": "unexplained",
}
"""Names of what the host does, in reports and findings."""


def is_of_host(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a run has rows of the host and none of a device."""
    return any(len(tables[name]) for name in _OF_HOST) and not has_device(tables)


def activities(tables: Mapping[str, pd.DataFrame], spans: Spans) -> Iterator[tuple[str, Spans]]:
    """Yield disjoint parts of a time with what the host did, on any thread; what no row covers is unexplained."""
    yield from divided(ACTIVITIES, tables, spans)
