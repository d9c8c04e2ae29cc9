"""One process of the fuzzer: damages one seed again and again, and writes what it found.

``python -m tests.campaign.fuzz.worker FORMAT FOLDER EXAMPLES SEED RESULT``
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import FrameType

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.campaign.fuzz import mutations, oracle, seeds
from tests.campaign.tally import peak_mib

_PER_INPUT_S = 20.0
_ROUND = 500  # inputs between two looks at the clock
_MAX_FINDS = 20


class Hang(BaseException):
    """An input took too long."""


class FoundError(Exception):
    """An input shows a fault that was not seen before."""


def main(name: str, folder: Path, examples: int, seed: int, result: Path) -> None:
    """Try `examples` inputs; the finds and counts are in `result` after each round."""
    signal.signal(signal.SIGALRM, _hang)
    relative = json.loads((folder / "seed.json").read_text())
    sound = oracle.load(folder / relative)
    has_manifest = name in seeds.WITH_MANIFEST
    untold = partial(mutations.is_untold, folder / "content")
    known: dict[str, str] = {}
    counts = {"tried": 0, "crash": 0, "loss": 0, "hang": 0}
    work = result.with_suffix(".work")
    current = result.with_suffix(".current")

    def one(damage: tuple[mutations.Mutation, ...]) -> None:
        counts["tried"] += 1
        current.write_text(mutations.to_json(damage))
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "content", work / "content")
        mutations.apply(work / "content", damage)
        find = _judged(work / relative, sound)
        if find is None or (find.kind == "loss" and not has_manifest and untold(work / "content")):
            return
        if find.signature not in known:
            raise FoundError(f"{find.kind}\t{find.signature}\t{mutations.to_json(damage)}")

    start, rounds = time.monotonic(), 0
    while counts["tried"] < examples and len(known) < _MAX_FINDS:
        rounds += 1
        attempt = seeded(seed * 1_000 + rounds)(
            settings(
                max_examples=min(_ROUND, examples - counts["tried"]),
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
            )(given(mutations.MUTATIONS)(one))
        )
        try:
            attempt()
        except FoundError as found:
            kind, signature, damage = str(found).split("\t")
            known[signature] = damage
            counts[kind] += 1
        _write(result, name, counts, known, time.monotonic() - start)
    _write(result, name, counts, known, time.monotonic() - start)
    shutil.rmtree(work, ignore_errors=True)


def _judged(path: Path, sound: oracle.Outcome) -> oracle.Find | None:
    signal.setitimer(signal.ITIMER_REAL, _PER_INPUT_S)
    try:
        return oracle.judge(path, sound)
    except Hang:
        return oracle.Find("hang", f"an input takes more than {_PER_INPUT_S:.0f} s")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def _write(result: Path, name: str, counts: dict[str, int], known: dict[str, str], seconds: float) -> None:
    plain = {"format": name, **counts, "peak_mib": peak_mib(), "seconds": seconds, "finds": known}
    part = result.with_suffix(".part")
    part.write_text(json.dumps(plain))
    part.replace(result)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
