"""Inputs of rules over all ranks of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.gains import Gain, Replayed, gain_of
from npuprof.advice.job_member import Member
from npuprof.advice.to_collect import is_unknown
from npuprof.advice.wording import ranks_called
from npuprof.analysis.accounting import WAITS, Accounting, joined
from npuprof.analysis.backlog import Backlog
from npuprof.analysis.device_words import GPU, NONE, NPU, DeviceName
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.rank_absent import Completed, Members, completed, members_of, mostly_here
from npuprof.analysis.rank_fast import Faster, faster
from npuprof.analysis.rank_groups import rank_groups
from npuprof.analysis.rank_joint import MOST, Joint, Part, joint
from npuprof.analysis.rank_kernels import saved_ns
from npuprof.analysis.rank_lanes import Lanes, lanes, overlaps
from npuprof.analysis.rank_links import group_rates, link_suspects, slow_links
from npuprof.analysis.rank_replay import (
    Floats,
    Job,
    before_steps,
    job,
    recorded_moving,
    replay,
    replay_steps,
    unknown_before,
    without_group,
)
from npuprof.analysis.rank_roles import Role, program_of, roles, stages
from npuprof.analysis.rank_stages import or_hosts, uneven
from npuprof.analysis.rank_steps import with_waiting
from npuprof.analysis.rank_suspects import LEAST_STEPS, WORTH, Kind, Once, Suspect, at_most, once, suspects
from npuprof.analysis.rank_variants import Less, step_times, without
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.tables.info import Info
from npuprof.words.quantities import formatted_ranks

_CLOCKS_APART = (
    "synchronise the clocks of the hosts, or call a collective of all ranks in each step: nothing tells how far apart "
    "these clocks are, and so who waits for whom"
)
"""What to do where sends alone join ranks, and do not tell the offset of their clocks."""

_UNPAIRED = (
    "load complete results of {}: their sends and receives do not pair, so that nothing tells when each reached a "
    "message, and who waits for whom"
)
"""What to do where messages lack their other side."""


@dataclass(frozen=True)
class Times:
    """Times of a job in nanoseconds: before each row's collective, and for moving data in each collective."""

    own_ns: Floats
    moving_ns: Floats

    def without(self, faults: Sequence[Suspect]) -> Times:
        """Return the times without some suspects."""
        return Times(*without(self.own_ns, self.moving_ns, [suspect.less for suspect in faults]))


