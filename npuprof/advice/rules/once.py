"""Steps that took longer once: what the other steps have nothing of."""

from __future__ import annotations

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.host_causes import LABELS
from npuprof.advice.to_collect import more_steps
from npuprof.analysis.usual_steps import LEAST_STEPS
from npuprof.arrays import Int64
from npuprof.quantities import counted, duration

NAME = "once"
_MOST = 5


def check(facts: Facts) -> Finding:
    """Fire if fewer than a third of at least three steps took longer than usual; the usual step gains nothing."""
    steps = facts.accounting.steps.iloc[facts.counted]
    long = np.flatnonzero(~np.isin(facts.counted, facts.usual_steps))
    if not len(long):
        few = steps.groupby(["rank", "device_id"], dropna=False).size().max() < LEAST_STEPS
        return Finding(NAME, "cannot tell", collect=more_steps(facts.info)) if few else Finding(NAME, "clean")
    usual = facts.usual_ns
    extra = np.maximum(steps["duration_ns"].to_numpy(np.int64) - usual, 0)
    long = long[np.argsort(-extra[long], kind="stable")]
    numbers = steps["step"].astype(str).to_numpy()
    longest = _longer_parts(facts, long)
    texts = [
        f"step {numbers[at]} took {duration(int(extra[at]))} longer, most of it {LABELS.get(part, part)}"
        for at, part in zip(long[:_MOST].tolist(), longest, strict=False)
    ]
    more = f"; {counted(len(long) - _MOST, 'more step')}" if len(long) > _MOST else ""
    return Finding(
        NAME,
        "fires",
        title=f"Once, {texts[0]}",
        cost_ns=max(0, facts.step_ns - usual),
        detail=f"{'; '.join([*texts[1:], ''])}the usual step takes {duration(usual)}, and gains 0{more}",
        action="look at what else ran then: a checkpoint, garbage collection, another process",
    )


def _longer_parts(facts: Facts, steps: Int64) -> list[str]:
    """Return the cause or part that took most beyond its median, for each of some counted steps by their place."""
    rows = facts.accounting.intervals
    word = rows["cause"].astype(object).where(rows["cause"].notna(), rows["part"].astype(object))
    sums = rows.assign(word=word).pivot_table("duration_ns", "row", "word", "sum", fill_value=0)
    sums = sums.reindex(facts.counted, fill_value=0)
    longest: list[str] = (sums.iloc[steps] - sums.median()).idxmax(axis=1).tolist()
    return longest


RULE = Rule(NAME, "steps that took longer once", check)
