"""One run at a time, begun and ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.errors import CollectorError, SessionBusyError
from npuprof.notebook.controller import Cell, Controller
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.session.session import Session
from tests.conftest import FakeClock
from tests.fakes import FakeCollector

CELL = Cell(1, "%%npuprof\npass", "cell [1]")


class Shown:
    """Takes the place of the report."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self.sizes: list[int] = []

    def __call__(self, session: Session, saved_bytes: int = 7) -> None:
        self.recordings.append(session.recording)
        self.sizes.append(saved_bytes)


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


@pytest.fixture
def controller(shown: Shown, collector: FakeCollector, clock: FakeClock) -> Controller:
    def make(options: Options, title: str) -> Session:
        return Session(options, collector=collector, title=title, clock=clock)

    return Controller(shown, make)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(activities=("npu",), output=tmp_path)


def test_a_run_ends_once_and_is_shown_once(
    controller: Controller, shown: Shown, collector: FakeCollector, clock: FakeClock, options: Options
) -> None:
    controller.begin(options, "cell [1]", cell=CELL)
    assert (controller.collecting, controller.cell) == (True, CELL)
    clock.advance(5_000_000)
    assert [controller.end("ValueError: boom"), controller.end()] == [True, False]
    assert (controller.collecting, controller.cell) == (False, None)
    assert [collector.calls.count(call) for call in ("start", "stop")] == [1, 1]
    (recording,) = shown.recordings
    assert recording.failed == "ValueError: boom"
    assert recording.stopped_ns - recording.started_ns == 5_000_000


def test_a_cell_that_the_panel_profiles_has_the_numbers_of_cells(controller: Controller, options: Options) -> None:
    controller.number_of = lambda file: 4 if file else 0
    controller.begin(options, "cell [1]", cell=CELL)
    held = controller._held
    controller.end()
    assert held is not None
    assert held.session.cell is not None
    assert held.session.cell.number_of("/tmp/ipykernel_1/2.py") == 4


def test_a_report_is_as_large_as_its_option_says(controller: Controller, shown: Shown, options: Options) -> None:
    controller.begin(options, "cell [1]", saved_bytes=0)
    controller.end()
    controller.begin(options, "cell [1]")
    controller.end()
    assert shown.sizes == [0, 7]


def test_a_run_by_hand_belongs_to_no_cell(controller: Controller, shown: Shown, options: Options) -> None:
    controller.begin(options, "%npuprof start in cell [1]", report=False)
    assert controller.cell is None
    assert controller.end()
    assert shown.recordings == []


def test_a_refused_start_names_the_holder_and_leaves_its_run(
    controller: Controller, shown: Shown, options: Options
) -> None:
    controller.begin(options, "cell [1]", cell=CELL)
    with pytest.raises(SessionBusyError, match=r"cell \[1\] has been collecting"):
        controller.begin(options, "cell [2]", cell=Cell(2, "", "cell [2]"))
    assert controller.cell == CELL
    assert controller.end()
    assert len(shown.recordings) == 1


def test_a_failed_start_leaves_nothing(
    controller: Controller, shown: Shown, collector: FakeCollector, options: Options
) -> None:
    collector.fail["start"] = CollectorError("100042")
    with pytest.raises(CollectorError):
        controller.begin(options, "cell [1]", cell=CELL)
    assert not controller.end()
    assert not any(options.output.iterdir())
    collector.fail.clear()
    controller.begin(options, "cell [2]", cell=CELL)
    assert controller.end()


def test_a_stop_that_fails_is_reported_in_the_recording(
    controller: Controller, shown: Shown, collector: FakeCollector, options: Options
) -> None:
    collector.fail["stop"] = CollectorError("stop returned 500000")
    controller.begin(options, "cell [1]", cell=CELL)
    assert controller.end()
    assert shown.recordings[0].problems == ["stop returned 500000"]
