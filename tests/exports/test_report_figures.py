from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis.summary import summarise
from npuprof.exports.html import report_figures, report_html
from npuprof.exports.text import summary_text
from npuprof.figures.embed import saved_bytes
from npuprof.notes import Notes
from tests import factories


@pytest.fixture(scope="module")
def hostile_run() -> dict[str, pd.DataFrame]:
    """A million slices to draw, with names that are long, many, and widest once written as JSON or HTML."""
    letters = ("\U0001f4a5", "矩", "<", "&", "$", '"', "\\", "\x1b")
    names = [f"{letters[i % len(letters)] * 400}{i}" for i in range(5_000)]
    run = factories.profile(200_000, kernel_names=names)
    index = np.arange(200_000)
    for table in ("operators", "api"):
        run[table] = run[table].assign(name=factories.names(names, index % 5_000))
    return run


@pytest.mark.long
def test_a_report_of_a_million_hostile_slices_is_below_one_megabyte(hostile_run: dict[str, pd.DataFrame]) -> None:
    info = factories.info(name="<" * 1_000_000, failed="E" * 1_000_000)
    notes = Notes()
    for number in range(900):
        notes.warning("f" * 10_000, "m" * 10_000 + str(number))

    figures = report_figures(hostile_run, info)
    summary = summarise(hostile_run, info)
    facts = (summary, info, notes.to_frame(), factories.advice(hostile_run, info))
    text = report_html(*facts) + summary_text(*facts)

    assert sum(map(saved_bytes, figures)) + len(text.encode()) <= 1_000_000


@pytest.mark.slow
def test_a_usual_run_is_shown_in_full() -> None:
    timeline, flamegraph = report_figures(factories.profile(60), factories.info())

    assert sum(len(trace.y) for trace in timeline.data if trace.type == "bar") == 327
    assert "device time" in flamegraph.layout.title.text


@pytest.mark.slow
def test_detail_goes_down_until_the_report_fits() -> None:
    run = factories.profile(6_000, kernel_names=[f"kernel_{i}" for i in range(3_000)])

    small = report_figures(run, factories.info(), limit_bytes=150_000)

    assert sum(map(saved_bytes, small)) <= 150_000
    assert len(small[0].data) > 3


@pytest.mark.slow
def test_a_run_without_host_slices_shows_device_time() -> None:
    kernels = factories.profile(20)["kernels"]

    _, flamegraph = report_figures(factories.all_tables(kernels=kernels), factories.info())

    assert "device time" in flamegraph.layout.title.text
