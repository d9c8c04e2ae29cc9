"""Jobs with tensor, pipeline and data parallel groups whose gradient buckets overlap the backward pass.

Each rank has a host lane that launches, a stream of kernels, and a stream for each of its groups. A collective begins
on a rank when what it sends is computed and its stream is free, and moves data when all members have begun. Ranks are
numbered as in :mod:`.model`: tensor parallel neighbours first, then replicas, then stages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.simulator.jobs.model import FIRST_STEP, START_NS
from npuprof.simulator.names import name_hash
from npuprof.tables.info import Info

_US, _MS = 1_000, 1_000_000
_LAYER = (("FlashAttentionScore", 900 * _US), ("MatMulV3", 1_100 * _US))
_OPTIMIZER_NS = 1_500 * _US
_GAP_NS = 1_200  # between the end of a kernel and the start of the next one
_DISPATCH_NS = 5 * _US
_LAUNCH_NS = 3 * _US
_CHECKPOINT_NS = 20 * _MS
_MOVING_NS = {"tp": 300 * _US, "next": 400 * _US, "prev": 400 * _US, "all": 30 * _US}
_END_NOISE_NS = 200
_TYPES = {"tp": "hcom_allReduce_", "next": "hcom_batchSendRecv_", "prev": "hcom_batchSendRecv_"}

_Kind: TypeAlias = Literal["tp", "next", "prev", "dp", "all"]
_Key: TypeAlias = tuple[tuple[int, ...], int]


@dataclass(frozen=True)
class TrainingPlan:
    """The size of a job, the work of its steps, and its faults."""

    # tensor, pipeline, data, steps, ranks_per_host: the sizes of its groups, and the numbers of steps and of ranks on a
    # host.
    tensor: int = 1
    pipeline: int = 1
    data: int = 4
    steps: int = 5
    ranks_per_host: int = 4
    microbatches: int = 1  # passes whose gradients are accumulated in a step
    # layers, buckets, moving_ns: layers of a stage; buckets of gradients, and the transfer of one.
    layers: int = 4
    buckets: int = 3
    moving_ns: int = 5 * _MS
    overlapped: bool = True  # whether buckets move during the last backward pass of a step, and not after it
    # loader_ns, prefetches: the time to load a batch, and whether that happens during the step before.
    loader_ns: int = 2 * _MS
    prefetches: bool = True
    # evaluate_every, checkpoint_every: after how many steps one more forward pass is made, and the first replica writes
    # a checkpoint; 0 for never.
    evaluate_every: int = 0
    checkpoint_every: int = 0
    uneven: float = 0.0  # the relative variation of the lengths of sequences, alike on all ranks of a replica
    jitter: float = 0.01  # the relative variation of kernels
    # clock_ns, drift: standard deviations of the offsets of hosts' clocks, and of their speeds.
    clock_ns: int = 2 * _MS
    drift: float = 1e-6
    barrier: bool = False  # whether all ranks meet in a collective at the end of each step
    # slow_ranks, thermal, late_hosts: ranks whose kernels take longer by a share; ranks that slow down, by a share at
    # the end; hosts that begin each step late, by nanoseconds.
    slow_ranks: Mapping[int, float] = field(default_factory=dict)
    thermal: Mapping[int, float] = field(default_factory=dict)
    late_hosts: Mapping[int, int] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.tensor * self.pipeline * self.data

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return stage, replica and tensor rank."""
        stage, left = divmod(rank, self.data * self.tensor)
        return stage, *divmod(left, self.tensor)

    def groups(self, rank: int) -> dict[_Kind, tuple[int, ...]]:
        """Return the members of each group of a rank."""
        stage, replica, part = self.place(rank)

        def at(stage: int, replica: int, part: int) -> int:
            return (stage * self.data + replica) * self.tensor + part

        found: dict[_Kind, tuple[int, ...]] = {}
        if self.tensor > 1:
            found["tp"] = tuple(at(stage, replica, each) for each in range(self.tensor))
        if self.data > 1:
            found["dp"] = tuple(at(stage, each, part) for each in range(self.data))
        if stage + 1 < self.pipeline:
            found["next"] = (at(stage, replica, part), at(stage + 1, replica, part))
        if stage:
            found["prev"] = (at(stage - 1, replica, part), at(stage, replica, part))
        if self.barrier:
            found["all"] = tuple(range(self.ranks))
        return found


