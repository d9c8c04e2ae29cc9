"""A run of a set: loaded, failed or not read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.ranks.tasks import Failure, Task, unexpected
from npuprof.sources import kineto
from npuprof.sources.base import Decoded
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.decoding import called_as_given, decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.sources.selection import Selection
from npuprof.tables.info import Info

_UNLIKE = 10  # times larger shares are usual where a rank's may have another unit


@dataclass
class Entry:
    """A run of the set."""

    # run, selection: the run, and the selected part of it.
    run: DetectedResult
    info: Info  # the metadata from its small files
    undescribed: str = ""  # the error that prevented reading the metadata, if any
    selection: Selection | None = None
    outcome: Profile | Failure | None = None  # the profile or failure; None before the run is read
    code_root: Path | None = None  # the folder with the code that ran
    chip: str = ""  # the name of the chip that the caller gave; empty for the recorded one

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


def read_entry(entry: Entry) -> Profile:
    """Read a run once."""
    if entry.profile is not None:
        return entry.profile
    try:
        decoded = decode_run(entry.run, None if entry.is_cluster else entry.selection)
    except SourceError as error:
        entry.outcome = Failure(entry.run.named(str(error)))
        if entry.run.unpacked is None:
            raise
        raise SourceError(entry.outcome.problem) from error
    return _keep(entry, decoded)


def read_or_none(entry: Entry) -> Profile | None:
    """Read a run; a failure becomes its outcome."""
    try:
        return read_entry(entry)
    except SourceError:
        return None
    except Exception as error:  # noqa: BLE001 - a fault in reading one run must not lose the others
        entry.outcome = Failure(entry.run.named(unexpected(entry.run.path, error)))
        return None


def _keep(entry: Entry, decoded: Decoded) -> Profile:
    if decoded.info.rank is None or entry.run.is_rank_given:
        decoded.info.rank = entry.info.rank
        kineto.add_transfers(decoded)
    entry.info.rank = decoded.info.rank
    profile = Profile(decoded, entry.code_root)
    profile.info.chip = entry.chip or profile.info.chip
    entry.outcome = profile  # last: an interrupt before leaves the run as not read
    return profile


def read_apart(entries: Sequence[Entry], processes: int) -> None:
    """Read runs in parallel processes."""
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
                _keep(entries[place], outcome)
