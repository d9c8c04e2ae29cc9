"""The figure of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.accounting import account
from npuprof.figures.colours import PARTS
from npuprof.figures.steps import plot_step_parts
from npuprof.tables.info import Info
from tests import factories


def lengths(figure: Any) -> np.ndarray:
    total: np.ndarray = np.sum([bar.x if bar.orientation == "h" else bar.y for bar in figure.data], axis=0)
    return total


def names(bar: Any) -> Any:
    return bar.y if bar.orientation == "h" else bar.x


def many(count: int) -> dict[str, pd.DataFrame]:
    times = np.arange(count) + 10
    times[count // 3], times[count // 2] = 9_999, 1
    columns = {
        "step": np.arange(count),
        "device_id": np.zeros(count, np.int64),
        "computing_ns": times,
        "communication_not_overlapped_ns": times * 0,
        "free_ns": times * 0,
    }
    return factories.all_tables(step_times=tables.build("step_times", columns))


@pytest.mark.slow
def test_bars_are_as_long_as_the_steps() -> None:
    run = factories.profile(60)
    figure = plot_step_parts(account(run).by_part(), factories.info())
    assert figure.layout.barmode == "stack"
    assert lengths(figure) == pytest.approx(run["steps"]["duration_ns"].to_numpy() / 1_000)  # the axis is in us
    assert [bar.name for bar in figure.data] == ["computing", "communication", "idle"]
    assert list(names(figure.data[0])) == ["step 0", "step 1", "step 2"]
    assert "computed" in figure.layout.title.text
    assert "of the step)" in figure.data[0].hovertext[0]


@pytest.mark.slow
def test_ranks_stand_beside_each_other() -> None:
    parts = account(factories.profile(60)).by_part()
    both = pd.concat([parts.assign(rank=pd.array([rank] * len(parts), "Int64")) for rank in (1, 0)])
    figure = plot_step_parts(both, Info())
    steps, ranks = names(figure.data[0])
    assert list(steps) == ["step 0", "step 0", "step 1", "step 1", "step 2", "step 2"]
    assert list(ranks) == ["rank 0", "rank 1"] * 3


def test_host_steps_name_no_device() -> None:
    steps = tables.build("steps", {"step": [0, 1], "start_ns": [0, 500], "duration_ns": [500, 300]})
    run = factories.all_tables(steps=steps, operators=factories.profile(10)["operators"])
    figure = plot_step_parts(account(run).by_part(), Info())
    assert [bar.name for bar in figure.data] == ["host, without a device"]
    assert lengths(figure) == pytest.approx([500, 300])  # the axis is in ns
    assert "no device was recorded" in figure.layout.title.text


def test_of_many_steps_the_longest_and_shortest_stay() -> None:
    figure = plot_step_parts(account(many(5_000)).by_part(), Info())
    shown = lengths(figure) * 1_000
    assert len(shown) <= 240
    assert {1, 9_999} <= {round(value) for value in shown}
    assert "of 5,000 bars" in figure.layout.title.text


def test_rows_of_one_place_are_not_stacked_upon_each_other() -> None:
    run = many(2)
    run["step_times"]["step"] = pd.array([None, None], "Int64")
    places = list(zip(*names(plot_step_parts(account(run).by_part(), Info()).data[0]), strict=True))
    assert len(set(places)) == 2


@pytest.mark.parametrize(("count", "orientation"), [(8, "h"), (9, "v")])
def test_few_bars_lie(count: int, orientation: str) -> None:
    figure = plot_step_parts(account(many(count)).by_part(), Info())
    assert {bar.orientation for bar in figure.data} == {orientation}
    assert bool(figure.data[0].text) == (orientation == "h")


def test_names_parts_with_their_shares() -> None:
    columns = {"step": [0, 1], "device_id": [0, 0], "computing_ns": [7, 30], "free_ns": [70, 10]}
    times = tables.build("step_times", columns | {"communication_not_overlapped_ns": [0, 0]})
    figure = plot_step_parts(account(factories.all_tables(step_times=times)).by_part(), Info(), finding="Idle < busy")
    title = figure.layout.title.text
    assert title.startswith('<span style="font-size:16px"><b>Idle &lt; busy</b></span>')
    assert f'<span style="color:{PARTS["computing"]}">■</span> computing 75.0 %' in title
    assert f'<span style="color:{PARTS["idle"]}">■</span> idle 25.0 %' in title
    assert not figure.layout.showlegend


def test_a_run_without_steps_says_how_to_mark_them() -> None:
    figure = plot_step_parts(account(factories.all_tables()).by_part(), Info())
    assert not figure.data
    assert "prof.step()" in figure.layout.annotations[0].text
