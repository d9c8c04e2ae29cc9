"""The rules about the ranks of a job together. To add a rule, add a file like the others and a line here."""

from __future__ import annotations

from npuprof.advice.job_rules import (
    absent_ranks,
    exposed_communication,
    fast_rank,
    late_host,
    outliers,
    pipeline_bubble,
    pipeline_imbalance,
    slow_link,
    slow_rank,
    stall,
    waiting,
)

JOB_RULES = (
    absent_ranks.RULE,
    pipeline_imbalance.RULE,
    pipeline_bubble.RULE,
    slow_rank.RULE,
    fast_rank.RULE,
    late_host.RULE,
    outliers.RULE,
    stall.RULE,
    slow_link.RULE,
    waiting.RULE,
    exposed_communication.RULE,
)
