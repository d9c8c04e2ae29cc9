"""Folders of traces of torch's profiler: the ranks of a job, and the cycles of each."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.global_ranks import world_size
from tests.sources.kineto.jobs import TorchJob
from tests.sources.kineto.traces import KinetoTrace

_JOB = TorchJob((400, 400, 640, 400), steps=6)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> ProfileSet:
    return npuprof.load_set(_JOB.write(tmp_path_factory.mktemp("job")))


def test_the_folder_of_the_trace_handler_is_a_set_of_ranks(runs: ProfileSet) -> None:
    assert runs.ranks == [0, 1, 2, 3]
    assert runs.absent == []
    assert set(runs.info["host"]) == {"node-1"}
    assert not len(runs.notes)
    assert runs[2].info.metadata["distributed_args"]["world_size"] == 4


@pytest.mark.slow
def test_ranks_wait_as_long_as_the_slow_one(runs: ProfileSet) -> None:
    waits = runs.waits()
    of_reduce = waits[waits["op_type"] == "allreduce"]
    for rank in runs.ranks:
        of_rank = of_reduce[of_reduce["rank"] == rank]
        assert of_rank["wait_ns"].tolist() == [_JOB.wait_ns(rank)] * _JOB.steps
        assert of_rank["step"].tolist() == [*range(_JOB.steps)]
    assert set(of_reduce["last_rank"]) == {2}
    finding = runs.advice()["slow_rank"]
    assert (finding.state, finding.place) == ("fires", "rank 2")


@pytest.mark.slow
def test_matrix_holds_sent_bytes(runs: ProfileSet) -> None:
    """Sends of four times 1,024 floats go to the next rank, all-to-alls in equal parts to all."""
    traffic = runs._traffic().set_index(["src_rank", "dst_rank"])["size_bytes"].to_dict()
    part = _JOB.steps * 1024 * 4
    for source in range(4):
        for target in range(4):
            sent = 4 * part if target == (source + 1) % 4 else 0
            assert traffic[str(source), str(target)] == part + sent
    assert "4 ranks" not in str(runs.plot_communication_matrix().layout.title.text)
    assert "slow_link" not in {finding.rule for finding in runs.advice()}  # it is about links between NPUs


@pytest.mark.slow
def test_two_real_workers_with_the_trace_handler_are_a_set(tmp_path: Path) -> None:
    """GIVEN two processes of torch with gloo, each profiled for two cycles THEN their folder is one job."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed for this Python")
    worker = Path(__file__).parent / "gloo_worker.py"
    logs, store = tmp_path / "log", tmp_path / "store"
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "GLOO_SOCKET_IFNAME": "lo"}
    workers = [
        subprocess.Popen([sys.executable, str(worker), str(rank), str(store), str(logs)], env=environment)
        for rank in range(2)
    ]
    assert [process.wait(timeout=300) for process in workers] == [0, 0]
    jobs = [npuprof.load_set(logs), npuprof.load(logs)]
    for job in jobs:
        assert isinstance(job, ProfileSet)
        assert job.info["rank"].tolist() == [0, 0, 1, 1]
        assert {world_size(run.info) for run in job} == {2}
        assert {run.info.source for run in job} == {"torch profiler trace"}
        assert all("c10d::allreduce_" in set(run.operators["name"]) for run in job)
        assert set(job.breakdown()["part"]) == {"host"}
        assert "no device was recorded" in job.advice().headline()


def test_cycles_of_a_worker_are_runs_of_its_rank(tmp_path: Path) -> None:
    runs = npuprof.load_set(TorchJob((100, 150), steps=2).write(tmp_path / "log", cycles=3))
    assert runs.info["rank"].tolist() == [0, 0, 0, 1, 1, 1]
    steps = [runs.at(row).steps["step"].tolist() for row in range(6)]
    assert steps == [[0, 1], [2, 3], [4, 5]] * 2
    assert runs[1].steps["step"].tolist() == [4, 5]
    assert runs.notes["severity"].tolist() == ["info"]  # each rank has three runs


