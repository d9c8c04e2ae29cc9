"""The panel without a browser: recording, decoding, failing, and the list of runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npuprof.errors import CollectorError
from npuprof.notebook.controller import Cell, Controller
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.state import Question
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import Recording
from npuprof.session import active as running
from npuprof.session import history as run_history
from npuprof.session.session import Session
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.conftest import FakeClock
from tests.fakes import FakeCollector


class Later:
    """Keeps long work until it is asked for."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def do(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture(autouse=True)
def history() -> Iterator[None]:
    """Begin with an empty list of runs."""
    for run in run_history.ended_runs():
        run_history.forget(run.directory)
    yield
    assert running.current() is None


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


@pytest.fixture
def shown() -> list[Recording]:
    return []


@pytest.fixture
def cells(collector: FakeCollector, clock: FakeClock, shown: list[Recording]) -> Iterator[Controller]:
    def make(options: Options, title: str) -> Session:
        # Recorded by the sampler of Python stacks alone: what it writes can be decoded.
        return Session(options, collector=collector, title=title, clock=clock)

    cells = Controller(lambda session: shown.append(session.recording), make)
    yield cells
    cells.end(show=lambda session: None)


@pytest.fixture
def panel(cells: Controller, clock: FakeClock, later: Later, tmp_path: Path) -> PanelController:
    panel = PanelController(cells, clock=clock, in_background=later)
    panel.choose("collector", "simulator")
    panel.choose("output", str(tmp_path))
    panel.choose("activities", ("cpu",))
    return panel


@pytest.fixture
def simulated(clock: FakeClock, later: Later, tmp_path: Path) -> PanelController:
    """A panel that records on the simulated NPU."""
    panel = PanelController(Controller(lambda session: None), in_background=later)
    panel.choose("collector", "simulator")
    panel.choose("activities", ("npu",))
    panel.choose("output", str(tmp_path))
    return panel


def _record(panel: PanelController, later: Later, name: str = "") -> None:
    from npuprof.simulator import npu

    panel.choose("name", name)
    panel.start()
    assert panel.state().phase == "recording", panel.state()
    float((npu.ones((8, 8)) + 1).sum())
    panel.stop()
    later.do()
    assert panel.state().phase == "idle", panel.state()


def _asked(panel: PanelController) -> Question:
    assert panel.question is not None
    return panel.question


def _chosen(panel: PanelController, action: str, *places: int) -> None:
    ids = panel.runs.page().ids
    panel.answer({"kind": "action", "action": action, "rows": [ids[place] for place in places]})


@pytest.mark.slow
def test_start_record_and_stop(panel: PanelController, clock: FakeClock, later: Later) -> None:
    assert panel.state().phase == "idle"
    assert (panel.state().can_start, panel.state().can_stop) == (True, False)
    panel.start()
    clock.advance(12_340_000_000)
    state = panel.state()
    assert (state.phase, state.can_start, state.can_stop) == ("recording", False, True)
    assert state.details.startswith("12.3 s")
    assert panel.lively
    panel.stop()
    assert panel.state().phase == "decoding"
    assert panel.state().can_start
    later.do()
    assert (panel.opened is not None, panel.state().phase) == (True, "idle")
    assert not panel.lively


def test_setting_the_clock_keeps_elapsed_time(panel: PanelController, clock: FakeClock) -> None:
    panel.start()
    clock.advance(2_000_000_000)
    clock.epoch_ns += 3_600_000_000_000
    assert panel.state().details.startswith("2.00 s")


def test_growth_is_looked_at_once_a_second(panel: PanelController, clock: FakeClock) -> None:
    panel.start()
    panel.look()
    run = running.current()
    assert run is not None
    (run.recording.directory / "PROF_1").mkdir()
    (run.recording.directory / "PROF_1" / "stars_soc.data.0.slice_0").write_bytes(bytes(640))
    clock.advance(500_000_000)
    panel.look()
    assert " 0 records" in panel.state().details
    clock.advance(500_000_000)
    panel.look()
    assert " 10 records" in panel.state().details
    assert "on disk" in panel.state().details


def test_a_refused_start_is_reported(panel: PanelController, collector: FakeCollector) -> None:
    panel.choose("activities", ("npu",))
    collector.fail["start"] = CollectorError("aclprofStart returned 100042: set the device first")
    panel.start()
    state = panel.state()
    assert (state.phase, state.can_start) == ("failed", True)
    assert "set the device first" in state.details
    collector.fail.clear()
    panel.start()
    assert panel.state().phase == "recording"


