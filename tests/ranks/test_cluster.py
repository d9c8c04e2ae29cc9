"""Ranks read by the workers of a Dask cluster: the same rows, whatever happens to a worker or the scheduler."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.errors import NpuprofWarning
from npuprof.loading import load_set
from npuprof.ranks import executors, scan
from npuprof.ranks.executors import Work, active_client, spread
from npuprof.ranks.kernel_sums import KernelSums
from npuprof.simulator.jobs import SIZES, simulate, text
from tests import pace

distributed = pytest.importorskip("distributed", reason='pip install "npuprof[cluster]"')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of distributed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = simulate(replace(SIZES[64], steps=1, microbatches=1, layers=1), seed=7)
    return text.write(made, tmp_path_factory.mktemp("job"), kernels=True)


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def local() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster, timeout=pace.seconds(30)) as client,
    ):
        yield client


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note with which client each part is read."""
    seen: list[object] = []

    def through(work: Any, items: Any, sizes: Any, client: Any) -> Any:
        seen.append(client)
        return spread(work, items, sizes, client)

    monkeypatch.setattr(scan, "spread", through)
    return seen


@pytest.mark.long
@pytest.mark.usefixtures("no_copies")
def test_workers_read_what_is_read_here(job: Path, local: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = _counted(monkeypatch)
    assert active_client() is local
    there = load_set(job).table("communication")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    given = load_set(job, client=local).table("communication")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
    monkeypatch.setattr("npuprof.ranks.run_list.active_client", lambda: None)
    here = load_set(job).table("communication")
    assert seen == [local, local, None]
    pd.testing.assert_frame_equal(there.astype(object), here.astype(object))
    pd.testing.assert_frame_equal(given.astype(object), here.astype(object))


@pytest.mark.long
@pytest.mark.usefixtures("no_copies")
def test_workers_sum_kernels_and_return_no_rows(job: Path, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[KernelSums] = []
    merged = KernelSums.merged

    def seen(parts: Sequence[KernelSums], keys: Sequence[Any]) -> KernelSums:
        received.extend(parts)
        return merged(parts, keys)

    monkeypatch.setattr(KernelSums, "merged", seen)
    runs = load_set(job, client=local)
    table = runs.by("op_type")
    assert len(received) >= 64
    assert max(len(part.groups) for part in received) == len(table)
    assert set(runs.info["state"]) == {"found"}
    kernels = runs.table("kernels")
    assert int(table["count"].sum()) == len(kernels)
    assert int(table["total_ns"].sum()) == int(kernels["duration_ns"].sum())


@pytest.mark.long
@pytest.mark.usefixtures("no_copies")
def test_a_killed_worker_loses_nothing(job: Path, local: Any) -> None:
    pids = local.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    runs = load_set(job, client=local)
    assert sorted(set(runs.table("communication")["rank"])) == list(range(64))
    assert not len(runs.notes)


def _end_at_13(items: Sequence[int]) -> list[int]:
    if 13 in items:
        os.kill(os.getpid(), signal.SIGKILL)
    return [2 * item for item in items]


@pytest.mark.long
def test_an_item_that_kills_each_worker_is_lost_alone(local: Any) -> None:
    work: Work[int, int] = Work(_end_at_13, lambda item, fate: -item, "numbers")
    found = dict(spread(work, range(20), [1] * 20, local))
    assert found == {item: -13 if item == 13 else 2 * item for item in range(20)}


@pytest.mark.long
def test_workerless_cluster_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "WITHOUT_WORKERS_S", 0.5)
    work: Work[int, int] = Work(_end_at_13, lambda item, fate: -item, "numbers")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster, timeout=pace.seconds(30)) as client,
        pytest.warns(NpuprofWarning, match="without workers for 0.5 s"),
    ):
        found = dict(spread(work, range(12, 15), [1] * 3, client))
    assert found == {0: 24, 1: -13, 2: 28}  # in processes of this machine, of which the item kills one


@pytest.mark.long
@pytest.mark.usefixtures("no_copies")
def test_without_a_scheduler_this_machine_reads(job: Path) -> None:
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        client = distributed.Client(cluster, timeout=pace.seconds(30))
        runs = load_set(job, client=client)
        client.close()
    with pytest.warns(NpuprofWarning, match="the cluster does not read any more"):
        assert len(runs.table("step_times")) == 64


@pytest.mark.long
@pytest.mark.usefixtures("no_copies")
def test_two_hosts_read_their_share(job: Path) -> None:
    """Scheduler and workers are processes of their own that meet over TCP, as on two hosts."""
    from distributed.deploy.subprocess import SubprocessCluster

    with (
        SubprocessCluster(
            host="127.0.0.1",
            n_workers=2,
            threads_per_worker=1,
            worker_kwargs={"host": "127.0.0.1"},
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
        distributed.Client(cluster, timeout=pace.seconds(60)) as client,
    ):
        client.wait_for_workers(2, timeout=pace.seconds(60))  # else the first may have read all before the second came
        runs = load_set(job, client=client)
        assert sorted(set(runs.table("communication")["rank"])) == list(range(64))
        done = client.run(lambda dask_worker: len(dask_worker.state.log))
        assert len(done) == 2
        assert min(done.values()) > 0