def test_file_names_tell_ranks(tmp_path: Path) -> None:
    for rank in (3, 11):
        trace = KinetoTrace(head={"schemaVersion": 1})
        trace.operator("aten::mm", 1, 2, 3)
        trace.write(tmp_path / f"worker_rank{rank}.json.gz")
    assert npuprof.load_set(tmp_path).ranks == [3, 11]
    assert npuprof.load(tmp_path / "worker_rank11.json.gz").info.rank == 11


def test_two_published_ranks_are_a_set_of_a_larger_job(samples: Path) -> None:
    runs = npuprof.load(samples / "kineto" / "two_ranks")
    assert isinstance(runs, ProfileSet)
    assert runs.ranks == [0, 1]
    assert runs.absent == [*range(2, 128)]


@pytest.mark.slow
def test_collectives_without_a_group_are_joined_with_none(samples: Path) -> None:
    runs = npuprof.load_set(samples / "kineto" / "two_ranks")
    assert not len(runs.waits())
    assert runs[0].notes["message"].str.contains("names no process group").any()
    parts = runs.breakdown().groupby(["rank", "part"], observed=True)["duration_ns"].sum()
    assert (parts[0, "computing"], parts[1, "communication"]) == (210_320_000, 303_523_000)


def test_one_trace_in_a_folder_is_a_run(tmp_path: Path) -> None:
    TorchJob((100,), steps=1).write(tmp_path)
    (tmp_path / "settings.json").write_text('{"lr": 0.1}')
    assert isinstance(npuprof.load(tmp_path), Profile)


@pytest.mark.slow
def test_folder_and_archive_read_alike(tmp_path: Path) -> None:
    job = TorchJob((100, 150), steps=1)
    for rank in range(2):
        job.write(tmp_path / "job" / f"node{rank}", name=f"{rank}-of-{{rank}}.json")
        (tmp_path / "job" / f"node{rank}" / f"{rank}-of-{1 - rank}.json").unlink()
    assert npuprof.load_set(tmp_path / "job").ranks == [0, 1]
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for file in sorted((tmp_path / "job").rglob("*.json")):
            archive.write(file, file.relative_to(tmp_path))
    assert npuprof.load_set(tmp_path / "job.zip").ranks == [0, 1]


def test_traces_of_jobs_of_other_sizes_are_refused_with_their_names(tmp_path: Path) -> None:
    TorchJob((100, 150), steps=1).write(tmp_path, name="two-{rank}.json")
    TorchJob((100, 150, 170), steps=1).write(tmp_path, name="three-{rank}.json")
    with pytest.raises(SourceError, match=r"2 ranks: two-0\.json, two-1\.json; 3 ranks: three-0\.json"):
        npuprof.load(tmp_path)


def test_two_workers_of_one_rank_are_refused(tmp_path: Path) -> None:
    TorchJob((100, 150), steps=1).write(tmp_path)
    TorchJob((100, 150), steps=1).write(tmp_path, name="node-2_{process}.{time}.pt.trace.json")
    with pytest.raises(SourceError, match="node-1_700 and node-2_700 are both rank 0 at the same time"):
        npuprof.load(tmp_path)


@pytest.mark.slow
def test_restarted_job_is_a_further_run(tmp_path: Path) -> None:
    TorchJob((100, 150), steps=2).write(tmp_path, cycles=2)
    again = TorchJob((100, 150), steps=2).write(
        tmp_path / "again", cycles=4, name="node-1_9{process}.{time}.pt.trace.json"
    )
    for file in sorted(again.iterdir())[2:4] + sorted(again.iterdir())[6:]:
        shutil.move(file, tmp_path)
    shutil.rmtree(again)
    assert npuprof.load_set(tmp_path).info["rank"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
