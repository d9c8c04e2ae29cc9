"""A session with a schedule: which steps become runs, and what is said of those that do not."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.errors import CollectorError, NpuprofWarning, OptionsError, SessionBusyError, SessionError
from npuprof.options import Options
from npuprof.session.schedule import ProfilerAction, Schedule, schedule
from npuprof.session.session import Session
from tests.conftest import FakeClock
from tests.fakes import FakeCollector

MakeSession = Callable[..., Session]


@pytest.fixture
def make_session(tmp_path: Path, clock: FakeClock) -> MakeSession:
    def make(collector: FakeCollector | None = None, **how: Any) -> Session:
        options = Options(activities=("npu",), output=tmp_path / "out")
        return Session(options, collector=collector or FakeCollector(), title="a test", clock=clock, **how)

    return make


def steps_of(session: Session) -> list[list[int]]:
    return [[step for step, _, _ in run.recording.steps] for run in session._runs]


def test_each_cycle_is_a_run_of_its_active_steps(make_session: MakeSession) -> None:
    ready: list[int] = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    with make_session(schedule=plan, on_trace_ready=lambda prof: ready.append(prof.step_num)) as session:
        for _ in range(12):
            session.step()
    assert steps_of(session) == [[3, 4], [7, 8]]
    assert ready == [5, 9]
    assert not session.active


@pytest.mark.slow
def test_every_run_has_a_result_of_its_own(tmp_path: Path) -> None:
    from npuprof.simulator import npu

    plan = schedule(wait=1, active=1, repeat=2)
    with npuprof.profile(schedule=plan, output=tmp_path, collector="simulator", activities="npu") as prof:
        for step in range(4):
            for _ in range(step + 1):
                npu.asarray([1.0, 2.0]) + 1.0
            prof.step()
    assert [run.steps["step"].tolist() for run in prof.results] == [[1], [3]]
    assert [len(run.kernels) for run in prof.results] == [2, 4]
    assert prof.result is prof.results[-1] is npuprof.last()


def test_unsynchronised_runs_follow_without_pause(make_session: MakeSession) -> None:
    collector = FakeCollector()
    with make_session(collector, schedule=schedule(wait=0, active=1, repeat=3)) as session:
        for _ in range(3):
            session.step()
    assert steps_of(session) == [[0], [1], [2]]
    assert collector.calls.count("start") == collector.calls.count("stop") == 3


def test_a_loop_may_stop_in_place_of_its_last_step(make_session: MakeSession) -> None:
    ready: list[str] = []
    session = make_session(
        schedule=schedule(wait=1, active=2, repeat=1), on_trace_ready=lambda prof: ready.append("ready")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.start()
        session.step()
        session.step()
        session.stop()
    assert steps_of(session) == [[1]]
    assert ready == ["ready"]


def test_the_actions_can_be_asked_for(make_session: MakeSession) -> None:
    session = make_session(schedule=schedule(wait=1, warmup=1, active=2, repeat=1))
    seen = []
    session.start()
    for _ in range(5):
        seen.append((session.step_num, session.current_action.name, session.collecting))
        session.step()
    session.stop()
    assert seen == [
        (0, "NONE", False),
        (1, "WARMUP", False),
        (2, "RECORD", True),
        (3, "RECORD_AND_SAVE", True),
        (4, "NONE", False),
    ]


def test_warm_up_prepares_at_its_own_step(make_session: MakeSession, tmp_path: Path) -> None:
    collector, seen = FakeCollector(), []
    with make_session(collector, schedule=schedule(wait=1, warmup=2, active=1, repeat=2)) as session:
        for _ in range(7):
            seen.append(collector.calls.copy())
            collector.calls.clear()
            session.step()
        seen.append(collector.calls.copy())
    # The action of each step, which begins with the calls: NONE, twice WARMUP, RECORD_AND_SAVE, and again.
    warm, record, end = ["check", "warmup"], "start", ["stop"]
    assert seen == [["check"], warm, [], ["step 3", record], ["step None", *end], warm, [], ["step 7", record]]
    assert steps_of(session) == [[3], []]  # the last one is not ended by a step
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_warm_up_after_which_no_step_is_recorded_leaves_nothing(make_session: MakeSession, tmp_path: Path) -> None:
    collector = FakeCollector()
    session = make_session(collector, schedule=schedule(wait=0, warmup=2, active=1)).start()
    with pytest.raises(SessionBusyError, match="a test has been warming up fake since"):
        make_session().start()
    with pytest.warns(NpuprofWarning, match="after 0 steps|never called"), pytest.raises(SessionError):
        session.stop()
    assert collector.calls == ["check", "warmup", "stop"]
    assert not (tmp_path / "out").exists()
    make_session().start().stop()


@pytest.mark.slow
def test_forgotten_warm_up_gives_the_place_back(make_session: MakeSession) -> None:
    collector = FakeCollector()
    session = make_session(collector, schedule=schedule(wait=0, warmup=1, active=1)).start()
    del session
    gc.collect()
    assert collector.calls[-1] == "stop"
    make_session().start().stop()


def test_failing_warm_up_is_reported_and_start_tried(make_session: MakeSession) -> None:
    collector = FakeCollector(fail={"warmup": CollectorError("cold")})
    with make_session(collector, schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as session:
        with pytest.warns(NpuprofWarning, match="step 1 is not a warm-up: cold"):
            session.step()
        session.step()
        session.step()
    assert steps_of(session) == [[2]]


def test_a_start_that_fails_after_its_warm_up_leaves_nothing(make_session: MakeSession, tmp_path: Path) -> None:
    collector = FakeCollector(fail={"start": CollectorError("busy")})
    session = make_session(collector, schedule=schedule(wait=0, warmup=1, active=1, repeat=1)).start()
    with pytest.warns(NpuprofWarning, match="step 1 is not recorded: busy"):
        session.step()
    assert not (tmp_path / "out").exists()
    assert collector.calls == ["check", "warmup", "step 1", "start", "stop"]
    make_session().start().stop()
    with pytest.raises(SessionError):
        session.stop()


def test_a_schedule_of_ones_own_may_leave_a_warm_up_unused(make_session: MakeSession) -> None:
    actions = [ProfilerAction.WARMUP, ProfilerAction.NONE, ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE]
    collector = FakeCollector()
    with make_session(collector, schedule=lambda step: actions[min(step, 3)]) as session:
        with pytest.warns(NpuprofWarning, match="from WARMUP to NONE at step 1: nothing is recorded"):
            session.step()
        assert collector.calls == ["check", "warmup", "stop"]
        session.step()
        session.step()
    assert steps_of(session) == [[2]]


def test_too_few_steps_are_reported_with_the_number_needed(make_session: MakeSession) -> None:
    session = make_session(schedule=schedule(wait=2, active=2, repeat=2, skip_first=1)).start()
    session.step()
    with pytest.warns(NpuprofWarning, match=r"after 1 step; it needs 9 \(skip_first"), pytest.raises(SessionError):
        session.stop()
    with pytest.raises(SessionError, match="no step of a test has been recorded"):
        _ = session.result


def test_a_schedule_without_step_is_reported(make_session: MakeSession) -> None:
    with (
        pytest.warns(NpuprofWarning, match=r"step\(\) was never called"),
        make_session(schedule=schedule(wait=1, active=1)),
    ):
        pass


def test_block_without_steps_ends_quietly(make_session: MakeSession) -> None:
    with (
        pytest.warns(NpuprofWarning),
        pytest.raises(ZeroDivisionError),
        make_session(schedule=schedule(wait=5, active=1)),
    ):
        1 / 0  # noqa: B018


def test_unscheduled_steps_belong_to_one_run(make_session: MakeSession) -> None:
    with make_session() as session:
        for _ in range(3):
            session.step()
    assert steps_of(session) == [[0, 1, 2]]


def test_a_step_outside_is_an_error(make_session: MakeSession) -> None:
    session = make_session()
    with pytest.raises(SessionError, match=r"between start\(\) and stop\(\)"):
        session.step()


def test_front_end_refuses_at_the_start(
    make_session: MakeSession,
) -> None:
    session = make_session(FakeCollector(fail={"check": CollectorError("absent")}), schedule=schedule(wait=5, active=1))
    with pytest.raises(CollectorError, match="absent"):
        session.start()
    assert not session.active


def test_failed_start_at_a_step_spares_the_loop(make_session: MakeSession) -> None:
    collector = FakeCollector()
    with make_session(collector, schedule=schedule(wait=1, active=1, repeat=2)) as session:
        collector.fail["start"] = CollectorError("busy")
        with pytest.warns(NpuprofWarning, match="step 1 is not recorded: busy"):
            session.step()
        session.step()
        del collector.fail["start"]
        session.step()
        session.step()
    assert steps_of(session) == [[3]]


def test_raising_callback_spares_the_loop(make_session: MakeSession) -> None:
    def fail(_: Session) -> None:
        raise ValueError("no space")

    session = make_session(schedule=schedule(wait=0, active=1, repeat=1), on_trace_ready=fail).start()
    with pytest.warns(NpuprofWarning, match="on_trace_ready failed: ValueError: no space; the recording is "):
        session.step()
    session.stop()
    assert session.recording.directory.is_dir()


def test_a_schedule_of_ones_own_may_be_any_function(make_session: MakeSession) -> None:
    actions = [ProfilerAction.RECORD, ProfilerAction.NONE, ProfilerAction.RECORD_AND_SAVE, ProfilerAction.NONE]
    with make_session(schedule=lambda step: actions[min(step, 3)]) as session:
        with pytest.warns(NpuprofWarning, match="from RECORD to NONE at step 1 without saving"):
            session.step()
        session.step()
        session.step()
    assert steps_of(session) == [[0], [2]]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(OptionsError, match="schedule must be callable"):
        npuprof.profile(schedule=3)  # type: ignore[arg-type]  # as a user might


@pytest.mark.parametrize("given", [True, False])
def test_with_block_starts_the_session(tmp_path: Path, given: bool) -> None:
    """As MindSpore's does, where False leaves the start to it; and one that was started before goes on."""
    with npuprof.profile(start_profile=given, activities="cpu", output=tmp_path) as session:
        assert session.collecting
    with session.start() as again:
        assert again is session
    assert len(session.results) == 2
    assert not session.active


