"""The recorder of stamps and calls: what it writes, when it thins, and what a kill leaves."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from npuprof.errors import SessionError
from npuprof.lines import call_stacks
from npuprof.lines.cell_stamps import CellStamps, RunningCell
from npuprof.lines.recorder import LineRecorder
from npuprof.lines.stamps import now
from npuprof.recordings.clock import SystemClock
from npuprof.simulator.clock import EmulationClock, VirtualClock, begin_recording
from npuprof.sources.recording import lines, lists
from npuprof.tables.notes import Notes
from tests import pace
from tests.lines.stamped import stamped_codes


def _record(code: str, folder: Path, names: dict[str, object] | None = None) -> LineRecorder:
    (whole,), stamps = stamped_codes(code, whole=True)
    recorder = LineRecorder(SystemClock(), folder / "lines.jsonl", RunningCell("<code>", stamps))
    recorder.start()
    try:
        exec(whole, names if names is not None else {})
    finally:
        recorder.stop()
    return recorder


def test_the_file_the_journal_and_the_memory_say_the_same(tmp_path: Path) -> None:
    recorder = _record("x = 1\nfor i in range(5):\n    x += i\n", tmp_path)
    in_memory = lists.arrays(recorder.columns(), lines.KINDS, tmp_path)
    in_journal = lists.read_journal(tmp_path / "lines.jsonl", lines.KINDS, Notes(), "lines")
    recorder.write(tmp_path / "lines.parquet")
    assert not (tmp_path / "lines.jsonl").exists()
    on_disk = lists.read(tmp_path / "lines.parquet", lines.KINDS)
    for name in lines.KINDS:
        assert list(in_memory[name]) == list(in_journal[name]) == list(on_disk[name]), name
    decoded = lines.decode(on_disk, tmp_path, 1_000, 0, Notes())
    rows = decoded.statements[decoded.statements["line"] > 0]
    assert rows["line"].tolist() == [2, 3, *[4, 3] * 5]


def test_journal_follows_within_a_tenth(tmp_path: Path) -> None:
    seen: list[int] = []

    def look() -> None:
        deadline = time.monotonic() + pace.seconds(10)
        while not seen or (seen[-1] < 2 and time.monotonic() < deadline):
            time.sleep(0.05)
            content = lists.read_journal(tmp_path / "lines.jsonl", lines.KINDS, Notes(), "lines")
            seen.append(len(content["stamp_number"]))

    _record("x = 1\ny = 2\nlook()", tmp_path, {"look": look})
    assert seen[-1] >= 2


def test_cheap_loop_is_thinned_and_counted(tmp_path: Path) -> None:
    cheap_loop = "n, end = 0, time.thread_time() + 0.5\nwhile time.thread_time() < end:\n    n += 1"
    code = f"{cheap_loop}\nfor i in range(3):\n    time.sleep(0.01)"
    names: dict[str, object] = {"time": time}  # that of the thread, however busy the machine is
    recorder = _record(code, tmp_path, names)
    notes = Notes()
    decoded = lines.decode(lists.arrays(recorder.columns(), lines.KINDS, tmp_path), tmp_path, 0, 0, notes)
    cheap, slow = decoded.loops
    assert cheap.thinned + len(cheap.begins) == names["n"]
    assert cheap.thinned > len(cheap.begins)
    assert (slow.thinned, len(slow.begins)) == (0, 3)
    assert "the loop of line 3 took less than 20 µs" in notes.to_frame()["message"].iloc[0]


@pytest.mark.parametrize(
    ("statement_ns", "once_ns", "is_cheap"), [(1_000, 0, True), (1_000, 10**9, True), (30_000, 0, False)]
)
def test_one_long_iteration_does_not_decide_whether_a_loop_is_thinned(
    statement_ns: int, once_ns: int, is_cheap: bool
) -> None:
    _, stamps = stamped_codes("for i in range(300):\n    a = i\n    b = a")
    cell = CellStamps(RunningCell("<code>", stamps), 0, 0)
    loop = next(number for number, each in enumerate(stamps.statements) if each.is_loop)
    numbers = np.tile(np.array([loop, loop + 1, loop + 2]), 300)
    spent = np.full(len(numbers), statement_ns)
    spent[numbers == loop + 2] *= 2  # a statement that takes more in every iteration counts
    spent[450] += once_ns
    assert cell.cheap((numbers, np.cumsum(spent))) == [loop] * is_cheap


def test_slow_statement_keeps_its_loop_stamped() -> None:
    body = "".join(f"    a{number} = i\n" for number in range(30))
    _, stamps = stamped_codes(f"for i in range(300):\n{body}")
    cell = CellStamps(RunningCell("<code>", stamps), 0, 0)
    loop = next(number for number, each in enumerate(stamps.statements) if each.is_loop)
    numbers = np.tile(np.arange(loop, loop + 31), 300)
    spent = np.where(numbers == loop + 7, 2_000_000, 500)
    assert cell.cheap((numbers, np.cumsum(spent))) == []


def test_calls_have_their_stacks_up_to_the_cell(tmp_path: Path) -> None:
    code = "def f(x):\n    return take(x)\nf(1)\nfor i in range(2):\n    take(i + 2)"
    recorder = _record(code, tmp_path, {"take": call_stacks.take})
    calls = lines.decode(lists.arrays(recorder.columns(), lines.KINDS, tmp_path), tmp_path, 5, 0, Notes()).calls
    assert calls["time_ns"].tolist() == [6, 7, 8]
    assert calls["stack"].tolist() == ["<code>(3): f\n<code>(4): <module>", *["<code>(6): <module>"] * 2]
    assert set(calls["thread_id"]) == {threading.get_native_id()}
    call_stacks.take(1)  # no run collects: nothing happens
    assert call_stacks.current is None


def test_dead_code_objects_are_not_reused() -> None:
    stacks = call_stacks.CallStacks()
    for number in range(50):
        names: dict[str, object] = {"take": stacks.take}
        exec(compile(f"def f{number}():\n    take({number}, 1)\nf{number}()", f"file{number}.py", "exec"), names)
    innermost = [stacks.lines[stacks.stacks[stack][0]] for stack in stacks.calls[2::3]]
    assert [(line.file, line.function, line.line) for line in innermost] == [
        (f"file{number}.py", f"f{number}", 2) for number in range(50)
    ]


def test_stamps_follow_a_clock_that_leaves_emulation_out(tmp_path: Path) -> None:
    clock = EmulationClock()
    begin_recording(clock)
    (code,), stamps = stamped_codes("a = 1\nemulate()\nb = 2", whole=True)
    recorder = LineRecorder(clock, tmp_path / "lines.jsonl", RunningCell("<code>", stamps))

    def emulate() -> None:
        with clock.emulating():
            time.sleep(0.05)

    recorder.start()
    system_ns, began_ns = now(), clock.monotonic_raw_ns()
    exec(code, {"emulate": emulate})
    ended_ns, elapsed_ns = clock.monotonic_raw_ns(), now() - system_ns
    recorder.stop()
    times = np.array(recorder.columns()["stamp_time_ns"])
    assert began_ns <= times[0]
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= ended_ns
    assert ended_ns - began_ns <= elapsed_ns - 50_000_000


def test_stamps_follow_a_virtual_clock(tmp_path: Path) -> None:
    clock = VirtualClock()
    (code,), stamps = stamped_codes("a = 1\nwork()\nb = 2", whole=True)
    recorder = LineRecorder(clock, tmp_path / "lines.jsonl", RunningCell("<code>", stamps))
    recorder.start()
    began_ns = clock.monotonic_raw_ns()
    exec(code, {"work": lambda: clock.pass_ns(3_000)})
    recorder.stop()
    columns = recorder.columns()
    times = dict(zip(columns["stamp_number"], columns["stamp_time_ns"], strict=True))
    assert (times[0], times[1], times[2]) == (began_ns, began_ns, began_ns + 3_000)


def test_nothing_is_read_while_recording(tmp_path: Path) -> None:
    recorder = LineRecorder(SystemClock(), tmp_path / "lines.jsonl")
    recorder.start()
    with pytest.raises(SessionError, match="stop"):
        recorder.columns()
    assert recorder.stop() == []
    assert recorder.stop() == []


def test_stamp_during_a_batch_keeps_its_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    _, stamps = stamped_codes("a = 1\nb = 2")
    recorder = LineRecorder(clock, tmp_path / "lines.jsonl", RunningCell("<code>", stamps))
    recorder.start()
    began_ns = clock.monotonic_raw_ns()
    clock.pass_ns(5_000)
    stamped_ns = now()
    for _ in range(500):
        clock.pass_ns(10)
    recorder._take({})  # as the thread does, which has not seen the stamp
    stamps.times[0].append(stamped_ns)
    recorder.stop()
    assert recorder.columns()["stamp_time_ns"] == [began_ns + 5_000]


def test_cells_of_one_run_are_recorded_one_after_the_other(tmp_path: Path) -> None:
    recorder = LineRecorder(SystemClock(), tmp_path / "lines.jsonl", RunningCell(spans=True))
    ended_ns: dict[str, int] = {}
    recorder.start()
    for number, code in enumerate(("a = 1\nfor i in range(2):\n    b = i", "c = 2", "for i in range(3):\n    d = i")):
        (whole,), stamps = stamped_codes(code, whole=True)
        recorder.add(RunningCell(f"<code {number}>", stamps))
        exec(whole, {})
        ended_ns[f"<code {number}>"] = now()
        time.sleep(0.01)  # no cell runs
    recorder.stop()
    in_memory = lists.arrays(recorder.columns(), lines.KINDS, tmp_path)
    in_journal = lists.read_journal(tmp_path / "lines.jsonl", lines.KINDS, Notes(), "lines")
    for columns in (in_memory, in_journal):
        decoded = lines.decode(columns, tmp_path, 0, 0, Notes())
        rows = decoded.statements[decoded.statements["line"] > 0]
        of_cells = rows.groupby("file", observed=True)["line"].apply(list).to_dict()
        assert of_cells == {"<code 0>": [2, 3, 4, 3, 4, 3], "<code 1>": [2], "<code 2>": [2, 3, 2, 3, 2, 3, 2]}
        for file, end in zip(rows["file"], rows["start_ns"] + rows["duration_ns"], strict=True):
            assert end <= ended_ns[file]
        places = [(loop.place, len(loop.begins)) for loop in decoded.loops]
        assert places == [("line 3 of <code 0>", 2), ("line 2 of <code 2>", 3)]


def test_calls_of_a_cell_that_runs_again_have_its_number_then(tmp_path: Path) -> None:
    number = {"/tmp/ipykernel_1/2.py": 0}  # kernels name the code of a cell by its text
    recorder = LineRecorder(
        SystemClock(), tmp_path / "lines.jsonl", RunningCell(spans=True, number_of=lambda each: number.get(each, 0))
    )
    recorder.start()
    (file,) = number
    for number[file] in (4, 7):
        exec(compile("take(1)", file, "exec"), {"take": call_stacks.take})
    recorder.stop()
    calls = lines.decode(lists.arrays(recorder.columns(), lines.KINDS, tmp_path), tmp_path, 0, 0, Notes()).calls
    assert [stack.partition("\n")[0] for stack in calls["stack"]] == [f"<cell [{n}]>(1): <module>" for n in (4, 7)]
