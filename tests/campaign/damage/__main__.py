"""Damage recordings, print the table of what came of it, and write it into the page of support.

``python -m tests.campaign.damage --write`` makes the page's section again; without real results it is left alone.
``--seed`` chooses other rows, and ``--path`` damages copies of a recording of one's own.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.campaign.damage.page import table, write
from tests.campaign.damage.recordings import copies, recordings
from tests.campaign.damage.trial import Verdict, trials


def main() -> int:
    """Return 0 where nothing was silently wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.damage", description=__doc__)
    parser.add_argument("--source", default="", help="a pattern of the recordings to damage; all by default")
    parser.add_argument("--damage", default="", help="a pattern of the damages to do; all by default")
    parser.add_argument("--seed", type=int, default=0, help="chooses the rows that are damaged")
    parser.add_argument("--path", type=Path, nargs="*", default=[], help="recordings to damage instead of the usual")
    parser.add_argument("--write", action="store_true", help="write the table into the page of support")
    parser.add_argument("--into", type=Path, help="a file that receives every verdict as a line of JSON")
    parser.add_argument(
        "--known",
        type=Path,
        nargs="*",
        default=[],
        help="such files of earlier calls, whose recordings are not tried again",
    )
    chosen = parser.parse_args()
    verdicts = [Verdict(**json.loads(line)) for path in chosen.known for line in path.read_text().splitlines()]
    known = {one.source for one in verdicts}
    for name, write_source, most in copies(chosen.path) if chosen.path else recordings():
        if name in known or not re.search(chosen.source, name):
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="npuprof-damage-", dir=_memory()) as folder:
            before = len(verdicts)
            for one in trials(name, write_source, Path(folder), chosen.damage, most, chosen.seed):
                verdicts.append(one)
                if one.outcome in ("silent", "crash"):
                    print(f"  {one.outcome}: {one.name}: {'; '.join(one.figures)}", flush=True)
        print(f"{name}: {len(verdicts) - before} damages in {time.monotonic() - begin:.0f} s", flush=True)
    if chosen.into:
        chosen.into.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in verdicts))
    print(table(verdicts))
    if chosen.write:
        write(verdicts)
    return 1 if any(one.outcome in ("silent", "crash") for one in verdicts) else 0


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    raise SystemExit(main())
