"""Data-parallel training whose gradient buckets overlap the backward pass, computed kernel by kernel.

Each rank has a stream of kernels and one of collectives. A bucket is ready when the kernel that fills it has ended; it
begins on a rank when the bucket before it is done, and moves when all ranks have begun. The optimizer waits for the
last bucket. Nothing else holds the ranks together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.simulator.jobs.model import FIRST_STEP, START_NS
from npuprof.simulator.names import name_hash
from npuprof.tables.info import Info

_US, _MS = 1_000, 1_000_000
_LAYER = (("MatMulV3", 1_000 * _US), ("FlashAttentionScore", 800 * _US), ("SwiGlu", 120 * _US))
_LAUNCH_NS = 1_200  # between the end of a kernel and the start of the next one
_GROUP = "overlapped buckets"
_END_NOISE_NS = 200


@dataclass(frozen=True)
class OverlappedPlan:
    """The size of a job: `moving_ns` is the transfer time of a bucket, `between_ns` the host's time between steps.

    `slow_ranks` compute longer by a share, and the hosts of `late_ranks` begin each step late. With `serial`, buckets
    move after the backward pass. Jitter is relative, per kernel; steps vary by `uneven` in length on all ranks alike.
    """

    ranks: int = 4
    steps: int = 4
    layers: int = 6
    buckets: int = 3
    moving_ns: int = 6 * _MS
    between_ns: int = 2 * _MS
    jitter: float = 0.01
    uneven: float = 0.0
    serial: bool = False
    slow_ranks: Mapping[int, float] = field(default_factory=dict)
    late_ranks: Mapping[int, int] = field(default_factory=dict)
    clock_ns: int = 2 * _MS


@dataclass(frozen=True)
class OverlappedJob:
    """A simulated job: true times from 0 on, of shape (ranks, kernels) and (ranks, collectives)."""

    plan: OverlappedPlan  # the size of the job
    # kinds, steps: the type and the step of each kernel.
    kinds: tuple[str, ...]
    steps: Int64
    # start_ns, end_ns: start and end of each kernel.
    start_ns: Int64
    end_ns: Int64
    # arrived_ns, done_ns: start and end of each collective.
    arrived_ns: Int64
    done_ns: Int64
    clock_ns: Int64  # the error of each rank's clock

    @property
    def step_ns(self) -> float:
        """The mean time of a step."""
        whole = max(int(self.end_ns.max()), int(self.done_ns.max())) - int(self.start_ns.min())
        return whole / self.plan.steps

    def tables(self, rank: int) -> dict[str, pd.DataFrame]:
        """Return the recorded tables of a rank: kernels and collectives, without the events that join them."""
        ahead = START_NS + int(self.clock_ns[rank])
        of_op = np.repeat(np.arange(self.plan.steps) + FIRST_STEP, self.plan.buckets)
        key = str(name_hash(_GROUP))
        count, ops = len(self.steps), len(of_op)
        kernels = {
            "start_ns": self.start_ns[rank] + ahead,
            "duration_ns": self.end_ns[rank] - self.start_ns[rank],
            "device_id": np.zeros(count, np.int64),
            "stream_id": pd.array([2] * count, "Int64"),
            "name": pd.Categorical(self.kinds),
            "op_type": pd.Categorical(self.kinds),
            "step": pd.array(self.steps, "Int64"),
        }
        communication = {
            "start_ns": self.arrived_ns[rank] + ahead,
            "duration_ns": self.done_ns[rank] - self.arrived_ns[rank],
            "device_id": np.zeros(ops, np.int64),
            "name": pd.Categorical([f"hcom_reduceScatter__{key[-3:]}_{number}_1" for number in range(ops)]),
            "op_type": pd.Categorical(["hcom_reduceScatter_"] * ops),
            "group": pd.Categorical([key] * ops),
            "step": pd.array(of_op, "Int64"),
        }
        return {
            "kernels": tables.build("kernels", kernels),
            "communication": tables.build("communication", communication),
        }

    def info(self, rank: int) -> Info:
        """Return the facts of a rank's run."""
        return Info(
            name=f"rank{rank}",
            collector="torch_npu",
            rank=rank,
            devices=[0],
            simulated=True,
            metadata={"distributed_args": {"world_size": self.plan.ranks}},
        )


def simulate_overlapped(plan: OverlappedPlan, seed: int = 0) -> OverlappedJob:
    """Simulate a job; the same seed without faults gives the same job without them."""
    random = np.random.default_rng(seed)
    kinds, lengths, fills = _program(plan)
    shape = (plan.ranks, plan.steps, len(kinds))
    pace = np.array([1 + plan.slow_ranks.get(rank, 0.0) for rank in range(plan.ranks)])[:, None, None]
    vary = np.clip(1 + plan.jitter * random.standard_normal(shape), 0.5, 2)
    of_step = 1 + plan.uneven * random.standard_normal(plan.steps)[None, :, None]
    length = np.rint(np.array(lengths)[None, None, :] * vary * pace * of_step).astype(np.int64)
    clocks = np.rint(random.normal(0, max(plan.clock_ns, 1), plan.ranks)).astype(np.int64)
    late = np.array([plan.late_ranks.get(rank, 0) for rank in range(plan.ranks)])
    start, end = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    arrived, done = np.zeros((2, plan.ranks, plan.steps, plan.buckets), np.int64)
    clock, free = np.zeros(plan.ranks, np.int64), np.zeros(plan.ranks, np.int64)
    for step in range(plan.steps):
        clock = clock + plan.between_ns + late
        bucket = 0
        for kernel in range(len(kinds)):
            if kernel == len(kinds) - 1:  # the optimizer
                clock = np.maximum(clock, free)
            start[:, step, kernel] = clock + _LAUNCH_NS
            end[:, step, kernel] = clock = start[:, step, kernel] + length[:, step, kernel]
            while bucket < plan.buckets and fills[bucket] == kernel:
                arrived[:, step, bucket] = np.maximum(clock, free) + _LAUNCH_NS
                whole = int(arrived[:, step, bucket].max()) + plan.moving_ns
                done[:, step, bucket] = whole
                free = np.full(plan.ranks, whole)
                bucket += 1
    noise = np.rint(random.normal(0, _END_NOISE_NS, done.shape)).astype(np.int64)
    steps = np.repeat(np.arange(plan.steps) + FIRST_STEP, len(kinds))
    begins, ends, arrivals, dones = (times.reshape(plan.ranks, -1) for times in (start, end, arrived, done + noise))
    return OverlappedJob(plan, tuple(kinds) * plan.steps, steps, begins, ends, arrivals, dones, clocks)


def _program(plan: OverlappedPlan) -> tuple[list[str], list[int], npt.NDArray[np.int64]]:
    """Return kinds and durations of the kernels of a step, and the kernel after which each bucket is full."""
    forward = [each for _ in range(plan.layers) for each in _LAYER]
    backward = [(f"{kind}Grad", 2 * length) for kind, length in forward[::-1]]
    every = [*forward, *backward, ("ApplyAdamW", _MS)]
    last = len(every) - 2
    ready = len(forward) + (np.arange(plan.buckets) + 1) * len(backward) // plan.buckets - 1
    fills = np.full(plan.buckets, last) if plan.serial else np.minimum(ready, last)
    return [kind for kind, _ in every], [length for _, length in every], fills
