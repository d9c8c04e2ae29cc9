"""Keys are paired with all rows that have them, within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.sources.database import host
from npuprof.sources.database.host import pairs_of
from npuprof.tables.notes import Notes


def test_every_wanted_key_is_paired_with_every_row_that_has_it() -> None:
    notes = Notes()
    which, rows = pairs_of(np.array([7, 5, 7, 9]), np.array([5, 7, 8]), notes)
    assert list(zip(which.tolist(), rows.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2)]
    assert not len(notes)


def test_key_of_many_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_ENOUGH_PAIRS", 0)
    same, notes = np.ones(1000, np.int64), Notes()
    which, rows = pairs_of(same, same, notes)
    assert len(which) == len(rows) == 8000
    assert np.bincount(which).tolist() == [8] * 1000
    assert rows.max() < 8
    told = notes.to_frame()
    assert told["count"].tolist() == [1_000_000 - 8000]
    assert "pairs are left out" in told["message"].iloc[0]
