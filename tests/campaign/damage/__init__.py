"""What a damaged recording says: no figure differs from that of the intact one without a note that concerns it.

``kinds`` damages copies of ``recordings`` in ways that a file system, a copy or a tool has of losing or repeating data;
``figures`` gathers every figure that a profile answers with, and ``invariants`` every quantity that two ways lead to;
``concerns`` tells which notes concern which tables; ``trial`` judges each copy, and ``lone`` names what no second part
of a recording holds. ``python -m tests.campaign.damage --write`` makes the table of ``notebooks/reference/support.md``.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.campaign.damage.recordings import recordings
from tests.campaign.damage.trial import trials
from tests.campaign.tally import Tally, peak_mib


def run(folder: Path) -> list[Tally]:
    """Damage every recording in every way."""
    tallies = []
    for number, (name, write, most) in enumerate(recordings()):
        tally, begin = Tally(f"damage: {name}"), time.monotonic()
        for one in trials(name, write, folder / str(number), most=most):
            tally.tried += 1
            tally.crashes += one.outcome == "crash"
            if one.outcome in ("silent", "crash"):
                tally.finds.append(f"{one.name}: {'; '.join(one.figures)}")
        tally.seconds, tally.peak_mib = time.monotonic() - begin, peak_mib()
        tallies.append(tally)
    return tallies
