"""The share of the chip's peak that the whole step uses: the model FLOPs utilization (MFU)."""

from __future__ import annotations

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.device_words import NPU
from npuprof.analysis.efficiency import compute_ns
from npuprof.analysis.kernel_flops import is_of_cube
from npuprof.words.quantities import share

NAME = "utilization"
_LOW = 0.2  # of the peak: training of dense models reaches 0.3 to 0.5


def check(facts: Facts) -> Finding:
    """Fire, as a hint without a gain, if products would take less than a fifth of the step at the chip's peak.

    Each product counts at the peak of its data type. The detail has the figure, and what is not counted, in any state.
    """
    kernels = facts.tables["kernels"]
    if not len(kernels):
        return Finding(NAME, "cannot tell", collect=facts.needs("--activities cpu,npu", level="kernels"))
    if facts.limits is None:
        return Finding(NAME, "cannot tell", collect=facts.needs_limits())
    of_cube = schema.matching(kernels["op_type"], is_of_cube) & facts.in_steps
    duration_ns = kernels["duration_ns"].to_numpy(np.int64)
    peak_ns = compute_ns(facts.efficiency, facts.limits)
    counted = of_cube & ~np.isnan(peak_ns)
    if not of_cube.any():
        return Finding(NAME, "clean", detail="No kernel is a matrix product, a convolution or attention")
    if not counted.any():
        return Finding(NAME, "cannot tell", collect=facts.needs("--shapes", level="shapes of kernels"))
    least_ns = facts.sum_per_step(peak_ns[counted])
    used = least_ns / max(facts.step_ns, 1)
    missing = int(duration_ns[of_cube & ~counted].sum())
    operations = facts.sum_per_step(facts.efficiency["flops"].to_numpy(np.float64)[counted])
    rate = f"{operations / max(facts.step_ns, 1) / 1_000:.1f} TFLOPS"
    parts = [
        f"{rate} over the whole step, the peak is of {_named(facts.limits.name)}",
        "only matrix products, convolutions and attention count, attention by half",
    ]
    if missing:
        parts.append(f"{share(missing, int(duration_ns[of_cube].sum()))} of the products' time has no known operations")
    rows = kernels[counted]
    if used >= _LOW:
        return Finding(NAME, "clean", detail="; ".join(parts))
    return Finding(
        NAME,
        "fires",
        title=f"The step uses {100 * used:.1f} % of the chip's peak (MFU)",
        detail="; ".join(parts),
        action="Fix the other findings first, then try larger batches.",
        table="kernels",
        rows=rows,
    )


def _named(chip: str) -> str:
    return f"a chip {chip}" if chip.startswith("like ") else chip


RULE = Rule(NAME, "the operations of the step beside what the chip can do", check, frozenset({NPU}))
