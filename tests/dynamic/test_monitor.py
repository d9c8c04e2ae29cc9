"""Steps of a loop that are profiled because a file says so: when, where, and what is logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof import dynamic
from npuprof.dynamic.monitor import Monitor
from npuprof.errors import CollectorError, NpuprofError, OptionsError, SessionError, SourceError
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.session import active as running
from tests import pace
from tests.fakes import FakeCollector


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    """A front end that sessions of this test use."""
    fake = FakeCollector()
    chosen = lambda name, code="": SimpleNamespace(collector=fake, reason="a test")  # noqa: E731
    monkeypatch.setattr("npuprof.dynamic.monitor.choose", chosen)
    monkeypatch.setattr("npuprof.session.session.choose", chosen)
    monkeypatch.setattr("npuprof.dynamic.monitor._CHEAP_NS", 1 << 62)  # a busy machine makes looks slow, and so seldom
    for variable in ("RANK", "RANK_ID"):
        monkeypatch.delenv(variable, raising=False)
    yield fake
    dynamic.close()


@pytest.fixture
def file(tmp_path: Path, collector: FakeCollector, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return dynamic.init(tmp_path / "config", keys="torch_npu")


def steps(count: int) -> None:
    for _ in range(count):
        dynamic.step()


def recordings(folder: Path) -> dict[str, Recording]:
    """Return the recordings below a directory, by the name of the directory that they lie in."""
    found = folder.glob("rank*/*/recording.json")
    return {path.parent.parent.name: Recording.read(path.parent) for path in sorted(found)}


def log_of(file: Path) -> str:
    return "".join(path.read_text() for path in sorted((file.parent / "log").iterdir()))


def test_init_writes_a_template_and_profiles_nothing(file: Path, collector: FakeCollector, tmp_path: Path) -> None:
    assert json.loads(file.read_text())["start_step"] == 0
    steps(5)
    assert collector.calls == []
    assert recordings(tmp_path) == {}


def test_a_change_is_noticed_within_one_step(file: Path, tmp_path: Path) -> None:
    steps(3)
    dynamic.edit(file, start_step=-1, active=2, activities=["NPU"])
    assert running.current() is None
    dynamic.step()
    assert running.current() is not None
    steps(2)
    assert running.current() is None
    found = recordings(tmp_path)
    assert list(found) == ["rank0_start4_stop5"]
    assert [step for step, _, _ in found["rank0_start4_stop5"].steps] == [4, 5]
    assert "steps 4 to 5 are recorded with fake" in log_of(file)


def test_a_step_ahead_is_waited_for_with_its_warmup(file: Path, tmp_path: Path, collector: FakeCollector) -> None:
    dynamic.edit(file, start_step=4, warmup=1, active=2, activities=["NPU"])
    steps(4)
    assert running.current() is None
    dynamic.step()
    assert running.current() is not None
    steps(5)
    ((place, recording),) = recordings(tmp_path).items()
    assert (place, [step for step, _, _ in recording.steps]) == ("rank0_start5_stop6", [5, 6])
    assert "step 5" in collector.calls, "the front end marks its steps by the same numbers"


def test_a_step_that_has_passed_is_a_warning_and_ignored(file: Path, tmp_path: Path) -> None:
    steps(5)
    dynamic.edit(file, start_step=3)
    steps(5)
    assert recordings(tmp_path) == {}
    assert "WARNING" in log_of(file)
    assert "asks for step 3, and it has passed: 6 is the present one" in log_of(file)


def test_the_steps_of_mindspore_are_counted_from_1(
    collector: FakeCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = dynamic.init(tmp_path / "config", keys="mindspore")
    dynamic.edit(file, start_step=3, stop_step=4, activities=["NPU"], prof_path="out")
    steps(2)
    assert running.current() is not None
    steps(2)
    assert running.current() is None
    ((place, recording),) = recordings(tmp_path / "out").items()
    assert (place, [step for step, _, _ in recording.steps]) == ("rank0_start3_stop4", [3, 4])


def test_a_first_step_that_the_file_names_already_begins_with_init(
    collector: FakeCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiler_config.json").write_text('{"start_step": 1, "stop_step": 1, "activities": ["NPU"]}')
    dynamic.init(tmp_path)
    assert running.current() is not None
    dynamic.step()
    assert list(recordings(tmp_path)) == ["rank0_start1_stop1"]


def test_a_file_left_by_another_training_does_not_begin_now(collector: FakeCollector, tmp_path: Path) -> None:
    (tmp_path / "profiler_config.json").write_text('{"start_step": -1}')
    file = dynamic.init(tmp_path)
    steps(3)
    assert collector.calls == ["check"]
    assert "until it is changed" in log_of(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"start_step": -1, "acti', "half written"),
        ("[]", "must hold a JSON object"),
        ('{"start_step": -1, "active": 0}', "active must be a whole number"),
        ('{"start_step": -1, "npuprof": {"colour": "red"}}', "unknown key npuprof.colour"),
        ('{"start_step": -1, "activities": ["NPU"], "npuprof": {"l2": true, "level": "none"}}', "needs marks"),
        ("\xff", "half written"),
        ("[" * 100_000, "half written"),
        (" " * (1 << 20) + "{}", "over 1048576 bytes"),
    ],
)
def test_wrong_file_is_logged_and_the_next_counts(file: Path, tmp_path: Path, content: str, told: str) -> None:
    file.write_text(content, encoding="latin-1")
    steps(2)
    assert recordings(tmp_path) == {}
    assert " ERROR " in log_of(file)
    assert told in log_of(file)
    file.write_text('{"start_step": -1, "activities": ["NPU"]}')
    steps(2)
    assert len(recordings(tmp_path)) == 1


@pytest.mark.parametrize(
    ("asked", "told", "kept"),
    [
        ({"colour": "red"}, "unknown key colour left out: the keys are", {}),
        ({"experimental_config": {"l3_cache": True}}, "unknown key experimental_config.l3_cache left out", {}),
        (
            {"experimental_config": {"l2_cache": "on", "sys_io": True}},
            "experimental_config.l2_cache left out",
            {"sys_io": True},
        ),
        (
            {"experimental_config": {"aic_metrics": "Memory"}},
            "aic_metrics left out: aic_metrics=Memory needs level 1",
            {},
        ),
        (
            {"with_stack": True, "profile_memory": True},
            "stacks left out: stacks is recorded on the host",
            {"memory": True},
        ),
        (
            {"experimental_config": {"l2_cache": True, "op_attr": True}},
            "op_attr left out: fake has no op_attr",
            {"l2": True},
        ),
        (
            {"experimental_config": {"profiler_level": "Level_none"}},
            "level left out: level none records markers",
            {"level": 0},
        ),
    ],
)
def test_unusable_vendor_options_are_reported(
    file: Path,
    tmp_path: Path,
    collector: FakeCollector,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, Any],
    told: str,
    kept: dict[str, Any],
) -> None:
    def check(options: Options) -> None:
        if options.op_attr:
            raise OptionsError("fake has no op_attr: leave it out", "op_attr")

    monkeypatch.setattr(collector, "check", check)
    file.write_text(json.dumps({"start_step": -1, "activities": ["NPU"], **asked}))
    steps(2)
    (recording,) = recordings(tmp_path).values()
    log = log_of(file)
    assert f" WARNING {file}: {told}" in log
    assert " ERROR " not in log
    assert {name: recording.options[name] for name in kept} == kept
    usual = Options(level=0, activities=("npu",), marks=False).to_dict()
    others = {name for name in usual if recording.options[name] != usual[name]}
    assert others <= {*kept, "output"}


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_writable_file_is_obeyed_once_mended(file: Path, tmp_path: Path, mode: int) -> None:
    dynamic.edit(file, start_step=-1, activities=["NPU"])
    file.chmod(mode)
    steps(3)
    assert running.current() is None
    assert log_of(file).count(f"can be written to by others (mode {mode:04o})") == 1
    with pytest.raises(SourceError, match="chmod go-w"):
        dynamic.edit(file, active=2)
    file.chmod(0o600)
    steps(2)
    assert list(recordings(tmp_path)) == ["rank0_start4_stop4"]


def test_a_file_of_another_user_is_not_obeyed(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic.edit(file, start_step=-1, activities=["NPU"])
    if os.geteuid() == 0:
        os.chown(file, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    steps(2)
    dynamic.start(file)
    assert recordings(tmp_path) == {}
    assert f"belongs to user {file.stat().st_uid}, and only a file of user {os.geteuid()}" in log_of(file)


def test_odd_file_does_not_delay_the_loop(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    steps(2)
    assert "is no file" in log_of(file)
    file.unlink()
    file.mkdir()
    steps(2)
    assert log_of(file).count(" ERROR ") == 2


def test_a_file_that_goes_is_reported_once_and_taken_up_again(file: Path, tmp_path: Path) -> None:
    file.unlink()
    steps(3)
    assert log_of(file).count("has gone") == 1
    file.write_text('{"start_step": -1, "activities": ["NPU"]}')
    steps(2)
    assert len(recordings(tmp_path)) == 1


@pytest.mark.parametrize("call", ["check", "start", "stop"])
def test_a_profiler_that_fails_is_logged_and_the_loop_goes_on(file: Path, collector: FakeCollector, call: str) -> None:
    collector.fail = {call: CollectorError("the driver is gone")}
    dynamic.edit(file, start_step=-1, activities=["NPU"])
    steps(3)
    assert "the driver is gone" in log_of(file)
    assert running.current() is None
    collector.fail = {}
    dynamic.edit(file, start_step=-1)
    steps(1)
    assert running.current() is not None


def test_a_change_during_a_run_waits_for_its_end(file: Path, tmp_path: Path) -> None:
    dynamic.edit(file, start_step=-1, active=2, activities=["NPU"])
    steps(1)
    dynamic.edit(file, start_step=-1, active=1)
    steps(4)
    assert list(recordings(tmp_path)) == ["rank0_start1_stop2", "rank0_start3_stop3"]


def test_a_run_that_waits_is_taken_back_by_the_next_change(file: Path, tmp_path: Path) -> None:
    dynamic.edit(file, start_step=4)
    steps(2)
    dynamic.edit(file, start_step=0)
    steps(5)
    assert recordings(tmp_path) == {}


def test_another_session_is_left_alone(file: Path, collector: FakeCollector, tmp_path: Path) -> None:
    with npuprof.profile(activities="npu", output=tmp_path / "other"):
        dynamic.edit(file, start_step=-1, activities=["NPU"])
        steps(3)
    assert "has been collecting with fake" in log_of(file)


def test_metadata_and_analysis_go_with_the_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("npuprof.session.session.Session.analyse", lambda self, mode: asked.append(mode))
    dynamic.edit(file, start_step=-1, activities=["NPU"], metadata={"epoch": 3}, analyse=True, async_mode=True)
    steps(2)
    assert recordings(tmp_path)["rank0_start1_stop1"].metadata == {"epoch": 3}
    assert asked == ["async"]


@pytest.mark.parametrize("variable", ["RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK"])
def test_only_the_ranks_asked_for_are_profiled(
    collector: FakeCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "3")
    file = dynamic.init(tmp_path / "config")
    dynamic.edit(file, start_step=-1, is_rank=True, rank_list=[0, 1], activities=["NPU"])
    steps(2)
    assert recordings(tmp_path) == {}
    dynamic.edit(file, rank_list=[3])
    steps(2)
    assert list(recordings(tmp_path)) == ["rank3_start3_stop3"]


def test_start_begins_at_once_whatever_the_file_names(file: Path, tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"active": 2, "start_step": 0, "activities": ["NPU"]}')
    steps(1)
    dynamic.start(tmp_path / "own.json")
    assert running.current() is not None
    steps(2)
    assert list(recordings(tmp_path)) == ["rank0_start1_stop2"]
    dynamic.start(tmp_path / "missing.json")
    assert "missing.json cannot be read" in log_of(file)


def test_steps_are_counted_on_from_a_checkpoint(file: Path, tmp_path: Path) -> None:
    dynamic.set_state({"cur_step": 1000})
    dynamic.edit(file, start_step=1002, activities=["NPU"])
    steps(4)
    assert list(recordings(tmp_path)) == ["rank0_start1002_stop1002"]
    dynamic.edit(file, start_step=1050)
    steps(1)
    dynamic.set_state({"cur_step": 2000})
    assert "has passed with 2000" in log_of(file)
    for state in ({}, {"cur_step": -1}, {"cur_step": "1"}, {"cur_step": 1, "epoch": 2}):
        with pytest.raises(OptionsError, match="cur_step"):
            dynamic.set_state(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [dynamic.step, dynamic.start, lambda: dynamic.set_state({"cur_step": 1})])
def test_without_init_every_call_says_so(call: Any) -> None:
    with pytest.raises(SessionError, match=r"call npuprof.dynamic.init\(path\) first"):
        call()


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionsError, match="pass a directory"):
        dynamic.init(tmp_path / "file" / "config")
    with pytest.raises(OptionsError, match="keys must be one of"):
        dynamic.init(tmp_path, keys="paddle")  # type: ignore[arg-type]


class Slow:
    """A file system on which each look takes a given time, with the clock that sees it."""

    def __init__(self, cost_ns: int) -> None:
        self.now_ns = 0
        self.looks = 0
        self.cost_ns = cost_ns

    def stat(self, path: Path) -> os.stat_result:
        self.looks += 1
        self.now_ns += self.cost_ns
        return os.stat(path)  # noqa: PTH116 - what is stood in for

    def clock_ns(self) -> int:
        return self.now_ns


@pytest.mark.parametrize(("cost_ns", "looks"), [(2_000, 1000), (5_000_000, 2)])
def test_each_step_looks_once_unless_looks_are_slow(tmp_path: Path, cost_ns: int, looks: int) -> None:
    disk = Slow(cost_ns)
    monitor = Monitor(tmp_path / "profiler_config.json", stat=disk.stat, clock_ns=disk.clock_ns)
    before = disk.looks
    for _ in range(1000):
        monitor.step()
        disk.now_ns += 500_000
    assert disk.looks - before == pytest.approx(looks, abs=1)


def test_a_single_slow_look_is_the_machines(tmp_path: Path) -> None:
    disk = Slow(2_000)
    monitor = Monitor(tmp_path / "profiler_config.json", stat=disk.stat, clock_ns=disk.clock_ns)
    monitor.step()
    disk.cost_ns = 50_000_000
    monitor.step()
    disk.cost_ns = 2_000
    before = disk.looks
    for _ in range(10):
        monitor.step()
    assert disk.looks - before == 10


_TRAINING = """
import itertools, sys, time
from pathlib import Path
import npuprof
from npuprof.simulator import npu

