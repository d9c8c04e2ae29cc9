"""Engines of ipyparallel in a real local cluster: each is a rank, and those that fail are named."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof import progress
from npuprof.errors import CollectorError, OptionsError
from npuprof.options import Options
from npuprof.progress import Progress
from npuprof.ranks.profile_set import ProfileSet
from npuprof.session import engine_side, engines
from npuprof.session.session import Session
from tests import pace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::ResourceWarning",
        "ignore:IPython could not determine IPs:RuntimeWarning",  # of a machine whose own name has no address
    ),
]


def _multiply(count: int) -> None:
    from npuprof.simulator import npu

    x = npu.ones((16, 16))
    for _ in range(count):
        x @ x


@contextmanager
def _cluster(folder: Path, engines: int) -> Iterator[Any]:
    """A client of a local cluster."""
    if importlib.util.find_spec("ipyparallel") is None:
        pytest.skip("ipyparallel is not installed")
    import ipyparallel

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    cluster = ipyparallel.Cluster(n=engines, profile_dir=str(folder), cluster_id="npuprof", log_level=40)
    try:
        yield cluster.start_and_connect_sync()
    finally:
        cluster.stop_cluster_sync()
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of four engines."""
    with _cluster(tmp_path_factory.mktemp("cluster"), 4) as made:
        yield made


def _set(session: Session) -> ProfileSet:
    result: object = session.result
    assert isinstance(result, ProfileSet)
    return result


def _kernels(runs: ProfileSet) -> dict[int, int]:
    return {rank: len(runs[rank].kernels) for rank in runs.ranks}


@pytest.mark.long
def test_engines_are_ranks_of_a_set(client: Any, tmp_path: Path) -> None:
    with npuprof.engines(client, collector="simulator", output=tmp_path / "out", name="cluster") as session:
        for number in client.ids:
            client[number].apply_sync(_multiply, number + 1)
    runs = _set(session)
    assert _kernels(runs) == {0: 2, 1: 3, 2: 4, 3: 5}
    last: object = npuprof.last()
    assert last is runs
    assert not len(runs.notes[runs.notes["severity"] != "info"])


@pytest.mark.long
def test_recordings_of_engines_without_the_common_folder_are_sent(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(engines, "_PROOF", "another name")
    with npuprof.engines(client, collector="simulator", output=tmp_path / "out") as session:
        client[:].apply_sync(_multiply, 2)
    runs = _set(session)
    assert _kernels(runs) == dict.fromkeys(range(4), 3)
    assert {path.stat().st_mode & 0o077 for path in runs.root.rglob("*")} == {0}
    assert not len(runs.notes[runs.notes["severity"] != "info"])


_ELSEWHERE = """
mount -t tmpfs none "$1" && echo elsewhere > /proc/sys/kernel/hostname || exit 77
exec "$2" -m ipyparallel.engine --file="$3" --log-level=40
"""


def _write_more(size: int) -> None:
    from npuprof.session import engine_side

    assert engine_side._session is not None
    (engine_side._session.recording.directory / "more").write_bytes(os.urandom(size))


@pytest.mark.long
def test_an_engine_of_another_host_sends_its_recording_with_progress(tmp_path: Path) -> None:
    out, folder = tmp_path / "out", tmp_path / "cluster"
    out.mkdir()
    if not (unshare := shutil.which("unshare")):
        pytest.skip("there is no unshare")
    with _cluster(folder, 1) as client:
        file = folder / "security" / "ipcontroller-npuprof-engine.json"
        command = [unshare, "--user", "--map-root-user", "--mount", "--uts", "sh", "-c", _ELSEWHERE, "sh"]
        engine = subprocess.Popen([*command, str(out), sys.executable, str(file)], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + pace.seconds(60)
            while len(client.ids) < 2 and time.monotonic() < deadline:
                if engine.poll() is not None:
                    pytest.skip(f"this user cannot make a host of its own here (status {engine.returncode})")
                time.sleep(0.1)
            session = npuprof.engines(client, collector="simulator", output=out)
            session.start()
            client[:].apply_sync(_multiply, 3)
            client[1].apply_sync(_write_more, 10 << 20)
            reports: list[Progress] = []
            with progress.watched(reports.append):
                session.stop()
        finally:
            engine.kill()
            engine.wait()
    runs = _set(session)
    assert _kernels(runs) == {0: 4, 1: 4}
    assert runs.info["host"].tolist() == [platform.node(), "elsewhere"]
    assert not len(runs.notes[runs.notes["severity"] != "info"])
    assert [path.stat().st_size for path in runs.root.glob("*/more")] == [10 << 20]
    sent = [report.done for report in reports if report.name == "recordings of engines"]
    assert reports[0].total == sent[-1] > 10 << 20
    assert max(np.diff([0, *sent])) <= 4 << 20


def test_what_is_no_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="is no client of ipyparallel"):
        npuprof.engines(tmp_path)
    with pytest.raises(OptionsError, match="engines needs those of a client"):
        Session(Options(engines=True, output=tmp_path)).start()
    with pytest.raises(OptionsError, match="choose one of them"):
        Options(engines=True, processes=True)


def _wait_for(path: str) -> None:
    import time
    from pathlib import Path

    while not Path(path).exists():
        time.sleep(0.05)


def _lose_npuprof() -> None:
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "npuprof"]:
        del sys.modules[name]
    sys.modules["npuprof"] = None  # type: ignore[assignment]


