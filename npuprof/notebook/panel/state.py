"""What the panel shows, asks and has open: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from npuprof.session.history import EndedRun

if TYPE_CHECKING:
    from npuprof.profiles import Profile
    from npuprof.ranks.profile_set import ProfileSet

Phase: TypeAlias = Literal["idle", "armed", "recording", "decoding", "failed"]
Mode: TypeAlias = Literal["by hand", "next cell", "every cell"]
MODES: tuple[Mode, ...] = ("by hand", "next cell", "every cell")


@dataclass(frozen=True)
class State:
    """What the panel shows of a moment.

    Attributes
    ----------
    phase
        What is going on.
    headline
        It in a few words.
    details
        Elapsed time, records so far and bytes on disk, or what is being read.
    fraction
        How much is decoded, 0 to 1; None where nothing is, or nobody knows.
    can_start, can_stop
        Whether these buttons act.
    hint
        What there is to know or to do.
    """

    phase: Phase
    headline: str
    details: str = ""
    fraction: float | None = None
    can_start: bool = False
    can_stop: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Question:
    """What the panel asks before it acts.

    Attributes
    ----------
    kind
        What is to be done.
    run
        To which run.
    text
        The question.
    proposed
        The answer that stands there; None where only yes or no is asked.
    """

    kind: Literal["rename", "save", "delete"]
    run: EndedRun
    text: str
    proposed: str | None = None


@dataclass(frozen=True)
class Opened:
    """What is open below the panel: runs, one or two to compare, or a set of them."""

    title: str
    runs: tuple[Profile, ...] = ()
    of_set: ProfileSet | None = None
