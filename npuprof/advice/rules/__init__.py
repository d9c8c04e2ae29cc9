"""The rules, in order of their usual value. A new one is a file like its neighbours, and a line here."""

from __future__ import annotations

from npuprof.advice.rules import (
    ai_cpu,
    copies,
    exposed_communication,
    first_step,
    host_bound,
    layout_and_casts,
    small_kernels,
    waiting,
)

RULES = (
    host_bound.RULE,
    waiting.RULE,
    exposed_communication.RULE,
    copies.RULE,
    ai_cpu.RULE,
    layout_and_casts.RULE,
    small_kernels.RULE,
    first_step.RULE,
)
