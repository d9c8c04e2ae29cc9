"""Kernels that leave cores of the chip idle."""

from __future__ import annotations

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import most_time
from npuprof.analysis.device_words import NPU
from npuprof.arrays import Float64
from npuprof.words.quantities import duration, share

NAME = "unused_cores"
_THRESHOLD = 0.01  # of the step
_SURE_NS = 20_000  # shorter kernels mostly start up and finish
_CUBE = ("AI_CORE", "AICORE", "AIC", "MIX_AIC")
_VECTOR = ("AI_VECTOR_CORE", "AIVECTOR", "AIV", "MIX_AIV")


def check(facts: Facts) -> Finding:
    """Fire if kernels with fewer blocks than cores, or a partly filled last round, lose more than 1 % of a step."""
    kernels, limits = facts.tables["kernels"], facts.limits
    blocks = kernels["block_num"].to_numpy(np.float64, na_value=0.0)
    if limits is None or not blocks.any():
        collect = facts.needs_limits() if limits is None else facts.needs_counters("numbers of blocks")
        return Finding(NAME, "cannot tell", collect=collect)
    lost_rows = kernels["duration_ns"].to_numpy(np.float64) * _unused_share(facts, blocks) * facts.in_steps
    cost = facts.kernels_per_step(lost_rows)
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    rows = kernels.assign(lost_ns=np.rint(lost_rows).astype(np.int64))[lost_rows > 0]
    of_all = share(int(rows["duration_ns"].sum()), facts.kernels_ns)
    return Finding(
        NAME,
        "fires",
        title=f"{of_all} of kernel time leaves cores unused",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["lost_ns"]),
        detail=f"Of {limits.cube_cores} cube and {limits.vector_cores} vector cores, these kernels use fewer: "
        f"{most_time(rows, facts.steps)}; memory-bound ones gain less than {duration(cost)}",
        action="Use larger batches or fewer, larger operators; tune block numbers with AOE.",
        table="kernels",
        rows=rows,
    )


def _unused_share(facts: Facts, blocks: Float64) -> Float64:
    """Return the fraction of each kernel's time that would be saved if its blocks were spread over all cores."""
    limits, kernels = facts.limits, facts.tables["kernels"]
    cores = np.zeros(len(blocks))
    if limits is not None:
        cores[kernels["core"].isin(_CUBE).to_numpy(bool)] = limits.cube_cores
        cores[kernels["core"].isin(_VECTOR).to_numpy(bool)] = limits.vector_cores
    is_known = (cores > 0) & (blocks > 0) & (kernels["duration_ns"].to_numpy(np.int64) >= _SURE_NS)
    rounds = np.ceil(np.divide(blocks, cores, out=np.ones_like(blocks), where=is_known))
    return np.where(is_known, 1 - np.divide(blocks, rounds * cores, out=np.ones_like(blocks), where=is_known), 0.0)


RULE = Rule(NAME, "kernels of fewer blocks than the chip has cores", check, frozenset({NPU}))
