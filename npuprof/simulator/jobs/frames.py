"""Tables of a simulated job in the form of a set of ranks: small tables, with all ranks stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.simulator.jobs.model import FIRST_STEP, TRANSFER, Job, Kind
from npuprof.tables.info import Info

_BYTES_PER_MB = 1_000_000
_KERNELS = {"attention": "FlashAttentionScore", "mlp": "MatMulV3", "flatten": "ConcatD", "norm": "ReduceSum"}
_CORES = {"FlashAttentionScore": "MIX_AIC", "MatMulV3": "AI_CORE"}


def communication(job: Job) -> pd.DataFrame:
    """Return the table ``communication`` of all ranks, as ``runs.table("communication")`` stacks it.

    A file that is cut off cannot be read: it has no rows.
    """
    read = [rank for rank in job.recorded_ranks if rank not in job.faults.truncated]
    parts = [rank_communication(job, rank) for rank in read]
    ranks = np.repeat(read, [len(part["start_ns"]) for part in parts])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = {name: pd.Categorical(columns[name]) for name in ("name", "op_type", "group")}
    stacked = tables.build("communication", columns | names | {"step": pd.array(columns["step"], "Int64")})
    return stacked.assign(run=ranks, rank=pd.array(ranks, "Int64"), host=pd.Categorical([None] * len(ranks)))


def rank_communication(job: Job, rank: int) -> dict[str, Any]:
    """Return the operators of a rank as columns of ``communication``."""
    stage, replica, part = job.place(rank)
    done, groups = job.stages[stage], job.groups(rank)
    start = job.recorded(rank, done.start[:, replica, part])
    end = job.recorded(rank, done.end[:, replica, part])
    return {
        "start_ns": start,
        "duration_ns": np.maximum(end - start, 1),
        "device_id": np.full(len(start), rank % job.plan.ranks_per_host, np.int64),
        "name": np.array(operator_names(job, rank), object),
        "op_type": np.array([op.op_type for op in done.ops], object),
        "group": np.array([groups[op.kind].key for op in done.ops], object),
        "step": np.array([op.step for op in done.ops], np.int64),
    }


def operator_names(job: Job, rank: int) -> list[str]:
    """Return the name of each operator of a rank: type, end of the group's hash, number within the group."""
    counts: dict[Kind, int] = {}
    ends = {kind: group.key[-3:] for kind, group in job.groups(rank).items()}
    names = []
    for op in job.stages[job.place(rank)[0]].ops:
        number = counts[op.kind] = counts.get(op.kind, -1) + 1
        names.append(f"{op.op_type}_{ends[op.kind]}_{number}_1")
    return names


def step_times(job: Job) -> pd.DataFrame:
    """Return the vendor's breakdown of steps of all ranks, as ``runs.table("step_times")`` stacks it."""
    parts = [rank_step_times(job, rank) for rank in job.recorded_ranks]
    ranks = np.repeat(job.recorded_ranks, job.plan.steps)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return tables.build("step_times", columns).assign(
        run=ranks, rank=pd.array(ranks, "Int64"), host=pd.Categorical([None] * len(ranks))
    )


def rank_step_times(job: Job, rank: int) -> dict[str, Int64]:
    """Return the vendor's breakdown of a rank's steps as columns of ``step_times``."""
    stage, replica, part = job.place(rank)
    done = job.stages[stage]
    steps = np.array([op.step for op in done.ops], np.int64) - FIRST_STEP
    whole = np.zeros(job.plan.steps, np.int64)
    moved, received, computed = whole.copy(), whole.copy(), whole.copy()
    before, start, end = (side[:, replica, part] for side in (done.before, done.start, done.end))
    p2p = np.array([op.kind in ("next", "prev") for op in done.ops])
    np.add.at(moved, steps, end - start)
    np.add.at(received, steps[p2p], (end - start)[p2p])
    np.add.at(computed, steps, start - before - done.host[:, replica, part])
    last = np.append(np.flatnonzero(np.diff(steps)), len(steps) - 1)
    span = np.diff(np.append(0, end[last]))
    return {
        "step": np.arange(job.plan.steps) + FIRST_STEP,
        "device_id": np.full(job.plan.steps, rank % job.plan.ranks_per_host),
        "computing_ns": computed,
        "communication_ns": moved,
        "overlapped_ns": whole,
        "communication_not_overlapped_ns": moved,
        "free_ns": span - computed - moved,
        "stage_ns": span - received,
        "bubble_ns": received,
        "preparing_ns": np.full(job.plan.steps, 200_000),
        "communication_not_overlapped_exclude_receive_ns": moved - received,
    }


