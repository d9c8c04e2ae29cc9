"""The tool msprof attached to this process, and running a program: what it is asked, and what it comes to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import cli
from npuprof.collectors import msprof
from npuprof.collectors.msprof import MsprofCollector, MsprofProcess
from npuprof.collectors.msprof_flags import flags, refuse
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.machine import cann
from npuprof.options import AIC_METRICS, Options
from npuprof.recordings.recording import Recording
from npuprof.session.applications import run_application
from npuprof.session.history import ended_runs
from npuprof.session.session import Session
from tests import pace
from tests.collectors import msprof_double as double
from tests.conftest import FakeClock


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw directory, of the simulated NPU, for the stand-in to leave."""
    from npuprof.simulator import npu

    output = tmp_path_factory.mktemp("raw")
    with npuprof.profile(collector="simulator", activities="npu", output=output):
        npu.ones((8, 8)) + 1.0
    (directory,) = output.glob("*/PROF_*")
    return directory


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: Path) -> Callable[..., Any]:
    """Put the stand-in on PATH; gives a function that sets how it behaves and one that tells how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    double.install(folder)
    monkeypatch.setenv("PATH", double.put_on_path(folder))
    monkeypatch.setattr(msprof, "_mode_at_start", lambda: "dynamic")
    log = tmp_path / "calls"

    def behave(**how: Any) -> Callable[[], list[Any]]:
        monkeypatch.setenv("FAKE_MSPROF", json.dumps({"data": str(raw), "log": str(log), **how}))
        return lambda: [json.loads(line) for line in log.read_text().splitlines()]

    behave()
    return behave


EVERYTHING: dict[str, Any] = {
    "memory": True,
    "memory_freq": 20,
    "llc_profiling": "read",
    "l2": True,
    "shapes": True,
    "host_sys": "cpu,mem",
    "host_sys_usage": "cpu",
    "host_sys_usage_freq": 5,
    "sys_io": True,
    "io_freq": 10,
    "sys_interconnection": True,
    "interconnection_freq": 11,
    "dvpp": True,
    "dvpp_freq": 12,
    "ge_api": "l1",
    "mstx_domain_include": "a,b",
    "storage_limit": 300,
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"level": "none"}, {"task-time": "off", "ascendcl": "off", "ai-core": "off", "msproftx": "on"}),
        ({"level": 0}, {"task-time": "l0", "ascendcl": "on", "ai-core": "off", "aicpu": None, "runtime-api": None}),
        ({"level": 0, "aicpu": True, "runtime_api": True}, {"aicpu": "on", "runtime-api": "on"}),
        ({"level": 0, "shapes": True}, {"aicore-shape": "on"}),
        ({}, {"task-time": "l1", "ai-core": "on", "aic-mode": "task-based", "aic-metrics": "PipeUtilization"}),
        ({"level": 2}, {"task-time": "l1", "aicpu": "on", "runtime-api": "on"}),
        ({"aic_metrics": "Custom:0x8,0xa"}, {"aic-metrics": "Custom:0x8,0xa"}),
        ({"marks": False}, {"msproftx": None, "ge-api": None, "l2": None, "type": None}),
        ({"export_type": "db"}, {"type": "db"}),
        ({"delay": 3, "duration": 4}, {"delay": "3", "duration": "4"}),
        ({"memory": True}, {"task-memory": "on", "sys-hardware-mem": "on", "sys-hardware-mem-freq": "50"}),
        ({"sys_io": True}, {"sys-io-profiling": "on", "sys-io-sampling-freq": "100"}),
        ({"sys_interconnection": True}, {"sys-interconnection-profiling": "on", "sys-interconnection-freq": "50"}),
        ({"dvpp": True}, {"dvpp-profiling": "on", "dvpp-freq": "50"}),
        (
            EVERYTHING,
            {
                "sys-hardware-mem-freq": "20",
                "llc-profiling": "read",
                "l2": "on",
                "host-sys": "cpu,mem",
                "host-sys-usage": "cpu",
                "host-sys-usage-freq": "5",
                "sys-io-sampling-freq": "10",
                "sys-interconnection-freq": "11",
                "dvpp-freq": "12",
                "ge-api": "l1",
                "mstx-domain-include": "a,b",
                "storage-limit": "300MB",
            },
        ),
    ],
)
def test_the_flags_of_each_option(options: dict[str, Any], expected: dict[str, str | None]) -> None:
    given = dict(flag[2:].split("=", 1) for flag in flags(Options.from_dict(options)))
    assert {name: given.get(name) for name in expected} == expected


@pytest.mark.parametrize("level", ["none", 0, 1, 2])
@pytest.mark.parametrize("options", [{}, EVERYTHING, {"mstx_domain_exclude": "a"}, {"delay": 1, "duration": 5}])
def test_flags_are_ones_the_tool_has(level: Any, options: dict[str, Any]) -> None:
    if level == "none":
        options = {name: value for name, value in options.items() if name not in ("l2", "shapes")}
    for metric in (None, *AIC_METRICS) if level in (1, 2) else (None,):
        given = dict(
            flag[2:].split("=", 1)
            for flag in flags(Options.from_dict({**options, "level": level, "aic_metrics": metric}), pid=7)
        )
        for name, value in given.items():
            assert re.fullmatch(double.OPTIONS[name], value), f"{name}={value}"
            other, needed = double.NEEDS.get(name, (name, value))
            assert given[other] == needed


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"delay": 1}, r"this process is running.*%npuprof run"),
        ({"level": 0, "hccl": True}, "msprof discards hccl.*set level 1"),
        ({"export_type": "text,db"}, "exports text or db, one of them"),
        ({"level": "none", "shapes": True}, "raise the level"),
    ],
)
def test_tool_refusals_come_first(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        refuse(Options.from_dict(options), attached=True)


def test_foreign_process_is_refused(tool: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msprof, "_mode_at_start", lambda: "")
    monkeypatch.setenv("PROFILING_MODE", "dynamic")  # too late
    with pytest.raises(CollectorError, match=r"started with no PROFILING_MODE.*kernel.json.*%npuprof run"):
        MsprofCollector().check(Options())


@pytest.mark.slow
def test_mode_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import os; os.environ['PROFILING_MODE'] = 'late'; "
        "from npuprof.collectors import msprof; print(msprof._mode_at_start())"
    )
    for mode in ("dynamic", ""):
        monkeypatch.setenv("PROFILING_MODE", mode)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == mode


_ATTACHED = """
import sys, npuprof
with npuprof.profile(collector="msprof", activities="npu", output=sys.argv[1]) as prof:
    pass
