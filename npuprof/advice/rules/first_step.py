"""How sure figures per step are: warm-up, and the number of steps."""

from __future__ import annotations

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.to_collect import of_cell
from npuprof.words.quantities import duration

NAME = "first_step"
_SLOWER = 1.5
_WARM_UP = ("Use a schedule with `warmup=2` or more.", "Run two steps in a cell before this one.")


def check(facts: Facts) -> Finding:
    """Fire if the first step takes more than 1.5 times as long as the usual one; from one step this is unknown."""
    steps = facts.accounting.steps
    times = steps["duration_ns"].to_numpy(np.int64)
    first = np.flatnonzero(~steps.duplicated("device_id").to_numpy())
    if len(first) == len(steps):
        return Finding(NAME, "cannot tell", collect=facts.needs_steps())
    excess = int(times[first].max()) - facts.usual_ns
    if times[first].max() <= _SLOWER * facts.usual_ns:
        return Finding(NAME, "clean")
    return Finding(
        NAME,
        "fires",
        title=f"The first step takes {times[first].max() / max(facts.usual_ns, 1):.1f} times as long as the others",
        cost_ns=excess,
        detail=f"It takes {duration(int(times[first].max()))}, the others {duration(facts.usual_ns)}; no other figure "
        "includes it",
        action=_WARM_UP[of_cell(facts.info)],
    )


RULE = Rule(NAME, "a first step that is slower than the rest", check)