class JobFacts(Facts):
    """A job as seen by rules: figures per step are means over the usual steps of all ranks.

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

    unranked
        The number of runs beside these that have no rank, so that nothing here is about them.

    `groups` has the kind and the ranks of groups that the metadata names, by key; `moved_ns` returns how long transfers
    took in the collectives of some ranks, in order of start; `waits` are the waits of all ranks, if none is absent.
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
        groups: Mapping[str, tuple[str, tuple[int, ...]]] | None = None,
        unranked: int = 0,
        moved_ns: Callable[[], Mapping[int, Int64]] = dict,
        waits: pd.DataFrame | None = None,
    ) -> None:
        tables = {name: next(iter(members)).tables[name].iloc[:0] for name in next(iter(members)).tables}
        info = Info(simulated=simulated, collector=members[0].advice.facts.info.collector)
        info.examination = [
            replace(each, rank=member.rank, spans=())
            for member in members
            for each in member.advice.facts.info.examination
        ]
        super().__init__(tables, info, joined([member.accounting for member in members]))
        self.members = {member.rank: member for member in members}
        self.absent = list(absent)
        self.communication = communication
        self.matrix = matrix
        self.unranked = unranked
        self._played = played
        self._groups = groups or {}
        self._moved_ns = moved_ns
        self._waits = waits

    @cached_property
    def by_part(self) -> pd.DataFrame:
        """The steps of all ranks by part: when the ranks arrived tells waiting from moving where nothing else does."""
        recorded = self.accounting.by_part()
        if self._waits is None or not recorded["communication"].any():
            return recorded
        known = set(self._waits["rank"].tolist())
        return with_waiting(recorded, self._waits) if set(recorded["rank"].tolist()) <= known else recorded

    @cached_property
    def sums(self) -> Int64:
        """The time of each step by part and cause; see :attr:`Facts.sums`."""
        return told_apart(super().sums, self.accounting, self.by_part)

    def taking(self, row: int) -> tuple[int | None, Facts, int]:
        """Return the rank with the most extra time of its own in an outlier; waiting for others does not count."""
        basis = self.basis
        rows = basis.rows[basis.number == basis.number[basis.rows == row][0]]
        own = np.isin(self.accounting.intervals["part"].cat.categories, WAITS, invert=True)
        times = self.sums[:, own].sum(axis=(1, 2))
        ranks = self.accounting.steps["rank"].to_numpy(np.int64, na_value=-1)
        usual = {
            rank: times[of].mean() if len(of := basis.usual_rows[ranks[basis.usual_rows] == rank]) else 0.0
            for rank in np.unique(ranks[rows]).tolist()
        }
        taker = int(max(rows.tolist(), key=lambda at: times[at] - usual[int(ranks[at])]))
        first = np.cumsum([0, *(len(member.accounting.steps) for member in self.members.values())])
        place = int(np.searchsorted(first, taker, side="right")) - 1
        rank = list(self.members)[place]
        return rank, self.members[rank].advice.facts, taker - int(first[place])

    @cached_property
    def backlog(self) -> Backlog | None:
        """How far the device of the rank with the most left to do was behind when its last step ended."""
        known = [late for member in self.members.values() if (late := member.advice.facts.backlog) is not None]
        return max(known, key=lambda late: late.behind_ns, default=None)

    @cached_property
    def device(self) -> DeviceName:
        """The name of the ranks' devices; empty if no rank has one."""
        names = [member.advice.facts.device for member in self.members.values()]
        return next(filter(None, names), NONE)

    @property
    def stacks(self) -> bool:
        """Whether Python calls were recorded on any rank, which slows its host down."""
        return any(len(member.tables["python"]) for member in self.members.values())

    def what_tells(self, cause: str) -> str:
        """Return what to do so that idle time has a cause, on the rank with most of that time and those like it."""
        facts = {rank: member.advice.facts for rank, member in self.members.items()}
        remedies = {rank: each.what_tells(cause) for rank, each in facts.items()}
        remedy = remedies[max(facts, key=lambda rank: _unknown_ns(facts[rank], cause))]
        ranks = [rank for rank in remedies if remedies[rank] == remedy]
        return remedy if len(ranks) == len(remedies) else f"on {ranks_called(ranks)}: {remedy}"

    @cached_property
    def job(self) -> Job | None:
        """The collectives of all ranks, ready for a replay; None if no two ranks have a collective in common."""
        played = self._collectives
        return played if played is not None and played.rows["op"].duplicated().any() else None

    @cached_property
    def _collectives(self) -> Job | None:
        """The collectives of all ranks, also where no two ranks have one in common; None if there are none."""
        try:
            return self._played or job(self.communication)
        except NpuprofError:
            return None

    @cached_property
    def steps(self) -> int:
        """The number of steps with collectives."""
        return max(1, round(len(self.accounting.steps) / max(1, len(self.members))))

    @cached_property
    def hosts(self) -> dict[int, int | str]:
        """The host of each rank, if known."""
        return {rank: member.host for rank, member in self.members.items() if member.host is not None}

    @cached_property
    def lacking(self) -> Members:
        """The operators that lack members."""
        rates = {} if self.slow_links is None else group_rates(self.slow_links)
        names = ("rank", "step", "group", "k", "op_type", "op", "start_ns", "wait_ns", "moving_ns")
        rows = pd.DataFrame(columns=names) if self._collectives is None else self._collectives.rows
        return members_of(rows, self._groups, rates, self._moved_ns)

    @cached_property
    def completed(self) -> Completed | None:
        """The job with the collectives of absent ranks, as far as other ranks show them; None without a job."""
        if self.job is None:
            return None
        moving = recorded_moving(self.job)
        if not len(self.lacking.ops):
            return Completed(self.job if self.lanes is None else self.lanes.job, moving)
        programs = [program_of(self.job, role) for role in roles(self.job, stages(self.job))]
        return completed(self.job, moving, self.lacking, programs)

    @property
    def played(self) -> Job | None:
        """The job that is replayed: with the collectives of absent ranks."""
        return None if self.completed is None else self.completed.job

    @cached_property
    def recorded(self) -> Times:
        """The recorded times before each row of the job that is replayed, and of each of its operators."""
        if self.completed is None:
            return Times(np.zeros(0), np.zeros(0))
        return Times(self.completed.job.rows["own_ns"].to_numpy(np.float64), self.completed.moving_ns)

    @cached_property
    def roles(self) -> list[Role]:
        """Ranks that do the same work."""
        return [] if self.played is None else roles(self.played, self.stages())

    @cached_property
    def once(self) -> list[Once]:
        """What ranks took longer in single steps, the longest first."""
        return [] if self.played is None else once(self.played, self.roles, self.recorded.own_ns)

    @cached_property
    def perhaps_once(self) -> list[Once]:
        """Extra times in one step of a two-step job: usual or not, nothing tells."""
        if self.played is None or len(self.played.steps) >= LEAST_STEPS:
            return []
        return once(self.played, self.roles, self.recorded.own_ns, least_steps=2)

    @cached_property
    def usual(self) -> Times:
        """The recorded times without what happened once, or perhaps did."""
        less = [stall.less for stall in (*self.once, *self.perhaps_once)]
        times = Times(*without(self.recorded.own_ns, self.recorded.moving_ns, less))
        if self.lanes is None or self.played is None or "rare_ns" not in self.played.rows:
            return times
        often = self.recorded.own_ns - self.played.rows["rare_ns"].to_numpy(np.float64)
        return replace(times, own_ns=np.minimum(times.own_ns, often))

    @cached_property
    def slow_links(self) -> pd.DataFrame | None:
        """The slow links by the vendor's sums of transfers; None without them."""
        return slow_links(self.matrix)

    @cached_property
    def _of_ranks(self) -> list[Suspect]:
        """The ranks and groups of ranks that take longer than others, the costliest first."""
        if self.played is None:
            return []
        return suspects(self.played, self.roles, self.usual.own_ns, self._named_groups(), self.unseen)

    def _named_groups(self) -> dict[str, list[int]]:
        """Return the ranks of each host and tensor group, by name."""
        named: dict[str, list[int]] = {}
        for rank, host in self.hosts.items():
            named.setdefault(f"host {host}", []).append(rank)
        rows = self.communication if self.job is None else self.job.rows
        for group in rank_groups(rows, self._groups):
            if group.kind == "tp":
                named[f"tensor group {formatted_ranks(group.ranks)}"] = list(group.ranks)
        return {name: [rank for rank in ranks if rank not in self.unseen] for name, ranks in named.items()}

    @cached_property
    def punctual(self) -> Times:
        """The usual times as if no rank were slow and no host late."""
        return self.usual.without(self._of_ranks)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """What may make the steps longer, at most 16: ranks and groups of ranks, links, and a stage."""
        if self.played is None:
            return []
        either = or_hosts(self.played, self.punctual.own_ns, self.stages(), self.hosts, self._of_ranks)
        even = self.punctual.without(either)
        stage = uneven(self.played, even.own_ns, self.stages(), joined=bool(self.unmatched))
        slow = self.slow_links
        links = [] if slow is None else link_suspects(self.played, slow, self.usual.moving_ns)
        return at_most([*either, *([stage] if stage else []), *links, *self._of_ranks], MOST)

    @cached_property
    def faster(self) -> list[Faster]:
        """The few ranks of each role that are faster than all others, apart from slow ones."""
        return [] if self.played is None else faster(self.roles, self.punctual.own_ns, self.unseen)

    @cached_property
    def joint(self) -> Joint | None:
        """The suspects without which the steps would be shorter; None if no replay can tell."""
        if self.played is None or self._replayed_ns is None or not self.modelled or self.unjoined:
            return None
        return joint(self.played, self.usual.own_ns, self.usual.moving_ns, self.suspects)

    def parts(self, *kinds: Kind) -> list[Part]:
        """Return the named suspects of some kinds; without a replay, all of them with their extra time."""
        named = self._bounded_parts if self.joint is None else self.joint.parts
        return [part for part in named if part.suspect.kind in kinds]

    @cached_property
    def _bounded_parts(self) -> list[Part]:
        """All suspects with their extra time, at most the gain if nobody waits for absent ranks.

        Without the waits of absent ranks and for them no step can be shorter, so that this is an upper limit.
        """
        extra = sum(each.extra_ns for each in self.suspects)
        faster = self.without_absent(self.usual.without(self.suspects))
        gain = self.gain_ns(faster.own_ns, faster.moving_ns, than_ns=self.usual.own_ns)
        most = extra if gain is None or self.unjoined else min(gain, extra)
        return [Part(each, each.extra_ns * most // max(extra, 1), min(each.extra_ns, most)) for each in self.suspects]

    def without_absent(self, times: Times, *, alike: bool = False) -> Times:
        """Return times in which nobody waits for absent ranks, or for work before a rank's first collective.

        With `alike`, nor for what looks like moving data, since it is alike in each step.
        """
        if self.completed is None:
            return times
        own_ns, moving, members = times.own_ns.copy(), times.moving_ns.copy(), self.lacking
        own_ns[unknown_before(self.completed.job)] = 0
        if self.completed.is_added is not None:
            own_ns[self.completed.is_added] = 0
        moving[members.ops] = np.minimum(moving[members.ops], members.surely_ns if alike else members.least_ns)
        return Times(own_ns, moving)

    def gain_of(self, parts: Sequence[Part], *, of_host: bool = False) -> Gain:
        """Return the gain of a step without some of the named suspects, as their part of all."""
        gain = sum(part.share_ns for part in parts)
        whole = 0 if self.joint is None else self.joint.gain_ns
        surely = self.joint is not None and not self.missing and all(part.suspect.surely for part in parts)
        surely = surely and not self.perhaps_once  # without which the others may gain less
        # Where a stage may have slow hosts instead, what the others gain depends on which of both it is.
        surely = surely and not any(part.suspect.names for part in self.parts("stage"))
        least = gain if surely and not (of_host and self.stacks) else 0
        # An absent rank may have waited for these as long as the others did, and have no part in it.
        of_absent = [each for each in self.parts("slow", "late") if set(each.suspect.ranks) <= self.unseen]
        most = gain + sum(each.share_ns for each in of_absent if each not in parts)
        most = max(most, round(gain * self._present_gain_ns / max(whole, 1)))
        if not self.is_serial:
            return self._overlapped_gain(parts, most, of_host=of_host)
        by_step = self.joint.gains_ns * (gain / whole) if self.joint is not None and whole else np.zeros(0)
        by_step_ns = tuple(np.rint(by_step).astype(np.int64).tolist())
        return gain_of(least, most, predicted=surely, sound=self.sound, gains_ns=by_step_ns)

    def _overlapped_gain(self, parts: Sequence[Part], most: int, *, of_host: bool) -> Gain:
        """Return the gain where collectives overlap computing: as the lanes of the ranks tell, else an upper limit."""
        ranks = {rank for part in parts for rank in part.suspect.ranks if part.suspect.kind in ("slow", "late")}
        limits = None if self.lanes is None else self.lanes.gains_ns(ranks)
        if limits is None:
            return gain_of(0, most, checked=False, sound=self.sound)
        low = 0 if of_host and self.stacks else limits[0]
        return gain_of(low, limits[1], predicted=True, checked=False, sound=self.sound)

    @cached_property
    def is_serial(self) -> bool:
        """Whether nothing computes during collectives, so that replays of these in their order are right."""
        return not any(overlaps(member.tables) for member in self.members.values())

    @cached_property
    def lanes(self) -> Lanes | None:
        """The kernels and collectives of all ranks, where these overlap and no rank is absent; else None."""
        if self.is_serial or self.absent or self.job is None:
            return None
        return lanes(self.job, {rank: member.tables for rank, member in self.members.items()})

    def extra_ns(self, suspect: Suspect) -> int | None:
        """Return how much longer a rank of a suspect takes in a step, apart from waits; None if nothing tells."""
        if self.is_serial:
            return suspect.extra_ns
        return None if self.lanes is None else self.lanes.extra_ns(suspect.ranks)

    @cached_property
    def _present_gain_ns(self) -> int:
        """The gain of a step without the named suspects, if absent ranks are not late too."""
        if not self.missing or self.joint is None or self.played is None:
            return 0
        both = self.usual, self.usual.without([part.suspect for part in self.joint.parts])
        early = map(self.without_absent, both)
        before, after = (self.gain_ns(times.own_ns, times.moving_ns) for times in early)
        gain = 0 if before is None or after is None else max(0, after - before)
        return round(gain * self.steps / len(self.played.steps))

    @property
    def missing(self) -> list[int]:
        """The ranks with no recorded collectives, or only some."""
        done = self.completed
        return sorted({*self.absent, *(() if done is None else (*done.added, *done.unknown))})

    @cached_property
    def unseen(self) -> frozenset[int]:
        """Ranks of :attr:`missing` without all collectives of most steps: their work is unknown."""
        seen = [] if self.job is None or self.played is None else mostly_here(self.job, self.played)
        return frozenset(self.missing) - frozenset(seen)

    @cached_property
    def unjoined(self) -> bool:
        """Whether operators whose group is not known take 1 % of the steps: whom they wait for is not known."""
        if self.job is None:
            return False
        rows = self.job.rows[without_group(self.job.rows)]
        return int(rows["moving_ns"].sum()) > WORTH * self.usual_ns * self.steps * len(self.job.ranks)

    @cached_property
    def unmatched(self) -> str:
        """What to do where the two sides of sends are not matched, so that arrivals are not known; empty otherwise.

        Nothing tells who waits for whom then: only the own times of ranks can be compared.
        """
        played = self._collectives
        if played is None:
            return ""
        if played.are_clocks_apart:
            return _CLOCKS_APART
        if played.unpaired is not None:
            return _UNPAIRED.format("ranks {} and {}".format(*played.unpaired))
        return _UNPAIRED.format("all ranks") if not self.missing and played.has_lone_sends else ""

    @property
    def modelled(self) -> bool:
        """Whether the collectives of all absent ranks are known well enough to replay them."""
        return self.completed is not None and set(self.missing) == set(self.completed.added)

    def own_ns(self) -> pd.Series[int]:
        """Return the time outside collectives of each rank and step, as if nothing happened once."""
        if self.played is None:
            return pd.Series(dtype="int64")
        of_rank = pd.Series(self.usual.own_ns).groupby(self.played.rows["rank"].to_numpy(np.int64)).sum()
        return (of_rank // self.steps).astype("int64")

    def gain_ns(
        self, own_ns: Floats | None = None, moving_ns: Floats | None = None, than_ns: Floats | None = None
    ) -> int | None:
        """Return the gain of a step with other own times or transfers; None if a replay fails.

        `than_ns` are the own times to compare with; by default those that were recorded.
        """
        if self.played is None or self._replayed_ns is None:
            return None
        recorded = self.recorded.own_ns, self.recorded.moving_ns
        replayed = partial(replay_steps, self.played, recorded=recorded)
        before = self._replayed_ns if than_ns is None else replayed(than_ns, recorded[1])
        after = replayed(recorded[0] if own_ns is None else own_ns, recorded[1] if moving_ns is None else moving_ns)
        return max(0, round((before - after) / self.steps))

    def replayed_without(self, saved_ns: Int64) -> Replayed | None:
        """Return the gain of a step, and of each, with less time before each collective; None if a replay fails."""
        if self.played is None or self._replayed_ns is None:
            return None
        saved_ns = np.where(before_steps(self.played), 0, saved_ns)
        less = Less(np.arange(len(saved_ns)), saved_ns.astype(np.float64))
        variants, times = np.array([[False], [True]]), self.recorded
        before, after = step_times(self.played, times.own_ns, times.moving_ns, [less], variants)
        gains = before - after
        return Replayed(max(0, round(float(gains.sum()) / self.steps)), tuple(np.rint(gains).astype(np.int64).tolist()))

    @cached_property
    def _replayed_ns(self) -> float | None:
        """The time of a replay of the unchanged job; None if it differs from the recorded time."""
        played = self.played
        if played is None or self.unmatched or self.lanes is not None:
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
        if self.played is None or self.missing:
            return None
        savings = {}
        for rank, member in self.members.items():
            findings = [finding for finding in member.advice.findings if finding.rule in rules]
            if any(finding.state != "cannot tell" for finding in findings):
                saves = [each.saves for each in findings if each.state == "fires" and each.saves is not None]
                savings[rank] = member.advice.facts.savings([each.least() for each in saves] if surely else saves)
        try:
            return saved_ns(savings, self.played)
        except NpuprofError:
            return None

    def stages(self) -> list[list[int]]:
        """Return the pipeline stages, see :func:`npuprof.analysis.rank_roles.stages`."""
        return [] if self.played is None else stages(self.played)


def told_apart(sums: Int64, accounting: Accounting, by_part: pd.DataFrame) -> Int64:
    """Return times of steps by part and cause with waits as in the steps by part; see :attr:`JobFacts.by_part`."""
    parts = [*accounting.intervals["part"].cat.categories]
    told: Int64 = sums.copy()
    for name in WAITS:
        of_part = told[:, parts.index(name)]
        more = by_part[name].to_numpy(np.int64) - of_part.sum(axis=1)
        of_part[more < 0] = 0  # communication that is told apart leaves nothing
        of_part[:, 0] += np.maximum(more, 0)
    return told


@dataclass(frozen=True)
class JobRule:
    """A rule about the ranks of a job together; see :class:`npuprof.advice.finding.Rule`."""

    name: str
    looks_for: str
    check: Callable[[JobFacts], Finding]
    without: Callable[[JobFacts, Times], Times]  # returns the times of a job without the problem that the rule finds
    devices: frozenset[DeviceName] = frozenset((NPU, GPU, NONE))


def _unknown_ns(facts: Facts, unknown: str) -> int:
    return sum(time for part, cause, time in facts.mean_causes if cause == unknown and is_unknown(part, cause))
