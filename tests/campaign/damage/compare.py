"""Compare the figures of a damaged copy with those of the intact recording."""

from __future__ import annotations

from pathlib import Path

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles import Profile
from npuprof.sources.base import Preference
from tests.campaign.damage.figures import Figure, concerns, difference, figures, warnings

LIMIT = 0.01
"""By which share of it a figure may differ without a note."""


class Intact:
    """The figures and warnings of a recording before it is damaged."""

    def __init__(self, path: Path, preferred: Preference = None) -> None:
        self.preferred = preferred
        run = load(path, preferred)
        self.figures: dict[str, Figure] = figures(run)
        self.warnings = warnings(run)

    def silent_changes(self, path: Path, file: Path) -> list[str]:
        """Return the figures of a copy that changed, when a file was damaged, without a note that concerns them."""
        try:
            run = load(path, self.preferred)
        except NpuprofError:
            return []  # an error that names the file
        now, told = figures(run), warnings(run) - self.warnings
        changed = {name: difference(before, now.get(name)) for name, before in self.figures.items()}
        changed |= {name: difference(Figure({}, ()), now[name]) for name in now.keys() - self.figures.keys()}
        return [
            f"{name}: {share:+.1%}"
            for name, share in changed.items()
            if share > LIMIT
            and not any(concerns(note, (self.figures.get(name) or now[name]).tables, file) for note in told)
        ]


def load(path: Path, preferred: Preference = None) -> Profile:
    """Load one run."""
    run = npuprof.load(path, source=preferred)
    assert isinstance(run, Profile)
    return run
