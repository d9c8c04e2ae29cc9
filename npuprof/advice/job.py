"""Inputs of rules over all ranks of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.to_collect import is_unknown
from npuprof.analysis.accounting import Accounting
from npuprof.analysis.device_words import GPU, NONE, NPU, DeviceName
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.rank_hosts import LateHost, latest_host
from npuprof.analysis.rank_kernels import saved_ns
from npuprof.analysis.rank_replay import Floats, Job, job, recorded_moving, replay
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.info import Info

POINT_TO_POINT = r"send|recv|receive"
"""What the types of sends and receives have in common."""
_MOST_ROWS = 10_000
WORTH = 0.01
"""The share of a step that makes a cause worth a finding."""


@dataclass(frozen=True)
class Member:
    """A rank of a job.

    Attributes
    ----------
    rank
        The rank's number.
    tables, accounting
        The run of the rank.
    advice
        The findings of the rank alone.
    host
        The number or name of the rank's host; None if unknown.
    """

    rank: int
    tables: Mapping[str, pd.DataFrame]
    accounting: Accounting
    advice: Advice
    host: int | str | None = None


def costliest(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the costliest rows of a job, in table order, up to a limit."""
    largest = np.sort(np.argsort(-rows[column].to_numpy(np.int64), kind="stable")[:_MOST_ROWS])
    few: pd.DataFrame = rows.iloc[largest] if len(rows) > _MOST_ROWS else rows
    return few


@dataclass(frozen=True)
class Times:
    """Times of a job in nanoseconds: before each row's collective, and for moving data in each collective."""

    own_ns: Floats
    moving_ns: Floats