print(len(prof.result.kernels), prof.recording.problems)
"""


@pytest.mark.slow
def test_a_process_that_was_started_for_it_is_attached_to(
    tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILING_MODE", "dynamic")
    command = [sys.executable, "-c", _ATTACHED, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=pace.seconds(120))
    assert done.stdout.strip() == "2 []"


def test_without_the_tool_the_front_end_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cann, "msprof", lambda: None)
    with pytest.raises(FrontEndAbsentError, match="install the CANN toolkit"):
        MsprofCollector().check(Options())


@pytest.mark.slow
def test_a_session_attaches_collects_and_detaches(tool: Callable[..., Any], tmp_path: Path) -> None:
    called = tool()
    session = Session(Options(activities=("npu",), output=tmp_path / "out", collector="msprof"))
    with session:
        pass
    assert session.recording.problems == []
    assert len(session.result.kernels) == 2
    ((arguments, mode),) = called()
    assert {"--dynamic=on", f"--output={session.recording.directory}", "--task-time=l1"} <= set(arguments)
    assert mode == ""
    assert double.PROMPTS["stop"] in (session.recording.directory / msprof.LOG_NAME).read_text()
    assert not [thread for thread in threading.enumerate() if thread.name == "npuprof-msprof"]


@pytest.mark.parametrize("records", [True, False])
def test_warm_up_starts_the_tool(tool: Callable[..., Any], tmp_path: Path, records: bool) -> None:
    called = tool()
    collector, options = MsprofCollector(), Options(activities=("npu",), collector="msprof")
    collector.warmup(options, tmp_path)
    if records:
        collector.start(options, tmp_path)
    collector.stop()
    assert bool(list(tmp_path.glob("PROF_*"))) == records
    if records:
        assert len(called()) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "npuprof-msprof"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"refusal": "[ERROR] cannot connect"}, r"msprof ended at `start` .*cannot connect.*has initialised CANN"),
        ({"refusal": "no such process"}, r"msprof ended at `start` with status 255.*no such process"),
        ({"refuses": "again"}, "msprof refused to start.*already started"),
        ({"refuses": "no_device"}, "msprof refused to start.*has not been set up"),
        ({"refuses": "failed"}, "msprof refused to start.*start failed.*has initialised CANN"),
        ({"deaf": True}, r"did not answer `start` within 1 s\. It said nothing"),
    ],
)
def test_a_start_that_is_refused_leaves_nothing_running(
    tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr(msprof, "_ATTACH_S", 1.0 if how.get("deaf") else 60.0)
    tool(**how)
    session = Session(Options(activities=("npu",), output=tmp_path / "out", collector="msprof"))
    with pytest.raises(CollectorError, match=told):
        session.start()
    assert not (tmp_path / "out").exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "npuprof-msprof"]


@pytest.mark.slow
def test_stray_error_line_does_not_end_the_run(tool: Callable[..., Any], tmp_path: Path) -> None:
    tool(grumbles="no_msopprof")
    with Session(Options(activities=("npu",), output=tmp_path, collector="msprof")) as session:
        pass
    assert session.recording.problems == []
    assert double.PROMPTS["no_msopprof"] in (session.recording.directory / msprof.LOG_NAME).read_text()
    assert len(session.result.kernels) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"dies": True}, "msprof ended at `stop` with status 3"),
        ({"data": ""}, r"msprof ended with status 0 and left no PROF_\*"),
        ({"status": 255}, "msprof ended with status 255"),
    ],
)
def test_a_stop_that_fails_is_reported_in_the_recording(
    tool: Callable[..., Any], tmp_path: Path, how: dict[str, Any], told: str
) -> None:
    tool(**how)
    session = Session(Options(activities=("npu",), output=tmp_path / "out", collector="msprof")).start()
    (problem,) = session.stop().problems
    assert re.search(told, problem)


@pytest.mark.slow
def test_markers_are_stamps_of_pyacl_while_it_collects(
    tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import ModuleType

    from tests.collectors.test_acl import RecordingProf

    acl: Any = ModuleType("acl")
    acl.prof = RecordingProf({}, (5, 0))
    monkeypatch.setitem(sys.modules, "acl", acl)
    with Session(Options(activities=("npu",), output=tmp_path, collector="msprof")):
        npuprof.mark("now")
        npuprof.range_start("left open")
    npuprof.mark("too late")
    assert [call[0] for call in acl.prof.calls] == [
        "create_stamp",
        "set_stamp_trace_message",
        "mark",
        "destroy_stamp",
        "create_stamp",
        "set_stamp_trace_message",
        "range_start",
        "range_stop",
        "destroy_stamp",
    ]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import sys\nprint('trained', *sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
    return path


@pytest.mark.slow
def test_a_script_is_run_with_its_arguments_and_recorded(
    tool: Callable[..., Any], tmp_path: Path, script: Path
) -> None:
    called = tool()
    said: list[str] = []
    options = Options(output=tmp_path / "out", level=0, duration=9)
    recording = run_application([str(script), "0", "--level", "x"], options, echo=said.append)
    assert "trained 0 --level x" in "".join(said)
    assert recording.failed == ""
    assert "Python stacks are sampled" in said[0]
    assert recording.problems == []
    run = npuprof.load(recording.directory)
    assert isinstance(run, npuprof.Profile)
    assert (len(run.kernels), run.info.collector) == (2, "msprof")
    ((arguments, _),) = called()
    assert {"--task-time=l0", "--duration=9"} <= set(arguments)
    assert arguments[-4:] == [str(script), "0", "--level", "x"]
    assert Recording.read(recording.directory).stopped_ns >= recording.started_ns
    assert npuprof.last().info.recording == recording.directory
    assert ended_runs()[-1].directory == recording.directory


@pytest.mark.slow
@pytest.mark.parametrize(("set_ns", "told"), [(-3_600_000_000_000, "back by"), (3_600_000_000_000, "forward by")])
def test_clock_set_while_running_changes_no_duration(
    tool: Callable[..., Any], tmp_path: Path, script: Path, clock: FakeClock, set_ns: int, told: str
) -> None:
    tool()

    passed: list[str] = []

    def once(said: str) -> None:
        if "trained" in said and not passed:
            passed.append(said)
            clock.advance(5_000_000)
            clock.epoch_ns += set_ns

    recording = run_application([str(script), "0"], Options(output=tmp_path / "out"), echo=once, clock=clock)
    assert recording.stopped_ns - recording.started_ns == 5_000_000
    assert recording.clock_step_ns == set_ns
    assert npuprof.load(recording.directory).notes["message"].str.contains(told).any()


@pytest.mark.slow
def test_a_program_that_fails_keeps_its_recording(tool: Callable[..., Any], tmp_path: Path, script: Path) -> None:
    recording = run_application([str(script), "3"], Options(output=tmp_path / "out"))
    assert "status 3" in recording.failed
    assert "trained 3" in recording.failed


def test_a_program_that_never_uses_cann_is_reported(tool: Callable[..., Any], tmp_path: Path, script: Path) -> None:
    tool(data="")
    with pytest.raises(CollectorError, match=r"status 255 and left no PROF_\*.*Failed to find.*only if it uses CANN"):
        run_application([str(script), "0"], Options(output=tmp_path / "out"))


@pytest.mark.slow
def test_slow_program_ends_with_its_children(tool: Callable[..., Any], tmp_path: Path, script: Path) -> None:
    script.write_text(
        "import os, pathlib, time\npathlib.Path(__file__).with_name('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    tool(data="")
    with pytest.raises(CollectorError, match=r"it was ended after 1 s"):
        run_application([str(script)], Options(output=tmp_path / "out"), timeout_s=1)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + pace.seconds(10)
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline


def test_an_interrupt_ends_the_program(tool: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    process = MsprofProcess([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"])

    wait = process._process.wait

    def interrupted_once(timeout: float | None = None) -> int:
        monkeypatch.setattr(process._process, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(process._process, "wait", interrupted_once)

    with pytest.raises(KeyboardInterrupt):
        process.wait(None)
    assert process._process.returncode in (-signal.SIGINT, 1, 130, -signal.SIGKILL)


@pytest.mark.parametrize(
    ("program", "options", "told"),
    [
        (["missing.py"], {}, "missing.py is not a file"),
        (["no-such-program"], {}, "neither a script"),
        ([], {}, "no program to run"),
        (["x.py"], {"collector": "acl"}, "acl profiles a Python script from within, and x.py is none"),
        (["x.py"], {"activities": "cpu"}, "add npu to activities"),
        (["x.py"], {"modules": True}, "msprof has no modules"),
        (["x.py"], {"stacks": True}, "leave stacks out"),
    ],
)
def test_what_cannot_be_run_is_refused(
    tool: Callable[..., Any], program: list[str], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(OptionsError, match=told):
        run_application(program, Options.from_dict(options))


def test_a_long_output_is_kept_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.collectors.msprof._MOST_OUTPUT", 1000)
    code = "import sys\nfor line in range(5000): print('line', line)\nsys.stdin.readline(); print('done')"
    process = MsprofProcess([sys.executable, "-c", code], takes_words=True)
    assert process.ask("go", re.compile("done"), 30)[0] == "done"
    assert process.wait(30) == 0
    assert len(process.output) == 1000
    assert process.output.endswith("line 4999\ndone\n")


@pytest.mark.slow
def test_the_command_line_runs_a_script(
    tool: Callable[..., Any], tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--level", "0", "--output", str(tmp_path / "out"), str(script), "0", "--level", "5"]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert "trained 0 --level 5" in shown
    assert "computing" in shown
    assert cli.main(["run", "--output", str(tmp_path / "out"), str(script), "4"]) == 1
    assert "the program failed" in capsys.readouterr().err
    assert cli.main(["run", "--colour", str(script)]) == 2
    assert cli.main(["run"]) == 2
    assert cli.main(["run", "--help"]) == 0
    assert "--aic-metrics" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"ascend_toolkit_install.info": "package_name=toolkit\nversion=8.0.RC1\n"}, "8.0.RC1"),
        ({"version.cfg": "# version: 1.0\nruntime_running_version=[7.0.0.1:7.0]\n"}, "7.0.0.1:7.0"),
        ({"ascend_toolkit_install.info": "nothing\n"}, ""),
        ({}, ""),
    ],
)
def test_the_version_of_cann_is_read_from_its_files(tmp_path: Path, files: dict[str, str], version: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cann.toolkit_version(tmp_path) == version


def test_the_tool_is_found_in_cann_where_path_lacks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.machine.cann.shutil.which", lambda tool: None)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert cann.msprof() is None
    (tmp_path / "bin").mkdir()
    assert cann.msprof() is None
    tool = double.install(tmp_path / "bin")
    assert cann.msprof() == tool
    assert msprof.find() == tool
