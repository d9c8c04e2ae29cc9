"""The rules, in order of their usual value. To add a rule, add a file like the others and a line here."""

from __future__ import annotations

from npuprof.advice.rules import (
    ai_cpu,
    between_steps,
    copies,
    cube_efficiency,
    environment,
    exposed_communication,
    first_step,
    fusible_repeats,
    host_bound,
    layout_and_casts,
    memory_peak,
    recompute,
    slow_link,
    small_comm,
    small_kernels,
    unused_cores,
    waiting,
)

RULES = (
    host_bound.RULE,
    between_steps.RULE,
    waiting.RULE,
    exposed_communication.RULE,
    slow_link.RULE,
    copies.RULE,
    ai_cpu.RULE,
    layout_and_casts.RULE,
    fusible_repeats.RULE,
    cube_efficiency.RULE,
    unused_cores.RULE,
    recompute.RULE,
    small_kernels.RULE,
    small_comm.RULE,
    memory_peak.RULE,
    first_step.RULE,
    environment.RULE,
)
