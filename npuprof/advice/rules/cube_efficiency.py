"""Matrix products and attention that are far from the best rate of the cube cores in the run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import code, most_time
from npuprof.analysis.device_words import NPU
from npuprof.analysis.kernel_flops import is_of_cube

NAME = "cube_efficiency"
_THRESHOLD = 0.05  # of the step: time of all products
_WORTH = 0.01  # of the step: gain of the slow products
_LOW = 0.5  # of the best of the run
_REACHED = 0.7  # of the peak: the rate that a product of suitable shapes reaches
_SURE_NS = 10_000


def check(facts: Facts) -> Finding:
    """Fire if kernels of the cube reach less than half of the run's best, and that costs more than 1 % of a step."""
    kernels = facts.tables["kernels"]
    if facts.limits is None or not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs_limits())
    duration = kernels["duration_ns"].to_numpy(np.int64)
    whole = facts.kernels_per_step(duration[schema.matching(kernels["op_type"], is_of_cube) & facts.in_steps])
    if whole <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=whole)
    table = facts.efficiency
    limited = (table["bound"] == "cube").to_numpy(bool)
    # With a causal mask, attention does half the operations that its shapes imply: the upper figure counts.
    most = np.fmax(table["flops_most"].to_numpy(np.float64), table["flops"].to_numpy(np.float64))
    least = np.maximum(table["flops"].to_numpy(np.float64), 1.0)
    reached = table["efficiency"].to_numpy(np.float64) * most / least
    lasting = limited & (duration >= _SURE_NS)
    best = float(reached[lasting].max(initial=0.0))
    slow = lasting & facts.in_steps & (reached < _LOW * best)
    lost = np.where(slow, duration * (1 - reached / min(_REACHED, max(best, 1e-9))), 0.0)
    gained = facts.kernels_per_step(lost)
    if gained <= _WORTH * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=whole)
    rows = kernels.assign(efficiency=reached, lost_ns=np.rint(lost).astype(np.int64))[slow]
    mean = 100 * float((reached * duration)[slow].sum() / duration[slow].sum())
    return Finding(
        NAME,
        "fires",
        title=f"{_subject(rows)} at {mean:.0f} % of the peak",
        cost_ns=facts.kernels_per_step(duration[slow]),
        **facts.gain(gained, saved_ns=rows["lost_ns"]),
        detail=f"Below half of the run's best, {100 * best:.0f} % of the peak: "
        f"{most_time(rows, facts.steps, ('op_type', 'input_shapes'))}",
        action="Make sizes multiples of 256, use 16-bit operands, and chunk huge dimensions.",
        table="kernels",
        rows=rows,
    )


def _subject(rows: pd.DataFrame) -> str:
    """Return what runs below the peak, as a title begins with it: the only kind of product, or their number."""
    kinds = rows.drop_duplicates(["op_type", "input_shapes"])
    if len(kinds) > 1:
        return f"{len(kinds):,} kinds of matrix products run"
    kind, shapes = (str(kinds[name].iloc[0]).strip('"') for name in ("op_type", "input_shapes"))
    return f"One matrix product, {code(f'{kind} {shapes}')}, runs"


RULE = Rule(NAME, "matrix products far below the run's best", check, frozenset({NPU}))
