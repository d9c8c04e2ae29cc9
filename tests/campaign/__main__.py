"""Run the campaign, print its table, and end with 1 for any find; see :mod:`tests.campaign`."""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from pathlib import Path

from tests.campaign.fuzz import run as fuzz
from tests.campaign.tally import Tally, table

PARTS = ("fuzz", "kills", "interrupts", "disk", "cells", "browser")


def main() -> int:
    """Return 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--inputs", type=int, default=100_000, help="damaged results to load (%(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the damages; another one each time")
    chosen = parser.parse_args()
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="npuprof-campaign-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part in chosen.parts or PARTS:
            begin = time.monotonic()
            if part == "fuzz":
                tallies += fuzz.run(folder, chosen.inputs, chosen.processes, chosen.seed)
            else:
                tallies += importlib.import_module(f"tests.campaign.{part}").run(folder / part)
            print(f"{part}: {time.monotonic() - begin:.0f} s", flush=True)
    print(f"seed {chosen.seed}\n{table(tallies)}")
    return 0 if all(tally.is_clean for tally in tallies) else 1


if __name__ == "__main__":
    raise SystemExit(main())