end = time.monotonic() + 60
folder = Path(sys.argv[1])
npuprof.dynamic.init(folder, collector="simulator")
x = npu.ones((8, 8))
for step in itertools.count():
    x = x + 1.0
    npuprof.dynamic.step()
    if step == 3:
        (folder / f"ready{sys.argv[2]}").touch()
    if (folder / "log").exists() and any("the recording is" in log.read_text() for log in (folder / "log").iterdir()):
        break
    assert time.monotonic() < end
"""


@pytest.mark.long
def test_two_processes_heed_one_file_each_for_its_rank(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _TRAINING, str(tmp_path / "config"), str(rank)],
            env={**os.environ, "RANK": str(rank)},
            cwd=tmp_path,
        )
        for rank in (0, 1)
    ]
    try:
        while not all((tmp_path / "config" / f"ready{rank}").exists() for rank in (0, 1)):
            assert all(process.poll() is None for process in ranks)
        dynamic.edit(
            tmp_path / "config", start_step=-1, active=2, is_rank=True, rank_list=[1], activities=["NPU"], analyse=True
        )
        assert [process.wait(timeout=pace.seconds(60)) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    (directory,) = (path.parent for path in tmp_path.glob("rank*/*/recording.json"))
    assert directory.parent.name.startswith("rank1_start")
    run = npuprof.load(directory)
    assert isinstance(run, npuprof.Profile)
    assert len(run.kernels) == 2
    assert run.info.simulated
    logs = {path.name.split("_")[1]: path.read_text() for path in (tmp_path / "config" / "log").iterdir()}
    assert "does not mean rank 0" in logs["rank0"]


def test_an_edit_is_validated_and_leaves_the_file_whole(file: Path) -> None:
    before = file.read_text()
    for wrong in ({"active": 0}, {"colour": 1}, {"stop_step": 3}, {"profiler_level": "Level9"}, {"devices": "x"}):
        with pytest.raises(NpuprofError):
            dynamic.edit(file, **wrong)
    assert file.read_text() == before
    plain = dynamic.edit(file.parent, profiler_level="Level1", dvpp=True, active=3)
    assert plain == json.loads(file.read_text())
    assert plain["experimental_config"]["profiler_level"] == "Level1"
    assert (plain["npuprof"], plain["active"]) == ({"dvpp": True}, 3)
    assert [path.name for path in file.parent.iterdir() if path.suffix != ""] == ["profiler_config.json"]


def test_new_file_is_private_and_edits_keep_permissions(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    dynamic.edit(file, start_step=7)
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir() if path.suffix == ".part"] == []


def test_edit_of_missing_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(NpuprofError, match="cannot be read"):
        dynamic.edit(tmp_path, active=1)
