"""What answers about a job need of the set of its ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pandas as pd

from npuprof.analysis.rank_replay import Job
from npuprof.info import Info
from npuprof.profiles import Profile
from npuprof.ranks.clocks import Boot
from npuprof.ranks.entries import Entry
from npuprof.ranks.scan import Scan
from npuprof.sources.base import PartName


class Members(Protocol):
    """The runs of a job's ranks; see :class:`npuprof.ranks.profile_set.ProfileSet`."""

    root: Path
    _entries: list[Entry]
    _scans: dict[PartName, Scan | None]
    _seen: dict[PartName, Scan]

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a run, ascending."""

    @property
    def absent(self) -> list[int]:
        """The ranks that some file refers to, but that have no run."""

    @property
    def notes(self) -> pd.DataFrame:
        """Problems of the set, see :attr:`npuprof.ranks.profile_set.ProfileSet.notes`."""

    def __len__(self) -> int: ...

    def __getitem__(self, rank: int) -> Profile: ...

    def _read_small_files(self) -> None: ...

    def _boots(self) -> list[Boot | None]: ...

    def _communication(self) -> pd.DataFrame: ...

    def _job(self) -> Job | None: ...

    def _pieces(self, part: PartName) -> dict[int, pd.DataFrame]: ...

    def _newest(self) -> dict[int, int]: ...

    def _step_parts(self, *, newest: bool = False) -> pd.DataFrame: ...

    def _hosts_of_ranks(self) -> dict[int, int | str]: ...

    def _matrix(self) -> pd.DataFrame: ...

    def _merged_info(self) -> Info: ...

    def _transfers(self) -> list[tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]]: ...

    def _pipeline(self, number: int, step: int | None) -> tuple[pd.DataFrame, str]: ...
