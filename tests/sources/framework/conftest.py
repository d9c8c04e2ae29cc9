"""A folder of the small run, and the clock of all runs written here."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.framework import torch
from npuprof.sources.raw.metadata.clocks import CounterClock
from tests.sources.framework.writer import EPOCH_OFFSET_NS, START_NS, Framework

CLOCK = CounterClock(START_NS, START_NS + EPOCH_OFFSET_NS, Fraction(1))


class Reader:
    """Writes a run and reads it back, each time in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, run: Framework) -> Decoded:
        self._count += 1
        root = run.write(self._folder / f"run_{self._count}")
        decoded = Decoded()
        torch.read(root / "FRAMEWORK", lambda: CLOCK, decoded)
        for name, frame in decoded.tables.items():
            tables.check(name, frame)
        return decoded


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path)
