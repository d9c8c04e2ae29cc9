"""A model of training with one-forward-one-backward pipelines, tensor and data parallel groups, computed in arrays.

Ranks are numbered as in Megatron: tensor parallel neighbours first, then replicas, then stages. Every rank of a stage
runs the same program: pieces of computing, each followed by an operator in which its group meets. An operator begins on
a rank when that rank arrives, and ends on all members when the last one has arrived and the data has moved. The two
sides of a pipeline border form their own group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64
from npuprof.simulator.names import name_hash

Floats: TypeAlias = npt.NDArray[np.float64]
Kind = Literal["tp", "next", "prev", "dp", "mp"]
START_NS = 1_764_246_877_000_000_000
FIRST_STEP = 10

_MS = 1_000_000
_LAYER = {"attention": 1_000_000, "mlp": 1_200_000}  # forward pass; the backward pass takes twice as long
_HEAD_NS, _BUCKET_NS, _NORM_NS, _OPTIMIZER_NS = 1 * _MS, 200_000, 300_000, 4 * _MS
_BUCKETS = 4
_END_NOISE_NS = 250
TRANSFER: Mapping[Kind, tuple[int, int]] = {
    "tp": (300_000, 8_388_608),
    "next": (400_000, 8_388_608),
    "prev": (400_000, 8_388_608),
    "dp": (2 * _MS, 125_829_120),
    "mp": (30_000, 4_096),
}
"""The transfer time of an operator in nanoseconds, and its number of bytes."""


@dataclass(frozen=True)
class Plan:
    """The size of a job, and the relative variation of its pieces (`jitter`).

    With `barrier`, all ranks of a pipeline meet in a collective at the end of each step, as for a common norm of
    gradients. Without it, stages are joined by sends only.
    """

    tensor: int
    pipeline: int
    data: int
    steps: int = 4
    microbatches: int = 8
    layers: int = 4
    jitter: float = 0.015
    ranks_per_host: int = 8
    barrier: bool = False

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.tensor * self.pipeline * self.data


SIZES: Mapping[int, Plan] = {
    8: Plan(2, 2, 2, microbatches=8, barrier=True),
    64: Plan(4, 4, 4, microbatches=16, barrier=True),
    512: Plan(8, 8, 8, microbatches=32, barrier=True),
    1000: Plan(8, 5, 25, microbatches=20, barrier=True),
}
"""Jobs with a barrier, by number of ranks; ``replace(SIZES[1000], steps=9)`` has some 3,000 operators on each rank."""


@dataclass(frozen=True)
class Faults:
    """The faults of a job, any number of each kind; by default none, except that the clocks of hosts differ."""

    # Ranks whose computing takes longer, each with the share by which it does: `{17: 0.08}`.
    slow_ranks: Mapping[int, float] = field(default_factory=dict)
    # Hosts all of whose ranks are slow, each with that share.
    slow_hosts: Mapping[int, float] = field(default_factory=dict)
    # Pairs of ranks, neighbours in the ring of a group, between which transfers take this many times as long; all of
    # the group wait for them.
    slow_links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    # Hosts whose ranks begin each step late, as with slow input, by this many nanoseconds.
    late_hosts: Mapping[int, int] = field(default_factory=dict)
    # Stages of the pipeline with this share more of work, taken from the others: an uneven distribution of layers.
    heavy_stages: Mapping[int, float] = field(default_factory=dict)
    # Ranks that stand still once, in the middle of a step: nanoseconds by rank and step, `{(21, 14): 200_000_000}`.
    stalls: Mapping[tuple[int, int], int] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()  # ranks without a result
    truncated: frozenset[int] = frozenset()  # ranks whose result is cut off in the middle
    # clock_ms, drift: standard deviations of the offsets between hosts' clocks, and of their speeds.
    clock_ms: float = 3.0
    drift: float = 1e-6


@dataclass(frozen=True)
class Op:
    """An operator of a stage's program, and the rank's time before it: host time, then device time."""

    step: int
    kind: Kind
    op_type: str
    what: str
    host_ns: int
    device_ns: int


@dataclass(frozen=True)
class Group:
    """Ranks that communicate, with their group name in the framework."""

    name: str
    members: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """The hash that stands for the name in files of a run."""
        return str(name_hash(self.name))

    def after(self, rank: int) -> int:
        """Return the next rank of the ring."""
        return self.members[(self.members.index(rank) + 1) % len(self.members)]


@dataclass
class Stage:
    """The operators of a stage, by operator, replica and tensor rank; times by the true clock from 0 on."""

    ops: list[Op]
    before: Int64
    start: Int64
    end: Int64
    transfer: Int64
    host: Int64


@dataclass
class Job:
    """A simulated job."""

    # plan, faults, seed: the arguments of `simulate`.
    plan: Plan
    faults: Faults
    seed: int
    stages: list[Stage]  # the operators of each stage
    # clock_ns, clock_rate: the error of each rank's clock: a constant offset, and a rate in nanoseconds per nanosecond.
    clock_ns: Int64
    clock_rate: Floats

    @property
    def recorded_ranks(self) -> list[int]:
        """The ranks that have a result."""
        return [rank for rank in range(self.plan.ranks) if rank not in self.faults.absent]

    @property
    def duration_ns(self) -> int:
        """The true time from the first start of an operator to the last end."""
        return int(max(stage.end.max() for stage in self.stages) - min(stage.start.min() for stage in self.stages))

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return stage, replica and tensor rank."""
        stage, remainder = divmod(rank, self.plan.data * self.plan.tensor)
        return stage, *divmod(remainder, self.plan.tensor)

    def host(self, rank: int) -> int:
        """Return the number of a rank's host."""
        return rank // self.plan.ranks_per_host

    def recorded(self, rank: int, true_ns: Int64) -> Int64:
        """Convert true times to the clock of a rank's host."""
        ahead = self.clock_ns[rank] + np.rint(true_ns * self.clock_rate[rank]).astype(np.int64)
        return true_ns + START_NS + ahead

    def groups(self, rank: int) -> dict[Kind, Group]:
        """Return the groups of a rank by kind."""
        return self._groups[rank]

    @cached_property
    def _groups(self) -> list[dict[Kind, Group]]:
        known: dict[tuple[int, ...], Group] = {}
        return [
            {
                kind: known.setdefault(members, Group(f"group_name_{len(known) + 1}", members))
                for kind, members in _members(self.plan, *self.place(rank))
            }
            for rank in range(self.plan.ranks)
        ]