def matrix(job: Job) -> pd.DataFrame:
    """Return the transfers between pairs of ranks, as the vendor sums them: the ``communication_matrix`` of all ranks.

    Each rank sends to the next rank in its group, once for each type of operator and step.
    """
    rows = [row for rank in job.recorded_ranks for row in rank_matrix(job, rank)]
    return pd.DataFrame(rows)


def rank_matrix(job: Job, rank: int) -> list[dict[str, Any]]:
    """Return the transfers of a rank; ranks are numbered within the group, and globally."""
    sums: dict[tuple[int, Kind, str], int] = {}
    for op in job.stages[job.place(rank)[0]].ops:
        sums[op.step, op.kind, op.op_type] = sums.get((op.step, op.kind, op.op_type), 0) + 1
    return [_transfer(job, rank, *key, count) for key, count in sums.items()]


def _transfer(job: Job, rank: int, step: int, kind: Kind, op_type: str, count: int) -> dict[str, Any]:
    group = job.groups(rank)[kind]
    to = group.after(rank)
    moved, size = (count * each for each in TRANSFER[kind])
    links = job.faults.slow_links
    moved = round(moved * links.get((rank, to), links.get((to, rank), 1.0)))
    short = op_type.removeprefix("hcom_").rstrip("_").lower()
    return {
        "step": f"step{step}",
        "kind": "p2p" if kind in ("next", "prev") else "collective",
        "name": f"{'reduce' if short == 'reducescatter' else short}-total",
        "group": group.key,
        "src_rank": str(group.members.index(rank)),
        "dst_rank": str(group.members.index(to)),
        "Transport Type": "HCCS" if job.host(rank) == job.host(to) else "RDMA",
        "Transit Size(MB)": size / _BYTES_PER_MB,
        "Transit Time(ms)": moved / 1e6,
        "Bandwidth(GB/s)": round(size / moved, 4),
        "rank": rank,
        "src_global_rank": rank,
        "dst_global_rank": to,
    }


def kernels(job: Job, rank: int) -> pd.DataFrame:
    """Return the table ``kernels`` of a rank: a kernel per piece of its computing time, without host time."""
    stage, replica, part = job.place(rank)
    done = job.stages[stage]
    start, before = done.start[:, replica, part], done.before[:, replica, part]
    computed: Int64 = start - before - done.host[:, replica, part]
    some = computed > 0
    kinds = [_KERNELS.get(op.what, "ApplyAdamW") for op, has in zip(done.ops, some, strict=True) if has]
    return tables.build(
        "kernels",
        {
            "start_ns": job.recorded(rank, (start - computed)[some]),
            "duration_ns": computed[some],
            "device_id": np.full(len(kinds), rank % job.plan.ranks_per_host, np.int64),
            "stream_id": pd.array([2] * len(kinds), "Int64"),
            "task_id": pd.array(range(len(kinds)), "Int64"),
            "name": pd.Categorical([f"aclnn{kind}_{kind}" for kind in kinds]),
            "op_type": pd.Categorical(kinds),
            "core": pd.Categorical([_CORES.get(kind, "AI_VECTOR_CORE") for kind in kinds]),
            "step": pd.array([op.step for op, has in zip(done.ops, some, strict=True) if has], "Int64"),
        },
    )


def info(job: Job, rank: int) -> Info:
    """Return the facts of a rank's run, as its small files state them."""
    return Info(
        name=f"rank{rank}_ascend_pt",
        collector="torch_npu",
        source="torch_npu text result",
        rank=rank,
        devices=[rank % job.plan.ranks_per_host],
        metadata=metadata(job, rank),
        simulated=True,
    )


def metadata(job: Job, rank: int) -> dict[str, Any]:
    """Return the content of ``profiler_metadata.json`` of a rank."""
    plan = job.plan
    return {
        "npuprof_simulated": True,
        "distributed_args": {
            "tensor_model_parallel_size": plan.tensor,
            "pipeline_model_parallel_size": plan.pipeline,
            "data_parallel_size": plan.data,
            "context_parallel_size": 1,
            "expert_model_parallel_size": 1,
            "sequence_parallel": False,
            "rank": rank,
            "world_size": plan.ranks,
        },
        "parallel_group_info": {
            group.name: {
                "group_name": "pp" if kind in ("next", "prev") else kind,
                "group_rank": group.members.index(rank),
                "global_ranks": list(group.members),
            }
            for kind, group in job.groups(rank).items()
        },
    }
