"""Values of wrong types at every key, cell and column of small results of every format."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.campaign.fuzz import oracle, seeds, targets
from tests.campaign.fuzz.oracle import Load
from tests.campaign.fuzz.wrong_types import tally
from tests.campaign.tally import Tally
from tests.sources.memory_snapshot.test_snapshot import saved, snapshot
from tests.sources.test_damaged_fields import MAKERS

_JOURNAL = [["start", 5], ["step", 0, 5, 9], ["mark", "a mark", "mine", 7, 6, 8], ["fact", "rate", 1.5]]


def _made(make: Callable[[Path], object]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        make(folder / "set" / "run")
        return folder / "set" / "run"

    return write


def _journal(folder: Path) -> Path:
    path = folder / "journal"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in _JOURNAL))
    return path


INPUTS: Mapping[str, tuple[Callable[[Path], Path], Load]] = {
    **{name: (write, oracle.reader) for name, write in seeds.SEEDS.items()},
    **{f"small files of {name}": (_made(make), oracle.road) for name, make in MAKERS.items()},
    "journal": (_journal, targets.read_journal),
    "memory snapshot": (lambda folder: saved(folder, snapshot()), oracle.road),
}
"""What writes each input into an empty folder and returns its path, and what reads it."""


def run(folder: Path) -> list[Tally]:
    """Try every wrong value of every input."""
    tallies = []
    for name, (write, load) in INPUTS.items():
        begin, place = time.monotonic(), folder / name.replace(" ", "_")
        place.mkdir(parents=True)
        tallies.append(tally(name, write(place), load))
        tallies[-1].seconds = time.monotonic() - begin
    return tallies
