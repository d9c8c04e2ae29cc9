from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis.summary import summarise
from npuprof.exports.html import report_html
from npuprof.exports.text import summary_text
from npuprof.figures.embed import MIMETYPE, element, library, mimebundle, saved_bytes
from npuprof.figures.report import report_figures
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


def test_a_report_of_a_million_hostile_slices_is_below_one_megabyte(hostile_run: dict[str, pd.DataFrame]) -> None:
    info = factories.info(name="<" * 1_000_000, failed="E" * 1_000_000)
    notes = Notes()
    for number in range(900):
        notes.warning("f" * 10_000, "m" * 10_000 + str(number))

    figures = report_figures(hostile_run, info)
    summary = summarise(hostile_run, info)
    text = report_html(summary, info, notes.to_frame()) + summary_text(summary, info, notes.to_frame())

    assert sum(map(saved_bytes, figures)) + len(text.encode()) <= 1_000_000


def test_a_usual_run_is_shown_in_full() -> None:
    timeline, flamegraph = report_figures(factories.profile(60), factories.info())

    assert sum(len(trace.y) for trace in timeline.data) == 327
    assert "host time" in flamegraph.layout.title.text


def test_detail_goes_down_until_the_report_fits() -> None:
    run = factories.profile(6_000, kernel_names=[f"kernel_{i}" for i in range(3_000)])

    small = report_figures(run, factories.info(), limit_bytes=150_000)

    assert sum(map(saved_bytes, small)) <= 150_000
    assert len(small[0].data) > 3


def test_a_run_without_host_slices_shows_device_time() -> None:
    kernels = factories.profile(20)["kernels"]

    _, flamegraph = report_figures(factories.all_tables(kernels=kernels), factories.info())

    assert "device time" in flamegraph.layout.title.text


def test_the_output_of_a_figure_is_plotlys_mimetype_without_upload() -> None:
    timeline, _ = report_figures(factories.profile(5), factories.info())

    shown = mimebundle(timeline)[MIMETYPE]

    assert set(shown) == {"data", "layout", "config"}
    assert shown["config"]["showSendToCloud"] is False
    assert len(str(shown["layout"].get("template", ""))) < 100  # plotly's default one is 7 kB


def test_no_name_can_end_the_script_that_holds_it() -> None:
    run = factories.profile(20, kernel_names=("</script><img src=x onerror=alert(1)>", "\u2028"))
    timeline, _ = report_figures(run, factories.info(name="</script><b>"))

    drawn = element(timeline, 'id"><script>', "Timeline <b>")

    assert drawn.count("<script>") == drawn.count("</script>") == 1
    assert "<img" not in drawn
    assert "<b>" not in drawn.replace("\\u003cb\\u003e", "")


def test_the_library_is_one_script() -> None:
    script = library()

    assert script.startswith("<script>")
    assert script.count("</script") == 1
    assert len(script) > 1_000_000