def test_a_start_that_fails_in_an_unexpected_way_is_reported(panel: PanelController, collector: FakeCollector) -> None:
    panel.choose("activities", ("npu",))
    collector.fail["start"] = ZeroDivisionError("oh")
    panel.start()
    assert panel.state().phase == "failed"
    assert "ZeroDivisionError: oh" in panel.state().details


def test_refused_options_disable_start(panel: PanelController) -> None:
    panel.choose("activities", ())
    state = panel.state()
    assert not state.can_start
    assert "choose at least one" in state.hint


def test_a_recording_that_cannot_be_decoded_is_kept(simulated: PanelController, later: Later) -> None:
    simulated.start()
    run = running.current()
    assert run is not None
    simulated.stop()
    (run.recording.directory / "recording.json").write_text("{")
    for path in run.recording.directory.rglob("*slice*"):
        path.unlink()
    later.do()
    state = simulated.state()
    assert state.phase == "failed"
    assert str(run.recording.directory) in state.details


def test_the_run_of_somebody_else_cannot_be_stopped(panel: PanelController, tmp_path: Path) -> None:
    other = Session(Options(activities=("cpu",), output=tmp_path), title="the user's own", collector=FakeCollector())
    other.start()
    try:
        state = panel.state()
        assert (state.phase, state.can_start, state.can_stop) == ("recording", False, False)
        assert "the user's own has been collecting" in state.hint
        panel.stop()
        assert running.current() is not None
    finally:
        other.stop()


@pytest.mark.parametrize(("on_main", "told"), [(True, True), (False, False)])
def test_it_says_when_stop_waits_for_the_cell(panel: PanelController, on_main: bool, told: bool) -> None:
    panel.heard(on_main_thread=on_main)
    panel.start()
    assert ("interrupt the kernel" in panel.state().hint) is told


def test_the_next_cell_is_profiled_and_no_other(panel: PanelController, cells: Controller, shown: list[object]) -> None:
    panel.set_mode("next cell")
    assert panel.state().phase == "armed"
    assert panel.cell_begins(Cell(1, "1 + 1", "cell [1]")) == ""
    assert cells.cell is not None
    assert cells.end()
    panel.cell_begins(Cell(2, "1 + 1", "cell [2]"))
    assert not cells.collecting
    assert len(shown) == 1


def test_every_cell_is_profiled_except_npuprofs_own(panel: PanelController, cells: Controller) -> None:
    panel.set_mode("every cell")
    for number in range(3):
        panel.cell_begins(Cell(number, "1 + 1", f"cell [{number}]"))
        assert cells.end()
    for text in ("%%npuprof --level 2\n1", "%npuprof start", "npuprof.panel()"):
        panel.await_cell(text)
        assert cells.awaited is None


def test_a_cell_within_a_recording_changes_nothing(panel: PanelController, cells: Controller) -> None:
    panel.start()
    panel.set_mode("every cell")
    assert panel.cell_begins(Cell(1, "1", "cell [1]")) == ""
    assert cells.cell is None


def test_a_cell_that_cannot_be_profiled_has_a_reason(panel: PanelController, collector: FakeCollector) -> None:
    panel.choose("activities", ("npu",))
    panel.set_mode("next cell")
    collector.fail["start"] = CollectorError("no device")
    assert panel.cell_begins(Cell(1, "1", "cell [1]")) == "no device"
    assert panel.state().phase == "failed"


@pytest.mark.slow
def test_runs_are_listed_the_newest_first(simulated: PanelController, later: Later) -> None:
    for name in ("one", "two"):
        _record(simulated, later, name)
    page = simulated.runs.page()
    assert [row[0] for row in page.rows] == ["two", "one"]
    assert all("%" in row[5] for row in page.rows)
    assert page.rows[0][2] == "simulator (simulated)"
    assert simulated.opened is not None
    assert simulated.opened.title == "two"


@pytest.mark.slow
def test_open_and_compare(simulated: PanelController, later: Later) -> None:
    for name in ("one", "two"):
        _record(simulated, later, name)
    _chosen(simulated, "open", 1)
    later.do()
    assert simulated.opened is not None
    assert [run.info.name for run in simulated.opened.runs] == ["one"]
    _chosen(simulated, "compare", 0, 1)
    later.do()
    assert [run.info.name for run in simulated.opened.runs] == ["one", "two"]
    _chosen(simulated, "compare", 0)
    assert "select two runs" in simulated.state().details
    simulated.close()
    assert simulated.opened is None


