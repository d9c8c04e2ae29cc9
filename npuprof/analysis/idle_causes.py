"""What the host did while the device was idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
MODULE = "nn.Module: "
"""The prefix of Python calls of modules."""

_Rows: TypeAlias = Callable[[Mapping[str, pd.DataFrame]], Spans]


@dataclass(frozen=True)
class IdleCause:
    """A host activity that leaves the device without work.

    Attributes
    ----------
    name
        The value of the ``cause`` column.
    spans
        The time of the activity, on all host threads.
    """

    name: str
    spans: _Rows


def _named(table: str, *parts: str, whole: bool = False) -> _Rows:
    def spans(tables: Mapping[str, pd.DataFrame]) -> Spans:
        frame = tables[table]
        return _covered(
            frame,
            schema.matching(
                frame["name"], lambda name: name in parts if whole else any(part in name for part in parts)
            ),
        )

    return spans


def _all_of(table: str) -> _Rows:
    return lambda tables: _covered(tables[table], np.ones(len(tables[table]), bool))


def _covered(frame: pd.DataFrame, chosen: Bools) -> Spans:
    return covering(frame["start_ns"].to_numpy(np.int64)[chosen], frame["duration_ns"].to_numpy(np.int64)[chosen])


def _collections(tables: Mapping[str, pd.DataFrame]) -> Spans:
    marks = tables["marks"]
    return _covered(marks, schema.matching(marks["message"], lambda name: name == "GC"))


def _forward(tables: Mapping[str, pd.DataFrame]) -> Spans:
    """Return the time of the forward pass: of DDP's wrapper, or of modules that are not nested in another module."""
    python = tables["python"]
    modules = _covered(python, schema.matching(python["name"], lambda name: name.startswith(MODULE)))
    wrapper = _named("operators", "DistributedDataParallel.forward")(tables)
    return covering(
        np.concatenate((modules[0], wrapper[0])),
        np.concatenate((modules[1] - modules[0], wrapper[1] - wrapper[0])),
    )


CAUSES = (
    IdleCause("op_compile", _named("api", "ompile")),
    IdleCause("sync_call", _named("api", "Synchronize")),
    IdleCause("dataloader", _named("operators", "DataLoader")),
    IdleCause("python_gc", _collections),
    IdleCause("alloc", _named("api", "Malloc", "Free", "EmptyCache")),
    IdleCause("copy_call", _named("operators", "aten::copy_", whole=True)),
    IdleCause("optimizer", _named("operators", "Optimizer")),
    IdleCause("backward_dispatch", _named("operators", "autograd::engine")),
    IdleCause("forward_dispatch", _forward),
    IdleCause("other_operators", _all_of("operators")),
    IdleCause("python", _all_of("python")),
)
"""The causes in order of precedence: each takes its share of the idle time that earlier causes leave."""


def idle_causes(tables: Mapping[str, pd.DataFrame], idle: Spans) -> Iterator[tuple[str, Spans]]:
    """Yield disjoint parts of the idle time with their causes; time that no host row covers is :data:`UNEXPLAINED`."""
    for cause in CAUSES:
        if not len(idle[0]):
            return
        spans = cause.spans(tables)
        yield cause.name, intersection(idle, spans)
        idle = subtract(idle, spans)
    yield UNEXPLAINED, idle


def unmeasured_causes(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return the causes for which the run has no rows, with the option that records them."""
    missing: dict[str, str] = {}
    if not len(tables["api"]):
        missing |= dict.fromkeys(("op_compile", "sync_call", "alloc"), "level=1")
    if not len(tables["operators"]):
        names = ("dataloader", "copy_call", "optimizer", "backward_dispatch", "other_operators")
        missing |= dict.fromkeys(names, "a framework's front end (torch_npu or mindspore)")
    if not len(tables["python"]):
        missing["python"] = "stacks=True"
    if not schema.matching(tables["marks"]["message"], lambda name: name == "GC").any():
        missing["python_gc"] = "gc_detect_threshold=1"
    return missing
