"""Processes that read runs: each on its own, none left behind, none lost for another's fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pandas as pd
import pytest

from npuprof.ranks import processes
from npuprof.ranks.processes import Processes
from npuprof.ranks.tasks import Failure, NoProcessesError, Task
from npuprof.sources import single_file
from npuprof.sources.base import Decoded
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult
from tests import pace

ROWS = "Name,Start Time(us),Duration(us)\nA,1736408883674584.732\t,1\n"


def _file(path: Path, rows: str = ROWS) -> Task:
    path.write_text(rows)
    return Task("single_file", path)


def _children() -> set[int]:
    """Return the processes that any thread of this one started."""
    return {int(one) for task in Path("/proc/self/task").glob("*/children") for one in task.read_text().split()}


def _left(before: set[int]) -> set[int]:
    """Return the new processes that are still there after a while: one that was told to end may take a moment."""
    end = time.monotonic() + pace.seconds(20)
    while (left := _children() - before) and time.monotonic() < end:
        time.sleep(0.02)
    return left


@pytest.mark.slow
def test_what_processes_read_is_what_is_read_here(tmp_path: Path) -> None:
    tasks = [_file(tmp_path / f"{number}.csv", ROWS + f"B{number},1736408883674590.001\t,2\n") for number in range(3)]
    before = _children()
    with Processes(2) as pool:
        outcomes = dict(pool.decode(tasks))
    assert sorted(outcomes) == [0, 1, 2]
    for place, outcome in outcomes.items():
        assert isinstance(outcome, Decoded)
        here = decode_run(DetectedResult(single_file.SOURCE, tasks[place].path))
        pd.testing.assert_frame_equal(outcome.tables["kernels"], here.tables["kernels"])
        assert outcome.info == here.info
    assert _left(before) == set()


@pytest.mark.long
def test_a_broken_run_is_its_own_outcome_alone(tmp_path: Path) -> None:
    tasks = [_file(tmp_path / "bad.csv", ""), _file(tmp_path / "good.csv"), Task("no_such_source", tmp_path)]
    with Processes(2) as pool:
        outcomes = dict(pool.decode(tasks))
    assert isinstance(outcomes[0], Failure)
    assert "is empty" in outcomes[0].problem
    assert isinstance(outcomes[1], Decoded)
    assert isinstance(outcomes[2], Failure)
    assert "load it by itself" in outcomes[2].problem


def _answer_or_die(task: Task) -> Decoded | Failure:
    if "bad" in task.path.name:
        os.kill(os.getpid(), 9)
    return decode_run(DetectedResult(single_file.SOURCE, task.path))


@pytest.mark.long
def test_a_process_that_dies_loses_its_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "outcome_of", _answer_or_die)
    tasks = [_file(tmp_path / f"{name}.csv") for name in ("a", "bad", "b", "c")]
    with Processes(2) as pool:
        outcomes = dict(pool.decode(tasks))
    failed = outcomes.pop(1)
    assert isinstance(failed, Failure)
    assert "was killed, as happens when memory runs out" in failed.problem
    assert sorted(outcomes) == [0, 2, 3]
    assert all(isinstance(outcome, Decoded) for outcome in outcomes.values())


@pytest.mark.long
def test_leaving_early_ends_every_process(tmp_path: Path) -> None:
    before = _children()
    with Processes(2) as pool:
        outcomes = pool.decode([_file(tmp_path / f"{number}.csv") for number in range(6)])
        next(outcomes)
        assert len(_children() - before) >= 2
        outcomes.close()
    assert _left(before) == set()


@pytest.mark.slow
def test_where_no_process_can_be_started_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = _file(tmp_path / "a.csv")
    for wrong in ("", "/no/such/python"):
        monkeypatch.setattr(sys, "executable", wrong)
        with Processes(2) as pool, pytest.raises(NoProcessesError):
            list(pool.decode([task]))


def _script(tmp_path: Path, tail: str) -> Path:
    for number in range(2):
        folder = tmp_path / "runs" / f"{number}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        folder.mkdir(parents=True)
        (folder / "kernel_details.csv").write_text(ROWS)
        (folder.parent / f"profiler_info_{number}.json").write_text("{}")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(f"""
        import json  # the one beside this script, which is no module of ours
        import npuprof
        print("trained")
        runs = npuprof.load({str(tmp_path / "runs")!r})
        """)
        + tail
    )
    return script


@pytest.mark.long
def test_unguarded_script_runs_once(tmp_path: Path) -> None:
    script = _script(tmp_path, "print(len(runs.read(processes=2).table('kernels')), sorted(runs.failed))\n")
    (tmp_path / "struct.py").write_text("raise RuntimeError('imported')\n")
    ran = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", str(script)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=pace.seconds(60),
        check=False,
    )
    assert ran.stdout.splitlines() == ["trained", "2 []"], ran.stderr


@pytest.mark.long
def test_an_interrupt_ends_the_processes(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        textwrap.dedent(f"""
        import os, pathlib, threading, time
        from npuprof.ranks import processes
        processes.outcome_of = time.sleep
        class Task(processes.Task):
            def __new__(cls, *_):
                return 600
        from npuprof.ranks import entries
        entries.Task = Task
        def children():
            tasks = pathlib.Path("/proc/self/task").glob("*/children")
            started = [one for task in tasks for one in task.read_text().split()]
            lines = {{one: pathlib.Path(f"/proc/{{one}}/cmdline").read_bytes() for one in started}}
            return [one for one, line in lines.items() if b"resource_tracker" not in line]
        def interrupt():
            while len(children()) < 2:
                time.sleep(0.01)
            time.sleep(0.2)
            os.kill(os.getpid(), {int(signal.SIGINT)})
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            runs.read(processes=2)
        except KeyboardInterrupt:
            print("interrupted", children())
        """),
    )
    # One that is waited for would answer after ten minutes.
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=pace.seconds(240), check=False
    )
    assert ran.stdout.splitlines() == ["trained", "interrupted []"], ran.stderr


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="the system has no signal masks")
def test_an_interrupt_while_processes_start_prints_nothing_of_theirs(tmp_path: Path) -> None:
    """Every process that is started gets the interrupt while its interpreter starts, as one of a terminal would."""
    script = _script(tmp_path, "print(len(runs.read(processes=2).table('kernels')), sorted(runs.failed))\n")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "if any('loky' in word or 'resource_tracker' in word for word in sys.orig_argv[1:]):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(hooks), root))},
        timeout=240,
        check=False,
    )
    assert (ran.stdout.splitlines(), ran.stderr) == (["trained", "2 []"], "")
