"""A timeline opens on the steps, or on the device's work, and not on what lies before and after."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from npuprof import tables as schema
from npuprof.exports.text_figures import timeline_text
from npuprof.tables.info import Info
from npuprof.tables.schema import SCHEMA
from npuprof.timeline.figure import timeline
from npuprof.timeline.opening import opening
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import timeline_svg

_SECOND = 1_000_000_000


def _tables(*, steps: bool, kernels: bool) -> dict[str, pd.DataFrame]:
    """Return 20 s of Python around two steps from 8 s to 12 s, whose last kernel ends at 13 s."""
    names = ("start_ns", "duration_ns")
    spans: dict[str, list[tuple[int, int]]] = {"python": [(0, 20)]}
    spans["steps"] = [(8, 2), (10, 2)] if steps else []
    spans["kernels"] = [(8, 1), (11, 2)] if kernels else []
    made = {name: schema.empty(name) for name in SCHEMA}
    for table, rows in spans.items():
        columns = {
            column.name: np.zeros(len(rows), np.int64) for column in SCHEMA[table].columns if column.kind == "int"
        }
        columns |= {name: np.array([row[at] for row in rows], np.int64) * _SECOND for at, name in enumerate(names)}
        made[table] = schema.build(table, columns)
    return made


@pytest.mark.parametrize(
    ("steps", "kernels", "wanted"),
    [(True, True, (8, 13)), (True, False, (8, 12)), (False, True, (8, 13)), (False, False, (0, 20))],
)
def test_the_window_at_first_holds_the_steps_or_the_work(steps: bool, kernels: bool, wanted: tuple[int, int]) -> None:
    tables = _tables(steps=steps, kernels=kernels)
    view = Timeline(tables, Info())
    margin = (wanted[1] - wanted[0]) * _SECOND // 50 if steps or kernels else 0
    assert view.window == (wanted[0] * _SECOND - margin, wanted[1] * _SECOND + margin)
    assert view.whole == (0, 20 * _SECOND)
    low, high = timeline(tables, Info()).layout.xaxis.range
    assert [low, high] == pytest.approx([edge / _SECOND for edge in view.window])
    view.show_all()
    assert view.window == view.whole


def test_drawings_and_texts_open_there_too() -> None:
    tables = _tables(steps=True, kernels=True)
    svg = timeline_svg(tables, Info())
    ticks = [float(tick.replace(",", "")) / 1000 for tick in re.findall(r'text-anchor="middle">([\d,.]+) ms<', svg)]
    assert min(ticks) >= 7.9
    assert max(ticks) <= 13.1
    assert timeline_text(tables).startswith("timeline: 5.20 s from 7.90 s on, ")


def test_a_given_window_stays() -> None:
    tables = _tables(steps=True, kernels=True)
    assert timeline(tables, Info(), start_ns=0, end_ns=20 * _SECOND).layout.xaxis.range == (0, 20)


def test_nearly_whole_steps_open_the_whole() -> None:
    assert opening(_tables(steps=True, kernels=True), (8 * _SECOND, 13 * _SECOND)) == (8 * _SECOND, 13 * _SECOND)
