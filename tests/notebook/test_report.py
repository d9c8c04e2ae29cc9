"""What a report consists of, and that it never raises."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.errors import SessionError
from npuprof.notebook import report
from npuprof.notebook.controller import Controller
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.session.session import Session
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.slices import Slices
from tests import factories
from tests.browser.unpacking import Saved, data_of
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


def shown(run: Profile, **how: Any) -> list[Bundle]:
    with capture_output() as captured:
        report.show_run(run, **how)
    assert captured.stdout == captured.stderr == ""
    return [output.data for output in captured.outputs]


@pytest.mark.slow
def test_top_and_folds_are_outputs(run: Profile) -> None:
    summary, explorer = shown(run)
    assert set(summary) == set(explorer) == {"text/plain", "text/html"}
    assert "simulated NPU" in summary["text/plain"]
    assert "timeline" in explorer["text/plain"]
    assert "flame graph" in explorer["text/plain"]
    assert "<script" not in summary["text/html"]
    saved = Saved(data_of(explorer["text/html"]))
    assert saved.table("kernels")["count"] == 50
    assert [one["title"] for one in saved.header["findings"]] == [one.title for one in run.advice().fired]


@pytest.mark.slow
def test_slices_share_lanes_across_forms(run: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(tables: Mapping[str, pd.DataFrame], stages: Mapping[int, int] | None) -> Slices:
        made.append(len(tables))
        return Slices(tables, stages)

    monkeypatch.setattr("npuprof.timeline.view.Slices", counted)
    shown(run)
    assert len(made) == 1
    run.to_html(tmp_path / "page.html")
    assert len(made) == 2
    run.timeline()._repr_mimebundle_()
    assert len(made) == 3


@pytest.mark.slow
def test_it_is_plain_json_without_an_address_of_another_host(run: Profile) -> None:
    summary, explorer = shown(run)
    text = json.dumps([summary, explorer], allow_nan=False).replace("http://www.w3.org/2000/svg", "")  # a name
    assert "http://" not in text
    assert "https://" not in text
    assert "fetch(" not in text
    assert "<script" not in summary["text/html"]


@pytest.mark.slow
def test_names_are_shown_as_text() -> None:
    evil = "<script>alert(1)</script>"
    tables = factories.profile(20, kernel_names=[f"{evil}{number}" for number in range(5)])
    top, folds = shown(Profile(Decoded(tables, factories.info(), Notes())))
    assert evil not in top["text/html"] + folds["text/html"]
    assert evil in folds["text/plain"]


@pytest.mark.slow
def test_an_empty_run_is_shown() -> None:
    bundles = shown(Profile(Decoded(factories.all_tables(), factories.info(), Notes())))
    assert [set(bundle) for bundle in bundles] == [{"text/plain", "text/html"}]
    assert "<script" not in bundles[0]["text/html"]


@pytest.mark.long
def test_a_large_run_stays_below_a_megabyte() -> None:
    names = [f"{'a_kernel_with_a_long_name_' * 8}{number}" for number in range(5)]
    tables, noise = factories.profile(20_000, kernel_names=names), np.random.default_rng(1)
    for name in ("kernels", "operators", "api"):  # as in life: equal lengths would take no room
        tables[name] = tables[name].assign(duration_ns=noise.integers(1, 9_000, len(tables[name])))
    run = Profile(Decoded(tables, factories.info(), Notes()))
    bundles = shown(run)
    assert len(json.dumps(bundles)) < 1_000_000
    whole = Saved(data_of(bundles[1]["text/html"])).header
    assert whole["merged"] == 0
    part = shown(run, saved_bytes=215_000)
    assert len(json.dumps(part)) < 215_000
    assert 0 < Saved(data_of(part[1]["text/html"])).header["merged"] < whole["slices"]
    pictures = shown(run, saved_bytes=0)
    assert "<script" not in pictures[1]["text/html"]


def fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("no <figure>")


@pytest.mark.slow
def test_a_part_that_fails_costs_only_itself(run: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.exports.explorer.saved_explorer", fail)
    summary, figures = shown(run)
    assert "text/html" in summary
    assert "RuntimeError" in figures["text/plain"]
    assert "npuprof.load('kept/here')" in figures["text/plain"]
    assert "<figure>" not in figures["text/html"]


@pytest.mark.parametrize("error", [ValueError("damaged"), MemoryError()])
def test_a_recording_that_cannot_be_decoded_is_reported_with_its_place(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr("npuprof.loading.load", fail)
    session = Session(Options(activities=("npu",), output=tmp_path), collector=FakeCollector()).start()
    session.stop()
    session.recording.problems.append("the disk was full")
    with capture_output() as captured:
        report.show_session(session)
    (message,) = [output.data["text/plain"] for output in captured.outputs]
    assert type(error).__name__ in message
    assert "Before that: the disk was full" in message
    assert f"npuprof.load({str(session.recording.directory)!r})" in message


class InterruptedAt:
    """Traces the notebook's own code, and interrupts it at one of its lines."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, argument: object) -> InterruptedAt | None:
        if not frame.f_code.co_filename.endswith(("notebook/controller.py", "notebook/report.py")):
            return None
        if event == "line" and not frame.f_code.co_name.endswith(("begin", "interrupted")):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.long
def test_interrupted_end_says_where_the_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Profile) -> None:
    monkeypatch.setattr("npuprof.loading.load", lambda path: run)
    monkeypatch.setattr("npuprof.report.text.report_text", lambda *facts: "summary")
    monkeypatch.setattr("npuprof.report.html.report_html", lambda *facts: "summary")
    monkeypatch.setattr("npuprof.exports.explorer.saved_explorer", fail)
    monkeypatch.setattr(report, "display", lambda bundle, raw: None)
    for facts in ("describe", "versions"):
        monkeypatch.setattr(f"npuprof.machine.environment.{facts}", dict)
    made: list[Session] = []

    def make(options: Options, title: str) -> Session:
        made.append(Session(options, collector=FakeCollector(), title=title))
        return made[-1]

    told, before, after = [], 0, 0
    for line in itertools.count(1):
        controller = Controller(report.show_session, make)
        controller.begin(Options(activities=("npu",), output=tmp_path), "cell [1]")
        interrupting = InterruptedAt(line)
        sys.settrace(interrupting)
        try:
            controller.end()
        except SessionError as error:
            told.append((str(error), str(made[-1].recording.directory)))
        except KeyboardInterrupt:
            before += controller.collecting  # the run goes on
            after += not controller.collecting
        finally:
            sys.settrace(None)
        controller.end()
        assert not made[-1].collecting
        if interrupting.left > 0:
            break
    assert len(told) + before + after == line - 1
    assert len(told) > 40
    assert before <= 4  # lines, of which none has ended anything
    assert after <= 3  # lines, which have nothing left to do
    assert all(
        message == f"interrupted: the run is kept, and npuprof.load({place!r}) shows it" for message, place in told
    )
