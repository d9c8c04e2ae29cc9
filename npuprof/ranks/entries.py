"""A run of a set: loaded, failed or not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median_high

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.quantities import formatted_ranks
from npuprof.ranks.tasks import Failure, Task, unexpected
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.columns.shares import MOST_OF_A_FRACTION, SHARES
from npuprof.sources.decoding import called_as_given, decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.sources.selection import Selection
from npuprof.tables import matching

_UNLIKE = 10  # times larger shares are usual where a rank's may have another unit


@dataclass
class Entry:
    """A run of the set.

    Attributes
    ----------
    run, selection
        The run, and the selected part of it.
    info
        The metadata from its small files.
    undescribed
        The error that prevented reading the metadata, if any.
    outcome
        The profile or failure; None before the run is read.
    """

    run: DetectedResult
    info: Info
    undescribed: str = ""
    selection: Selection | None = None
    outcome: Profile | Failure | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether it is the vendor's analysis of all ranks."""
        return self.run.source.of_many_runs or self.info.source == CLUSTER_ANALYSIS  # which was saved

    @property
    def profile(self) -> Profile | None:
        """The profile, once read."""
        return self.outcome if isinstance(self.outcome, Profile) else None

    @property
    def problem(self) -> str:
        """The reason why the run cannot be read or described; empty if there is none."""
        if isinstance(self.outcome, Failure):
            return self.outcome.problem
        return self.undescribed if self.outcome is None else ""

    @property
    def known(self) -> Info:
        """The most complete metadata."""
        return self.info if self.profile is None else self.profile.info

    @property
    def state(self) -> str:
        """``loaded``, ``failed`` or ``found``; see ``ProfileSet.info``."""
        if self.problem:
            return "failed"
        return "found" if self.profile is None else "loaded"


def note_sessions(entries: Sequence[Entry], notes: Notes) -> None:
    """Note ranks with several runs: how many, whether other ranks have as many, and which runs are copies."""
    of_ranks = Counter(entry.info.rank for entry in entries if entry.info.rank is not None)
    if max(of_ranks.values(), default=0) < 2:
        return
    shown = "the newest is runs[rank], tables of the set hold all; their column `run` and at(row) separate them"
    by_count = {count: [rank for rank in of_ranks if of_ranks[rank] == count] for count in sorted({*of_ranks.values()})}
    if len(by_count) == 1:
        notes.info("ranks", f"each rank has {max(by_count)} runs: {shown}", len(of_ranks))
    else:
        counts = "; ".join(f"{count} of rank {formatted_ranks(ranks)}" for count, ranks in by_count.items())
        several = sum(len(ranks) for count, ranks in by_count.items() if count > 1)
        notes.warning("ranks", f"ranks have different numbers of runs, so that sums differ: {counts}; {shown}", several)
    starts = Counter((entry.info.rank, entry.info.started_ns) for entry in entries)
    for (rank, start_ns), count in starts.items():
        if rank is not None and start_ns is not None and count > 1:
            twice = "runs of this rank began at the same nanosecond: they are copies of one, which the set counts again"
            notes.warning(f"rank {rank}", twice, count)


def note_other_steps(steps: Mapping[int, frozenset[int]], notes: Notes) -> None:
    """Note ranks whose steps have other numbers than those of most ranks.

    Parameters
    ----------
    steps
        The step numbers of each rank.
    notes
        Receives a note for each set of numbers.
    """
    by_numbers: dict[frozenset[int], list[int]] = {}
    for rank, numbers in steps.items():
        by_numbers.setdefault(numbers, []).append(rank)
    usual, *others = sorted(by_numbers, key=lambda numbers: -len(by_numbers[numbers])) or [frozenset[int]()]
    for numbers in others:
        ranks = by_numbers[numbers]
        has = "rank {} has" if len(ranks) == 1 else "ranks {} have"
        notes.warning(
            "steps",
            f"{has.format(formatted_ranks(ranks))} the steps {formatted_ranks(numbers)}, other ranks "
            f"{formatted_ranks(usual)}: collectives are joined by step number, so waits and clocks are wrong if equal "
            "numbers are not the same step",
            len(ranks),
        )


def note_other_units(entries: Sequence[Entry], notes: Notes) -> None:
    """Warn of ranks whose hit rates or shares of ports are a hundredth of other ranks': their unit may be wrong."""
    largest: dict[str, dict[int, float]] = {}
    for entry in entries:
        if entry.profile is None or entry.known.rank is None:
            continue
        counters = entry.profile.tables["counters"]
        shares = counters[matching(counters["counter"], lambda name: name.endswith(SHARES))]
        for name, value in shares.groupby("counter", observed=True)["value"].max().items():
            if value > 0:
                largest.setdefault(str(name), {})[entry.known.rank] = float(value)
    for name, of_ranks in largest.items():
        usual = median_high(of_ranks.values())
        small = sorted(rank for rank, value in of_ranks.items() if value < MOST_OF_A_FRACTION < usual / _UNLIKE)
        if small:
            shown = max(of_ranks[rank] for rank in small)
            notes.warning(
                f"rank {formatted_ranks(small)}",
                f"{name} reaches {shown:.3g} %, and {usual:.3g} % on the other ranks: if their files differ in the "
                "unit, it is 100 times too low",
                len(small),
            )


def describe(run: DetectedResult, selection: Selection | None) -> Entry:
    """Make the entry of a run, with the metadata from its small files."""
    try:
        info = run.describe()
    except (SourceError, OSError) as error:
        rank = None if run.source.of_many_runs else run.rank_of_path
        return Entry(run, Info(name=run.path.name, rank=rank), undescribed=run.named(str(error)), selection=selection)
    if run.source.of_many_runs:
        info.rank = None  # even if the folder's name suggests a rank
    return Entry(run, info, selection=selection)


def read(entry: Entry) -> Profile:
    """Read a run once.

    Raises
    ------
    SourceError
        If it cannot be read.
    """
    if entry.profile is not None:
        return entry.profile
    try:
        profile = Profile(decode_run(entry.run, None if entry.is_cluster else entry.selection))
    except SourceError as error:
        entry.outcome = Failure(entry.run.named(str(error)))
        if entry.run.unpacked is None:
            raise
        raise SourceError(entry.outcome.problem) from error
    return _keep(entry, profile)


def read_or_none(entry: Entry) -> Profile | None:
    """Read a run; a failure becomes its outcome."""
    try:
        return read(entry)
    except SourceError:
        return None
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        entry.outcome = Failure(entry.run.named(unexpected(entry.run.path, error)))
        return None


def _keep(entry: Entry, profile: Profile) -> Profile:
    if profile.info.rank is None:
        profile.info.rank = entry.info.rank
    entry.info.rank = profile.info.rank
    entry.outcome = profile  # last: an interrupt before leaves the run as not read
    return profile


def read_apart(entries: Sequence[Entry], processes: int) -> None:
    """Read runs in parallel processes.

    Raises
    ------
    NoProcessesError
        If no process can be started; runs that were read before stay.
    """
    from npuprof.ranks.processes import Processes  # importing loky takes as long as loading a small run

    tasks = [
        Task(entry.run.source.name, entry.run.path.absolute(), None if entry.is_cluster else entry.selection)
        for entry in entries
    ]
    with Processes(processes) as pool, closing(pool.decode(tasks)) as outcomes:
        for place, outcome in outcomes:
            if isinstance(outcome, Failure):
                entries[place].outcome = Failure(entries[place].run.named(outcome.problem))
            else:
                called_as_given(outcome, entries[place].run)
                _keep(entries[place], Profile(outcome))
