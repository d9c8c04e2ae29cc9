"""The number of launched kernels that have not started, against a count at every moment."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.queue_depth import queue_depth
from npuprof.timeline.counter_tracks import QUEUE
from npuprof.timeline.figure import timeline
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import timeline_svg
from tests import factories
from tests.analysis.test_accounting import _BASE, table
from tests.budget import examples

_Launch = tuple[int, int, int, bool]  # launched, started, device, whether a link names the call


def run_of(launches: list[_Launch]) -> dict[str, pd.DataFrame]:
    kernels = table("kernels", [(start, 3) for _, start, _, _ in launches])
    kernels = kernels.assign(device_id=np.array([one[2] for one in launches], np.int64))
    linked = [row for row, one in enumerate(launches) if one[3]]
    links = tables.build(
        "links",
        {
            "kind": ["api_task"] * len(linked),
            "source_table": ["api"] * len(linked),
            "source_row": np.array(linked, np.int64),
            "target_table": ["kernels"] * len(linked),
            "target_row": np.array(linked, np.int64),
        },
    )
    return factories.all_tables(kernels=kernels, api=table("api", [(begun, 2) for begun, *_ in launches]), links=links)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 1), st.booleans()), max_size=15))
@settings(max_examples=examples(60), deadline=None)
def test_the_depth_is_the_number_launched_less_the_number_started(launches: list[_Launch]) -> None:
    depths = queue_depth(run_of(launches))
    for device in (0, 1):
        own = depths[depths["device_id"] == device]
        times, depth = own["time_ns"].to_numpy() - _BASE, own["depth"].to_numpy()
        assert (np.diff(times) > 0).all()
        for moment in range(62):
            known = [
                (min(begun, start), start) for begun, start, owner, linked in launches if linked and owner == device
            ]
            waiting = sum(begun <= moment < start for begun, start in known)
            at = int(np.searchsorted(times, moment, side="right")) - 1
            assert (depth[at] if at >= 0 else 0) == waiting


@pytest.mark.slow
def test_the_track_stands_in_the_figure_the_picture_and_the_explorer() -> None:
    run = run_of([(0, 10, 0, True), (2, 20, 0, True), (30, 40, 0, True)])
    figure = timeline(run, factories.info())
    (line,) = [trace for trace in figure.data if trace.type == "scatter"]
    assert line.line.shape == "hv"
    assert line.hovertext[1] == f"2 kernels {QUEUE}"
    assert any(text.startswith(QUEUE) for text in figure.layout.yaxis.ticktext)
    assert figure.layout.yaxis.range[0] > max(figure.layout.yaxis.tickvals)
    assert f"{QUEUE}</text>" in timeline_svg(run, factories.info())
    assert "2 at most" in timeline_svg(run, factories.info())
    shown = Timeline(run, factories.info())
    assert [track.title for track in shown.lines] == [QUEUE]
    assert shown.lines[0].value.tolist() == [1, 2, 1, 0, 1, 0]


@pytest.mark.slow
def test_without_links_there_is_no_track() -> None:
    run = run_of([(0, 10, 0, False)])
    assert all(trace.type == "bar" for trace in timeline(run, factories.info()).data)
    assert Timeline(run, factories.info()).lines == []


@pytest.mark.slow
@pytest.mark.parametrize(("start", "seen"), [(25, [0, 1, 0]), (None, [1, 2, 1, 0, 1, 0])])
def test_a_window_shows_its_part_of_the_track(start: int | None, seen: list[int]) -> None:
    run = run_of([(0, 10, 0, True), (2, 20, 0, True), (30, 40, 0, True)])
    figure = timeline(run, factories.info(), start_ns=None if start is None else _BASE + start)
    (line,) = [trace for trace in figure.data if trace.type == "scatter"]
    assert [int(text.split()[0]) for text in line.hovertext] == seen
    assert min(line.x) >= 0
