"""Batch norms that synchronise their statistics over all ranks."""

from __future__ import annotations

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.outer_calls import host_rows, kernels_within
from npuprof.analysis.correlation import nearest, whole_links
from npuprof.analysis.device_words import GPU, NPU
from npuprof.arrays import Bools
from npuprof.words.quantities import counted, duration

NAME = "sync_batch_norm"
_THRESHOLD = 0.01  # of the step
_EXPOSED = ("waiting", "moving", "communication")
_OPERATORS = ("syncbatchnorm", "batch_norm_gather_stats", "batch_norm_backward_reduce")
_KERNELS = ("syncbatchnorm", "syncbn")


def check(facts: Facts) -> Finding:
    """Fire if the kernels and the exposed collectives of SyncBatchNorm take more than 1 % of the step."""
    kernels, operators = facts.tables["kernels"], facts.tables["operators"]
    if not len(operators) and not kernels["op_type"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs_operators())
    named = schema.matching(operators["name"], lambda name: any(word in name.lower() for word in _OPERATORS))
    typed = schema.matching(kernels["op_type"], lambda name: name.lower().startswith(_KERNELS))
    of_norms = (typed | kernels_within(facts, named)) & facts.in_steps
    if not of_norms.any() and not named.any():
        return Finding(NAME, "clean")
    rows = kernels[of_norms]
    collectives = _collectives(facts, named)
    exposed = facts.overlapping("communication", facts.spans(_EXPOSED))[collectives]
    waited = int(exposed.sum()) // max(1, len(facts.basis.usual_rows))
    computed = facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64))
    cost = min(computed + waited, facts.usual_ns)
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    of_collectives = f"; {counted(int(collectives.sum()), 'collective')} take {duration(waited)} while no kernel runs"
    return Finding(
        NAME,
        "fires",
        title="Batch norms synchronise over all ranks",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"{counted(len(rows), 'kernel')} of `SyncBatchNorm` take {duration(computed)} a step"
        + of_collectives * bool(waited),
        action="Use `BatchNorm` with large batches per rank, else `GroupNorm`.",
        table="kernels",
        rows=rows,
    )


def _collectives(facts: Facts, named: Bools) -> Bools:
    """Return the collectives that operators launched, by the links."""
    links, causes = whole_links(facts.tables), facts.causes
    is_wanted = np.zeros(len(causes.callers), bool)
    is_wanted[host_rows(facts)] = named
    launched = np.zeros(len(facts.tables["communication"]), bool)
    for table in ("operators", "api"):
        is_of = (links["source_table"] == table) & (links["target_table"] == "communication")
        source, target = (links[f"{end}_row"].to_numpy(np.int64)[is_of.to_numpy(bool)] for end in ("source", "target"))
        within = nearest(causes.callers, source + causes.first_row[table], is_wanted) >= 0
        launched[target[within]] = True
    return launched


RULE = Rule(NAME, "batch norms that wait for all ranks", check, frozenset({GPU, NPU}))
