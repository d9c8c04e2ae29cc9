"""Processes that a profiled block starts: each is a rank of one set, and stays as it is without a profiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import npuprof
from npuprof import progress
from npuprof.machine.environment import OF_JOB
from npuprof.progress import Progress
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recordings import job_folder
from npuprof.session.session import Session
from npuprof.session.workers import STARTUP
from tests import pace

pytestmark = pytest.mark.slow

_WORK = """
import os, sys
from npuprof.simulator import npu
x = npu.ones((64, 64))
for _ in range(int(os.environ.get("RANK", "0")) + 3):
    y = x @ x
print("rank", os.environ.get("RANK"))
"""


def _start(code: str, folder: Path, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    program = folder / "work.py"
    program.write_text(code)
    return subprocess.Popen(
        [sys.executable, str(program)],
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ranks(count: int, code: str, folder: Path) -> list[subprocess.Popen[str]]:
    return [_start(code, folder, {"RANK": str(rank), "WORLD_SIZE": str(count)}) for rank in range(count)]


def _outputs(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[str, str, int]]:
    done = [(*process.communicate(timeout=pace.seconds(60)), process) for process in processes]
    return [(out, errors, process.returncode) for out, errors, process in done]


def _set(session: Session) -> ProfileSet:
    result: object = session.result
    assert isinstance(result, ProfileSet)
    return result


def test_process_ranks_keep_output_and_environment(tmp_path: Path) -> None:
    before = dict(os.environ)
    with npuprof.profile(processes=True, output=tmp_path / "out", name="two") as session:
        done = _outputs(_ranks(2, _WORK, tmp_path))
    assert dict(os.environ) == before
    assert done == [("rank 0\n", "", 0), ("rank 1\n", "", 0)]
    runs = _set(session)
    last: object = npuprof.last()
    assert last is runs
    assert runs.ranks == [0, 1]
    assert [len(run.kernels) for run in runs] == [4, 5]
    assert runs.absent == []
    assert not len(runs.notes[runs.notes["severity"] != "info"])
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "out").rglob("*")} == {0}
    again = npuprof.load(runs.root)
    assert isinstance(again, ProfileSet)
    assert again.ranks == [0, 1]


class _Said:
    """Where progress is shown: keeps what was shown, and waits for more."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, progress: Progress) -> None:
        self.texts.append(progress.name)

    def close(self) -> None:
        pass

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + pace.seconds(60)
        while text not in self.texts and time.monotonic() < deadline:
            time.sleep(0.01)
        assert text in self.texts


