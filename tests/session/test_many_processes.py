"""Processes in numbers, from several notebooks at once, of launchers, and of other environments."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import npuprof
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recordings import job_folder
from npuprof.session.session import Session
from tests import pace
from tests.programs import write_python_program

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_WORK = """
import os
from npuprof.simulator import npu
x = npu.ones((16, 16))
for _ in range(int(os.environ.get("RANK_ID", os.environ.get("RANK", "0"))) + 3):
    y = x @ x
"""


def _set(session: Session) -> ProfileSet:
    result: object = session.result
    assert isinstance(result, ProfileSet)
    return result


def _script(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text).lstrip())
    path.chmod(0o755)
    return path


@pytest.mark.long
def test_farm_of_200_processes_hides_no_rank(tmp_path: Path) -> None:
    work = _script(tmp_path / "work.py", _WORK)
    inner = [sys.executable, "-c", "pass"]
    outer = [sys.executable, "-c", f"import subprocess; subprocess.run({inner!r}, check=True)"]
    with npuprof.profile(processes=True, output=tmp_path / "out") as session, ThreadPoolExecutor(8) as pool:
        farm = [pool.submit(subprocess.run, outer, check=True) for _ in range(100)]
        rank = pool.submit(subprocess.run, [sys.executable, str(work)], check=True, env={**os.environ, "RANK": "0"})
        for each in [*farm, rank]:
            each.result()
    runs = _set(session)
    assert [len(run.kernels) for run in runs] == [4]
    assert len(job_folder.processes(runs.root)) == 201
    assert not len(runs.notes[runs.notes["severity"] != "info"]), runs.notes.to_string()


_NOTEBOOK = """
import os, subprocess, sys, time
from pathlib import Path
import npuprof
output, work, own, ranks = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
with npuprof.profile(processes=True, output=output / "profiles", name="cell") as session:
    (output / own).touch()
    while len([*output.glob("at_*")]) < 2:  # both are profiled before either starts a process
        time.sleep(0.01)
    for rank in range(ranks):
        subprocess.run([sys.executable, work], check=True, env={**os.environ, "RANK": str(rank)})
print(session.recording.directory.parent)
"""


@pytest.mark.long
def test_two_notebooks_in_one_folder_have_each_its_own_ranks(tmp_path: Path) -> None:
    work = _script(tmp_path / "work.py", _WORK)
    counts = (2, 3)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _NOTEBOOK, str(tmp_path), str(work), f"at_{count}", str(count)],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in counts
    ]
    folders = [process.communicate(timeout=pace.seconds(60))[0].strip() for process in started]
    assert len({*folders}) == len(counts)
    assert [npuprof.load_set(folder).ranks for folder in folders] == [[*range(count)] for count in counts]


# What MindSpore 2.10's own does: its scheduler runs the script too, and each worker has its rank in RANK_ID.
_MSRUN = """
    import os, subprocess, sys
    count, command = int(sys.argv[1].partition("=")[2]), [sys.executable, *sys.argv[2:]]
    os.environ.update(MS_WORKER_NUM=str(count), RANK_SIZE=str(count), MS_ROLE="MS_SCHED", RANK_ID="0")
    started = [subprocess.Popen(command)]
    for rank in range(count):
        os.environ.update(MS_ROLE="MS_WORKER", RANK_ID=str(rank), DEVICE_ID=str(rank), MS_NODE_ID=str(rank))
        started.append(subprocess.Popen(command))
    sys.exit(max(process.wait() for process in started))
"""


@pytest.mark.long
def test_msrun_workers_are_ranks(tmp_path: Path) -> None:
    work = _script(tmp_path / "work.py", _WORK)
    msrun = tmp_path / "msrun"
    write_python_program(msrun, textwrap.dedent(_MSRUN).lstrip())
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        subprocess.run([str(msrun), "--worker_num=2", str(work)], check=True)
    runs = _set(session)
    assert {run.info.rank: len(run.kernels) for run in runs} == {0: 4, 1: 5}
    assert len(job_folder.processes(runs.root)) == 4
    assert not len(runs.notes[runs.notes["severity"] != "info"]), runs.notes.to_string()


# What `conda run -n NAME` does: it activates the environment, and runs the words in it.
_CONDA = """
    #!/bin/sh
    export CONDA_PREFIX="{envs}/$3" CONDA_DEFAULT_ENV="$3" CONDA_SHLVL=1
    export PATH="$CONDA_PREFIX/bin:$PATH"
    shift 3
    exec "$@"
"""


def _environment(folder: Path, *, has_npuprof: bool) -> None:
    """Make an environment as conda does: a prefix with its own Python; its packages are those of this one, or none."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (folder / "conda-meta").mkdir()
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "acl.py").write_text("at_work = True\n")
    if has_npuprof:
        own = [path for path in sys.path if "site-packages" in path]
        (packages / "others.pth").write_text("\n".join([str(_ROOT), *own]))


@pytest.mark.long
def test_conda_environments_work_as_before(tmp_path: Path) -> None:
    conda = _script(tmp_path / "conda", _CONDA.format(envs=tmp_path / "envs"))
    for name in ("with", "without"):
        _environment(tmp_path / "envs" / name, has_npuprof=name == "with")
    work = _script(tmp_path / "work.py", _WORK)
    plain = _script(
        tmp_path / "plain.py",
        """
        import acl, os, sys
        print(os.environ["CONDA_DEFAULT_ENV"], sys.prefix == os.environ["CONDA_PREFIX"], acl.at_work)
        sys.exit(3)
        """,
    )
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        subprocess.run([str(conda), "run", "-n", "with", "python", str(work)], check=True)
        of_other = subprocess.run(
            [str(conda), "run", "-n", "without", "python", str(plain)], check=False, capture_output=True, text=True
        )
    assert (of_other.stdout, of_other.stderr, of_other.returncode) == ("without True True\n", "", 3)
    runs = _set(session)
    assert [len(run.kernels) for run in runs] == [4]
    (said,) = runs.notes[runs.notes["severity"] != "info"]["message"]
    assert f"1 process ran unprofiled (npuprof is not installed for {tmp_path / 'envs' / 'without'}" in said
    assert "there may have been more" in said