@pytest.mark.slow
def test_a_run_can_be_renamed(simulated: PanelController, later: Later) -> None:
    _record(simulated, later, "one")
    _chosen(simulated, "rename", 0)
    assert _asked(simulated).proposed == "one"
    simulated.confirm("a/b")
    assert _asked(simulated).kind == "rename"
    assert "without slashes" in simulated.state().details
    simulated.confirm("<b>two</b>".replace("/", ""))
    assert simulated.question is None
    (row,) = simulated.runs.page().rows
    assert row[0] == "<b>two<b>"
    (run,) = run_history.ended_runs()
    assert Recording.read(run.directory).name == "<b>two<b>"


@pytest.mark.slow
def test_a_run_can_be_saved_and_loaded(simulated: PanelController, later: Later, tmp_path: Path) -> None:
    _record(simulated, later, "one")
    _chosen(simulated, "save", 0)
    simulated.confirm(str(tmp_path / "kept"))
    later.do()
    assert "npuprof.load" in simulated.state().details
    simulated.close()
    simulated.load(str(tmp_path / "kept"))
    assert simulated.state().phase == "decoding"
    later.do()
    assert simulated.opened is not None
    assert len(simulated.opened.runs[0].kernels)


@pytest.mark.parametrize("path", ["", "   ", "/nowhere/at/all"])
def test_a_load_that_fails_is_reported(simulated: PanelController, later: Later, path: str) -> None:
    simulated.load(path)
    later.do()
    assert simulated.state().phase == "idle"
    assert ("/nowhere/at/all" if path.strip() else "type the path") in simulated.state().details
    assert simulated.opened is None


@pytest.mark.slow
def test_delete_asks_first(simulated: PanelController, later: Later) -> None:
    _record(simulated, later, "one")
    (run,) = run_history.ended_runs()
    _chosen(simulated, "delete", 0)
    assert _asked(simulated).kind == "delete"
    assert run.directory.is_dir()
    simulated.refuse()
    assert simulated.question is None
    assert run.directory.is_dir()
    _chosen(simulated, "delete", 0)
    simulated.confirm()
    assert not run.directory.exists()
    assert simulated.runs.page().total == 0


@pytest.mark.slow
def test_delete_leaves_what_npuprof_did_not_record(simulated: PanelController, later: Later, tmp_path: Path) -> None:
    _record(simulated, later, "one")
    (run,) = run_history.ended_runs()
    (run.directory / "my notes.txt").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("mine")
    (run.directory / "PROF_mine").symlink_to(tmp_path / "elsewhere")
    _chosen(simulated, "delete", 0)
    simulated.confirm()
    assert [path.name for path in run.directory.iterdir()] == ["my notes.txt"]
    assert (tmp_path / "elsewhere" / "file").exists()
    assert "my notes.txt" in simulated.state().details


@pytest.mark.slow
@pytest.mark.parametrize("what", ["another recording", "no recording", "a link"])
def test_delete_refuses_what_is_not_the_run(
    simulated: PanelController, later: Later, tmp_path: Path, what: str
) -> None:
    _record(simulated, later, "one")
    (run,) = run_history.ended_runs()
    if what == "another recording":
        recording = Recording.read(run.directory)
        recording.started_ns += 1
        recording.write()
    elif what == "no recording":
        (run.directory / "recording.json").unlink()
    else:
        run.directory.rename(tmp_path / "moved")
        run.directory.symlink_to(tmp_path / "moved")
    before = sorted(tmp_path.rglob("*"))
    _chosen(simulated, "delete", 0)
    simulated.confirm()
    assert sorted(tmp_path.rglob("*")) == before
    assert simulated.state().phase == "failed"
    assert simulated.runs.page().total == 1


@pytest.mark.parametrize("question", [{}, {"kind": "action"}, {"kind": "action", "action": "open", "rows": ["x"]}])
def test_a_question_of_another_form_ends_nothing(simulated: PanelController, question: dict[str, object]) -> None:
    simulated.answer(question)
    assert simulated.opened is None
    assert simulated.question is None


def test_the_second_click_on_stop_changes_nothing(panel: PanelController, later: Later) -> None:
    panel.start()
    panel.stop()
    panel.stop()
    later.do()
    panel.stop()
    assert panel.state().phase == "idle", panel.state()


def test_messages_last_until_the_next_action(panel: PanelController, later: Later) -> None:
    panel.start()
    panel.load("/nowhere/at/all")
    later.do()
    state = panel.state()
    assert state.phase == "recording"
    assert "/nowhere/at/all" in state.message
    panel.load("")
    assert "type the path" in panel.state().message
    panel.stop()
    later.do()
    assert panel.state().message == ""