@pytest.mark.long
def test_writing_and_ended_ranks_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = _Said()
    monkeypatch.setattr(progress, "_display", lambda: said)
    monkeypatch.setattr(progress, "_TICK_S", 0.05)
    program = tmp_path / "work.py"
    program.write_text(_WORK + "sys.stdin.read()\n")
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        ranks = [
            subprocess.Popen(
                [sys.executable, str(program)],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "4"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            for rank in range(4)
        ]
        said.wait_for("4 ranks, 4 writing, 0 ended")
        ranks[0].communicate()
        said.wait_for("4 ranks, 3 writing, 1 ended")
        ranks[1].kill()
        ranks[1].communicate()
        said.wait_for("4 ranks, 2 writing, 2 ended")
        for rank in ranks[2:]:
            rank.communicate()
    assert said.texts.index("4 ranks, 4 writing, 0 ended") < said.texts.index("4 ranks, 3 writing, 1 ended")
    assert _set(session).ranks == [0, 1, 2, 3]


@pytest.mark.long
def test_processes_without_ranks_are_numbered_in_the_order_of_their_starts(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        for _ in range(2):
            assert _outputs([_start(_WORK, tmp_path)])[0][2] == 0
    runs = _set(session)
    assert runs.ranks == [0, 1]
    starts = [run.info.started_ns or 0 for run in runs]
    assert 0 < starts[0] < starts[1]


_LATE = """
import time
time.sleep({seconds})
import npuprof
from npuprof.simulator import npu
x = npu.ones((16, 16))
for _ in range({count}):
    x = x + x
"""


@pytest.mark.long
def test_first_process_is_rank_zero(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        started = []
        for number, seconds in enumerate((2.0, 1.0, 0.0)):
            program = tmp_path / f"work_{number}.py"
            program.write_text(_LATE.format(seconds=seconds, count=number + 1))
            started.append(subprocess.Popen([sys.executable, str(program)]))
        assert [process.wait(pace.seconds(60)) for process in started] == [0, 0, 0]
    runs = _set(session)
    assert runs.ranks == [0, 1, 2]
    kernels = [len(run.kernels) for run in runs]
    assert [count - kernels[0] for count in kernels] == [0, 1, 2]
    begun = [run.info.started_ns or 0 for run in runs]
    assert begun[0] > begun[2], "they began to record in the other order"


def test_parent_with_front_end_is_a_row(tmp_path: Path) -> None:
    from npuprof.simulator import npu

    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        npu.ones((8, 8)) @ npu.ones((8, 8))
        _outputs(_ranks(1, _WORK, tmp_path))
    runs = _set(session)
    assert runs.info["rank"].isna().tolist() == [False, True]
    assert len(runs.at(1).kernels) == 3


def test_block_that_launches_nothing_is_a_run(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    run = session.result
    assert isinstance(run, npuprof.Profile)
    assert run.notes["message"].str.contains("1 Python process began, and none imported a front end").any()


def test_a_block_without_any_process_says_so(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        pass
    run = session.result
    assert isinstance(run, npuprof.Profile)
    (said,) = run.notes["message"][run.notes["message"].str.contains("that the cell started was profiled")]
    assert "0 Python processes began" in said


def test_a_process_keeps_its_failure_and_the_others_are_complete(tmp_path: Path) -> None:
    code = _WORK + "if os.environ['RANK'] == '1':\n    raise ValueError('of the program')\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        done = _outputs(_ranks(2, code, tmp_path))
    assert [status for *_, status in done] == [0, 1]
    assert done[1][1].endswith("ValueError: of the program\n")
    assert [run.info.failed for run in _set(session)] == ["", "ValueError: of the program (work.py:9)"]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signalled_process_is_read_partly(tmp_path: Path, number: int) -> None:
    code = _WORK + f"if os.environ['RANK'] == '1':\n    os.kill(os.getpid(), {int(number)})\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        done = _outputs(_ranks(2, code, tmp_path))
    assert [status for *_, status in done] == [0, -number]
    runs = _set(session)
    assert runs.info["rank"].tolist() == [0, 1]
    lost = runs.notes["message"].str.contains("rank 1 .* ended before it could write its recording")
    assert lost.any() == (number == signal.SIGKILL)
    if number == signal.SIGTERM:
        assert len(runs[1].kernels) == 5


@pytest.mark.long
def test_the_time_limit_of_a_process_is_its_own(tmp_path: Path) -> None:
    program = tmp_path / "work.py"
    program.write_text(_WORK + "import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    begun_s, limit_s = time.monotonic(), pace.seconds(5)
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        with pytest.raises(subprocess.TimeoutExpired) as raised:
            subprocess.run([sys.executable, str(program)], timeout=limit_s, capture_output=True)
        lasting_s = time.monotonic() - begun_s
    assert lasting_s < 2 * limit_s
    assert raised.value.stdout == b"rank None\non\n"
    runs = _set(session)
    assert runs.notes["message"].str.contains("ended before it could write its recording").any()
    assert len(runs) == 1


def test_twice_terminated_process_writes_its_recording(tmp_path: Path) -> None:
    twice = "import subprocess, time\nsubprocess.Popen(['sh', '-c', f'kill {os.getpid()}; kill {os.getpid()}'])\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        ((_, errors, status),) = _outputs(_ranks(1, _WORK + twice + "time.sleep(600)\n", tmp_path))
    assert (errors, status) == ("", -signal.SIGTERM)
    assert len(_set(session)[0].kernels) == 4


def test_children_of_children_and_of_shells_are_profiled(tmp_path: Path) -> None:
    program = tmp_path / "work.py"
    program.write_text(_WORK)
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        script = f"'{sys.executable}' -c \"import subprocess; subprocess.run(['{sys.executable}', '{program}'])\""
        subprocess.run(["sh", "-c", script], check=True, capture_output=True)
    assert [len(run.kernels) for run in _set(session)] == [4]


def test_a_sitecustomize_and_a_path_of_the_user_stay(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.of_user = 7\n")
    code = (
        "import sys, sitecustomize\nprint(of_user, sitecustomize.__file__, [p for p in sys.path if 'startup' in p])\n"
    )
    with npuprof.profile(processes=True, output=tmp_path / "out"):
        own_path = os.environ["PYTHONPATH"]
        ((out, errors, _),) = _outputs([_start(code, tmp_path, {"PYTHONPATH": f"{own_path}{os.pathsep}{tmp_path}"})])
    assert (out, errors) == (f"7 {tmp_path / 'sitecustomize.py'} []\n", "")


def test_foreign_or_shared_folder_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir(mode=0o755)
    job_folder.make(folder)
    folder.chmod(0o755)
    variables = {"PYTHONPATH": str(STARTUP), OF_JOB: str(folder)}
    _outputs([_start(_WORK, tmp_path, variables)])
    assert (folder / job_folder.LOG_NAME).read_bytes() == b""
    assert sorted(path.name for path in folder.iterdir()) == [job_folder.LOG_NAME]


def test_a_variable_that_outlives_the_block_starts_nothing(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        kept = dict(os.environ)
    before = sorted((tmp_path / "out").rglob("*"))
    _outputs([_start(_WORK, tmp_path, kept)])
    assert sorted((tmp_path / "out").rglob("*")) == before
    assert isinstance(session.result, npuprof.Profile)


_STUCK = """
import ctypes
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
print("stuck", flush=True)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)  # never returns, and no handler in Python runs
"""


def test_hanging_process_ends_by_signal_and_is_read(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        (process,) = _ranks(1, _WORK + _STUCK, tmp_path)
        assert process.stdout is not None
        while process.stdout.readline() != "stuck\n":
            pass
        process.terminate()
        ((_, errors, status),) = _outputs([process])
    assert (errors, status) == ("", -signal.SIGTERM)
    assert len(_set(session)[0].kernels) == 4


def test_full_disk_of_one_rank_spares_others(tmp_path: Path) -> None:
    full = (
        "import os, resource, signal\nif os.environ['RANK'] == '1':\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
    )
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        done = _outputs(_ranks(2, full + _WORK, tmp_path))
    assert done == [("rank 0\n", "", 0), ("rank 1\n", "", 0)]
    runs = _set(session)
    assert len(runs[0].kernels) == 4
    assert len(runs.notes[runs.notes["severity"] != "info"])


def test_a_rank_without_a_front_end_is_named(tmp_path: Path) -> None:
    code = "import os\nif os.environ['RANK'] == '0':\n" + "".join(f"    {line}\n" for line in _WORK.splitlines())
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        _outputs(_ranks(2, code, tmp_path))
    runs = _set(session)
    assert runs.ranks == [0]
    assert runs.notes["message"].str.contains("rank 1 .* imported no front end: nothing is recorded of it").any()
    assert runs.absent == [1]


@pytest.mark.long
def test_a_child_of_a_rank_is_another_row_without_its_rank(tmp_path: Path) -> None:
    code = (
        _WORK + "import subprocess\nif len(sys.argv) == 1:\n    subprocess.run([sys.executable, __file__, 'inner'])\n"
    )
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        _outputs(_ranks(1, code, tmp_path))
    assert _set(session).info["rank"].isna().tolist() == [False, True]


def test_an_interrupt_reaches_a_process_as_without_a_profiler(tmp_path: Path) -> None:
    code = _WORK + "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        (process,) = _ranks(1, code, tmp_path)
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        process.send_signal(signal.SIGINT)
        ((_, errors, status),) = _outputs([process])
    assert status == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert _set(session)[0].info.failed.startswith("KeyboardInterrupt (work.py:")


def test_unreached_short_processes_are_counted(tmp_path: Path) -> None:
    begin = subprocess.Popen.__init__
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        for how in ("-I", "-E", "-S"):
            subprocess.run([sys.executable, how, "-c", "pass"], check=True)
        subprocess.run(["true"], check=True)
        with pytest.raises(OSError, match="no such program"):  # PermissionError where a folder of PATH is closed
            subprocess.run(["no such program"], check=False)
        late = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    late.communicate(b"\n")
    assert subprocess.Popen.__init__ is begin
    assert session.result.notes["message"].str.contains("3 Python processes ran unprofiled, without npuprof's").any()


@pytest.mark.long
def test_none_is_missed_or_invented_where_all_tell_of_themselves(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        _outputs(_ranks(2, _WORK, tmp_path))
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert not _set(session).notes["message"].str.contains("ran unprofiled").any()


@pytest.mark.long
def test_unreached_shell_processes_are_counted(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        subprocess.run(["sh", "-c", f"'{sys.executable}' -I -c 'import time; time.sleep(4)'; true"], check=True)
    assert session.result.notes["message"].str.contains("1 Python process ran unprofiled, without npuprof's").any()


def test_a_start_file_of_the_user_stays(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("print('of the user')\n")
    with npuprof.profile(processes=True, output=tmp_path / "out"):
        shown = subprocess.run(
            [sys.executable, "-i", "-q"],
            env={**os.environ, "PYTHONSTARTUP": str(tmp_path / "start.py")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    assert shown.stdout.splitlines()[:1] == ["of the user"]


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("raise ValueError('bad batch')", "Rank 1 raised ValueError: bad batch (work.py:9)"),
        ("import json; json.loads('{')", "Rank 1 raised JSONDecodeError: Expecting property name"),
        ("raise KeyboardInterrupt", "Rank 1 raised KeyboardInterrupt (work.py:9)"),
        ("sys.exit(0)", ""),
        ("raise SystemExit", ""),
    ],
)
def test_report_says_first_how_a_rank_ended(tmp_path: Path, ending: str, said: str) -> None:
    code = _WORK + f"if os.environ['RANK'] == '1':\n    {ending}\n"
    with npuprof.profile(processes=True, output=tmp_path / "out") as session:
        _outputs(_ranks(2, code, tmp_path))
    runs = _set(session)
    first = str(runs).splitlines()[1]
    assert first.startswith(said) if said else "raised" not in str(runs)
    assert ("the program raised" in runs.to_markdown()) == bool(said)
    assert runs.notes["message"].str.startswith("the program raised").sum() == bool(said)
