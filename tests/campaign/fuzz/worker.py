"""One process of the fuzzer, which takes target after target: ``python -m tests.campaign.fuzz.worker FOLDER``.

Each line of its standard input is ``TARGET<tab>INPUTS<tab>SEED<tab>RESULT``; what it found is in the file RESULT after
each round, and what it is at in RESULT with the suffix ``.current``.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from tests.campaign.fuzz import mutations
from tests.campaign.fuzz.trial import Damaged, Trial, stop_hangs
from tests.campaign.tally import peak_mib, reset_peak

_ROUND = 500  # inputs between two looks at the clock
_MAX_FINDS = 20
_DRAWN = st.binary(min_size=mutations.DRAWN_BYTES, max_size=mutations.MOST * mutations.DRAWN_BYTES)


class FoundError(Exception):
    """An input shows a fault that was not seen before."""


class Search:
    """The finds of one target."""

    def __init__(self, trial: Trial, result: Path) -> None:
        self._trial, self._result = trial, result
        self._current = result.with_suffix(".current")
        self._raised: list[tuple[str, str, Damaged]] = []
        self._goes_road = False
        self.known: dict[str, Damaged] = {}
        self.counts = {"tried": 0, "crash": 0, "loss": 0, "hang": 0}

    def round(self, inputs: int, seed: int) -> None:
        """Try some inputs; the first one with a new fault is shrunk, and ends the round."""
        self._raised.clear()
        self._goes_road = False
        choice = settings(
            max_examples=inputs,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        with suppress(FoundError, Flaky):  # where it is not found again each time
            seeded(seed)(choice(given(_DRAWN)(self._one)))()
        for kind, signature, one in self._raised[-1:]:
            self._keep(kind, signature, one)
        for case in self._trial.changed():
            self._keep("loss", f"{case}: loading changes the input", Damaged(case, ()))

    def write(self, seconds: float, *, is_done: bool) -> None:
        """Write the counts and finds, as a whole."""
        finds = {signature: asdict(one) for signature, one in self.known.items()}
        plain = {**self.counts, "peak_mib": peak_mib(), "seconds": seconds, "finds": finds, "done": is_done}
        part = self._result.with_suffix(".part")
        part.write_text(json.dumps(plain))
        part.replace(self._result)

    def _keep(self, kind: str, signature: str, one: Damaged) -> None:
        if signature not in self.known:
            self.known[signature] = one
            self.counts[kind] += 1

    def _one(self, drawn: bytes) -> None:
        self.counts["tried"] += 1
        one = self._trial.chosen(drawn, goes_road=self._goes_road)
        self._current.write_text(json.dumps(asdict(one)))
        find = self._trial.judge(one)
        if find is not None and find.signature not in self.known:
            self._raised.append((find.kind, find.signature, one))
            self._goes_road = one.goes_road  # whatever is tried while it is shrunk
            raise FoundError(find.signature)


def main(folder: Path) -> None:
    """Take the targets that are asked for."""
    pa.set_cpu_count(1)
    stop_hangs()
    for number, line in enumerate(sys.stdin):
        target, inputs, seed, result = line.rstrip("\n").split("\t")
        _search(target, folder / str(number), int(inputs), int(seed), Path(result))


def _search(target: str, folder: Path, inputs: int, seed: int, result: Path) -> None:
    folder.mkdir(parents=True)
    reset_peak()
    search = Search(Trial(target, folder), result)
    start, rounds = time.monotonic(), 0
    while (left := inputs - search.counts["tried"]) > 0 and len(search.known) < _MAX_FINDS:
        rounds += 1
        search.round(min(_ROUND, left), seed * 1_000 + rounds)
        search.write(time.monotonic() - start, is_done=False)
    search.write(time.monotonic() - start, is_done=True)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
