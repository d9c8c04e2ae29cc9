"""The figure of sampled counters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.figures.counters import plot_counters
from npuprof.figures.embed import saved_bytes
from npuprof.tables.info import Info
from npuprof.timeline.figure import timeline
from tests import factories


def counters(series: Sequence[tuple[str, str | None, str | None]], samples: int = 5, **given: Any) -> pd.DataFrame:
    count = len(series)
    return tables.build(
        "counters",
        {
            "time_ns": factories.START_NS + np.tile(np.arange(samples) * 10_000, count),
            "device_id": pd.array([0] * count * samples, "Int64"),
            "counter": [name for name, _, _ in series for _ in range(samples)],
            "instance": [instance for _, instance, _ in series for _ in range(samples)],
            "value": np.repeat(np.arange(count, dtype=np.float64), samples),
            "unit": [unit for _, _, unit in series for _ in range(samples)],
            **given,
        },
    )


@pytest.mark.slow
def test_panels_are_the_parts_of_the_machine_and_units() -> None:
    some = [
        ("HBM read", "0", "MB/s"),
        ("AI Core Freq", None, "MHz"),
        ("LLC read Hit Rate", "0", "%"),
        ("LLC read Throughput", "0", "MB/s"),
    ]
    figure = plot_counters(factories.profile(20) | {"counters": counters(some)}, factories.info())
    titles = [note.text for note in figure.layout.annotations]
    assert [title.partition("</b>")[0].removeprefix("<b>") for title in titles] == ["AI Core Freq", "HBM", "LLC", "LLC"]
    assert figure.layout.yaxis.ticksuffix == " MHz"
    assert "simulated" in figure.layout.title.text


@pytest.mark.slow
def test_legend_wraps_in_narrow_figures() -> None:
    some = [(f"NPU MEM {part} {kind}", None, "KB") for part in ("DDR", "HBM", "Memory") for kind in ("APP", "Device")]
    drawn = [
        plot_counters(factories.profile(20) | {"counters": counters([*shown, ("AI Core Freq", None, "MHz")])}, Info())
        for shown in (some[:2], some, [(f"{name} of {'all ' * 6}", *rest) for name, *rest in some])
    ]
    legends = [figure.layout.annotations[-1].text.split("<br>") for figure in drawn]
    assert [len(lines) for lines in legends][:2] == [1, 2]
    assert max(len(re.sub("<[^>]*>", "", line)) for lines in legends for line in lines) <= 60
    heights = [figure.layout.height for figure in drawn]
    assert heights == sorted(set(heights))
    for figure, lines in zip(drawn, legends, strict=True):
        layout = figure.layout
        inside = layout.height - layout.margin.t - layout.margin.b
        assert (layout.yaxis.domain[0] - layout.yaxis2.domain[1]) * inside >= 14 * len(lines)


@pytest.mark.slow
def test_its_time_is_the_timelines() -> None:
    run = factories.profile(20) | {"counters": counters([("HBM read", "0", "MB/s")])}
    figure, drawn = plot_counters(run, Info()), timeline(run, Info())
    assert figure.layout.xaxis.range == drawn.layout.xaxis.range
    assert figure.layout.xaxis.ticksuffix == drawn.layout.xaxis.ticksuffix
    assert list(figure.data[0].x)[:2] == [1.0, 11.0]  # the first slice began 1 us before the first sample


@pytest.mark.slow
def test_undrawn_parts_are_reported_and_available() -> None:
    some = [
        ("HBM read", "0", "MB/s"),
        ("QoS", "OTHERS", "MB/s"),
        ("PCIe post Tx", None, "MB/s"),
        ("PCIe post Tx max", None, "MB/s"),
    ]
    run = factories.all_tables(counters=counters(some))
    plain = plot_counters(run, Info())
    assert "not drawn: QoS" in plain.layout.title.text
    assert [line.name for line in plain.data] == ["HBM read 0", "PCIe post Tx"]
    asked = plot_counters(run, Info(), counters=["QoS", "PCIe"])
    assert [line.name for line in asked.data] == ["QoS OTHERS", "PCIe post Tx", "PCIe post Tx max"]


@pytest.mark.slow
def test_of_many_instances_the_highest_are_drawn_and_counted() -> None:
    some = [("CPU Usage CPU", str(number), "%") for number in range(192)]
    figure = plot_counters(factories.all_tables(counters=counters(some, 2_000)), Info())
    assert len(figure.data) == 8
    assert {line.name for line in figure.data} == {f"CPU Usage CPU {number}" for number in range(184, 192)}
    assert "the 8 highest of 192" in figure.layout.annotations[0].text
    assert saved_bytes(figure) < 300_000


@pytest.mark.slow
def test_absent_values_are_no_points() -> None:
    some = counters([("HBM read", "0", "MB/s")], value=np.array([1.0, np.nan, 3.0, np.nan, 5.0]))
    assert list(plot_counters(factories.all_tables(counters=some), Info()).data[0].y) == [1.0, 3.0, 5.0]


@pytest.mark.slow
def test_names_are_shown_as_they_are() -> None:
    figure = plot_counters(factories.all_tables(counters=counters([("HBM <img src=x>", "<b>", "MB/s")])), Info())
    assert "<img" not in str(figure.to_json())


def test_a_run_without_counters_says_what_to_collect() -> None:
    figure = plot_counters(factories.all_tables(), Info())
    assert not figure.data
    assert "collect with" in figure.layout.annotations[0].text
    other = plot_counters(factories.all_tables(counters=counters([("QoS", "a", "MB/s")])), Info(), counters=["HBM"])
    assert "sampled counters: QoS" in other.layout.annotations[0].text
