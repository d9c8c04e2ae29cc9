"""Workers that outlive a profiled block: later blocks record them too, and none after its end."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.machine.environment import OF_WORKERS
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from tests import pace
from tests.session.process_work import serve, train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]

Run = Callable[[Sequence[int]], object]
_LONG = pytest.mark.long


def _executor(method: str) -> AbstractContextManager[Executor]:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method))


def _loky() -> AbstractContextManager[Executor]:
    return importlib.import_module("loky").ProcessPoolExecutor(2)  # type: ignore[no-any-return, unused-ignore]


@contextmanager
def _dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        yield client.get_executor(pure=False)


@contextmanager
def _pool(method: str) -> Iterator[Any]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        yield pool


_POOLS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "fork": lambda: _pool("fork"),
    "spawn": lambda: _pool("spawn"),
    "forkserver": lambda: _pool("forkserver"),
    "executor that forks": lambda: _executor("fork"),
    "executor that spawns": lambda: _executor("spawn"),
    "loky": _loky,
    "dask": _dask,
}
_IN_THE_USUAL_LANE = ("fork", "spawn")


def _steps(result: object) -> int:
    """Return how many kernels were recorded of all processes."""
    runs: object = getattr(result, "result", None)
    assert isinstance(runs, ProfileSet), runs
    return sum(len(run.kernels) for run in runs)


def _launched(steps: Sequence[int]) -> int:
    return sum(number + 1 for number in steps)  # ones() is a kernel too


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in _IN_THE_USUAL_LANE else _LONG) for k in _POOLS])
@pytest.mark.parametrize("earlier", [False, pytest.param(True, marks=_LONG)])
def test_each_block_records_workers_of_earlier_blocks(tmp_path: Path, kind: str, earlier: bool) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "before"):
        pass
    blocks = []
    with _POOLS[kind]() as pool:
        if earlier:
            list(pool.map(train, [1, 1]))
        for steps in ([5, 7], [2, 3, 4]):
            with npuprof.profile(processes=True, output=tmp_path / "out") as session:
                list(pool.map(train, steps))
            blocks.append(session)
            list(pool.map(train, [30, 30]))  # in no block
        assert [_steps(each) for each in blocks] == [_launched([5, 7]), _launched([2, 3, 4])]
        for each in blocks:
            assert not each.result.notes["message"].str.contains("goes on|unprofiled").any()
    for each in blocks:
        before, runs = _steps(each), each.result
        assert isinstance(runs, ProfileSet)
        runs.refresh()
        assert _steps(each) == before


def test_fork_server_serves_later_blocks(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    for block in range(2):
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            processes = [context.Process(target=train, args=(3 + block,)) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join(pace.seconds(60))
        assert _steps(session) == _launched([3 + block] * 2)


def test_sockets_are_private_and_the_environment_stays(tmp_path: Path) -> None:
    before = dict(os.environ)
    with npuprof.profile(processes=True, output=tmp_path / "out"), _POOLS["spawn"]() as pool:
        pool.map(train, [1, 1])
        folder = Path(os.environ[OF_WORKERS])
        sockets = [path for path in folder.iterdir() if path.is_socket()]
        assert sockets
        assert {path.stat().st_mode & 0o777 for path in sockets} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
        pool.close()
        pool.join()
    assert dict(os.environ) == before
    assert not [path for path in folder.iterdir() if path.is_socket()]


@contextmanager
def _workers(count: int) -> Iterator[list[tuple[Any, Connection]]]:
    context = multiprocessing.get_context("spawn")
    workers = []
    for _ in range(count):
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there,), daemon=True)
        process.start()
        workers.append((process, here))
        here.send(1)
    for _, here in workers:
        assert here.recv()
    try:
        yield workers
    finally:
        for process, here in workers:
            if process.is_alive() and process.pid:
                os.kill(process.pid, signal.SIGCONT)
                here.send(None)
            process.join(pace.seconds(60))


def _ask(connection: Connection, steps: int) -> None:
    connection.send(steps)
    assert connection.poll(pace.seconds(60))
    connection.recv()


def _garbage(path: Path) -> None:
    """Send what is no request, as another program of the same user may."""
    folder = str(path.parent).encode()
    for content in (
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"x" * 100_000,
        b"\x80\x04\x95.\n",
        b'{"command": "start", "job": 7}\n',
        b'{"command": "start", "job": "/proc/self\\u0000"}\n',
        b'{"command": "start", "job": "' + folder + b'"}\n',
        b'{"command": "stop", "job": "/"}\n',
        b'{"command": "exec", "job": "/"}\n',
        b'{"command": ["start"], "job": "/"}\n',
        b"[" * 8000 + b"\n",
    ):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(pace.seconds(5))
            peer.connect(str(path))
            try:
                peer.sendall(content)
            except OSError:
                continue  # it has closed


@pytest.mark.long
def test_dead_stopped_and_bothered_workers_delay_nothing(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "before"):
        folder = Path(os.environ[OF_WORKERS])
    with _workers(4) as workers:
        (killed, _), (stopped, _), (bothered, ask), (well, ask_well) = workers
        killed.kill()
        killed.join()
        _garbage(folder / str(bothered.pid))
        os.kill(stopped.pid, signal.SIGSTOP)
        began = time.monotonic()
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            _ask(ask, 3)
            _ask(ask_well, 4)
        assert time.monotonic() - began < pace.seconds(15)
        assert _steps(session) == _launched([3, 4])
        notes = session.result.notes["message"]
        assert notes.str.contains(f"1 worker ({stopped.pid}) did not answer", regex=False).sum() == 1
        os.kill(stopped.pid, signal.SIGCONT)
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            for _, each in workers[1:]:
                _ask(each, 5)
        assert _steps(session) == _launched([5, 5, 5])
        assert well.is_alive()


@pytest.mark.long
def test_names_worker_that_holds_the_lock(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "before"):
        pass
    with _workers(1) as ((process, ask),):
        began = time.monotonic()
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            _ask(ask, 3)
            ask.send(pace.seconds(8))
            ask.recv()
        assert time.monotonic() - began < pace.seconds(6)
        assert session.result.notes["message"].str.contains(f"{process.pid}").any()
        _ask(ask, 1)
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            _ask(ask, 6)
        assert _steps(session) == _launched([6])


@pytest.mark.long
def test_names_workers_without_sockets(tmp_path: Path) -> None:
    with npuprof.profile(processes=True, output=tmp_path / "before"):
        folder = Path(os.environ[OF_WORKERS])
    with _workers(1) as ((process, ask),):
        shutil.rmtree(folder)
        with npuprof.profile(processes=True, output=tmp_path / "out") as session:
            _ask(ask, 20_000)
        result: object = session.result
        assert isinstance(result, Profile)
        said = result.notes["message"]
        assert said.str.contains(f"({process.pid}) of an earlier cell worked unprofiled", regex=False).any()
    with _workers(1) as ((_, ask),), npuprof.profile(processes=True, output=tmp_path / "out") as session:
        _ask(ask, 2)
    assert _steps(session) == _launched([2])


_EARLY = """
import multiprocessing, sys
from tests.session.process_work import train
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
        pool.map(train, [1])
        import npuprof
        with npuprof.profile(processes=True, output=sys.argv[1]) as session:
            pool.map(train, [20_000])
        print(*session.result.notes["message"], sep="\\n")
"""


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=_LONG)])
def test_names_workers_older_than_npuprof(tmp_path: Path, method: str) -> None:
    program = tmp_path / "early.py"
    program.write_text(_EARLY)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, str(program), str(tmp_path / "out"), method]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    (said,) = [line for line in done.stdout.splitlines() if "of an earlier cell worked unprofiled" in line]
    assert said.startswith("1 Python process (")
    assert said.endswith("Start them again, in this cell or after %load_ext npuprof")
