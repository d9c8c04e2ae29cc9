"""The tables of a window."""

from __future__ import annotations

from typing import Any

import pandas as pd

from npuprof.exports.window import tables_within
from tests import factories


def test_what_touches_the_window_is_kept_whole_with_its_links() -> None:
    tables = factories.profile(40)
    kernels = tables["kernels"]
    low = int(kernels["start_ns"].iloc[10]) + 1
    high = int(kernels["start_ns"].iloc[20])
    cut = tables_within(tables, low, high)
    touching = (kernels["start_ns"] < high) & (kernels["start_ns"] + kernels["duration_ns"] >= low)
    assert cut["kernels"].equals(kernels[touching].reset_index(drop=True))
    assert 9 <= len(cut["kernels"]) < 15
    assert 0 < len(cut["links"]) < len(tables["links"])
    whole = [_ends(tables, link) for link in tables["links"].itertuples()]
    assert all(_ends(cut, link) in whole for link in cut["links"].itertuples())
    assert len(tables_within(tables, 0, 2**62)["links"]) == len(tables["links"])


def _ends(tables: dict[str, pd.DataFrame], link: Any) -> list[tuple[str, int]]:
    """The slices of a link, by their starts."""
    ends = ((link.source_table, link.source_row), (link.target_table, link.target_row))
    return [(table, int(tables[table]["start_ns"].iloc[row])) for table, row in ends]
