"""What a report consists of, and that it never raises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.figures.embed import MIMETYPE
from npuprof.notebook import report
from npuprof.notes import Notes
from npuprof.options import Options
from npuprof.profiles import Profile
from npuprof.session import Session
from npuprof.sources.base import Decoded
from tests import factories
from tests.fakes import FakeCollector

Bundle = dict[str, Any]


@pytest.fixture(autouse=True)
def _shell() -> Iterator[None]:
    InteractiveShell.instance()
    yield
    InteractiveShell.clear_instance()


@pytest.fixture
def run() -> Profile:
    return Profile(Decoded(factories.profile(50), factories.info(recording=Path("kept/here")), Notes()))


def shown(run: Profile) -> list[Bundle]:
    with capture_output() as captured:
        report.show_run(run)
    assert captured.stdout == captured.stderr == ""
    return [output.data for output in captured.outputs]


def test_it_is_a_summary_and_two_figures(run: Profile) -> None:
    summary, *figures = shown(run)
    assert set(summary) == {"text/plain", "text/html"}
    assert "SIMULATED" in summary["text/plain"]
    assert [set(figure) for figure in figures] == [
        {MIMETYPE, "image/svg+xml", "text/plain"},
        {MIMETYPE, "text/plain"},
    ]
    assert "timeline" in figures[0]["text/plain"]
    assert "flame graph" in figures[1]["text/plain"]
    assert all(figure[MIMETYPE]["data"] for figure in figures)


def test_it_is_plain_json_without_an_address_of_another_host(run: Profile) -> None:
    text = json.dumps(shown(run), allow_nan=False).replace("http://www.w3.org/2000/svg", "")  # a name, not a place
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text


def test_names_are_shown_as_text() -> None:
    evil = "<script>alert(1)</script>"
    tables = factories.profile(20, kernel_names=[f"{evil}{number}" for number in range(5)])
    summary = shown(Profile(Decoded(tables, factories.info(), Notes())))[0]
    assert evil not in summary["text/html"]
    assert evil in summary["text/plain"]


def test_an_empty_run_is_shown() -> None:
    bundles = shown(Profile(Decoded(factories.all_tables(), factories.info(), Notes())))
    assert len(bundles) == 3


def test_a_large_run_stays_below_a_megabyte() -> None:
    names = [f"{'a_kernel_with_a_long_name_' * 8}{number}" for number in range(5)]
    bundles = shown(Profile(Decoded(factories.profile(20_000, kernel_names=names), factories.info(), Notes())))
    assert len(json.dumps(bundles)) < 1_000_000
    assert all(MIMETYPE in bundle for bundle in bundles[1:])


@pytest.mark.parametrize("error", [RuntimeError("no <figure>"), KeyboardInterrupt()])
def test_a_part_that_fails_costs_only_itself(
    run: Profile, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("npuprof.figures.report.report_figures", fail)
    summary, figures = shown(run)
    assert "text/html" in summary
    assert type(error).__name__ in figures["text/plain"]
    assert "npuprof.load('kept/here')" in figures["text/plain"]
    assert "<figure>" not in figures["text/html"]


@pytest.mark.parametrize("error", [ValueError("damaged"), KeyboardInterrupt(), MemoryError()])
def test_a_recording_that_cannot_be_decoded_is_told_with_its_place(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr("npuprof.profiles.load", fail)
    session = Session(Options(activities=("npu",), output=tmp_path), collector=FakeCollector()).start()
    session.stop()
    session.recording.problems.append("the disk was full")
    with capture_output() as captured:
        report.show_session(session)
    (message,) = [output.data["text/plain"] for output in captured.outputs]
    assert type(error).__name__ in message
    assert "Before that: the disk was full" in message
    assert f"npuprof.load({str(session.recording.directory)!r})" in message
