"""Real jobs of torch with gloo below a profiled block: each way to start them gives a set of ranks with its waits."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npuprof
from npuprof.ranks.profile_set import ProfileSet
from tests import pace
from tests.session import torch_work

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_PROGRAM = """
import os, subprocess, sys, time
import npuprof
from tests.session.torch_work import train
if __name__ == "__main__":
    session = npuprof.profile(processes=True, collector="kineto", output=sys.argv[1]{options})
    with session:
{block}
    session.result
    print(session.recording.directory.parent)
"""
_TORCHRUN = (
    "subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '{}', {}], "
    "check=True)"
)


@pytest.fixture(autouse=True)
def torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed for this Python")


def _run(folder: Path, block: str, options: str = "") -> tuple[ProfileSet, str]:
    """Run a program whose profiled block is given; return the set of its processes and what it wrote to errors."""
    program = folder / "program.py"
    program.write_text(
        _PROGRAM.format(block="".join(f"        {line}\n" for line in block.splitlines()), options=options)
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(program), str(folder / "out")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=pace.seconds(300),
    )
    assert done.returncode == 0, done.stderr
    return npuprof.load_set(done.stdout.splitlines()[-1]), done.stderr


def _run_script(folder: Path, text: str, options: str = "") -> tuple[ProfileSet, str]:
    """Run a program whose profiled block starts a script; return as :func:`_run` does."""
    script = folder / "script.py"
    script.write_text(text)
    return _run(folder, f"subprocess.run([sys.executable, {str(script)!r}], check=True)", options)


def _check(runs: ProfileSet, size: int) -> None:
    assert runs.ranks == [*range(size)]
    assert not len(runs.notes[runs.notes["severity"] != "info"]), runs.notes.to_string()
    assert {len(run.steps) for run in runs} == {torch_work.STEPS - 1}
    slow = min(torch_work.SLOW_RANK, size - 1)
    waits = runs.waits().groupby("rank")["wait_ns"].sum()
    late_ns = (torch_work.STEPS - 1) * torch_work.LATE_S * 1e9
    assert waits.drop(slow).min() > late_ns / 2 > waits[slow]


def test_torchrun_and_its_slow_rank(tmp_path: Path) -> None:
    runs, errors = _run(tmp_path, _TORCHRUN.format(4, repr(torch_work.__file__)))
    _check(runs, 4)
    finding = runs.advice()["slow_rank"]
    assert (finding.state, finding.place) == ("fires", f"rank {torch_work.SLOW_RANK}")
    assert "no device was recorded" in runs.advice().headline()
    assert "npuprof" not in errors
    assert "profiler_st" not in errors  # torch's own message
    assert {run.info.metadata["distributed_args"]["world_size"] for run in runs} == {4}


@pytest.mark.long
def test_spawn_of_torch(tmp_path: Path) -> None:
    block = (
        "import torch.multiprocessing\ntorch.multiprocessing.spawn(train, args=(2, sys.argv[1] + '.store'), nprocs=2)"
    )
    _check(_run(tmp_path, block)[0], 2)


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    block = (
        f"import multiprocessing\ncontext = multiprocessing.get_context({method!r})\n"
        "started = [context.Process(target=train, args=(n, 2, sys.argv[1] + '.store')) for n in range(2)]\n"
        "for process in started:\n    process.start()\nfor process in started:\n    process.join()"
    )
    _check(_run(tmp_path, block)[0], 2)


@pytest.mark.long
def test_an_executor(tmp_path: Path) -> None:
    block = (
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn')) as pool:\n"
        "    for each in [pool.submit(train, n, 2, sys.argv[1] + '.store') for n in range(2)]:\n        each.result()"
    )
    _check(_run(tmp_path, block)[0], 2)


@pytest.mark.long
def test_the_launcher_of_accelerate_for_notebooks(tmp_path: Path) -> None:
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed for this Python")
    block = (
        "os.environ['ACCELERATE_USE_CPU'] = 'true'\nfrom accelerate import notebook_launcher\n"
        "notebook_launcher(train, num_processes=2, use_port='29717')"
    )
    _check(_run(tmp_path, block)[0], 2)


@pytest.mark.long
def test_a_rank_that_crashes_leaves_the_others_complete(tmp_path: Path) -> None:
    crash = tmp_path / "crash.py"
    crash.write_text(
        "import os\nfrom tests.session.torch_work import train\ntrain()\n"
        "if os.environ['RANK'] == '1':\n    os.kill(os.getpid(), 9)\n"
    )
    runs, _ = _run(tmp_path, _TORCHRUN.format(2, repr(str(crash))).replace("check=True", "check=False"))
    assert runs.ranks == [0, 1]
    assert runs.notes["message"].str.contains("rank 1 .* ended before it could write its recording").any()
    assert len(runs[0].communication)


@pytest.mark.long
def test_process_keeps_its_own_profiler(tmp_path: Path) -> None:
    own = (
        "import torch\nfrom torch.profiler import profile\ntorch.ones(4) @ torch.ones(4)\n"
        "with profile() as own:\n    torch.ones(5) @ torch.ones(5)\nassert len(own.events())\n"
    )
    runs, errors = _run_script(tmp_path, own)
    assert "disableProfiler" not in errors
    assert (runs[0].operators["name"] == "aten::dot").sum() == 1
    assert runs[0].notes["message"].str.contains("the code started a profiler of torch itself").any()


@pytest.mark.long
def test_loading_workers_are_no_ranks(tmp_path: Path) -> None:
    script = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "for batch in DataLoader(torch.ones(8, 2), batch_size=4, num_workers=2):\n    batch.sum()\n"
    )
    runs, _ = _run_script(tmp_path, script)
    assert len(runs) == 1
    assert runs.notes["message"].str.contains("2 processes ran unprofiled .it loads data for a rank").any()
    asked, _ = _run_script(tmp_path, script, ", workers=True")
    assert len(asked) == 3
    assert not asked.notes["message"].str.contains("ran unprofiled").any()
