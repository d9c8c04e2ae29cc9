"""Ranks that are broken, missing, half written or of another kind, and workers that die: each loss is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npuprof.errors import NpuprofWarning
from npuprof.loading import load_set
from npuprof.ranks.executors import Work, spread
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, simulate, text
from tests import pace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of distributed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
_JOB = simulate(replace(SIZES[64], steps=1, microbatches=1, layers=1), seed=7)
_OUTPUT = "ASCEND_PROFILER_OUTPUT"


@pytest.fixture(params=["processes of this machine", pytest.param("a cluster", marks=pytest.mark.long)])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Dask client with two workers, or None."""
    if request.param == "a cluster":
        distributed = pytest.importorskip("distributed", reason='pip install "npuprof[cluster]"')
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
            distributed.Client(cluster, timeout=pace.seconds(30)) as connected,
        ):
            yield connected
    else:
        yield None


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of 64 ranks, of which one each is broken, gone, half written, recorded twice, and of another kind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = text.write(_JOB, tmp_path / "job")
    rank = {number: folder / f"rank{number}_ascend_pt" for number in range(64)}
    broken = rank[1] / _OUTPUT / "communication.json"
    broken.write_bytes(broken.read_bytes()[:999])
    shutil.rmtree(rank[2])
    for file in ("communication.json", "communication_matrix.json"):
        (rank[3] / _OUTPUT / file).unlink()  # the analysis has come so far
    shutil.copytree(rank[4], folder / "rank4_again_ascend_pt")
    _told(rank[5], "profiler_info_5.json", cann_version="7.0.0")
    load_set(rank[6]).at(0).save(folder / "saved")  # of another form
    shutil.rmtree(rank[6])
    for file in ("step_trace_time.csv", "communication.json"):
        shutil.copy(rank[8] / _OUTPUT / file, rank[7] / _OUTPUT / file)  # mixed up: files of another rank
    return folder


def _told(rank: Path, name: str, **facts: str) -> None:
    file = rank / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))


def _check(runs: ProfileSet) -> None:
    """Check that each fault loses what it concerns, and that the notes tell it."""
    communication = runs.table("communication")
    assert sorted(set(communication["rank"])) == [rank for rank in range(64) if rank not in (1, 2, 3)]
    counts = communication.groupby("rank").size()
    assert counts[4] == 2 * counts[12]  # both sessions are rows of the table
    assert counts[6] == counts[14]
    assert sorted(set(runs.table("step_times")["rank"])) == [rank for rank in range(64) if rank != 2]
    assert runs.absent == [2]
    told = [f"{source} {message}" for source, message in zip(runs.notes["source"], runs.notes["message"], strict=True)]
    for rank in (
        "rank 2 there is no run",
        "rank1_ascend_pt communication",
        "rank3_ascend_pt there is no file",
        "rank8_ascend_pt communication: all operators have the times of those of rank7_ascend_pt",
    ):
        assert any(line.startswith(rank) for line in told), (rank, told)
    assert sum("one file is a copy" in line for line in told) == 2  # of ranks 7 and 8, and of the sessions of rank 4
    assert runs[5].info.versions["cann"] == "7.0.0"
    waits = runs.waits()
    assert set(range(8, 64)) <= set(waits["rank"])
    assert (waits["wait_ns"] >= 0).all()


@pytest.mark.long
def test_each_fault_loses_what_it_concerns(faulty: Path, client: Any) -> None:
    _check(load_set(faulty, client=client))


@pytest.mark.long
def test_files_appearing_meanwhile_are_not_read(faulty: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = load_set(faulty, client=client)
    shutil.copytree(faulty / "rank9_ascend_pt", faulty / "rank2_ascend_pt")  # comes late
    (faulty / "rank2_ascend_pt" / "profiler_info_9.json").rename(faulty / "rank2_ascend_pt" / "profiler_info_2.json")
    _told(faulty / "rank2_ascend_pt", "profiler_info_2.json", rank_id="2")
    shutil.rmtree(faulty / "rank10_ascend_pt")  # and this one goes
    table = runs.table("communication")
    assert 2 not in set(table["rank"])
    assert 10 not in set(table["rank"])
    assert set(range(11, 64)) <= set(table["rank"])
    notes = runs.notes
    assert notes["source"].str.contains("rank10").any()
    assert 2 in set(load_set(faulty, client=client).table("communication")["rank"])


def _slowly(items: Sequence[int]) -> list[int]:
    threading.Event().wait(0.05)
    return [2 * item for item in items]


@pytest.mark.long
@pytest.mark.parametrize("dies", ["a worker", "the scheduler"])
def test_sudden_death_loses_nothing(dies: str) -> None:
    distributed = pytest.importorskip("distributed", reason='pip install "npuprof[cluster]"')
    work: Work[int, int] = Work(_slowly, lambda item, fate: -1, "numbers")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        client = distributed.Client(cluster, timeout=pace.seconds(30))
        pids = client.run(os.getpid)
        results: dict[int, int] = {}
        told = pytest.warns(NpuprofWarning, match="does not read any more")
        with told if dies == "the scheduler" else nullcontext():
            for item, result in spread(work, range(200), [1] * 200, client):
                if not results and dies == "a worker":
                    os.kill(next(iter(pids.values())), signal.SIGKILL)
                elif not results:
                    cluster.sync(cluster.scheduler.close)
                results[item] = result
        client.close()
    assert results == {item: 2 * item for item in range(200)}


def test_unusual_step_numbers_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = text.write(simulate(replace(SIZES[8], steps=2)), tmp_path / "job")
    steps = folder / "rank5_ascend_pt" / _OUTPUT / "step_trace_time.csv"
    head, *rows = (line.split(",") for line in steps.read_text().splitlines())
    at = head.index("Step")
    for row in rows:
        row[at] = str(int(row[at]) + 1)
    steps.write_text("".join(",".join(row) + "\n" for row in (head, *rows)))
    for _ in range(2):  # the second time from the cache
        overview = load_set(folder).overview()
        assert "1 warning in runs.notes" in str(overview)
        assert "1 warning in runs.notes" in overview._repr_html_()
    assert "rank 5 has the steps 11, 12" in " ".join(str(load_set(folder)).split())  # on top
    runs = load_set(folder)
    assert not len(runs.notes)  # nothing was read yet
    runs.plot_steps()
    (note,) = runs.notes["message"]
    assert note.startswith("rank 5 has the steps 11, 12, other ranks 10, 11: collectives are joined by step number")


def test_the_note_says_as_which_steps_collectives_were_joined(tmp_path: Path) -> None:
    folder = text.write(simulate(replace(SIZES[8], steps=4)), tmp_path / "job")
    output = folder / "rank5_ascend_pt" / _OUTPUT
    steps = output / "step_trace_time.csv"
    head, *rows = (line.split(",") for line in steps.read_text().splitlines())
    at = head.index("Step")
    for row in rows:
        row[at] = str(int(row[at]) + 1)
    steps.write_text("".join(",".join(row) + "\n" for row in (head, *rows)))
    communication = output / "communication.json"
    communication.write_text(
        re.sub(r'"step(\d+)"', lambda found: f'"step{int(found[1]) + 1}"', communication.read_text())
    )
    beginning = "rank 5 has the steps 11-14, other ranks 10-13: "
    runs = load_set(folder)
    assert len(list(runs)) == 8
    (note,) = runs.notes["message"]
    assert note.startswith(f"{beginning}once waits() or advice()")  # nothing was joined yet
    runs.waits()
    (note,) = runs.notes["message"]
    assert note == f"{beginning}by the ends of collectives step 11 here is step 10 there, and is joined with it"
