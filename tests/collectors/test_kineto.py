"""Torch's own profiler, driven for real where torch is installed."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.correlation import causes
from npuprof.collectors.kineto import KinetoCollector
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.options import Options
from npuprof.recordings.recording import TRACE_FILE_NAME
from npuprof.session.session import Session
from tests import pace
from tests.collectors.schedules import SCHEDULES


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real torch; it must not load torch_npu, which may be installed beside it without CANN."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed for this Python")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    return importlib.import_module("torch")


def _train(torch: Any) -> None:
    weight = torch.ones(3, 5, requires_grad=True)
    (torch.ones(2, 3) @ weight).sum().backward()


def _session(output: Path, **options: Any) -> Session:
    return npuprof.profile(collector="kineto", output=output, **options)


def test_a_schedule_warms_torch_up_and_records_the_active_step_alone(torch: Any, tmp_path: Path) -> None:
    plan = npuprof.schedule(wait=1, warmup=1, active=1, repeat=2)
    recorded = []
    with _session(tmp_path, schedule=plan) as session:
        for _ in range(6):
            recorded.append(bool(torch.autograd._profiler_enabled()))
            _train(torch)
            session.step()
    assert recorded == [False, False, True] * 2
    for step, run in zip((2, 5), session.results, strict=True):
        assert run.steps["step"].tolist() == [step]
        assert (run.operators["name"] == "aten::mm").sum() == 2


def test_a_warm_up_without_a_start_leaves_torch_as_it_was(torch: Any, tmp_path: Path) -> None:
    collector = KinetoCollector()
    collector.warmup(Options(collector="kineto"), tmp_path)
    collector.stop()
    assert not torch.autograd._profiler_enabled()
    assert not list(tmp_path.iterdir())
    with _session(tmp_path) as session:
        _train(torch)
    assert len(session.result.operators)


def test_stacks_have_no_frame_of_npuprofs(torch: Any, tmp_path: Path) -> None:
    with _session(tmp_path, stacks=True) as session:
        for _ in range(2):
            with npuprof.range("train"):
                _train(torch)
            session.step()
    recorded = session.result.python["name"].astype(str)
    assert recorded.str.contains("_train").any()
    unwanted = recorded.str.contains("npuprof/(?:session|markers)|threading.py|torch/profiler")
    assert not recorded[unwanted].tolist()
    written = session.export_stacks(tmp_path / "stacks.txt").read_text()
    assert "_train" in written
    assert "npuprof/session/session.py" not in written
    assert "npuprof/markers.py" not in written


def test_a_cpu_run_becomes_operators_memory_steps_and_marks(torch: Any, tmp_path: Path) -> None:
    with _session(tmp_path, shapes=True, memory=True, flops=True) as session:
        for _ in range(2):
            with npuprof.range("train", "mine"):
                _train(torch)
            npuprof.mark('a "quoted"\nmessage')
            session.step()
    run = session.result
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))
    assert (run.info.collector, run.info.versions["torch"]) == ("kineto", torch.__version__)
    assert not run.info.simulated
    assert run.steps["step"].tolist() == [0, 1]
    products = run.operators[run.operators["name"] == "aten::mm"]
    assert products["step"].tolist() == [0, 0, 1, 1]
    assert products["input_shapes"].iloc[0] == "2,3;3,5"
    assert products["input_dtypes"].iloc[0] == "float;float"
    assert products["flops"].tolist()[::2] == 2 * [2 * 2 * 3 * 5]  # the forward product of each step
    assert run.operators.loc[run.operators["name"] == "MmBackward0", "flops"].isna().all()
    backward = run.operators[run.operators["name"] == "MmBackward0"]["sequence_number"]
    assert set(backward) <= set(products["sequence_number"].dropna())
    assert (run.links["kind"] == "forward_backward").any()
    assert (run.memory["component"] == "CPU").all()
    assert run.memory["allocated_bytes"].max() >= 60
    assert run.allocations["size_bytes"].min() > 0
    assert run.marks["message"].tolist() == 2 * ["train", "a 'quoted''message"]
    assert run.marks["domain"].tolist()[0] == "mine"
    started, stopped = run.info.started_ns, run.info.stopped_ns
    assert started is not None
    assert stopped is not None
    assert run.operators["start_ns"].between(started, stopped).all()


def test_cpu_loop_is_explained_by_the_host(torch: Any, tmp_path: Path) -> None:
    """A real training loop has no device: its steps are divided by activity, and its time has lines and operators."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    plan = npuprof.schedule(wait=0, warmup=1, active=3, repeat=1)
    with _session(tmp_path, stacks=True, shapes=True, memory=True, modules=True, schedule=plan) as session:
        for _ in range(4):
            model(torch.ones(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            session.step()
    (run,) = session.results
    parts = run.breakdown()
    assert set(parts["part"]) == {"host"}
    assert parts.groupby("step")["duration_ns"].sum().tolist() == run.steps["duration_ns"].tolist()
    did = parts.groupby("cause", observed=True)["duration_ns"].sum()
    assert {"optimizer", "backward", "forward", "python"} <= set(did.index[did > 0])
    advice = run.advice()
    assert "no device was recorded" in advice.headline()
    assert "optimizer" in str(advice)
    assert not re.search(r"NPU|torch_npu|TASK_QUEUE", f"{advice}{run}{advice.to_json()}".replace("npuprof", ""))
    assert run.by("op", "shapes").set_index("op").loc["aten::addmm", "count"].sum() == 6
    assert {"Linear_0", "Linear_1"} <= set(run.by("module")["module"].dropna())
    lines = run.by("line")
    assert lines["line"].iloc[0].startswith("test_kineto.py: ")
    own = causes(run.tables).self_ns[causes(run.tables).first_row["operators"] :][: len(run.operators)]
    assert lines["total_ns"].sum() == own[(run.operators["kind"] == "op").to_numpy(bool)].sum()
    owners = run.memory_peak()
    assert {"optimizer", "backward"} & set(owners["category"])
    assert len(run.flamegraph().data)


def test_stacks_are_torchs_own_and_are_not_sampled_as_well(torch: Any, tmp_path: Path) -> None:
    with _session(tmp_path, stacks=True) as session:
        _train(torch)
    run = session.result
    product = run.operators[run.operators["name"] == "aten::mm"].iloc[0]
    assert "test_kineto.py" in product["stack"].splitlines()[0]
    assert run.python["name"].str.contains("_train").any()
    assert sorted(path.name for path in session.recording.directory.iterdir()) == ["recording.json", TRACE_FILE_NAME]
    assert not len(run.steps)


@pytest.mark.parametrize("modules", [False, True])
def test_without_stacks_python_calls_are_sampled(torch: Any, tmp_path: Path, modules: bool) -> None:
    with _session(tmp_path, modules=modules) as session:
        _train(torch)
    assert (session.recording.directory / "python_stacks.parquet").is_file()


def test_each_cycle_of_a_schedule_is_a_recording(torch: Any, tmp_path: Path) -> None:
    with _session(tmp_path, schedule=npuprof.schedule(wait=1, active=1, repeat=2)) as session:
        for _ in range(4):
            _train(torch)
            session.step()
    assert [run.steps["step"].tolist() for run in session.results] == [[1], [3]]
    assert all(set(run.operators["step"].dropna()) == set(run.steps["step"]) for run in session.results)
    traces = sorted(tmp_path.glob(f"*/{TRACE_FILE_NAME}"))
    # In torch's own viewers too.
    assert [npuprof.load(trace).steps["step"].tolist() for trace in traces] == [[1], [3]]


def _marked_steps(trace: Path) -> list[str]:
    events = json.loads(trace.read_text())["traceEvents"]
    return [event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep#")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch, where there is no warm-up, and of loops that end within a cycle
@pytest.mark.parametrize(("plan", "steps"), SCHEDULES)
def test_a_schedule_leaves_the_steps_that_torch_itself_leaves(
    torch: Any, tmp_path: Path, plan: dict[str, int], steps: int
) -> None:
    profiler = torch.profiler
    traces: list[Path] = []

    def export(prof: Any) -> None:
        traces.append(tmp_path / f"torch_{len(traces)}.json")
        prof.export_chrome_trace(str(traces[-1]))

    cpu = [profiler.ProfilerActivity.CPU]
    with profiler.profile(activities=cpu, schedule=profiler.schedule(**plan), on_trace_ready=export) as own:
        for _ in range(steps):
            _train(torch)
            own.step()
    with _session(tmp_path / "out", schedule=npuprof.schedule(**plan)) as session:
        for _ in range(steps):
            _train(torch)
            session.step()
    recorded = sorted((tmp_path / "out").glob(f"*/{TRACE_FILE_NAME}"))
    assert len(recorded) > 0
    assert [_marked_steps(trace) for trace in recorded] == [_marked_steps(trace) for trace in traces]


def test_the_trace_opens_by_itself_too(torch: Any, tmp_path: Path) -> None:
    with _session(tmp_path) as session:
        _train(torch)
    alone = npuprof.load(session.recording.directory / TRACE_FILE_NAME)
    assert len(alone.operators) == len(session.result.operators)
    assert alone.info.source == "torch profiler trace"


def test_an_exception_leaves_no_profiler_running(torch: Any, tmp_path: Path) -> None:
    session = _session(tmp_path)

    def fail() -> None:
        with session:
            npuprof.range_start("left open")
            raise ValueError("from the code")

    with pytest.raises(ValueError, match="from the code"):
        fail()
    assert not torch.autograd._profiler_enabled()
    assert session.result.info.failed == "ValueError: from the code"
    with _session(tmp_path) as again:
        _train(torch)
    assert len(again.result.operators)


def test_a_start_that_fails_leaves_nothing(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = torch.profiler.profile.start

    def broken(profile: Any) -> None:
        start(profile)
        raise RuntimeError("no more events")

    monkeypatch.setattr(torch.profiler.profile, "start", broken)
    with pytest.raises(CollectorError, match=r"cannot be started \(no more events\)"):
        _session(tmp_path).start()
    assert not torch.autograd._profiler_enabled()
    assert list(tmp_path.iterdir()) == []


def test_a_profiler_of_the_users_own_is_respected(torch: Any, tmp_path: Path) -> None:
    own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with own, pytest.raises(CollectorError, match="a profiler of torch is collecting in this process already"):
        _session(tmp_path).start()
    assert len(own.events()) >= 0
    assert list(tmp_path.iterdir()) == []


_SECOND = """
import sys, threading
import npuprof, torch
def own():
    with {profiler} as profiler: torch.ones(4) @ torch.ones(4)
    print("own", sum(event.name == "aten::dot" for event in profiler.{events}))
with npuprof.profile(collector="kineto", output=sys.argv[1], {options}) as session:
    for step in range(3):
        torch.ones(4) @ torch.ones(4)
        if step == {at}:
            {call}
        session.step()
for run in session.results:
    print((run.operators["name"] == "aten::dot").sum(), *run.notes["message"])
"""
_SCHEDULE = "schedule=npuprof.schedule(wait=0, warmup=1, active=1, repeat=1)"
_MISSING = "the code started a profiler of torch itself, which has one at a time: what came after is missing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "at", "recorded"), [("", 1, f"2 {_MISSING}"), (_SCHEDULE, 0, "1"), (_SCHEDULE, 1, f"1 {_MISSING}")]
)
@pytest.mark.parametrize(
    ("profiler", "events"),
    [("torch.profiler.profile()", "events()"), ("torch.autograd.profiler.profile()", "function_events")],
)
def test_second_torch_profiler_works(
    torch: Any, tmp_path: Path, profiler: str, events: str, options: str, at: int, recorded: str
) -> None:
    program = _SECOND.format(profiler=profiler, events=events, options=options, at=at, call="own()")
    assert _run(program, tmp_path) == ["own 1", recorded]


@pytest.mark.slow
def test_second_profiler_ends_only_the_first(torch: Any, tmp_path: Path) -> None:
    call = "thread = threading.Thread(target=own); thread.start(); thread.join()"
    how = {"profiler": "torch.profiler.profile()", "events": "events()", "options": "", "at": 1}
    own, recorded = _run(_SECOND.format(call=call, **how), tmp_path)
    assert own == "own 1"
    assert _MISSING in recorded


def _run(program: str, folder: Path) -> list[str]:
    """Run a program in a process of its own, which a second profiler may crash; return its lines."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=pace.seconds(120)
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("USDT")]


def test_missing_gpu_is_refused(torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(OptionsError, match="torch finds no GPU on this machine: add cpu"):
        KinetoCollector().check(Options(collector="kineto", activities=("gpu",)))


def test_what_only_an_npu_has_is_refused(torch: Any) -> None:
    with pytest.raises(OptionsError, match="kineto has no gc_detect_threshold"):
        KinetoCollector().check(Options(collector="kineto", gc_detect_threshold=1))
    with pytest.raises(OptionsError, match="kineto has no npu among activities"):
        KinetoCollector().check(Options(collector="kineto", activities=("npu",)))


@pytest.mark.parametrize("broken", [ImportError("no module"), OSError("libtorch.so"), RuntimeError("autoload")])
def test_an_import_that_fails_means_absent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def fail(name: str) -> ModuleType:
        raise broken

    monkeypatch.setattr("npuprof.collectors.kineto.importlib.import_module", fail)
    with pytest.raises(FrontEndAbsentError, match=f"{broken}.*pip install torch.*TORCH_DEVICE_BACKEND_AUTOLOAD=0"):
        KinetoCollector().check(Options(collector="kineto"))
