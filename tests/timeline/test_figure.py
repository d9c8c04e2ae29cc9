from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.figures.colours import FAMILIES
from npuprof.tables.info import Info
from npuprof.timeline.counter_tracks import QUEUE
from npuprof.timeline.figure import timeline
from npuprof.timeline.view import Pictures
from tests import factories


def bars(figure: Any) -> pd.DataFrame:
    """All bars of a figure as plotly was given them."""
    columns = {"place": "y", "base": "base", "width": "x", "text": "text", "hover": "hovertext"}
    drawn = [trace for trace in figure.data if trace.type == "bar"]
    parts = [pd.DataFrame({name: trace[key] for name, key in columns.items()}) for trace in drawn]
    joined: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return joined


@pytest.mark.slow
def test_a_small_run_is_drawn_slice_by_slice() -> None:
    run = factories.profile(20)
    drawn = ("steps", "marks", "python", "operators", "api", "kernels", "communication")
    busy = run["overlap"]["kind"].isin(["computing", "communication_not_overlapped"]).sum()

    figure = timeline(run, factories.info())

    assert len(bars(figure)) == sum(len(run[name]) for name in drawn) + busy
    assert {trace.type for trace in figure.data} == {"bar", "scatter"}
    assert len(figure.data) <= len(FAMILIES) + 1
    assert not figure.layout.shapes
    ticks = [text.split("<br>")[0].split(" · ")[0] for text in figure.layout.yaxis.ticktext]
    assert ticks == [
        *["steps", "marks", "stream 2", "stream 3", "busy", "collectives"],
        *["Python", "operators", "operators", "CANN", "CANN", QUEUE],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("most", [200, 777, 2_000])
def test_there_are_never_more_bars_than_allowed(most: int) -> None:
    figure = timeline(factories.profile(20_000), factories.info(), max_slices=most)

    shown = bars(figure)
    assert most / 4 < len(shown) <= most
    assert np.isfinite(shown[["place", "base", "width"]].to_numpy(float)).all()
    assert (shown["width"] >= 0).all()
    assert (shown["text"] != "").sum() <= 100
    assert "slices in" in figure.layout.title.text


@pytest.mark.slow
def test_times_are_relative_and_exact() -> None:
    # Two slices 1 ns apart: epoch nanoseconds as floats could not tell them from each other.
    api = tables.build(
        "api",
        {
            "start_ns": factories.START_NS + np.array([0, 1_501]),
            "duration_ns": np.array([1_500, 300]),
            "name": ["first", "second"],
            "thread_id": np.array([1, 1]),
        },
    )

    figure = timeline(factories.all_tables(api=api), Info())

    assert bars(figure)["base"].tolist() == [0.0, 1_501.0]
    assert figure.layout.xaxis.ticksuffix == " ns"
    assert "starts 2025-11-20 00:53:20.000000123 UTC" in figure.layout.title.text
    assert "second</b><br>300 ns, at 1.50 µs" in bars(figure)["hover"].iloc[1]


@pytest.mark.slow
def test_window_details_what_it_touches() -> None:
    run = factories.profile(20_000)
    start = factories.START_NS + 400_000_000

    figure = timeline(run, factories.info(), start_ns=start, end_ns=start + 1_000_000)

    shown = bars(figure)
    assert not shown["hover"].str.contains(" slices</b>").any()
    assert figure.layout.xaxis.range == (0, 1_000.0)
    assert figure.layout.xaxis.ticksuffix == " µs"
    assert (shown["base"] <= 1_000).all()
    assert (shown["base"] + shown["width"] >= 0).all()


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends at 1 ns, before it starts"):
        timeline(factories.profile(5), Info(), start_ns=2, end_ns=1)


def test_too_few_bars_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 200"):
        timeline(factories.profile(5), Info(), max_slices=199)


@pytest.mark.slow
def test_a_simulated_run_says_so_and_a_real_one_does_not() -> None:
    run = factories.profile(5)

    assert "simulated NPU" in timeline(run, factories.info()).layout.title.text
    assert "simulated" not in timeline(run, factories.info(simulated=False)).layout.title.text
    assert "simulated NPU" in timeline(factories.all_tables(), factories.info()).layout.title.text


def test_a_run_without_slices_says_so() -> None:
    figure = timeline(factories.all_tables(), Info())

    assert not figure.data
    assert figure.layout.annotations[0].text == "no slices in this part of the run"


@pytest.mark.slow
def test_names_show_as_they_are_and_not_as_markup() -> None:
    run = factories.profile(5, kernel_names=("<script>alert(1)</script>", "$x$ & y", "a\nb", "n" * 500, ""))

    hover = " ".join(bars(timeline(run, factories.info(name="<b>me</b>")))["hover"])

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hover
    assert "&#36;x&#36; &amp; y" in hover
    assert "a b" in hover
    assert "n" * 61 not in hover
    assert "<script" not in hover


def test_deep_stacks_and_many_threads_are_folded_and_not_lost() -> None:
    threads, depth = 40, 30
    level = np.tile(np.arange(depth), threads)
    thread = np.repeat(np.arange(threads), depth)
    python = tables.build(
        "python",
        {
            "start_ns": factories.START_NS + level,
            "duration_ns": 1_000 - 2 * level,
            "name": factories.names(["f"], level * 0),
            "thread_id": thread,
            "id": np.arange(threads * depth),
            "depth": level,
        },
    )

    figure = timeline(factories.all_tables(python=python), Info())

    shown = bars(figure)
    assert shown["place"].nunique() == 3 * (10 + 1) + 1
    assert "20 slices" in " ".join(shown["hover"])
    assert f"{37 * depth:,} slices" in " ".join(shown["hover"])
    assert figure.layout.yaxis.ticktext[-1] == "Python · 37 more"


@pytest.mark.slow
def test_every_lane_keeps_its_busy_time() -> None:
    run = factories.profile(5_000)
    fine, coarse = Pictures(run).of(10**6), Pictures(run).of(300)
    assert fine is not None
    assert coarse is not None

    assert len(coarse.bars) <= 300 < len(fine.bars)
    for lane in range(len(fine.lanes)):
        assert coarse.bars.busy_ns[coarse.bars.lane == lane].sum() == fine.bars.busy_ns[fine.bars.lane == lane].sum()


@pytest.mark.slow
def test_other_tasks_are_drawn_beside_kernels() -> None:
    run = factories.profile(5)
    copy = (
        run["tasks"]
        .iloc[:1]
        .assign(
            start_ns=factories.START_NS + 10**6,
            task_id=999,
            name=factories.names(["MEMCPY_ASYNC"], np.zeros(1, np.int64)),
        )
    )
    both = tables.build("tasks", {key: pd.concat([run["tasks"][key], copy[key]]).array for key in copy})
    backwards = both.iloc[::-1].reset_index(drop=True)

    before, *after = (bars(timeline(run | {"tasks": tasks}, Info())) for tasks in (run["tasks"], both, backwards))

    for drawn in after:
        assert len(drawn) == len(before) + 1
        assert drawn["hover"].str.contains("MEMCPY_ASYNC").sum() == 1


@pytest.mark.slow
def test_text_and_background_suit_light_and_dark_themes() -> None:
    layout = timeline(factories.profile(5), Info()).layout

    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    for background in ("#ffffff", "#111111"):
        assert _contrast(layout.font.color, background) > 3.5


def test_every_name_upon_a_bar_is_legible() -> None:
    for family in FAMILIES.values():
        assert _contrast(family.ink, family.colour) > 4.5


@pytest.mark.slow
def test_figures_never_offer_to_upload_the_data() -> None:
    assert {"sendDataToCloud", "sendChartToCloud"} <= set(timeline(factories.profile(5), Info()).layout.modebar.remove)


def _contrast(one: str, other: str) -> float:
    """Contrast as the Web Content Accessibility Guidelines define it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else math.pow((c + 0.055) / 1.055, 2.4) for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