class JobFacts(Facts):
    """A job as seen by rules: figures per step are medians over the steps of all ranks.

    Attributes
    ----------
    members
        The ranks that were loaded, by number.
    absent
        The ranks that were not loaded.
    communication
        The collectives of all loaded ranks.
    matrix
        The vendor's sums of transfers between pairs of ranks, with the ranks of the whole job; None without them.
    job
        The collectives ready for a replay; `played` if the caller has it already.
    """

    def __init__(
        self,
        members: Sequence[Member],
        communication: pd.DataFrame,
        absent: Sequence[int],
        *,
        simulated: bool,
        matrix: pd.DataFrame | None = None,
        played: Job | None = None,
    ) -> None:
        tables = {name: next(iter(members)).tables[name].iloc[:0] for name in next(iter(members)).tables}
        info = Info(simulated=simulated, collector=members[0].advice.facts.info.collector)
        super().__init__(tables, info, _join([member.accounting for member in members]))
        self.members = {member.rank: member for member in members}
        self.absent = list(absent)
        self.communication = communication
        self.matrix = matrix
        self._played = played

    @cached_property
    def device(self) -> DeviceName:
        """What the devices of the ranks are called; empty if no rank has one."""
        names = [member.advice.facts.device for member in self.members.values()]
        return next(filter(None, names), NONE)

    @property
    def stacks(self) -> bool:
        """Whether Python calls were recorded on any rank, which slows its host down."""
        return any(len(member.tables["python"]) for member in self.members.values())

    def what_tells(self, cause: str) -> str:
        """Return what to do so that idle time has a cause, on the rank with most of that time."""
        facts = [member.advice.facts for member in self.members.values()]
        return max(facts, key=lambda each: _unknown_ns(each, cause)).what_tells(cause)

    @cached_property
    def job(self) -> Job | None:
        """The collectives of all ranks, ready for a replay; None if no two ranks have a collective in common."""
        try:
            played = self._played or job(self.communication)
        except NpuprofError:
            return None
        return played if played.rows["op"].duplicated().any() else None

    @cached_property
    def steps(self) -> int:
        """The number of steps with collectives."""
        return max(1, round(len(self.accounting.steps) / max(1, len(self.members))))

    def waiting_ns(self) -> int:
        """Return the time per step that a rank waits for others, the median over the ranks."""
        return 0 if self.job is None else int(self.job.rows.groupby("rank")["wait_ns"].sum().median()) // self.steps

    @cached_property
    def hosts(self) -> dict[int, int | str]:
        """The host of each rank, if known."""
        return {rank: member.host for rank, member in self.members.items() if member.host is not None}

    @cached_property
    def late_host(self) -> LateHost | None:
        """The host whose ranks arrive at a collective later than those of other hosts; None if there is none."""
        return None if self.job is None else latest_host(self.job, self.hosts, WORTH * self.step_ns)

    @cached_property
    def recorded(self) -> Times:
        """The recorded times."""
        if self.job is None:
            return Times(np.zeros(0), np.zeros(0))
        return Times(self.job.rows["own_ns"].to_numpy(np.float64), recorded_moving(self.job))

    @property
    def punctual_ns(self) -> Floats:
        """The time before each row's collective as if no host were late, which is a finding of its own."""
        if self.late_host is not None:
            return self.late_host.own_ns
        return self.recorded.own_ns

    def own_ns(self) -> pd.Series[int]:
        """Return the time outside collectives of each rank and step, as if no host were late."""
        if self.job is None:
            nothing: pd.Series[int] = pd.Series(dtype="int64")
            return nothing
        of_rank = pd.Series(self.punctual_ns).groupby(self.job.rows["rank"].to_numpy(np.int64)).sum()
        sums: pd.Series[int] = (of_rank // self.steps).astype("int64")
        return sums

    def gain_ns(
        self, own_ns: Floats | None = None, moving_ns: Floats | None = None, than_ns: Floats | None = None
    ) -> int | None:
        """Return the gain of a step with other own times or transfers; None if a replay fails.

        `than_ns` are the own times to compare with; by default those that were recorded.
        """
        if self.job is None or self._replayed_ns is None:
            return None
        recorded = self.recorded
        before = self._replayed_ns if than_ns is None else replay(self.job, than_ns, recorded.moving_ns)
        changed = replay(
            self.job,
            recorded.own_ns if own_ns is None else own_ns,
            recorded.moving_ns if moving_ns is None else moving_ns,
        )
        return max(0, round((before - changed) / self.steps))

    @cached_property
    def _replayed_ns(self) -> float | None:
        """The time of a replay of the unchanged job; None if it differs from the recorded time."""
        played = self.job
        if played is None:
            return None
        try:
            unchanged = replay(played, self.recorded.own_ns, self.recorded.moving_ns)
        except NpuprofError:
            return None
        return None if abs(unchanged - played.window_ns) > TOLERANCE * played.window_ns else unchanged

    def saved_ns(self, rules: Sequence[str], *, surely: bool = False) -> Int64 | None:
        """Return how much less time would pass before each row's collective without what rules found on single ranks.

        With `surely`, only what is saved for sure counts. A rank on which these rules cannot tell gets the savings of
        a rank with the same collectives. None if a replay cannot tell: of a job without all its ranks, or where the
        rules cannot tell on any such rank.
        """
        if self.job is None or self.absent:
            return None
        savings = {}
        for rank, member in self.members.items():
            findings = [finding for finding in member.advice.findings if finding.rule in rules]
            if any(finding.state != "cannot tell" for finding in findings):
                saves = [each.saves for each in findings if each.state == "fires" and each.saves is not None]
                savings[rank] = member.advice.facts.savings([each.least() for each in saves] if surely else saves)
        try:
            return saved_ns(savings, self.job)
        except NpuprofError:
            return None

    def stages(self) -> list[list[int]]:
        """Return the pipeline stages: ranks that exchange data with each other only by collectives.

        Ranks that send to each other, through any others, are of different stages of one pipeline. A collective of
        ranks of one pipeline, such as that of all ranks, says nothing.
        """
        if self.job is None:
            return []
        rows = self.job.rows[["rank", "group", "op_type"]].drop_duplicates()
        sends = rows["op_type"].str.contains(POINT_TO_POINT, case=False, regex=True)
        senders, groups = (
            [set(members["rank"]) for _, members in some.groupby("group", observed=True)]
            for some in (rows[sends], rows[~sends])
        )
        pipeline = _components(rows["rank"], senders)
        apart = [members for members in groups if len({pipeline[rank] for rank in members}) == len(members)]
        if not sends.any():
            apart = groups
        stage = _components(rows["rank"], apart)
        return [sorted(rank for rank in stage if stage[rank] == number) for number in sorted(set(stage.values()))]

    @property
    def peers(self) -> list[list[int]]:
        """Groups of ranks that run the same collectives in the same order."""
        return [] if self.job is None else self.job.peers


@dataclass(frozen=True)
class JobRule:
    """A rule about the ranks of a job together; see :class:`npuprof.advice.finding.Rule`.

    Attributes
    ----------
    without
        Returns the times of a job without the problem that the rule finds.
    """

    name: str
    looks_for: str
    check: Callable[[JobFacts], Finding]
    without: Callable[[JobFacts, Times], Times]
    devices: frozenset[DeviceName] = frozenset((NPU, GPU, NONE))


def _unknown_ns(facts: Facts, unknown: str) -> int:
    return sum(time for part, cause, time in facts.mean_causes if cause == unknown and is_unknown(part, cause))


def _components(ranks: pd.Series[int], groups: Sequence[set[int]]) -> dict[int, int]:
    """Return for each rank the lowest rank that it is connected with."""
    lowest = {rank: rank for rank in sorted(set(ranks.tolist()))}
    for group in groups:
        roots = {lowest[rank] for rank in group}
        lowest = {rank: min(roots) if root in roots else root for rank, root in lowest.items()}
    return lowest


def _join(parts: Sequence[Accounting]) -> Accounting:
    """Return the steps of all ranks as one accounting."""
    first = np.cumsum([0, *(len(part.steps) for part in parts)])
    causes = sorted({cause for part in parts for cause in part.intervals["cause"].cat.categories})
    intervals = [
        rows.assign(row=rows["row"] + begin, cause=rows["cause"].cat.set_categories(causes))
        for rows, begin in zip((part.intervals for part in parts), first, strict=False)
    ]
    unmeasured = {cause: reason for part in parts for cause, reason in part.unmeasured.items()}
    steps: pd.DataFrame = pd.concat([part.steps for part in parts], ignore_index=True)
    return replace(parts[0], steps=steps, intervals=pd.concat(intervals, ignore_index=True), unmeasured=unmeasured)
