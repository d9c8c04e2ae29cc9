"""The ways in which Python starts processes: each is profiled, and none gets the session of its parent."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import npuprof
from npuprof import cli
from npuprof.ranks.profile_set import ProfileSet
from npuprof.session.session import Session
from tests import pace
from tests.session.process_work import multiply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]


def _set(session: Session) -> ProfileSet:
    result: object = session.result
    assert isinstance(result, ProfileSet)
    return result


def _kernels(runs: ProfileSet) -> dict[int, int]:
    return {rank: len(runs[rank].kernels) for rank in runs.ranks}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_are_ranks(tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        processes = [context.Process(target=multiply, args=(rank,)) for rank in range(2)]  # type: ignore[attr-defined]
        for process in processes:
            process.start()
        for process in processes:
            process.join(pace.seconds(60))
    assert [process.exitcode for process in processes] == [0, 0]
    assert _kernels(_set(session)) == {0: 2, 1: 3}
    assert not len(_set(session).notes[_set(session).notes["severity"] != "info"])


@pytest.mark.long
def test_the_processes_of_an_executor_are_ranks(tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    profiled = npuprof.profile(processes=True, output=tmp_path / "out")
    with profiled as session, ProcessPoolExecutor(2, mp_context=spawning) as pool:
        workers = set(pool.map(multiply, [0, 1], chunksize=1))
    runs = _set(session)
    assert len(runs) == len(workers)
    assert sum(_kernels(runs).values()) == 5


@pytest.mark.long
def test_the_processes_of_a_pool_that_ends_them_are_read(tmp_path: Path) -> None:
    profiled = npuprof.profile(processes=True, output=tmp_path / "out")
    with profiled as session, multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(multiply, [1])
    assert _kernels(_set(session)) == {1: 3}


def test_short_forked_child_is_a_rank(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        if (child := os.fork()) == 0:
            multiply(0)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        if (child := os.fork()) == 0:
            os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(5)"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        subprocess.run(["true"], check=True, preexec_fn=os.getpid)
    assert _kernels(_set(session)) == {0: 2}
    assert not list((tmp_path / "out").rglob("journal.jsonl"))


def test_continuing_process_is_read_after_its_end(tmp_path: Path) -> None:
    code = (
        "from tests.session.process_work import multiply\nmultiply(0)\n"
        "print(1, flush=True)\nimport sys\nsys.stdin.read()"
    )
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        environment = {**os.environ, "RANK": "0"}
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
    runs = _set(session)
    assert runs.notes["message"].str.contains("goes on").any()
    process.communicate(timeout=pace.seconds(60))
    assert _kernels(runs.refresh()) == {0: 2}
    assert not len(runs.notes[runs.notes["severity"] != "info"])


@pytest.mark.long
def test_a_delay_begins_that_long_after_the_import(tmp_path: Path) -> None:
    code = (
        "import time\nfrom npuprof.simulator import npu\nx = npu.ones((8, 8))\nend = time.monotonic() + 60\n"
        "from npuprof.session.active import current\nwhile current() is None and time.monotonic() < end:\n    x @ x\n"
        "y = x @ x\n"
    )
    begun = time.monotonic()
    with npuprof.profile(processes=True, delay=1, output=tmp_path / "out") as session:
        subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - begun > 1
    assert len(_set(session)[0].kernels) <= 2


def test_many_short_processes_cost_no_recording(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        for _ in range(10):
            subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert session.result.notes["message"].str.contains("10 Python processes began").any()


@pytest.mark.long
def test_the_command_runs_a_program_with_its_output_and_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import subprocess, sys\ncode = 'from tests.session.process_work import multiply; multiply(%d)'\n"
        "for rank in range(2):\n    subprocess.run([sys.executable, '-c', code % rank], check=True)\n"
        "print('of the program')\nraise SystemExit(3)\n"
    )
    status = cli.main(["run", "--processes", "--output", str(tmp_path / "out"), "--", str(program)])
    out, errors = capfd.readouterr()
    assert (status, out) == (3, "of the program\n")
    (folder,) = (tmp_path / "out").iterdir()
    assert str(folder) in errors
    assert _kernels(npuprof.load_set(folder)) == {0: 2, 1: 3}


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_the_ranks_of_mpirun(tmp_path: Path) -> None:
    code = "import os\nfrom npuprof.simulator import npu\nx = npu.ones((8, 8))\nx @ x\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        subprocess.run(["mpirun", "-n", "2", sys.executable, "-c", code], check=True)
    assert _kernels(_set(session)) == {0: 2, 1: 2}
