"""Steps that took longer once: what the other steps have nothing of."""

from __future__ import annotations

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.host_causes import LABELS
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.analysis.usual_steps import LEAST_STEPS
from npuprof.arrays import Int64
from npuprof.lines.frames import line_text
from npuprof.words.quantities import counted, duration, share

NAME = "once"
_MOST = 5


def check(facts: Facts) -> Finding:
    """Fire if fewer than a third of at least three steps took longer than usual; the usual step gains nothing."""
    steps = facts.accounting.steps.iloc[facts.counted]
    long = np.flatnonzero(~np.isin(facts.counted, facts.usual_steps))
    if not len(long):
        few = steps.groupby(["rank", "device_id"], dropna=False).size().max() < LEAST_STEPS
        return Finding(NAME, "cannot tell", collect=facts.needs_steps()) if few else Finding(NAME, "clean")
    usual = facts.usual_ns
    extra = np.maximum(steps["duration_ns"].to_numpy(np.int64) - usual, 0)
    long = long[np.argsort(-extra[long], kind="stable")]
    numbers = steps["step"].astype(str).to_numpy()
    longest, lines = _longer_parts(facts, long), _longer_lines(facts, long)
    texts = [
        f"step {numbers[at]} took {duration(int(extra[at]))} longer, most of it {LABELS.get(part, part)}{line}"
        for at, part, line in zip(long[:_MOST].tolist(), longest, lines, strict=False)
    ]
    more = f"; {counted(len(long) - _MOST, 'more step')}" if len(long) > _MOST else ""
    cost = max(0, facts.step_ns - usual)
    together = f"together {share(cost, facts.step_ns)} of the mean step; " if len(long) > 1 else ""
    return Finding(
        NAME,
        "fires",
        title=f"Once, {texts[0]}",
        cost_ns=cost,
        detail=f"{together}{'; '.join([*texts[1:], ''])}the usual step takes {duration(usual)}, and gains 0{more}",
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


def _longer_lines(facts: Facts, steps: Int64) -> list[str]:
    """Return the line of the cell that took most beyond its median, in brackets, for each of some counted steps.

    Empty where no statements were recorded in a step.
    """
    marks = facts.tables["steps"]
    marks = marks[of_counted_kind(marks)].drop_duplicates("step").sort_values("start_ns", kind="stable")
    begins, lengths = (marks[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    rows = facts.tables["statements"]
    moments = rows["start_ns"].to_numpy(np.int64)
    at = np.searchsorted(begins, moments, side="right") - 1
    is_within = at >= 0
    is_within[is_within] = moments[is_within] < (begins + lengths)[at[is_within]]
    rows = rows[is_within].assign(step=marks["step"].to_numpy()[at[is_within]])
    sums = rows.pivot_table("duration_ns", "step", ["file", "line"], "sum", fill_value=0, observed=True)
    if sums.empty:
        return [""] * len(steps)
    sums = sums.reindex(facts.accounting.steps["step"].iloc[facts.counted], fill_value=0)
    beyond = sums.iloc[steps] - sums.median()
    return [
        f" ({line_text(str(file), int(line))})" if most > 0 else ""
        for (file, line), most in zip(beyond.idxmax(axis=1), beyond.max(axis=1), strict=True)
    ]


RULE = Rule(NAME, "steps that took longer once", check)