@pytest.mark.slow
def test_a_save_that_fails_asks_again_with_the_typed_path(
    simulated: PanelController, later: Later, tmp_path: Path
) -> None:
    _record(simulated, later, "one")
    (tmp_path / "file").write_text("mine")
    typed = str(tmp_path / "file" / "below")
    _chosen(simulated, "save", 0)
    simulated.confirm(typed)
    later.do()
    assert "not saved: " in simulated.state().details
    assert (_asked(simulated).kind, _asked(simulated).proposed) == ("save", typed)
    simulated.refuse()
    assert (simulated.question, simulated.state().phase) == (None, "idle")

    _chosen(simulated, "save", 0)
    simulated.confirm(str(tmp_path / "report.html"))
    later.do()
    assert "report.html opens in any browser" in simulated.state().details
    assert "simulated NPU" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_refused_name_is_forgotten_with_its_question(simulated: PanelController, later: Later) -> None:
    _record(simulated, later, "one")
    _chosen(simulated, "rename", 0)
    simulated.confirm("a/b")
    assert simulated.state().phase == "failed"
    simulated.refuse()
    assert simulated.state().phase == "idle"


@pytest.mark.slow
def test_delete_closes_the_report(simulated: PanelController, later: Later, tmp_path: Path) -> None:
    _record(simulated, later, "one")
    opened = simulated.opened
    _chosen(simulated, "delete", 0)
    simulated.confirm()
    assert (opened is not None, simulated.opened) == (True, None)

    _record(simulated, later, "two")
    (run,) = run_history.ended_runs()
    run.directory.rename(tmp_path / "elsewhere")
    _chosen(simulated, "delete", 0)
    simulated.confirm()
    assert "was gone already" in simulated.state().details
    assert simulated.runs.page().total == 0


@pytest.mark.slow
def test_recordings_of_earlier_kernels_and_loaded_results_are_listed_and_opened(
    simulated: PanelController, later: Later, tmp_path: Path
) -> None:
    _record(simulated, later, "before")
    _record(simulated, later, "cut")
    runs = run_history.ended_runs()
    cut = Recording.read(runs[1].directory)
    cut.stopped_ns, cut.environment["pid"] = 0, "999999999"
    cut.write()
    for run in runs:  # as after a restart of the kernel
        run_history.forget(run.directory)
    moved = tmp_path / "elsewhere" / "result"
    moved.parent.mkdir()
    shutil.copytree(runs[0].directory, moved)

    panel = PanelController(Controller(lambda session: None), in_background=later)
    panel.choose("output", str(tmp_path))
    panel.load(str(moved))
    later.do()

    rows = panel.runs.page().rows
    assert [(row[0], row[7], row[8]) for row in rows] == [
        ("cut", "cut: what was written is recovered", "an earlier kernel"),
        ("before", "normally", "an earlier kernel"),
        ("before", "normally", "loaded"),
    ]
    for at in (0, 2):
        _chosen(panel, "open", at)
        later.do()
        assert panel.opened is not None
        assert len(panel.opened.runs[0].kernels)
    _chosen(panel, "compare", 1, 2)
    later.do()
    assert panel.opened is not None
    assert len(panel.opened.runs) == 2
    _chosen(panel, "rename", 2)
    assert "keeps its name" in panel.state().details
    _chosen(panel, "delete", 2)
    assert moved.is_dir()
    assert [row[8] for row in panel.runs.page().rows] == ["an earlier kernel"] * 2
    _chosen(panel, "rename", 0)
    panel.confirm("again")
    later.do()
    assert panel.runs.page().rows[0][0] == "again"
    _chosen(panel, "delete", 0)
    panel.confirm()
    assert not runs[1].directory.exists()
    assert [row[0] for row in panel.runs.page().rows] == ["before"]


@pytest.mark.slow
def test_a_loaded_set_is_listed_and_opened_again(simulated: PanelController, later: Later, tmp_path: Path) -> None:
    def save(rank: int) -> None:
        decoded = Decoded(factories.profile(10), factories.info(rank=rank), Notes())
        Profile(decoded).save(tmp_path / "ranks" / f"rank{rank}")

    save(0)
    save(1)
    simulated.load(str(tmp_path / "ranks"))
    later.do()
    (row,) = simulated.runs.page().rows
    assert (row[0].endswith("(2 runs)"), row[8]) == (True, "loaded")
    simulated.close()
    save(2)  # of a process that went on
    _chosen(simulated, "open", 0)
    later.do()
    assert simulated.opened is not None
    assert simulated.opened.of_set is not None
    assert len(simulated.opened.of_set) == 3
    assert simulated.runs.page().rows[0][0].endswith("(3 runs)")
    _record(simulated, later, "one")
    _chosen(simulated, "compare", 0, 1)
    later.do()
    assert "npuprof.compare()" in simulated.state().details
