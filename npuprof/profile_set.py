"""A set of profiles: the runs below one directory, one entry a rank and session, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd

from npuprof import tables
from npuprof.errors import NpuprofError, SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.profiles import Profile, read_run
from npuprof.sources.describing import describe_run
from npuprof.sources.detect import Run
from npuprof.sources.stacking import stacked

_MAX_SHOWN = 40


@dataclass
class _Entry:
    """One run of the set: what its small files tell, and its profile once it was read."""

    run: Run
    info: Info
    profile: Profile | None = None
    problem: str = ""

    @property
    def state(self) -> str:
        if self.problem:
            return "failed"
        return "found" if self.profile is None else "loaded"


class ProfileSet:
    """The runs below one directory.

    ``runs[rank]`` is the :class:`~npuprof.profiles.Profile` of a rank, ``runs.at(row)`` that of a row of
    :attr:`info`; iterating gives every profile that can be read. Each is read once, when it is first asked for.

    Parameters
    ----------
    root
        The directory.
    runs
        What was recognised below it.
    problems
        What was left out while looking, in plain words.
    """

    def __init__(self, root: Path, runs: Sequence[Run], problems: Sequence[str] = ()) -> None:
        self.root = root
        self._problems = list(problems)
        self._entries = sorted((_describe(run) for run in runs), key=_place)

    @property
    def info(self) -> pd.DataFrame:
        """A row for each run, by rank and start: rank, path, front_end, source, started, state and problem.

        `state` is ``found`` before a run was read, then ``loaded`` or ``failed``; `path` is below the directory.
        """
        started = [entry.info.started_ns for entry in self._entries]
        frame: pd.DataFrame = pd.DataFrame(
            {
                "rank": pd.array([entry.info.rank for entry in self._entries], dtype="Int64"),
                "path": [_below(entry.run.path, self.root) for entry in self._entries],
                "front_end": [entry.info.collector or entry.run.name for entry in self._entries],
                "source": [entry.info.source or entry.run.name for entry in self._entries],
                "started": pd.to_datetime(pd.array(started, dtype="Int64"), unit="ns", utc=True),
                "state": [entry.state for entry in self._entries],
                "problem": [entry.problem for entry in self._entries],
            }
        )
        return frame

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a run, in order."""
        return sorted({entry.info.rank for entry in self._entries if entry.info.rank is not None})

    @property
    def failed(self) -> dict[int | str, str]:
        """Why runs could not be read, by rank, or by path where no rank is known; those not read yet are not here."""
        return {
            _below(entry.run.path, self.root) if entry.info.rank is None else entry.info.rank: entry.problem
            for entry in self._entries
            if entry.problem
        }

    @property
    def absent(self) -> list[int]:
        """The ranks below the highest known number, or the world size that a file tells, without a run."""
        told = [_world_size(entry.info) for entry in self._entries]
        return sorted(set(range(max([*told, *(rank + 1 for rank in self.ranks)], default=0))) - set(self.ranks))

    @property
    def notes(self) -> pd.DataFrame:
        """What was left out while looking, which ranks are absent or failed: severity, source, message, count."""
        notes = Notes()
        for problem in self._problems:
            notes.warning(self.root.name, problem)
        for rank in self.absent:
            notes.warning(f"rank {rank}", "there is no run of this rank")
        for which, problem in self.failed.items():
            notes.error(f"rank {which}" if isinstance(which, int) else which, problem)
        return notes.to_frame()

    def at(self, row: int) -> Profile:
        """Read the run of a row of :attr:`info`.

        Raises
        ------
        SourceError
            If nothing of it can be read; it is told in :attr:`failed` from then on.
        IndexError
            If there is no such row.
        """
        return _read(self._entries[row])

    def table(self, name: str) -> pd.DataFrame:
        """Stack one table of every run that can be read, with the columns `rank` and `run` (a row of :attr:`info`).

        Raises
        ------
        NpuprofError
            If there is no table of that name.
        """
        if name not in tables.NAMES:
            raise NpuprofError(f"there is no table {name!r}; the tables are {', '.join(tables.NAMES)}")
        frames = []
        for row, entry in enumerate(self._entries):
            profile = _read_or_none(entry)
            if profile is not None and len(profile.tables[name]):
                frame = profile.tables[name].assign(run=row)
                frames.append(frame.assign(rank=pd.array([entry.info.rank] * len(frame), dtype="Int64")))
        if frames:
            return stacked(frames)
        nothing: pd.DataFrame = tables.empty(name).assign(
            run=pd.array([], dtype="int64"), rank=pd.array([], dtype="Int64")
        )
        return nothing

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Profile]:
        for entry in self._entries:
            profile = _read_or_none(entry)
            if profile is not None:
                yield profile

    def __contains__(self, rank: object) -> bool:
        return rank in self.ranks

    def __getitem__(self, rank: int) -> Profile:
        """Read the newest session of a rank.

        Raises
        ------
        KeyError
            If the rank has no run.
        SourceError
            If nothing of its run can be read.
        """
        own = [entry for entry in self._entries if entry.info.rank == rank]
        if not own:
            raise KeyError(
                f"rank {rank} has no run here; there are {self.ranks or 'none with a known rank: use at(row)'}"
            )
        return _read(own[-1])

    def __repr__(self) -> str:
        shown = self.info.head(_MAX_SHOWN).to_string()
        more = f"\n... and {len(self) - _MAX_SHOWN} more" if len(self) > _MAX_SHOWN else ""
        absent = f"\nabsent ranks: {self.absent}" if self.absent else ""
        return f"{len(self)} runs below {self.root}\n{shown}{more}{absent}"

    def _repr_html_(self) -> str:
        shown = self.info.head(_MAX_SHOWN).to_html(escape=True, border=0)
        more = f"<p>... and {len(self) - _MAX_SHOWN} more</p>" if len(self) > _MAX_SHOWN else ""
        absent = f"<p>absent ranks: {self.absent}</p>" if self.absent else ""
        return f"<p>{len(self)} runs below {escape(str(self.root))}</p>{shown}{more}{absent}"


def _describe(run: Run) -> _Entry:
    try:
        return _Entry(run, describe_run(run.name, run.source, run.path))
    except (SourceError, OSError) as error:
        return _Entry(run, Info(name=run.path.name), problem=str(error))


def _read(entry: _Entry) -> Profile:
    if entry.profile is None:
        try:
            entry.profile = read_run(entry.run)
        except SourceError as error:
            entry.problem = str(error)
            raise
        entry.problem = ""
        if entry.profile.info.rank is None:
            entry.profile.info.rank = entry.info.rank
    return entry.profile


def _read_or_none(entry: _Entry) -> Profile | None:
    """Read a run; one that cannot be read is told in `failed`."""
    try:
        return _read(entry)
    except SourceError:
        return None


def _place(entry: _Entry) -> tuple[bool, int, int, str]:
    rank = entry.info.rank
    return rank is None, rank or 0, entry.info.started_ns or 0, str(entry.run.path)


def _below(path: Path, root: Path) -> str:
    try:
        return str(path.relative_to(root))
    except ValueError:  # reached by a link
        return str(path)


def _world_size(info: Info) -> int:
    told = info.metadata.get("distributed_args")
    size = told.get("world_size") if isinstance(told, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= 1_000_000 else 0