def test_metadata_goes_to_its_run(make_session: MakeSession) -> None:
    session = make_session(schedule=schedule(wait=1, active=1, repeat=3))
    session.add_metadata("before", 1)
    session.start()
    session.add_metadata("waiting for the first", 2)
    session.step()
    session.step()
    session.step()
    session.add_metadata_json("second", '{"lr": [0.1]}')
    session.step()
    session.step()
    session.add_metadata_json("third", [1, 2, 3])
    session.stop()
    written = json.loads((session.recording.directory / "profiler_metadata.json").read_text())
    assert written == {"before": 1, "third": [1, 2, 3]}
    assert [list(run.recording.metadata) for run in session._runs] == [
        ["before", "waiting for the first"],
        ["before", "second"],
        ["before", "third"],
    ]
    with pytest.raises(SessionError, match=r"before stop\(\)"):
        session.add_metadata("late", 1)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "plain"])
def test_metadata_that_is_no_json_text_is_refused(make_session: MakeSession, text: str) -> None:
    with pytest.raises(OptionsError, match="not JSON text"):
        make_session().add_metadata_json("key", text)


def test_metadata_that_no_run_follows_is_reported(make_session: MakeSession) -> None:
    with make_session(schedule=schedule(wait=0, active=1, repeat=1)) as session:
        session.step()
        session.add_metadata("accuracy", 0.9)
        session.add_metadata("loss", 0.1)
        with pytest.warns(NpuprofWarning, match=r"is in no recording \(accuracy, loss\)"):
            session.stop()
    assert session.recording.metadata == {}


