"""Several simulated ranks: values, waiting for the slowest, and one directory a rank that can be read together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import simulator
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import Tensor, npu
from npuprof.simulator.cluster.exchange import RankError
from npuprof.simulator.cluster.ranks import Rank
from npuprof.simulator.plans import LINKS

MATRIX = Tensor((1024, 1024), "float16")
KIB = 1 << 10


def compute(rank: Rank, count: int = 1) -> None:
    for _ in range(count):
        rank.device.launch("MatMulV3", core="AI_CORE", inputs=(MATRIX, MATRIX), outputs=(MATRIX,), flops=2 * 1024**3)


def load(path: Path) -> ProfileSet:
    loaded: object = npuprof.load(path)
    assert isinstance(loaded, ProfileSet)
    return loaded


# -- values --------------------------------------------------------------------------------------------------------


def test_arrays_come_out_as_the_collective_says() -> None:
    def work(rank: Rank) -> dict[str, Any]:
        own = np.arange(8, dtype=np.int64) + 100 * rank.rank
        summed, largest, spread = own.copy(), own.copy(), own.copy()
        assert rank.all_reduce(summed) is summed
        rank.all_reduce(largest, "max")
        rank.broadcast(spread, src=2)
        sent = own.copy()
        if rank.rank == 1:
            rank.send(own, dst=3)
        elif rank.rank == 3:
            rank.recv(sent, src=1)
        parts = rank.reduce_scatter(own)
        return {"sum": summed, "max": largest, "from": spread, "all": rank.all_gather(own), "part": parts, "got": sent}

    results = simulator.ranks(4).run(work)
    base = np.arange(8)
    for number, found in enumerate(results):
        np.testing.assert_array_equal(found["sum"], 4 * base + 600)
        np.testing.assert_array_equal(found["max"], base + 300)
        np.testing.assert_array_equal(found["from"], base + 200)
        np.testing.assert_array_equal(np.stack(found["all"]), base + 100 * np.arange(4)[:, None])
        np.testing.assert_array_equal(found["part"], (4 * base + 600)[2 * number : 2 * number + 2])
        np.testing.assert_array_equal(found["got"], base + 100 * (1 if number == 3 else number))


def test_arrays_of_the_simulated_npu_stay_on_it() -> None:
    def work(rank: Rank) -> tuple[Any, Any]:
        x = npu.array(np.full(4, rank.rank + 1.0, np.float32))
        rank.all_reduce(x)
        (first, _) = rank.all_gather(x)
        assert type(first) is type(x)
        return (x * 2).to_host(), rank.reduce_scatter(x).to_host()

    for doubled, part in simulator.ranks(2).run(work):
        assert doubled.tolist() == [6.0] * 4
        assert part.tolist() == [6.0] * 2


@pytest.mark.torch
def test_tensors_are_reduced_in_place_and_their_gradients_stay_right() -> None:
    torch = pytest.importorskip("torch")

    def work(rank: Rank) -> tuple[list[float], int]:
        weight = torch.ones(4, requires_grad=True)
        with simulator.torch() as front:
            (weight * (rank.rank + 1)).sum().backward()
            before = front.launched.total()
            rank.all_reduce(weight.grad)
            half = rank.all_gather(weight.grad.to(torch.bfloat16))[0]
            assert half.dtype == torch.bfloat16
            return weight.grad.tolist(), front.launched.total() - before

    for gradient, launched in simulator.ranks(2).run(work):
        assert gradient == [3.0] * 4
        assert launched == 1  # the cast: collectives are no kernels


def test_after_a_barrier_nobody_is_earlier_than_the_slowest() -> None:
    def work(rank: Rank) -> tuple[int, int]:
        rank.host_work(1e-3 * rank.rank)
        before_ns = rank.machine.clock.monotonic_raw_ns()
        rank.barrier()
        return before_ns, rank.machine.clock.monotonic_raw_ns()

    before, after = zip(*simulator.ranks(3).run(work), strict=True)
    assert min(after) > max(before)
    assert max(after) - min(after) < 50_000


def test_groups_reduce_apart() -> None:
    def work(rank: Rank) -> float:
        x = np.array([float(rank.rank)])
        rank.group([rank.rank % 2, rank.rank % 2 + 2]).all_reduce(x)
        return float(x[0])

    assert simulator.ranks(4).run(work) == [2.0, 4.0, 2.0, 4.0]


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_a_rank_that_fails_ends_the_others_and_is_named() -> None:
    def work(rank: Rank) -> None:
        if rank.rank == 1:
            raise ZeroDivisionError("oh")
        rank.all_reduce(np.zeros(1))

    with pytest.raises(RankError, match="simulated rank 1 failed: ZeroDivisionError: oh") as caught:
        simulator.ranks(3).run(work)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda rank: rank.all_reduce(np.zeros(2 + rank.rank)), r"do not fit together.*\[2\].*\[3\]"),
        (lambda rank: rank.all_reduce(np.zeros(2), "sum" if rank.rank else "max"), "do not fit together"),
        (lambda rank: rank.broadcast(np.zeros(2), src=rank.rank), "do not fit together"),
        (lambda rank: rank.rank or rank.all_reduce(np.zeros(2)), "rank 0 is in all_reduce"),
        (lambda rank: rank.recv(np.zeros(2), src=1 - rank.rank), "no rank can go on"),
        (lambda rank: rank.send(np.zeros(2), dst=5), "rank 5 is not in the group"),
        (lambda rank: rank.send(np.zeros(2), dst=rank.rank), "cannot send to itself"),
        (lambda rank: rank.reduce_scatter(np.zeros(3)), "2 ranks can divide"),
        (lambda rank: rank.all_reduce(np.zeros(3), "median"), "choose from sum, prod, max, min"),
        (lambda rank: rank.all_reduce([1, 2]), "NumPy arrays.*not list"),
        (lambda rank: rank.group([7]), "must hold it"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(work: Any, message: str) -> None:
    with pytest.raises(RankError, match=message):
        simulator.ranks(2).run(work)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        simulator.ranks(0)
    with pytest.raises(ValueError, match="level 7"):
        simulator.ranks(1).run(lambda _rank: None, level=7)


def test_a_directory_that_exists_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "rank_1").mkdir()
    with pytest.raises(FileExistsError):
        simulator.ranks(2).run(lambda _rank: None, tmp_path)


# -- recordings ----------------------------------------------------------------------------------------------------


def uneven(rank: Rank) -> None:
    """Rank 1 computes longest; a reduction of 64 KiB, beside another product."""
    rank.step()
    for _ in range(2):
        compute(rank, 9 if rank.rank == 1 else 1)
        work = rank.all_reduce(np.ones(16 * KIB, np.float32), async_op=True)
        compute(rank)
        work.wait()
        compute(rank)
        rank.step()


@pytest.fixture
def runs(tmp_path: Path) -> ProfileSet:
    simulator.ranks(4).run(uneven, tmp_path)
    return load(tmp_path)


@pytest.mark.slow
def test_rank_directories_name_rank_and_simulation(runs: ProfileSet) -> None:
    assert runs.ranks == [0, 1, 2, 3]
    assert not len(runs.notes)
    for number, run in enumerate(runs):
        assert run.info.rank == number
        assert run.info.simulated
        assert run.info.collector == "simulator"
        assert run.steps["step"].tolist() == [0, 1]
        assert not len(run.notes)


@pytest.mark.slow
def test_operators_and_their_steps_are_decoded(runs: ProfileSet) -> None:
    for number, run in enumerate(runs):
        (first, second) = run.communication.to_dict("records")
        assert first["op_type"] == "hcom_allReduce_"
        assert first["group"] == "hccl_world_group"
        assert (first["data_type"], first["algorithm"], first["count"]) == ("FP32", "MESH", 16 * KIB)
        assert (first["rank_size"], first["step"], second["step"]) == (4, 0, 1)
        steps = run.communication_tasks[run.communication_tasks["op_id"] == 0]
        data = steps[steps["size_bytes"] > 0]
        assert data["task_type"].astype(str).value_counts().to_dict() == {"Reduce_Inline": 3, "Memcpy": 3}
        assert set(data["dst_rank"]) == {0, 1, 2, 3} - {number}
        assert set(data["src_rank"]) == {number}
        assert set(data["size_bytes"]) == {16 * KIB}
        assert set(data["link"]) == {"HCCS"}
        assert set(steps["plane_id"]) == {0, 1, 2}


@pytest.mark.slow
def test_group_ranks_become_global_ranks(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        rank.group([rank.rank % 2, rank.rank % 2 + 2]).all_reduce(np.ones(KIB, np.float32))

    simulator.ranks(4).run(work, tmp_path)
    loaded = load(tmp_path)
    for number, run in enumerate(loaded):
        tasks = run.communication_tasks
        assert (set(tasks["src_rank"]), set(tasks["dst_rank"])) == ({number // 2}, {1 - number // 2})
        assert (set(tasks["src_global_rank"]), set(tasks["dst_global_rank"])) == ({number}, {(number + 2) % 4})
    heat = loaded.plot_communication_matrix().data[0]
    assert [[across for across, cell in enumerate(row) if cell] for row in heat.z] == [[2], [3], [0], [1]]


@pytest.mark.slow
def test_bandwidth_excludes_latency(runs: ProfileSet) -> None:
    steps = runs[0].communication_tasks
    data = steps[steps["size_bytes"] > 0]
    link = LINKS["HCCS"]
    assert ((data["duration_ns"] - link.duration_ns(16 * KIB)).between(0, 20)).all()
    assert (data["bandwidth_gb_s"] < link.bytes_per_s / 1e9).all()


@pytest.mark.slow
def test_everybody_waits_for_the_slowest(runs: ProfileSet) -> None:
    waits, starts = [], []
    for run in runs:
        steps = run.communication_tasks[run.communication_tasks["op_id"] == 0]
        waits.append(int(steps.loc[steps["task_type"] == "Notify_Wait", "duration_ns"].max()))
        starts.append(int(steps.loc[steps["task_type"] == "Reduce_Inline", "start_ns"].min()))
    assert max(starts) == min(starts)
    slowest = runs[1].kernels["duration_ns"].head(9).sum()
    assert waits[1] < 1_000
    assert all(slowest / 2 < waits[number] < slowest for number in (0, 2, 3))


@pytest.mark.slow
def test_parallel_work_overlaps_the_collective(runs: ProfileSet) -> None:
    run = runs[0]
    operator = run.communication.iloc[0]
    end = operator["start_ns"] + operator["duration_ns"]
    first, beside, after = run.kernels.iloc[:3].to_dict("records")
    assert first["start_ns"] + first["duration_ns"] <= operator["start_ns"]
    assert beside["start_ns"] < end
    assert after["start_ns"] >= end
    spent = run.overlap.groupby("kind", observed=True)["duration_ns"].sum()
    assert 0 < spent["communication_not_overlapped"] < spent["communication"]
    assert spent["computing"] == run.kernels["duration_ns"].sum()


@pytest.mark.slow
def test_steps_of_collectives_are_no_kernels_and_have_their_tasks(runs: ProfileSet) -> None:
    for run in runs:
        assert set(run.kernels["op_type"]) == {"MatMulV3"}
        ids = ["device_id", "stream_id", "task_id"]
        tasks = pd.MultiIndex.from_frame(run.tasks[ids].astype(int))
        steps = pd.MultiIndex.from_frame(run.communication_tasks[ids].astype(int))
        assert steps.isin(tasks).all()
        assert set(run.communication_tasks["stream_id"]).isdisjoint(run.kernels["stream_id"])


@pytest.mark.slow
def test_ranks_of_several_servers_talk_over_the_network(tmp_path: Path) -> None:
    simulator.ranks(4, per_server=2).run(lambda rank: rank.all_reduce(np.ones(KIB, np.float32)), tmp_path)
    steps = load(tmp_path)[0].communication_tasks
    sends = steps[steps["task_type"] == "RDMASend"]
    assert len(sends) == 2
    assert sends["dst_rank"].eq(2).all()
    assert sends["link"].eq("ROCE").all()
    assert sends["transport"].eq("RDMA").all()
    assert sends["rdma_type"].eq("RDMA_SEND_PAYLOAD").all()


@pytest.mark.slow
def test_a_run_comes_out_the_same_however_its_threads_are_scheduled(tmp_path: Path) -> None:
    tables = []
    for number in range(3):
        simulator.ranks(4, per_server=2).run(uneven, tmp_path / str(number))
        found = [
            (table["start_ns"] - int(run.steps["start_ns"].iloc[0])).tolist() + table["duration_ns"].tolist()
            for run in load(tmp_path / str(number))
            for table in (run.kernels, run.communication, run.communication_tasks)
        ]
        tables.append(found)
    assert tables[0] == tables[1] == tables[2]
    assert all(tables[0])


@pytest.mark.slow
def test_what_is_recorded_follows_the_level(tmp_path: Path) -> None:
    simulator.ranks(2).run(uneven, tmp_path, level=0)
    run = load(tmp_path)[1]
    assert len(run.communication) == 2
    assert run.communication["algorithm"].isna().all()
    assert run.communication_tasks["size_bytes"].isna().all()


@pytest.mark.slow
def test_more_steps_than_task_ids_are_all_found(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        x = np.ones(1, np.float32)
        rank.all_reduce(x)
        for stream in rank.device.streams[1:]:
            stream.next_task_id = (1 << 16) - 3
        rank.all_reduce(x)
        rank.all_reduce(x)

    simulator.ranks(2).run(work, tmp_path)
    run = load(tmp_path)[0]
    assert len(run.communication) == 3
    assert run.communication_tasks.groupby("op_id").size().nunique() == 1
    assert not len(run.notes)


@pytest.mark.slow
def test_a_rank_that_fails_leaves_readable_recordings(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        compute(rank)
        if rank.rank:
            raise ZeroDivisionError
        rank.all_reduce(np.ones(1))

    with pytest.raises(RankError):
        simulator.ranks(2).run(work, tmp_path)
    assert [len(run.kernels) for run in load(tmp_path)] == [1, 1]


def test_the_machine_of_the_process_is_untouched() -> None:
    before = simulator.current()

    def work(rank: Rank) -> bool:
        return simulator.current() is rank.machine

    assert simulator.ranks(2).run(work) == [True, True]
    assert simulator.current() is before


@pytest.mark.slow
def test_calls_of_arrays_host_work_and_collectives_have_the_users_line(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        rank.host_work(1e-3, "DataLoader")
        x = npu.ones((64, 64))
        rank.all_reduce(x @ x)
        event = npu.current_stream().record()
        event.synchronize()

    for stacks in (True, False):
        folder = tmp_path / str(stacks)
        simulator.ranks(2).run(work, folder, stacks=stacks)
        calls = load(folder)[1].operators
        assert len(calls) == (4 if stacks else 0)
        if stacks:
            first = work.__code__.co_firstlineno
            told = dict(zip(calls["name"], calls["stack"], strict=True))
            lines = {"DataLoader": 1, "npu.ones": 2, "np.matmul": 3, "dist.all_reduce": 3}
            assert told == {name: f"{__file__}({first + at}): work" for name, at in lines.items()}
            assert calls["duration_ns"].max() == 1_000_000
    calls = load(tmp_path / "True")[1].api
    assert "aclrtSynchronizeEvent" in set(calls["name"])


@pytest.mark.slow
def test_virtual_clock_leaves_out_emulation(tmp_path: Path) -> None:
    simulator.ranks(1).run(lambda rank: rank.host_work(1e-3), tmp_path / "run")
    info = npuprof.load(tmp_path / "run" / "rank_0").info
    assert info.emulated_ns > 0
    assert info.stopped_ns is not None
    assert info.started_ns is not None
    assert info.stopped_ns - info.started_ns == 1_000_000
