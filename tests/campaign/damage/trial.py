"""Damage copies of a recording one after another, and judge what each says of itself."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.report.facts import clock_lines
from tests.campaign.damage.concerns import concerning
from tests.campaign.damage.figures import Figure, difference, figures
from tests.campaign.damage.invariants import contradictions
from tests.campaign.damage.kinds import Damage, damages
from tests.campaign.damage.lone import is_lone

LIMIT = 0.01
"""By which share of it a figure may differ without a note."""

Outcome = Literal["told", "same", "silent", "lone", "crash"]

_MOST_SHOWN = 6
_DEAR_EVERY = 16


@dataclass(frozen=True)
class Verdict:
    """What came of one damaged copy.

    Attributes
    ----------
    source, kind, name
        The recording, and the damage.
    outcome
        ``told`` by an error or a note, ``same`` figures as before, a figure ``silent``\\ ly wrong, ``lone`` where it is
        and no other part of the recording holds what was damaged, or a ``crash``.
    figures
        The figures that are wrong without a note.
    """

    source: str
    kind: str
    name: str
    outcome: Outcome
    figures: tuple[str, ...] = ()


class Intact:
    """The figures and notes of a recording before it is damaged."""

    def __init__(self, path: Path) -> None:
        run = load(path)
        self.figures = figures(run)
        self.notes = _notes(run)
        self.contradictions = frozenset(contradictions(run, dear=True))

    def judged(self, path: Path, damage: Damage, *, dear: bool) -> tuple[Outcome, list[str]]:
        """Load a damaged copy; return what came of it, and the figures that changed untold."""
        try:
            run = load(path)
            now, told = figures(run), _notes(run) - self.notes
            contradicted = [text for text in contradictions(run, dear=dear) if text not in self.contradictions]
        except NpuprofError:
            return "told", []  # the error names the file
        except Exception as error:  # noqa: BLE001 - each of them is a find
            return "crash", [repr(error)]
        changed = {name: difference(before, now.get(name)) for name, before in self.figures.items()}
        changed |= {name: difference(Figure({}, ()), now[name]) for name in now.keys() - self.figures.keys()}
        changed = {name: share for name, share in changed.items() if share > LIMIT}
        every = "clock" in damage.kind
        silent = [
            f"{name} {share:+.1%}"
            for name, share in changed.items()
            if not concerning(
                told, ("clock",) if every else (self.figures.get(name) or now[name]).tables, Path(damage.file).name
            )
        ]
        if silent or contradicted:
            return "silent", [*contradicted, *silent]
        return ("told" if changed else "same"), []


def load(path: Path) -> Profile:
    """Load one run."""
    run = npuprof.load(path)
    assert isinstance(run, Profile)
    return run


def _notes(run: Profile) -> Counter[tuple[str, str]]:
    told = run.notes[run.notes["severity"] != "info"]
    notes = Counter({(source, message): count for _, source, message, count, *_ in told.itertuples(index=False)})
    return notes + Counter(("clock", line) for line in clock_lines(run.info))


def trials(
    source: str, write: Callable[[Path], Path], folder: Path, pattern: str = "", most: int = 0, seed: int = 0
) -> Iterator[Verdict]:
    """Yield what comes of each damage whose name matches a pattern, of at most so many, evenly spread."""
    sound = write(folder / "sound")
    intact = Intact(sound)
    copied = folder / "copy" / sound.name
    chosen = [one for one in damages(sound, seed) if re.search(pattern, one.name)]
    for number, damage in enumerate(chosen[:: -(-len(chosen) // most) if most else 1]):
        shutil.rmtree(folder / "copy", ignore_errors=True)
        copied.parent.mkdir()
        (shutil.copytree if sound.is_dir() else shutil.copyfile)(sound, copied)
        damage.apply(copied)
        outcome, wrong = intact.judged(copied, damage, dear=number % _DEAR_EVERY == 0)
        if outcome == "silent" and is_lone(source, damage.name):
            outcome = "lone"
        yield Verdict(source, damage.kind, damage.name, outcome, tuple(wrong[:_MOST_SHOWN]))
