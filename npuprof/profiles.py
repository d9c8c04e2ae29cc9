"""A profile: the tables of one run, what is known of it, and the figures that show it."""

from __future__ import annotations

import json
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from npuprof import tables
from npuprof.errors import NpuprofError, OptionsError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources import saved
from npuprof.sources.base import Decoded
from npuprof.sources.detect import Preference, Run, detect

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.analysis.summary import Summary
    from npuprof.profile_set import ProfileSet

_PAGE_FIGURES_BYTES = 20 << 20  # a page of its own has room for every detail that the figures can show


class Profile:
    """One run: its tables as attributes (``run.kernels``), ``info``, ``notes`` and figures.

    Every table of :data:`npuprof.tables.SCHEMA` is present; one that the run does not have is empty.

    Attributes
    ----------
    tables
        The frames by name.
    info
        Where the run came from, see :class:`npuprof.info.Info`.
    statistics
        Frames that the vendor had already summed, by file name without suffix.
    """

    steps: pd.DataFrame
    python: pd.DataFrame
    operators: pd.DataFrame
    api: pd.DataFrame
    tasks: pd.DataFrame
    kernels: pd.DataFrame
    communication: pd.DataFrame
    communication_tasks: pd.DataFrame
    links: pd.DataFrame
    overlap: pd.DataFrame
    step_times: pd.DataFrame
    memory: pd.DataFrame
    allocations: pd.DataFrame
    counters: pd.DataFrame
    marks: pd.DataFrame

    def __init__(self, decoded: Decoded) -> None:
        self.tables = {name: decoded.tables.get(name, tables.empty(name)) for name in tables.NAMES}
        self.info: Info = decoded.info
        self.statistics = decoded.statistics
        self._notes: Notes = decoded.notes
        # Plain attributes, so that editors complete them and type checkers know them.
        self.__dict__.update(self.tables)

    @property
    def notes(self) -> pd.DataFrame:
        """What was repaired, skipped or could not be known: severity, source, message, count."""
        return self._notes.to_frame()

    @cached_property
    def summary(self) -> Summary:
        """The key figures of the run."""
        from npuprof.analysis.summary import summarise

        return summarise(self.tables, self.info)

    def timeline(self, **window: Any) -> go.Figure:
        """Draw the timeline; see :func:`npuprof.figures.timeline.timeline`."""
        from npuprof.figures.timeline import timeline

        return timeline(self.tables, self.info, **window)

    def flamegraph(self, **how: Any) -> go.Figure:
        """Draw the flame graph; see :func:`npuprof.figures.flamegraph.flamegraph`."""
        from npuprof.figures.flamegraph import flamegraph

        return flamegraph(self.tables, self.info, **how)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write one self-contained page with the summary, both figures and the notes; return its path."""
        from npuprof.exports.html import page_html
        from npuprof.figures.report import report_figures

        timeline, flame = report_figures(self.tables, self.info, limit_bytes=_PAGE_FIGURES_BYTES)
        page = page_html(self.summary, self.info, self.notes, {"Timeline": timeline, "Flame graph": flame})
        target = Path(path)
        target.write_text(page, encoding="utf-8")
        return target

    def save(self, path: str | PathLike[str]) -> Path:
        """Save the profile as a directory of Parquet files, which ``npuprof.load`` reads back.

        Raises
        ------
        NpuprofError
            If the directory exists and is not empty.
        """
        directory = Path(path)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise NpuprofError(f"{directory} is not empty: choose a new directory to save the profile in")
        for name, frame in self.tables.items():
            if len(frame):
                frame.to_parquet(directory / f"{name}.parquet")
        for name, frame in self.statistics.items():
            (directory / "statistics").mkdir(exist_ok=True)
            frame.to_parquet(directory / "statistics" / f"{name}.parquet")
        plain = {"format": saved.FORMAT, "version": 1, "info": self.info.to_dict(), "notes": self.notes.to_dict("list")}
        (directory / saved.FILE_NAME).write_text(json.dumps(plain, indent=1), encoding="utf-8")
        return directory

    def __repr__(self) -> str:
        from npuprof.exports.text import summary_text

        return summary_text(self.summary, self.info, self.notes)

    def _repr_html_(self) -> str:
        from npuprof.exports.html import report_html

        return report_html(self.summary, self.info, self.notes)


def load(path: str | PathLike[str], *, source: Preference = None) -> Profile:
    """Read whatever an Ascend front end, or npuprof, left at a path.

    Parameters
    ----------
    path
        A recording of npuprof, a saved profile, a ``PROF_*`` directory, a torch_npu result directory, one
        CSV or JSON file of a result, or a directory around any of these. Known by content; never modified.
    source
        Which of the two to read where a ``PROF_*`` directory holds raw data and the vendor's result of it:
        ``"raw"`` or ``"parsed"``. By default the raw data if it is complete (the host's and a device's, of a chip
        whose records are decoded), since its digits are exact; else the result. ``run.info.source`` tells which.

    Returns
    -------
    The profile. A directory around several runs gives a :class:`npuprof.profile_set.ProfileSet` instead, one
    entry a rank and session; see :func:`open_path`, whose type says so.

    Raises
    ------
    SourceError
        If nothing there can be read; the message says what it is and what would help.
    """
    return cast("Profile", open_path(path, source=source))


def open_path(path: str | PathLike[str], *, source: Preference = None) -> Profile | ProfileSet:
    """Do what :func:`load` does: a profile for one run, a set for several."""
    from npuprof.profile_set import ProfileSet

    if source not in (None, "raw", "parsed"):
        raise OptionsError(f"source is {source!r}, but must be 'raw', 'parsed' or None")
    root = Path(path).expanduser()
    found = detect(root, source)
    if len(found.found) > 1:
        return ProfileSet(root, found.found, found.problems)
    return read_run(found.found[0])


def read_run(run: Run) -> Profile:
    """Read one run that was detected.

    Raises
    ------
    SourceError
        If nothing of it can be read.
    """
    decoded = run.source.read(run.path)
    if decoded.info.recording is None:
        decoded.info.recording = run.path
    return Profile(decoded)
