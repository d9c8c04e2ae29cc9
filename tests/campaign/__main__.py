"""Run the campaign, print its table, and end with 1 for any find; see :mod:`tests.campaign`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.campaign.fuzz import run as fuzz
from tests.campaign.tally import Tally, table

PARTS = ("damage", "types", "cells", "interrupts", "disk", "kills", "bombs", "browser")
"""The parts but the fuzzer, each in a process of its own; those that take longest first."""


def main() -> int:
    """Return 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join((*PARTS, 'fuzz'))}; all by default")
    parser.add_argument("--inputs", type=int, default=100_000, help="damaged inputs to load (%(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the damages; another one each time")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # where one part puts its tallies
    chosen = parser.parse_args()
    parts = chosen.parts or [*PARTS, "fuzz"]
    if chosen.into:
        tallies: list[Tally] = importlib.import_module(f"tests.campaign.{parts[0]}").run(chosen.into.with_suffix(""))
        chosen.into.write_text(json.dumps([asdict(tally) for tally in tallies]))
        return 0
    begin = time.monotonic()
    apart = [part for part in PARTS if part in parts]
    place = tempfile.TemporaryDirectory(prefix="npuprof-campaign-", ignore_cleanup_errors=True)
    with (
        place as folder,
        ThreadPoolExecutor(chosen.processes) as pool,
        fuzz.Fuzzer(chosen.inputs, chosen.seed) as fuzzer,
    ):
        jobs = [pool.submit(_part, part, Path(folder)) for part in apart]
        # Whichever process is done with the other parts goes on with the fuzzer's.
        searches = [pool.submit(fuzzer.work, number) for number in range(chosen.processes if "fuzz" in parts else 0)]
        tallies = [tally for job in jobs for tally in job.result()]
        for search in searches:
            search.result()
        seconds = time.monotonic() - begin
        tallies += fuzzer.tallies  # printed first: removing what ten thousand cells have recorded takes a while
        used = sum(os.times()[:4])
        print(f"seed {chosen.seed}, {seconds:.0f} s, {used:.0f} s of processor time\n{table(tallies)}", flush=True)
    return 0 if all(tally.is_clean for tally in tallies) else 1


def _part(part: str, folder: Path) -> list[Tally]:
    """Run one part in a process of its own, whose death is a crash."""
    begin, result = time.monotonic(), folder / f"{part}.json"
    command = [sys.executable, "-m", "tests.campaign", part, "--into", str(result)]
    child = subprocess.run(command, stdout=sys.stderr, check=False)
    tallies = [Tally(part, tried=1, crashes=1, finds=[f"the part itself ended with {child.returncode}"])]
    if not child.returncode and result.is_file():
        tallies = [Tally(**plain) for plain in json.loads(result.read_text())]
    print(f"{part}: {time.monotonic() - begin:.0f} s\n{table(tallies)}", flush=True)
    return tallies


if __name__ == "__main__":
    raise SystemExit(main())
