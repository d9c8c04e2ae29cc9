"""The states, questions and open reports of the panel, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from npuprof.session.history import EndedRun

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet

Phase: TypeAlias = Literal["idle", "armed", "recording", "decoding", "failed"]
Mode: TypeAlias = Literal["by hand", "next cell", "every cell"]
MODES: tuple[Mode, ...] = ("by hand", "next cell", "every cell")


@dataclass(frozen=True)
class State:
    """The contents of the panel."""

    phase: Phase
    # headline, details: the phase in a few words; elapsed time, records and bytes on disk, or what is being read.
    headline: str
    details: str = ""
    fraction: float | None = None  # the decoded share, 0 to 1; None if unknown
    # can_start, can_stop: whether the buttons are enabled.
    can_start: bool = False
    can_stop: bool = False
    hint: str = ""  # an explanation, or what to do
    message: str = ""  # the result of the last action, if the details tell something else


@dataclass(frozen=True)
class Question:
    """A question before an action."""

    # kind, run: the action and its run.
    kind: Literal["rename", "save", "delete"]
    run: EndedRun
    text: str  # the question
    proposed: str | None = None  # the default answer; None for a yes-or-no question


@dataclass(frozen=True)
class Opened:
    """The open reports: one run with the parts that profiled cells are of it, two runs to compare, or a set of runs."""

    title: str
    runs: tuple[Profile, ...] = ()
    parts: tuple[Profile, ...] = ()
    of_set: ProfileSet | None = None

    @property
    def directories(self) -> set[Path | None]:
        """The recordings of the runs."""
        return {run.info.recording for run in self.runs}