class _Kernel(NamedTuple):
    step: int
    kind: str
    length_ns: int
    batch: int


class _Meet(NamedTuple):
    """A collective; `waits` if the next kernel needs its result."""

    step: int
    kind: _Kind
    op_type: str
    waits: bool


class _Await(NamedTuple):
    """All collectives of a kind that were launched before."""

    kind: _Kind


class _Host(NamedTuple):
    """The work of the host before it launches on: load a batch, read the loss of a step, or write a checkpoint."""

    what: Literal["batch", "loss", "checkpoint"]


_Item: TypeAlias = _Kernel | _Meet | _Await | _Host


def _program(plan: TrainingPlan, rank: int) -> Iterator[_Item]:
    """Yield the work of a rank: pipelines alternate between forward and backward passes."""
    stage, groups = plan.place(rank)[0], plan.groups(rank)

    def meet(kind: _Kind, op_type: str = "", *, waits: bool = True) -> Iterator[_Item]:
        if kind in groups:
            yield _Meet(step, kind, op_type or _TYPES[kind], waits)

    def work(name: str, times: int, batch: int, *, last: bool = False) -> Iterator[_Item]:
        pieces = [each for _ in range(plan.layers) for each in _LAYER]
        full = {(number + 1) * len(pieces) // plan.buckets for number in range(plan.buckets)} if last else set()
        for number, (kind, length) in enumerate(pieces):
            yield _Kernel(step, kind + name, times * length, batch)
            yield from meet("tp")
            if number + 1 in full and plan.overlapped:
                yield from meet("dp", "hcom_reduceScatter_", waits=False)

    warm = min(plan.pipeline - 1 - stage, plan.microbatches)
    for number in range(plan.steps):
        step = FIRST_STEP + number
        yield _Host("batch")
        for batch in range(warm):
            yield from meet("prev")
            yield from work("", 1, batch)
            yield from meet("next")
        if warm < plan.microbatches:
            yield from meet("prev")
        for batch in range(warm, plan.microbatches):
            yield from work("", 1, batch)
            yield from meet("next")
            yield from work("Grad", 2, batch - warm, last=not warm and batch == plan.microbatches - 1)
            yield from meet("prev")
        for batch in range(warm):
            yield from meet("next")
            yield from work("Grad", 2, plan.microbatches - warm + batch, last=batch == warm - 1)
            yield from meet("prev")
        for _ in range(0 if plan.overlapped else plan.buckets):
            yield from meet("dp", "hcom_reduceScatter_", waits=False)
        yield _Await("dp")
        yield from meet("all", "hcom_allReduce_")
        yield _Kernel(step, "ApplyAdamW", _OPTIMIZER_NS, 0)
        if plan.evaluate_every and number % plan.evaluate_every == plan.evaluate_every - 1:
            yield from meet("prev")
            yield from work("", 1, 0)
            yield from meet("next")
        yield _Host("loss")
        if plan.checkpoint_every and number % plan.checkpoint_every == plan.checkpoint_every - 1:
            yield _Host("checkpoint")


class _Member:
    """The lanes of a rank, and its next work."""

    def __init__(self, plan: TrainingPlan, rank: int, seed: int) -> None:
        self.plan, self.rank, self.groups = plan, rank, plan.groups(rank)
        self.items: list[_Item] = list(_program(plan, rank))
        self.at, self.host, self.clock, self.ready, self.batches = 0, 0, 0, 0, 0
        random = np.random.default_rng((seed, rank))
        self.vary = np.clip(1 + plan.jitter * random.standard_normal(len(self.items)), 0.5, 2)
        replica = np.random.default_rng((seed, plan.place(rank)[1], 1))
        self.sequences = np.clip(
            1 + plan.uneven * replica.standard_normal((plan.steps, max(plan.microbatches, 1))), 0.3, 3
        )
        self.launched: dict[_Kind, int] = {}
        self.free: dict[_Kind, int] = {}
        self.waiting: dict[_Kind, deque[tuple[_Key, int, _Meet]]] = {kind: deque() for kind in self.groups}
        self.awaited: set[_Key] = set()
        self.kernels: list[tuple[int, int, str, int]] = []
        self.collectives: list[tuple[int, int, _Kind, str, int]] = []

    def length_ns(self, item: _Kernel) -> int:
        """Return how long the next kernel takes."""
        plan, step = self.plan, item.step - FIRST_STEP
        ramp = plan.thermal.get(self.rank, 0.0) * step / max(plan.steps - 1, 1)
        pace = 1 + plan.slow_ranks.get(self.rank, 0.0) + ramp
        sequence = float(self.sequences[step, item.batch]) if item.kind != "ApplyAdamW" else 1.0
        return round(item.length_ns * float(self.vary[self.at]) * pace * sequence)

    def wait_for_host(self, item: _Host) -> None:
        """Advance the host."""
        plan = self.plan
        if item.what == "batch":
            late = plan.late_hosts.get(self.rank // plan.ranks_per_host, 0)
            self.batches = max(self.batches, 0 if plan.prefetches else self.host) + plan.loader_ns
            self.host = max(self.host, self.batches) + late
            self.batches = max(self.batches, self.host if plan.prefetches else 0)
        elif item.what == "loss":
            self.host = max(self.host, self.clock)
        elif self.plan.place(self.rank)[1] == 0:
            self.host += _CHECKPOINT_NS


@dataclass(frozen=True)
class TrainingJob:
    """A simulated job: what each rank ran, in true times from 0 on, and the error of its clock."""

    plan: TrainingPlan
    kernels: tuple[tuple[tuple[int, int, str, int], ...], ...]
    collectives: tuple[tuple[tuple[int, int, _Kind, str, int], ...], ...]
    clock_ns: Int64
    clock_rate: np.ndarray[tuple[int], np.dtype[np.float64]]

    @property
    def step_ns(self) -> float:
        """The mean time of a step."""
        last = max(end for rank in self.kernels for _, end, *_ in rank)
        moved = max((end for rank in self.collectives for _, end, *_ in rank), default=0)
        return (max(last, moved) - min(rank[0][0] for rank in self.kernels)) / self.plan.steps

    def tables(self, rank: int) -> dict[str, pd.DataFrame]:
        """Return the recorded tables of a rank: kernels and collectives, without the events that join them."""
        starts, ends, kinds, steps = zip(*self.kernels[rank], strict=True)
        kernels = {
            "start_ns": self._recorded(rank, starts),
            "duration_ns": self._recorded(rank, ends) - self._recorded(rank, starts),
            "device_id": np.full(len(starts), rank % self.plan.ranks_per_host, np.int64),
            "stream_id": pd.array([2] * len(starts), "Int64"),
            "name": pd.Categorical(kinds),
            "op_type": pd.Categorical(kinds),
            "step": pd.array(steps, "Int64"),
        }
        groups = {kind: _key(members) for kind, members in self.plan.groups(rank).items()}
        of_rank = sorted(self.collectives[rank])
        begun, done, met, types, of_step = zip(*of_rank, strict=True) if of_rank else ((),) * 5
        names = [
            f"{kind}_{groups[at][-3:]}_{number}_1" for number, (at, kind) in enumerate(zip(met, types, strict=True))
        ]
        communication = {
            "start_ns": self._recorded(rank, begun),
            "duration_ns": np.maximum(self._recorded(rank, done) - self._recorded(rank, begun), 1),
            "device_id": np.full(len(begun), rank % self.plan.ranks_per_host, np.int64),
            "name": pd.Categorical(names),
            "op_type": pd.Categorical(types),
            "group": pd.Categorical([groups[kind] for kind in met]),
            "step": pd.array(of_step, "Int64"),
        }
        return {
            "kernels": tables.build("kernels", kernels),
            "communication": tables.build("communication", communication),
        }

    def info(self, rank: int) -> Info:
        """Return the facts of a rank's run."""
        plan = self.plan
        sizes = {
            "tensor_model_parallel_size": plan.tensor,
            "pipeline_model_parallel_size": plan.pipeline,
            "data_parallel_size": plan.data,
            "rank": rank,
            "world_size": plan.ranks,
        }
        groups = {
            _name(members): {
                "group_name": "pp" if kind in ("next", "prev") else kind,
                "group_rank": members.index(rank),
                "global_ranks": list(members),
            }
            for kind, members in plan.groups(rank).items()
        }
        return Info(
            name=f"rank{rank}",
            collector="torch_npu",
            rank=rank,
            devices=[rank % plan.ranks_per_host],
            simulated=True,
            metadata={"distributed_args": sizes, "parallel_group_info": groups},
        )

    def _recorded(self, rank: int, true_ns: tuple[int, ...]) -> Int64:
        moments = np.array(true_ns, np.int64)
        ahead = self.clock_ns[rank] + np.rint(moments * self.clock_rate[rank]).astype(np.int64)
        return moments + START_NS + ahead


def _name(members: tuple[int, ...]) -> str:
    return "group_" + "_".join(map(str, members))


def _key(members: tuple[int, ...]) -> str:
    return str(name_hash(_name(members)))


def simulate_training(plan: TrainingPlan, seed: int = 0) -> TrainingJob:
    """Simulate a job; the same seed without faults gives the same job without them."""
    members = [_Member(plan, rank, seed) for rank in range(plan.ranks)]
    arrived: dict[_Key, dict[int, tuple[int, _Meet]]] = {}
    noise = np.random.default_rng((seed, plan.ranks))

    def begin(member: _Member, kind: _Kind) -> None:
        """Begin the next collective of a stream, if the one before has ended."""
        queue = [(member, kind)]
        while queue:
            one, stream = queue.pop()
            if not one.waiting[stream] or stream in busy[one.rank]:
                continue
            key, ready, item = one.waiting[stream].popleft()
            here = arrived.setdefault(key, {})
            here[one.rank] = (max(ready, one.free.get(stream, 0)) + _GAP_NS, item)
            busy[one.rank].add(stream)
            if len(here) == len(key[0]):
                moving = plan.moving_ns if item.kind == "dp" else _MOVING_NS[item.kind]
                done = max(start for start, _ in here.values()) + moving
                ended[key] = done
                for rank, (start, of_rank) in here.items():
                    end = done + round(float(noise.normal(0, _END_NOISE_NS)))
                    members[rank].collectives.append((start, end, of_rank.kind, of_rank.op_type, of_rank.step))
                    members[rank].free[of_rank.kind] = done
                    busy[rank].discard(of_rank.kind)
                    queue.append((members[rank], of_rank.kind))

    busy: list[set[_Kind]] = [set() for _ in members]
    ended: dict[_Key, int] = {}
    is_moving = True
    while is_moving:
        is_moving = False
        for member in members:
            while member.at < len(member.items) and all(key in ended for key in member.awaited):
                member.clock = max([member.clock, *(ended[key] for key in member.awaited)])
                member.awaited.clear()
                _run(member, begin)
                is_moving = True
    if any(member.at < len(member.items) or member.awaited - set(ended) for member in members):
        raise AssertionError("the ranks of the job wait for each other")
    random = np.random.default_rng((seed, plan.ranks, 2))
    hosts = np.arange(plan.ranks) // plan.ranks_per_host
    clocks = np.rint(random.normal(0, max(plan.clock_ns, 1), plan.ranks)).astype(np.int64)[hosts]
    rates = random.normal(0, plan.drift, plan.ranks)[hosts]
    kernels, collectives = (
        tuple(tuple(each) for each in some)
        for some in zip(*((member.kernels, member.collectives) for member in members), strict=True)
    )
    return TrainingJob(plan, kernels, collectives, clocks, rates)


def _run(member: _Member, begin: Callable[[_Member, _Kind], None]) -> None:
    """Run the next item of a rank."""
    item = member.items[member.at]
    if isinstance(item, _Host):
        member.wait_for_host(item)
    elif isinstance(item, _Kernel):
        member.host += _DISPATCH_NS
        start = max(member.clock + _GAP_NS, member.host + _LAUNCH_NS)
        member.clock = start + member.length_ns(item)
        member.kernels.append((start, member.clock, item.kind, item.step))
    elif isinstance(item, _Meet):
        member.host += _DISPATCH_NS
        number = member.launched[item.kind] = member.launched.get(item.kind, -1) + 1
        key = (member.groups[item.kind], number)
        member.waiting[item.kind].append((key, max(member.clock, member.host), item))
        begin(member, item.kind)
        if item.waits:
            member.awaited.add(key)
    elif item.kind in member.groups:
        member.awaited |= {
            (member.groups[item.kind], number) for number in range(member.launched.get(item.kind, -1) + 1)
        }
    member.at += 1
