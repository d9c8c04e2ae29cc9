"""What a rule concludes of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.advice.facts import Confidence, Facts

State: TypeAlias = Literal["fires", "clean", "cannot tell"]


@dataclass(frozen=True)
class Finding:
    """One conclusion about a run. Times are nanoseconds per step.

    Attributes
    ----------
    rule
        Name of the rule.
    state
        Whether it fires, is clean, or cannot tell.
    title
        What happens, in a few words.
    cost_ns
        Time of a step that it takes.
    gain_lo_ns, gain_hi_ns
        Limits of the time that a step would be shorter without it.
    confidence
        How the limits are known.
    detail
        Where the cost comes from, in one sentence.
    action
        What to do next, with the option or call.
    place
        Source line, rank or collective.
    table, rows
        The evidence: rows of a table of the run, in their order there.
    collect
        What to record so that the rule can decide.
    rank
        The rank whose table the evidence is of, in findings of a job.
    """

    rule: str
    state: State
    title: str = ""
    cost_ns: int = 0
    gain_lo_ns: int = 0
    gain_hi_ns: int = 0
    confidence: Confidence = "bounded"
    detail: str = ""
    action: str = ""
    place: str = ""
    table: str = ""
    rows: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)
    collect: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class Rule:
    """A rule: its name, what it looks for, and the check itself.

    Attributes
    ----------
    name
        Key of its finding, ``advice["host_bound"]``.
    looks_for
        What it detects, in a few words.
    check
        Returns the finding of a run; its ``rule`` is this one's name.
    """

    name: str
    looks_for: str
    check: Callable[[Facts], Finding]
