"""Which operators allocated blocks of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.timeline.allocation_marks import allocating, lifetime
from tests import factories

_CALLS = (("aten::mm", 100, 50), ("aten::mm", 110, 20), ("aten::add", 200, 10), ("aten::mm", 300, 10))


def _run(*blocks: tuple[str | None, int | None, int | None]) -> dict[str, pd.DataFrame]:
    operators = tables.build(
        "operators",
        {
            "name": [name for name, _, _ in _CALLS],
            "start_ns": np.array([start for _, start, _ in _CALLS]),
            "duration_ns": np.array([duration for _, _, duration in _CALLS]),
            "thread_id": np.ones(len(_CALLS), np.int64),
            "id": np.arange(len(_CALLS)),
        },
    )
    columns: dict[str, Any] = {
        "name": [name for name, _, _ in blocks],
        "size_bytes": np.full(len(blocks), 512),
        "allocated_ns": pd.array([begun for _, begun, _ in blocks], "Int64"),
        "released_ns": pd.array([ended for _, _, ended in blocks], "Int64"),
    }
    return factories.all_tables(operators=operators, allocations=tables.build("allocations", columns))


def test_the_innermost_call_of_the_name_at_that_moment_is_found() -> None:
    run = _run(("aten::mm", 115, 400), ("aten::add", 205, None), ("aten::mm", 310, 320), ("aten::mm", 115, 500))
    assert allocating(run, np.array([0])).tolist() == [1]
    assert allocating(run, np.array([2, 1, 0, 3])).tolist() == [1, 2, 3]


def test_a_block_without_a_call_has_none() -> None:
    run = _run(("aten::mm", 250, 300), ("aten::relu", 115, 300), (None, 115, 300), ("aten::add", 90, 95))
    assert allocating(run, np.arange(4)).tolist() == []
    assert allocating(factories.all_tables(allocations=run["allocations"]), np.arange(4)).tolist() == []


def test_blocks_live_to_their_release_or_to_the_end() -> None:
    run = _run(("aten::mm", 115, 400), ("aten::add", 205, None), ("aten::mm", None, 7))
    allocations = run["allocations"]
    assert lifetime(allocations, np.array([0]), 1_000) == (115, 400)
    assert lifetime(allocations, np.array([0, 1]), 1_000) == (115, 1_000)
    assert lifetime(allocations, np.array([2]), 1_000) is None