def _members(plan: Plan, stage: int, replica: int, part: int) -> Iterator[tuple[Kind, tuple[int, ...]]]:
    def rank(stage: int, replica: int, part: int) -> int:
        return (stage * plan.data + replica) * plan.tensor + part

    if plan.tensor > 1:
        yield "tp", tuple(rank(stage, replica, each) for each in range(plan.tensor))
    if plan.data > 1:
        yield "dp", tuple(rank(stage, each, part) for each in range(plan.data))
    if stage + 1 < plan.pipeline:
        yield "next", (rank(stage, replica, part), rank(stage + 1, replica, part))
    if stage:
        yield "prev", (rank(stage - 1, replica, part), rank(stage, replica, part))
    if plan.barrier and plan.tensor * plan.pipeline > 1:
        yield "mp", tuple(rank(at, replica, each) for at in range(plan.pipeline) for each in range(plan.tensor))


def _program(plan: Plan, stage: int) -> list[Op]:
    """Return the operators of a stage; computing without a following operator joins the next operator."""
    ops: list[Op] = []
    host = device = 0
    subject = ""

    def compute(name: str, ns: int) -> None:
        nonlocal device, subject
        device, subject = device + ns, name

    def meet(kind: Kind, op_type: str) -> None:
        nonlocal host, device
        there = {"tp": plan.tensor > 1, "dp": plan.data > 1, "mp": plan.barrier and plan.tensor * plan.pipeline > 1}
        if there.get(kind, 0 <= stage + (1 if kind == "next" else -1) < plan.pipeline):
            ops.append(Op(step, kind, op_type, subject, host, device))
            host = device = 0

    def work(times: int) -> None:
        for _ in range(plan.layers):
            for name, ns in _LAYER.items():
                compute(name, times * ns)
                meet("tp", "hcom_allReduce_")

    warm = min(plan.pipeline - 1 - stage, plan.microbatches)
    for step in range(FIRST_STEP, FIRST_STEP + plan.steps):  # noqa: B007 - meet() reads it
        host += _HEAD_NS
        for _ in range(warm):
            meet("prev", "hcom_batchSendRecv_")
            work(1)
            meet("next", "hcom_batchSendRecv_")
        if warm < plan.microbatches:
            meet("prev", "hcom_batchSendRecv_")
        for _ in range(plan.microbatches - warm):
            work(1)
            meet("next", "hcom_batchSendRecv_")
            work(2)
            meet("prev", "hcom_batchSendRecv_")
        for _ in range(warm):
            meet("next", "hcom_batchSendRecv_")
            work(2)
            meet("prev", "hcom_batchSendRecv_")
        for _ in range(_BUCKETS):
            compute("flatten", _BUCKET_NS)
            meet("dp", "hcom_reduceScatter_")
        compute("norm", _NORM_NS)
        meet("mp", "hcom_allReduce_")
        compute("optimizer", _OPTIMIZER_NS)
        meet("dp", "hcom_allGather_")
    return ops


def simulate(plan: Plan, faults: Faults | None = None, seed: int = 0) -> Job:
    """Simulate a job."""
    faults = faults or Faults()
    random = np.random.default_rng(seed)
    hosts = np.arange(plan.ranks) // plan.ranks_per_host
    offset = np.rint(random.normal(0, faults.clock_ms * _MS, plan.ranks)).astype(np.int64)[hosts]
    rate = random.normal(0, faults.drift, plan.ranks)[hosts]
    job = Job(plan, faults, seed, [], offset, rate)
    programs = [_program(plan, stage) for stage in range(plan.pipeline)]
    played = [_Player(job, stage, program, random) for stage, program in enumerate(programs)]
    _play(played)
    job.stages = [player.result(random) for player in played]
    return job