def _find_npuprof() -> None:
    import sys

    del sys.modules["npuprof"]


@pytest.mark.long
def test_silent_engines_are_named(client: Any, tmp_path: Path) -> None:
    late_s = pace.seconds(5)
    client[1].apply_sync(_lose_npuprof)
    free = tmp_path / "free"
    busy = client[3].apply_async(_wait_for, str(free))
    session = npuprof.engines(client, timeout_s=late_s, collector="simulator", output=tmp_path / "out")
    session.start()
    client[[0, 2]].apply_sync(_multiply, 1)
    session.stop()
    client[1].apply_sync(_find_npuprof)
    free.touch()
    busy.get()
    runs = _set(session)
    assert _kernels(runs) == {0: 2, 2: 2}
    said = " ".join(runs.notes["message"])
    assert "engine 1 was not profiled: " in said
    assert "npuprof" in said.partition("engine 1 was not profiled: ")[2][:80]
    assert f"engine 3 was not profiled: it did not answer within {late_s:g} s" in said


@pytest.mark.long
def test_an_engine_that_was_restarted_says_so() -> None:
    with pytest.raises(RuntimeError, match="it was restarted"):
        engine_side.stop()


@pytest.mark.long
def test_a_cell_that_px_runs_on_the_engines(client: Any, tmp_path: Path) -> None:
    from ipyparallel.client.magics import ParallelMagics

    from tests.notebook.cells import Cells

    cells = Cells(tmp_path)
    view = client[:2]
    view.block = True
    with pytest.raises(Exception, match=r"client\.activate"):
        cells.profile("1", "--engines")
    cells.shell.register_magics(ParallelMagics(cells.shell, view))
    cells.profile("%%px\nfrom npuprof.simulator import npu\nx = npu.ones((8, 8))\ny = x @ x", "--engines")
    last: object = npuprof.last()
    assert isinstance(last, ProfileSet)
    assert _kernels(last) == {0: 2, 1: 2}


@pytest.mark.long
def test_an_engine_that_dies_is_named_and_the_others_stay(client: Any, tmp_path: Path) -> None:
    session = npuprof.engines(client, timeout_s=pace.seconds(10), collector="simulator", output=tmp_path / "out")
    session.start()
    client[:].apply_sync(_multiply, 1)
    client[2].apply_async(os._exit, 1)
    session.stop()
    runs = _set(session)
    assert {rank: count for rank, count in _kernels(runs).items() if rank != 2} == {0: 2, 1: 2, 3: 2}
    assert runs.notes["message"].str.contains("engine 2 did not end its recording").any()
