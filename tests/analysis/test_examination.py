"""What a device cannot have done, and what is missing, is a note with its place, and no figure rests on it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import simulator
from npuprof.advice import gate
from npuprof.cli import main
from npuprof.profiles.profile import Profile
from npuprof.simulator import jobs
from npuprof.simulator.jobs import text
from tests.campaign.damage.loops import database_of_a_loop
from tests.sources.database.maker import Maker, add_launches
from tests.sources.kineto.traces import KinetoTrace

_STEP_US, _EVERY_US, _KERNEL_US = 200, 20, 10


@dataclass
class _Kernel:
    launch_us: float
    start_us: float
    length_us: float = _KERNEL_US
    stream: int = 7


@dataclass
class _Loop:
    """Six steps of ten kernels on one stream of a GPU, half of the time computing, and a wait for the device."""

    kernels: list[_Kernel] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)  # kernels that were launched and not recorded
    waits: list[tuple[str, float, float]] = field(default_factory=list)
    launch: str = "cudaLaunchKernel"

    def __post_init__(self) -> None:
        if not self.kernels:
            self.kernels = [_Kernel(1000 + _EVERY_US * n + 2, 1000 + _EVERY_US * n + 12) for n in range(60)]
        self.waits.append(("cudaDeviceSynchronize", 2210, 60))

    def write(self, folder: Path) -> Profile:
        trace = KinetoTrace()
        for step in range(6):
            name = f"ProfilerStep#{step}"
            trace.slice("user_annotation", name, 1000 + _STEP_US * step, _STEP_US, External_id=900 + step)
        for number, kernel in enumerate(self.kernels, 1):
            trace.operator("aten::mm", kernel.launch_us - 2, 15, number)
            ids = {"correlation": number, "External_id": number}
            trace.slice("cuda_runtime", self.launch, kernel.launch_us, 4, **ids)
            if number - 1 not in self.lost:
                at = kernel.start_us, kernel.length_us
                trace.on_gpu("kernel", "gemm", *at, 0, stream=kernel.stream, **ids)
        for number, (name, start, length) in enumerate(self.waits):
            trace.slice("cuda_runtime", name, start, length, correlation=5000 + number)
        run = npuprof.load(trace.write(folder / "t.pt.trace.json"))
        assert isinstance(run, Profile)
        return run


def _found(run: Profile) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {each.kind: (each.count, each.steps) for each in run.info.examination}


def test_intact_loop_has_no_note(tmp_path: Path) -> None:
    run = _Loop().write(tmp_path)
    assert not run.info.examination
    assert not len(run.notes)
    assert run.accounting.steps["complete"].all()
    assert run.advice()["host_bound"].confidence == "measured"


def _overrun(loop: _Loop, us: float) -> None:
    loop.kernels[15].length_us = us


def _tail(loop: _Loop) -> None:
    loop.lost = {*range(40, 60)}


def _graphs(loop: _Loop) -> None:
    loop.launch, loop.lost = "cudaGraphLaunch", {*range(0, 60, 10)}


def _no_duration(loop: _Loop) -> None:
    loop.kernels[33].length_us = 0


def _late_return(loop: _Loop) -> None:
    loop.waits[-1] = ("cudaDeviceSynchronize", 2210, 600)


def _outlasts_wait(loop: _Loop) -> None:
    loop.kernels[59].length_us = 4000


def _moved(us: float) -> Callable[[_Loop], None]:
    def damage(loop: _Loop) -> None:
        loop.kernels[33].start_us += us

    return damage


def _lost_copies(loop: _Loop) -> None:
    loop.launch = "cudaMemcpyAsync"
    _tail(loop)


@pytest.mark.parametrize(
    ("damage", "kind", "count", "steps"),
    [
        (_outlasts_wait, "overrun", 1, (5,)),
        (_moved(300), "out_of_order", 1, (3,)),
        (_moved(5e6), "out_of_order", 1, (3,)),
        (_lost_copies, "lost_tasks", 20, (4, 5)),
        (lambda loop: _overrun(loop, 31), "overrun", 1, (1,)),
        (lambda loop: _overrun(loop, 900), "overrun", 1, (1,)),
        (_tail, "lost_tasks", 20, (4, 5)),
        (lambda loop: loop.lost.update(range(20, 30)), "lost_tasks", 10, (2, 3)),
        (lambda loop: loop.lost.update(range(10)), "lost_tasks", 10, (0, 1)),
        (lambda loop: loop.lost.add(33), "lost_tasks", 1, (3,)),
        (_graphs, "lost_tasks", 6, (0, 1, 2, 3, 4, 5)),
        (_no_duration, "no_duration", 1, (3,)),
        (_late_return, "unexplained_wait", 1, ()),
    ],
)
def test_damage_is_counted_where_it_is(
    tmp_path: Path, damage: Callable[[_Loop], None], kind: str, count: int, steps: tuple[int, ...]
) -> None:
    loop = _Loop()
    damage(loop)
    run = loop.write(tmp_path)
    assert _found(run) == {kind: (count, steps)}
    (told,) = run.notes.to_dict("records")
    assert (told["severity"], told["count"]) == ("warning", count)
    parts = run.accounting.steps
    assert parts["step"][~parts["complete"]].tolist() == [*steps]


@pytest.mark.parametrize("us", [10.5, 19, 20, 22, 24])
def test_small_overlaps_are_healthy(tmp_path: Path, us: float) -> None:
    loop = _Loop()
    _overrun(loop, us)
    assert not loop.write(tmp_path).info.examination


def test_graph_branches_may_overlap(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("cuda_runtime", "cudaGraphLaunch", 10, 5, correlation=1)
    for branch in range(3):
        trace.on_gpu("kernel", f"branch{branch}", 20 + branch, 100, 0, stream=7, correlation=1)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert isinstance(run, Profile)
    assert not run.info.examination


def test_overruns_are_cut_for_unions(tmp_path: Path) -> None:
    loop = _Loop()
    for kernel in loop.kernels[::5]:
        kernel.length_us = 900
    run = loop.write(tmp_path)
    (found,) = run.info.examination
    assert (found.count, found.stream_id, found.amount_ns) == (12, 7, 12 * 880_000)
    computing = run.breakdown().query("part == 'computing'")["duration_ns"].sum()
    assert computing == (48 * 10 + 12 * 20 - 2) * 1000  # the last kernel ends 2 us after the last step
    assert run.kernels["duration_ns"].max() == 900_000
    assert run.by("kernel")["overruns"].tolist() == [12]


def test_lost_tail_is_not_idle(tmp_path: Path) -> None:
    loop = _Loop()
    _tail(loop)
    run = loop.write(tmp_path)
    parts = run.breakdown().groupby(["step", "part"], observed=True)["duration_ns"].sum()
    for step in (4, 5):
        assert parts[step].get("not_recorded", 0) > 150_000
    advice = run.advice()
    assert advice.parts()["computing"] / advice.step_ns == pytest.approx(0.5)


def test_launches_at_the_end_may_run_later(tmp_path: Path) -> None:
    loop = _Loop()
    _tail(loop)
    loop.waits.clear()
    run = loop.write(tmp_path)
    assert _found(run) == {"pending": (20, (4, 5))}
    assert set(run.notes["severity"]) == {"info"}
    assert not run.advice().doubts
    assert run.advice()["host_bound"].confidence == "measured"


def test_lost_graphs_are_nobodys_fault(tmp_path: Path) -> None:
    loop = _Loop()
    _graphs(loop)
    for kernel in loop.kernels:
        kernel.length_us = 2
    run = loop.write(tmp_path)
    assert {finding.confidence for finding in run.advice()} <= {"bounded"}
    assert not any("synchron" in finding.action for finding in run.advice())


def test_work_that_nothing_explains_is_not_recorded(tmp_path: Path) -> None:
    """A kernel that was launched to an idle stream starts only when something else has run."""
    loop = _Loop([_Kernel(1010 + _STEP_US * 5 * n, 1900 + _STEP_US * 5 * n) for n in range(1)])
    loop.waits = [("cudaStreamSynchronize", 1016, 900)]
    run = loop.write(tmp_path)
    (found,) = run.info.examination
    assert found.kind == "unexplained_wait"
    assert found.amount_ns == (1900 - 1016) * 1000
    parts = run.breakdown().groupby("part", observed=True)["duration_ns"].sum()
    assert parts["not_recorded"] == found.amount_ns


def test_headline_says_what_the_recording_lacks(tmp_path: Path) -> None:
    loop = _Loop([_Kernel(1002, 1008, 2)])
    loop.waits = [("cudaStreamSynchronize", 1020, 1170)]
    lines = str(loop.write(tmp_path).advice()).splitlines()
    assert "The recording lacks what the GPU ran for 100.0 % of it." in lines[:6]


@pytest.fixture
def lost_tail(tmp_path: Path) -> Profile:
    loop = _Loop()
    _tail(loop)
    (tmp_path / "lost").mkdir()
    return loop.write(tmp_path / "lost")


def test_incomplete_run_is_said_to_be_so(lost_tail: Profile) -> None:
    advice = lost_tail.advice()
    assert advice.doubts == ["kernels of steps 4-5 are missing"]
    assert str(advice).splitlines()[1].startswith("Incomplete: kernels of steps 4-5 are missing")
    assert "kernels of steps 4-5 are missing" in (advice._repr_html_() or "")
    assert json.loads(advice.to_json())["incomplete"] == advice.doubts
    assert advice.gains_at_least(0.01) is None


def test_comparison_guards_against_lost_steps(lost_tail: Profile, tmp_path: Path) -> None:
    whole = _Loop().write(tmp_path)
    for difference, names in ((lost_tail - whole, (3, 3)), (whole - lost_tail, (3, 3))):
        (guard,) = difference.guards
        assert "is incomplete: kernels of steps 4-5 are missing" in guard
        assert guard in json.loads(difference.to_json())["guards"]
        assert (len(difference.a.steps), len(difference.b.steps)) == names
        assert difference.delta_ns == 0
        assert difference.slower_by(0.03) is None
    assert (whole - whole).guards == []


def test_command_cannot_tell_of_incomplete_runs(
    lost_tail: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _Loop().write(tmp_path)
    lost, good = str(lost_tail.info.recording), str(whole.info.recording)
    assert main(["advise", lost, "--fail-on", "90%"]) == 4
    assert "cannot tell" in capsys.readouterr().err
    assert main(["compare", lost, good, "--fail-on", "90%"]) == 4
    assert main(["compare", good, good, "--fail-on", "90%"]) in (0, 4)
    assert main(["advise", good, "--fail-on", "90%"]) == 0


def test_gate_cannot_tell_of_incomplete_runs(lost_tail: Profile) -> None:
    advice = lost_tail.advice()
    names = gate.figures(advice)
    assert gate.require("step < 1s", names)
    with pytest.raises(gate.GateError, match="cannot tell, since the run is incomplete: kernels of steps 4-5"):
        gate.require("step < 1s", names, doubts=advice.doubts)


def test_examination_is_kept_when_saved(lost_tail: Profile, tmp_path: Path) -> None:
    saved = npuprof.load(lost_tail.save(tmp_path / "saved"))
    assert isinstance(saved, Profile)
    assert saved.info.examination == lost_tail.info.examination
    assert saved.breakdown().equals(lost_tail.breakdown())


@pytest.mark.slow
def test_lost_end_of_a_recording_is_not_idle(tmp_path: Path) -> None:
    with npuprof.profile(output=tmp_path, collector="simulator") as session:
        device = simulator.current().device(0)
        tensor = simulator.Tensor((1 << 12,), "float16")
        for _ in range(60):
            for kind in ("Add", "Mul"):
                device.launch(kind, inputs=[tensor, tensor], outputs=[tensor])
            session.step()
    folder = next(tmp_path.rglob("recording.json")).parent
    whole = npuprof.load(folder)
    assert isinstance(whole, Profile)
    assert not whole.info.examination
    for path in folder.rglob("stars_soc.data.*slice_0"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 128 // 2 * 128])
    for name in ("recording.json.done", "end_info.0", "end_info.0.done"):
        for path in folder.rglob(name):
            path.unlink()
    run = npuprof.load(folder)
    assert isinstance(run, Profile)
    lost = len(whole.kernels) - len(run.kernels)
    assert lost > 40
    (found,) = [each for each in run.info.examination if each.kind == "lost_end"]
    assert abs(found.count - lost) <= 2
    steps = run.accounting.steps
    assert steps["step"][~steps["complete"]].min() in (29, 30, 31)
    idle = run.breakdown().query("part.str.startswith('idle') and step > 32")
    assert not len(idle)


def test_profiler_itself_is_a_cause_of_its_own(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for step in range(5):
        begin, ids = 1000 + 1000 * step, 10 * step
        trace.slice("user_annotation", f"ProfilerStep#{step}", begin, 1000, External_id=900 + step)
        for number, (start, length, launch) in enumerate([(5, 15, 7), (60, 910, 960)], ids + 1):
            trace.operator("aten::mm", begin + start, length, number)
            trace.slice("cuda_runtime", "cudaLaunchKernel", begin + launch, 4, correlation=number, External_id=number)
            at = begin + launch + 10, 20
            trace.on_gpu("kernel", "gemm", *at, 0, stream=7, correlation=number, External_id=number)
        trace.slice("overhead", "Activity Buffer Request", begin + 62, 890, lane={"pid": -1, "tid": 0})
        trace.slice("overhead", "Lazy Function Loading", begin + 6, 1, lane={"pid": -1, "tid": 0})
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert isinstance(run, Profile)
    assert not len(run.notes)
    assert run.marks["domain"].value_counts().to_dict() == {"profiler": 5, "runtime": 5}
    idle = run.breakdown().groupby("cause", observed=True)["duration_ns"].sum()
    assert idle["profiler"] == 5 * 890_000
    found = [finding for finding in run.advice() if finding.rule == "host_bound"]
    assert 50_000 < sum(finding.gain_hi_ns for finding in found) < 80_000


def test_device_is_empty_after_a_wait_before_any_launch(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("user_annotation", "ProfilerStep#0", 1000, 10_000, External_id=900)
    trace.slice("cuda_runtime", "cudaDeviceSynchronize", 1200, 6, correlation=99)
    trace.slice("python_function", "prepare.py(5): load", 1250, 6000, Python_id=1, Python_parent_id=None)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 7310, 8, correlation=1)
    trace.on_gpu("kernel", "gemm", 7330, 200, 0, stream=7, correlation=1)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert isinstance(run, Profile)
    head = run.breakdown().query("part == 'idle_head'").set_index("cause")["duration_ns"]
    assert head["python"] == 6_000_000
    assert head["unknown"] == 206_000


def test_events_without_a_time_are_left_out(tmp_path: Path) -> None:
    loop = _Loop()
    run = loop.write(tmp_path)
    path = tmp_path / "t.pt.trace.json"
    document = json.loads(path.read_text())
    late = [event for event in document["traceEvents"] if event["ph"] == "X"][100:]
    for event in late:
        event["ts"], event["dur"] = 0.0, 0.0
    path.write_text(json.dumps(document))
    damaged = npuprof.load(path)
    assert isinstance(damaged, Profile)
    tables = ("steps", "operators", "api", "kernels")
    lost = sum(len(run.tables[name]) - len(damaged.tables[name]) for name in tables)
    (told,) = damaged.notes[damaged.notes["message"].str.contains("time of an event was not recorded")].to_dict(
        "records"
    )
    assert (told["count"], told["missing_rows"], told["severity"]) == (lost, len(late), "warning")
    assert (damaged.kernels["duration_ns"] > 0).all()
    assert damaged.advice().doubts


def test_calls_that_outlive_their_caller_are_counted(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for step in range(4):
        trace.slice("user_annotation", f"ProfilerStep#{step}", 100 * step, 100, External_id=900 + step)
        for number, (start, length) in enumerate([(10, 50), (20, 10)]):
            length += {(1, 1): 60, (2, 0): 190}.get((step, number), 0)  # one in its caller, one beyond its step
            trace.operator("aten::mm", 100 * step + start, length, 10 * step + number)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert isinstance(run, Profile)
    (found,) = run.info.examination
    assert (found.kind, found.table, found.count) == ("outlives_caller", "operators", 2)


@pytest.mark.parametrize("wait", ["cudaStreamSynchronize", "cudaEventSynchronize", "hipEventSynchronize"])
def test_every_wait_needs_an_explanation(tmp_path: Path, wait: str) -> None:
    loop = _Loop([_Kernel(1010 + _STEP_US * 6 * n, 1020 + _STEP_US * 6 * n, 2) for n in range(1)])
    loop.waits = [(wait, 1030, 900)]
    run = loop.write(tmp_path)
    (found,) = run.info.examination
    assert (found.kind, found.amount_ns) == ("unexplained_wait", 900_000)
    parts = run.breakdown().groupby(["part", "cause"], observed=True)["duration_ns"].sum()
    assert parts["not_recorded"].sum() == 900_000
    assert "synchronising" not in parts.index.get_level_values("cause")


def _changed(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> Profile:
    _Loop().write(folder)
    path = folder / "t.pt.trace.json"
    document = json.loads(path.read_text())
    change(document["traceEvents"])
    path.write_text(json.dumps(document))
    changed = npuprof.load(path)
    assert isinstance(changed, Profile)
    return changed


def _of(category: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda events: [event for event in events if event.get("cat") == category]


def _one_hour_late(category: str, number: int) -> Callable[[list[dict[str, Any]]], None]:
    def change(events: list[dict[str, Any]]) -> None:
        _of(category)(events)[number]["ts"] += 3_600_000_000

    return change


def _at_zero(events: list[dict[str, Any]]) -> None:
    for event in _of("kernel")(events)[30:]:
        event["ts"] = 0.0


def _nothing_lasts(category: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(events: list[dict[str, Any]]) -> None:
        for event in _of(category)(events):
            event["dur"] = 0.0

    return change


def _beyond_the_record(events: list[dict[str, Any]]) -> None:
    first, last = (find(event["ts"] for event in _of("cpu_op")(events)) for find in (min, max))
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
    events.append({**span, "ts": first - 100, "dur": last - first + 1000})
    for event in _of("cpu_op")(events)[40:42]:
        event["ts"] += 3_000_000


@pytest.mark.parametrize(
    ("change", "message", "count"),
    [
        (_one_hour_late("kernel", 33), "far from all others", 1),
        (_one_hour_late("user_annotation", 5), "far from all others", 1),
        (_at_zero, "time of an event was not recorded \\(ts is 0\\)", 30),
        (_nothing_lasts("kernel"), "60 kernels of device 0 have no duration", 60),
        (_nothing_lasts("user_annotation"), "6 steps have no duration", 6),
        (_beyond_the_record, "2 rows of operators lie up to .* outside of the time that was recorded", 2),
    ],
)
def test_wrong_times_are_noted(
    tmp_path: Path, change: Callable[[list[dict[str, Any]]], None], message: str, count: int
) -> None:
    run = _changed(tmp_path, change)
    told = run.notes[run.notes["message"].str.contains(message) & (run.notes["severity"] == "warning")]
    assert count in told["count"].tolist()
    if len(run.steps) and run.steps["duration_ns"].any():
        assert run.advice().step_ns == _STEP_US * 1000
    assert run.kernels["start_ns"].max() - run.kernels["start_ns"].min() < 10**10


def test_lost_rows_are_counted_once(tmp_path: Path) -> None:
    run = _changed(tmp_path, _at_zero)
    assert run.notes["missing_rows"].sum() == 30


def test_blocks_in_use_do_not_overlap(tmp_path: Path) -> None:
    for addresses, count in (((4096, 8192), 0), ((4096, 5000), 1)):
        trace = KinetoTrace()
        for number, (size, address) in enumerate([(1000, addresses[0]), (1000, addresses[1]), (-1000, addresses[0])]):
            trace.memory(10 * number, size, address, [1000, 2000, 1000][number])
        run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
        assert isinstance(run, Profile)
        assert sum(each.count for each in run.info.examination) == count


def test_ids_of_tasks_are_unique(tmp_path: Path) -> None:
    """A captured graph has its ids each time; another task has none of them before ids begin anew."""
    for names, count in ((["Add", "Mul"], 0), (["Add", "Mul", "Sub"], 5)):
        path = tmp_path / f"op_summary_20260101{len(names)}.csv"
        lines = ["Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Stream ID,Task ID,Device_id"]
        for number in range(12):
            name = names[number % len(names)]
            lines.append(f"{name},{name},AI_CORE,{1763600000000000 + 20 * number},10,3,{number % 2},0")
        path.write_text("\n".join([*lines, ""]))
        run = npuprof.load(path)
        assert isinstance(run, Profile)
        found = {each.kind: each.count for each in run.info.examination}
        assert found.get("repeated_id", 0) == count * 2


def test_memory_below_zero_is_counted(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for number, total in enumerate([1000, 500, -500, 0]):
        trace.memory(10 * number, 500, 7, total)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert isinstance(run, Profile)
    assert [(each.kind, each.count) for each in run.info.examination] == [("below_zero", 1)]


def _text_beyond(folder: Path) -> Path:
    root = text.write(jobs.simulate(jobs.SIZES[8], seed=3), folder, kernels=True) / "rank0_ascend_pt"
    table = root / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    header, *lines = table.read_text().splitlines()
    at = header.split(",").index("Start Time(us)")
    for number in (5, 6):
        cells = lines[number].split(",")
        whole, dot, digits = cells[at].partition(".")
        lines[number] = ",".join([*cells[:at], f"{int(whole) + 4_000_000}{dot}{digits}", *cells[at + 1 :]])
    table.write_text("\n".join([header, *lines]) + "\n")
    return root


def _database_beyond(folder: Path) -> Path:
    folder.mkdir()
    maker = Maker(folder / "msprof_20260101.db")
    add_launches(maker)
    maker.table("SESSION_TIME_INFO", "startTimeNs endTimeNs", [(1_736_407_060_000_000_000, 1_736_407_061_000_000_000)])
    return maker.close()


@pytest.mark.parametrize("write", [_text_beyond, _database_beyond])
def test_notes_times_outside_the_stated_window(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    run = npuprof.load(write(tmp_path / "run"))
    assert isinstance(run, Profile)
    told = run.notes[run.notes["message"].str.contains("outside of the time that was recorded")]
    assert set(told["severity"]) == {"warning"}
    assert "outside" in {each.kind for each in run.info.examination}


@pytest.mark.parametrize(
    ("change", "kind", "table"),
    [
        pytest.param("startNs = startNs + 100000, endNs = endNs + 100000", "beyond_collective", "communication_tasks"),
        pytest.param("startNs = startNs - 11000", "beyond_collective", "communication_tasks"),
        pytest.param("startNs = startNs + 9000, endNs = endNs - 9000", "", ""),
        pytest.param("endNs = startNs", "no_duration", "communication"),
    ],
)
def test_collectives_last_as_long_as_their_tasks(tmp_path: Path, change: str, kind: str, table: str) -> None:
    root = database_of_a_loop(tmp_path)
    with closing(sqlite3.connect(next(root.rglob("*.db")))) as file:
        file.execute(f"UPDATE TASK SET {change} WHERE globalTaskId = 24")
        if kind == "no_duration":
            file.execute(f"UPDATE COMMUNICATION_OP SET {change} WHERE opId = 24")
        file.commit()
    run = npuprof.load(root)
    assert isinstance(run, Profile)
    found = [(each.kind, each.table, each.count) for each in run.info.examination if each.kind != "after_wait"]
    assert found == ([(kind, table, 1)] if kind else [])


@pytest.mark.parametrize(
    ("change", "stream", "count"),
    [
        ("startNs = startNs + 400000, endNs = endNs + 400000 WHERE streamId = 2", 2, 66),
        ("startNs = startNs + 330000, endNs = endNs + 330000 WHERE streamId = 3", 3, 6),
        ("endNs = endNs + 60000 WHERE globalTaskId = 48", 3, 1),
        ("endNs = endNs + 5000 WHERE globalTaskId = 48", 3, 0),
    ],
)
def test_work_of_npus_ends_before_its_wait(tmp_path: Path, change: str, stream: int, count: int) -> None:
    root = database_of_a_loop(tmp_path)
    with closing(sqlite3.connect(next(root.rglob("*.db")))) as file:
        file.execute(f"UPDATE TASK SET {change}")
        file.commit()
    run = npuprof.load(root)
    assert isinstance(run, Profile)
    late = [(each.stream_id, each.count) for each in run.info.examination if each.kind == "after_wait"]
    assert late == ([(stream, count)] if count else [])
    assert ("Incomplete" in str(run.advice())) == bool(count)


def test_call_of_a_recorded_operator_is_lost(tmp_path: Path) -> None:
    """What the first calls launched would else have been launched before the recording."""
    _Loop().write(tmp_path)
    path = tmp_path / "t.pt.trace.json"
    text_of_events = path.read_text().replace('"External id": ', '"External id": 7')  # which are no correlations
    path.write_text(text_of_events)
    run = npuprof.load(path)
    events = text_of_events.splitlines()
    lost_calls = [line for line in events if _Loop.launch in line][:3]
    path.write_text("\n".join(line for line in events if line not in lost_calls))
    lost = npuprof.load(path)
    assert isinstance(lost, Profile)
    assert isinstance(run, Profile)
    message = "a task names a call that is not in api"
    assert not run.notes["message"].str.contains(message).any()
    assert lost.notes["count"][lost.notes["message"].str.contains(message)].tolist() == [3]