class _Player:
    """The simulation state of the ranks of a stage."""

    def __init__(self, job: Job, stage: int, ops: list[Op], random: np.random.Generator) -> None:
        plan, faults = job.plan, job.faults
        shape = (plan.data, plan.tensor)
        ranks = (stage * plan.data * plan.tensor + np.arange(plan.data * plan.tensor)).reshape(shape)
        hosts = ranks // plan.ranks_per_host
        pace = _of(faults.slow_ranks, ranks, 0.0) + _of(faults.slow_hosts, hosts, 0.0) + 1
        for heavy, more in faults.heavy_stages.items():
            pace = pace * (1 + more if stage == heavy else 1 - more / (plan.pipeline - 1))
        late = _of(faults.late_hosts, hosts, 0).astype(np.int64)
        vary = 1 + plan.jitter * random.standard_normal((len(ops), *shape))
        host = np.array([op.host_ns for op in ops], np.int64)[:, None, None]
        device = np.array([op.device_ns for op in ops], np.int64)[:, None, None]
        self.host: Int64 = host + np.where(host > 0, late, 0)
        for (rank, step), still_ns in faults.stalls.items():
            in_step = np.flatnonzero([op.step == step for op in ops])
            self.host[in_step[len(in_step) // 2]] += np.where(ranks == rank, still_ns, 0)
        self.own_ns: Int64 = self.host + np.rint(device * pace * np.clip(vary, 0.5, 2)).astype(np.int64)
        factors = {kind: _link_factors(job, kind, ranks) for kind in TRANSFER}
        self.transfer = np.stack([np.rint(TRANSFER[op.kind][0] * factors[op.kind]).astype(np.int64) for op in ops])
        self.ops, self.at = ops, 0
        self.clock = np.zeros(shape, np.int64)
        self.before, self.start, self.end = (np.zeros((len(ops), *shape), np.int64) for _ in range(3))
        self.arrived = False

    @property
    def kind(self) -> Kind | None:
        """The kind of the next operator; None at the end."""
        return self.ops[self.at].kind if self.at < len(self.ops) else None

    def arrive(self) -> Int64:
        """Advance to the next operator; return the arrival times."""
        if not self.arrived:
            self.before[self.at] = self.clock
            self.start[self.at] = self.clock + self.own_ns[self.at]
            self.arrived = True
        return self.start[self.at]

    def leave(self, moved_ns: Int64) -> None:
        """Complete the operator."""
        self.end[self.at] = moved_ns  # one time for each member
        self.clock = self.end[self.at]
        self.at += 1
        self.arrived = False

    def result(self, random: np.random.Generator) -> Stage:
        """Return the operators; members see the end of an operator at slightly different times."""
        noise = np.rint(random.normal(0, _END_NOISE_NS, self.end.shape)).astype(np.int64)
        end = np.maximum(self.end + noise, self.start + 1)
        return Stage(self.ops, self.before, self.start, end, self.transfer, self.host)


def _of(values: Mapping[int, float], numbers: Int64, other: float) -> Floats:
    """Return the value of each number, `other` for those without one."""
    return np.array([values.get(int(number), other) for number in numbers.ravel()], np.float64).reshape(numbers.shape)


def _link_factors(job: Job, kind: Kind, ranks: Int64) -> Floats:
    factors = np.ones(ranks.shape)
    pairs = {frozenset(pair): factor for pair, factor in job.faults.slow_links.items()}
    for place, rank in np.ndenumerate(ranks):
        if pairs and (group := job.groups(int(rank)).get(kind)) is not None:
            links = [frozenset((member, group.after(member))) for member in group.members]
            factors[place] = max(pairs.get(link, 1.0) for link in links)
    return factors


def _play(stages: Sequence[_Player]) -> None:
    """Advance every stage as far as possible, until all have ended."""
    while any(stage.kind for stage in stages):
        for number, stage in enumerate(stages):
            while (kind := stage.kind) is not None:
                arrived = stage.arrive()
                if kind in ("tp", "dp"):
                    last = arrived.max(axis=int(kind == "tp"), keepdims=True)
                    stage.leave(last + stage.transfer[stage.at])
                elif kind == "next" and stages[number + 1].kind == "prev":
                    other = stages[number + 1]
                    end = np.maximum(arrived, other.arrive()) + stage.transfer[stage.at]
                    stage.leave(end)
                    other.leave(end)
                else:
                    break
        if all(stage.kind == "mp" for stage in stages):
            last = np.stack([stage.arrive() for stage in stages]).max(axis=(0, 2))[:, None]
            slowest = np.stack([stage.transfer[stage.at] for stage in stages]).max(axis=(0, 2))[:, None]
            for stage in stages:
                stage.leave(last + slowest)
