"""Findings: the conclusions of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.gains import Confidence, Saves
from npuprof.analysis.device_words import GPU, NONE, NPU, DeviceName
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.noise.model import Estimate, mean
from npuprof.words.quantities import counted, duration
from npuprof.words.texts import plain_line

if TYPE_CHECKING:
    from ipywidgets import Widget

_LEAST_STEPS = 2  # of which noise can be told
_WAY_TO_IDEAL = 10  # parts, of which a finding is expected to gain one beyond what is sure

State: TypeAlias = Literal["fires", "clean", "cannot tell"]


@dataclass(frozen=True)
class Finding:
    """A conclusion about a run. Times are nanoseconds per step.

    Attributes
    ----------
    rule
        Name of the rule.
    state
        Whether it fires, is clean, or cannot tell.
    title
        What is wrong and where, in about 12 words; code is in backticks.
    cost_ns
        Time of a step that the problem takes.
    gain_lo_ns, gain_hi_ns
        Limits of how much shorter a step would be without the problem.
    confidence
        The origin of the limits: measured or bounded.
    detail
        The sources of the cost, in one sentence.
    action
        One thing to do about it, in at most 15 words; code is in backticks.
    place
        Source line, rank or collective.
    lines
        File and line of the user's code that it concerns, the costliest first.
    cause
        The entry of the table of causes that title and action are from; empty for other findings.
    table, rows
        The evidence: rows of a table of the run, in table order.
    collect
        The options to collect with, so that the rule can decide.
    rank
        The rank whose table has the evidence, in findings of a job.
    parts
        The parts of the step that the finding is about; empty if it is about the time of its evidence.
    saves
        What the gain was replayed without; None if no replay was tried.
    explore
        Opens the explorer of the run at a finding's evidence; see :meth:`show`.
    gains_ns
        The replayed gain of each step, if its mean is measured.
    of_outliers
        Whether its times are what outliers add to the mean step, and not parts of the usual step.
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
    lines: tuple[tuple[str, int], ...] = ()
    cause: str = ""
    table: str = ""
    rows: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)
    collect: str = ""
    rank: int | None = None
    parts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    saves: Saves | None = field(default=None, repr=False, compare=False)
    explore: Callable[[Finding], Widget] | None = field(default=None, repr=False, compare=False)
    gains_ns: tuple[int, ...] = field(default=(), repr=False, compare=False)
    of_outliers: bool = field(default=False, repr=False, compare=False)

    def gains_at_least(self, least_ns: float) -> bool | None:
        """Return whether a step may gain so much; None if the 95 % interval of its replayed gain does not tell.

        A gain that is not measured, or in one step only, is taken by its upper limit.
        """
        if self.state != "fires" or self.gain_hi_ns <= 0:
            return False
        if self.confidence != "measured" or len(self.gains_ns) < _LEAST_STEPS:
            return self.gain_hi_ns >= least_ns
        noise = mean(np.array(self.gains_ns, np.float64)[None, None])
        low, high = Estimate(np.array([float(self.gain_hi_ns)]), noise.error, noise.freedom).bounds()
        return True if low[0] >= least_ns else False if high[0] < least_ns else None

    def __repr__(self) -> str:
        what = self.title or self.detail or self.collect
        costs = f"costs {duration(self.cost_ns)} of a step" if self.cost_ns else ""
        gain = f", {self.gain}" if self.gain else ""
        return plain_line(f"<Finding {': '.join(filter(None, [f'{self.rule} {self.state}', what, costs]))}{gain}>")

    @property
    def gain(self) -> str:
        """The gain as text: ``−6.75 ms`` if measured, else ``up to −6.75 ms`` or an interval; empty if unknown."""
        low, high = duration(self.gain_lo_ns), duration(self.gain_hi_ns)
        if not self.gain_hi_ns:
            return ""
        if low == high:
            return f"−{high}"
        if not self.gain_lo_ns:
            return f"up to −{high}"
        (number, unit), (_, other) = low.split(), high.split()
        return f"−{number if unit == other else low} to −{high}"

    @property
    def method(self) -> str:
        """Where the gain comes from, in one sentence; empty without a gain."""
        if not self.gain_hi_ns:
            return ""
        if self.confidence == "measured":
            return "Measured: a replay of the recorded run without it."
        if self.saves is None:
            return "An upper limit: all of the time that it takes."
        return "Bounded by replays of the recorded run without it."

    @property
    def expected_ns(self) -> int:
        """The expected gain that orders findings: a tenth of the way from its lower to its upper limit.

        An upper limit is an ideal, such as communication that is hidden completely: what is measured stands before it,
        unless it is far less.
        """
        return self.gain_lo_ns + (self.gain_hi_ns - self.gain_lo_ns) // _WAY_TO_IDEAL

    @property
    def is_risk(self) -> bool:
        """Whether it fires without a gain to measure, as of memory that is nearly full; a replayed 0 is no risk."""
        return self.state == "fires" and not self.gain_hi_ns and self.confidence != "measured"

    @property
    def where(self) -> str:
        """The number of rows of evidence and their table, ``27 rows of run.operators``; empty without evidence."""
        if not len(self.rows):
            return ""
        of = "runs.waits()" if self.table == "waits" else f"run.{self.table}"
        of = of.replace("run.", f"runs[{self.rank}].") if self.rank is not None else of
        return f"{counted(len(self.rows), 'row')} of {of}"

    def costs(self) -> Int64:
        """Return the cost of each row of the evidence in nanoseconds: as counted by the rule, or else its duration."""
        whole = "wait_ns" if self.table == "waits" else "duration_ns"
        columns = [name for name in ("idle_ns", "exposed_ns", "moving_ns", whole) if name in self.rows]
        return self.rows[columns[0]].to_numpy(np.int64) if columns else np.zeros(len(self.rows), np.int64)

    def show(self) -> Widget:
        """Return the explorer at the evidence, highlighted in the timeline with the costliest row in the middle.

        Raises
        ------
        NpuprofError
            If there is no evidence to show.
        """
        if self.explore is None or not len(self.rows):
            reason = {"fires": "names no rows", "clean": "is clean", "cannot tell": "cannot tell"}[self.state]
            reason = "belongs to no run" if self.explore is None else reason
            raise NpuprofError(f"{self.rule} has no evidence to show, since it {reason}: .detail and .collect say more")
        return self.explore(self)


@dataclass(frozen=True)
class Rule:
    """A rule: its name, the problem it looks for, and the check itself.

    Attributes
    ----------
    name
        The key of its finding, ``advice["host_bound"]``.
    looks_for
        The problem that the rule detects, in a few words.
    check
        Returns the finding of a run, or several; their ``rule`` is the name of this rule.
    devices
        The devices whose runs it can judge, by name; empty for runs of the host alone.
    """

    name: str
    looks_for: str
    check: Callable[[Facts], Finding | list[Finding]]
    devices: frozenset[DeviceName] = frozenset((NPU, GPU, NONE))