def test_failing_front_end_keeps_the_loop(make_session: MakeSession) -> None:
    session = make_session(FakeCollector(fail={"step": RuntimeError("no marks left")})).start()
    with pytest.warns(NpuprofWarning, match="does not know of step 1: RuntimeError: no marks left"):
        session.step()
    session.stop()
    assert steps_of(session) == [[0]]


class _NativeSteps(FakeCollector):
    """A front end that marks steps as the frameworks' do: one is open from its start until it is ended or stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[int]] = []
        self._first, self._runs = 0, False

    def start(self, options: Options, directory: Path) -> None:
        self.runs.append([self._first])
        self._first, self._runs = 0, True

    def stop(self) -> None:
        self._runs = False

    def step(self, number: int | None) -> None:
        if not self._runs:
            assert number is not None
            self._first = number
        elif number is not None:
            self.runs[-1].append(number)


def _steps_of_the_frameworks(plan: Callable[[int], ProfilerAction], steps: int) -> list[list[int]]:
    """Return the steps that a framework's profiler leaves: it marks each step after its action has begun."""
    runs: list[list[int]] = []
    action = ProfilerAction.NONE
    for step in range(steps + 1):
        before, action = action, plan(step)
        if action < ProfilerAction.RECORD:
            continue
        if before in (ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD_AND_SAVE):
            runs.append([])
        runs[-1].append(step)
    return runs


@given(
    plan=st.builds(
        schedule,
        wait=st.integers(0, 2),
        warmup=st.integers(0, 2),
        active=st.integers(1, 3),
        repeat=st.integers(0, 3),
        skip_first=st.integers(0, 2),
        skip_first_wait=st.integers(0, 1),
    ),
    steps=st.integers(0, 15),
)
def test_the_native_data_have_the_steps_that_the_frameworks_profilers_leave(
    tmp_path_factory: pytest.TempPathFactory, plan: Schedule, steps: int
) -> None:
    collector = _NativeSteps()
    options = Options(activities=("npu",), output=tmp_path_factory.mktemp("out"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NpuprofWarning)  # a loop may end within a cycle
        with Session(options, collector=collector, clock=FakeClock(), schedule=plan) as session:
            for _ in range(steps):
                session.step()
    assert collector.runs == _steps_of_the_frameworks(plan, steps)
