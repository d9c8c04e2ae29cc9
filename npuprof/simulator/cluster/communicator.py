"""A group of ranks: its collectives, and the streams that they run on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npuprof.simulator.calls import recorded
from npuprof.simulator.cluster import exchange
from npuprof.simulator.cluster.exchange import Exchange, RankError, ReduceOperator
from npuprof.simulator.communication import Collective, Step, call_duration_ns, steps_of
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Event, HostCall, Stream, Task
from npuprof.simulator.npu.streams import launch_stream
from npuprof.simulator.plans import Kind, Topology, plan

NOTIFY_NS = 100


@dataclass(frozen=True)
class Begun:
    """A launched call: its steps, and the time at which the streams of this rank are ready."""

    call: HostCall
    steps: list[Step]
    ready_ns: int


class Channel:
    """The streams of a group on one device, one for each plane.

    An operator is launched in two halves: :meth:`begin` returns the time at which this rank is ready; when all ranks
    have met, :meth:`finish` enqueues the tasks, which wait for the slowest rank.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._planes: list[Stream] = []

    def begin(self, collective: Collective, after: Stream) -> Begun:
        """Begin the call, after the tasks in the stream `after`."""
        while len(self._planes) < collective.plan.planes:
            self._planes.append(self._device.create_stream())
        arrived = Event()
        self._device.record_event(arrived, after)
        for plane in range(collective.plan.planes):
            self._device.wait_event(arrived, self._planes[plane])
        steps = steps_of(collective.plan, NOTIFY_NS)
        call = self._device.begin_communication(call_duration_ns(len(steps)))
        ready_ns = self._device.ready_ns(self._planes[: collective.plan.planes], call)
        # A notification to the other ranks, and a notification back.
        return Begun(call, steps, ready_ns + 2 * NOTIFY_NS)

    def finish(self, begun: Begun, collective: Collective, start_ns: int) -> tuple[list[Task], Event]:
        """Enqueue the tasks, which start when the slowest rank is ready; return them and their end event."""
        planes = self._planes[: collective.plan.planes]
        tasks = self._device.communicate(collective, begun.steps, planes, begun.call, start_ns)
        ended = Event()
        self._device.record_event(ended, planes[0])
        return tasks, ended

    def wait(self, ended: Event, stream: Stream) -> None:
        """Make a stream wait for the end of an operator."""
        self._device.wait_event(ended, stream)


# The operator of the communication library, and its call, by kind.
_NAMES: dict[Kind, tuple[str, str]] = {
    "all_reduce": ("hcom_allReduce_", "HcclAllReduce"),
    "all_gather": ("hcom_allGather_", "HcclAllGather"),
    "reduce_scatter": ("hcom_reduceScatter_", "HcclReduceScatter"),
    "broadcast": ("hcom_broadcast_", "HcclBroadcast"),
    "send": ("hcom_send_", "HcclSend"),
    "recv": ("hcom_receive_", "HcclRecv"),
}


class _Offer(NamedTuple):
    """What one rank brings to a collective."""

    kind: Kind
    detail: str
    operand: Tensor
    values: Any
    ready_ns: int


class Work:
    """A launched collective.

    Attributes
    ----------
    result
        The collective's result, with its final values.
    """

    def __init__(self, result: Any, channel: Channel, ended: Event, device: Device) -> None:
        self.result = result
        self._channel = channel
        self._ended = ended
        self._device = device

    def wait(self) -> Any:
        """Make later launches of this thread wait for the collective; return its result."""
        self._channel.wait(self._ended, launch_stream(self._device))
        return self.result


class Communicator:
    """The collectives of one rank in a group.

    Calls take NumPy arrays, arrays of the simulated NPU and torch tensors, and compute their values. The tasks run on
    the streams of the group, after the tasks of the calling thread's stream and when every rank has arrived; that
    stream waits for them, unless ``async_op`` is set.
    """

    def __init__(
        self, rank: int, ranks: Sequence[int], device: Device, exchange: Exchange, topology: Topology, name: str
    ) -> None:
        self.rank = rank
        self.ranks = tuple(ranks)
        self.name = name
        self._device = device
        self._exchange = exchange
        self._topology = topology
        self._channel = Channel(device)
        self._turn: dict[tuple[int, ...], int] = {}

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self.ranks)

    def all_reduce(self, x: Any, op: ReduceOperator = "sum", *, async_op: bool = False) -> Any:
        """Reduce `x` in place over all ranks (``sum``, ``prod``, ``max``, ``min``); return `x`, or the `Work`."""
        offers, work = self._run("all_reduce", x, op)
        exchange.store(x, exchange.reduced([offer.values for offer in offers], op))
        return self._argument_text(work, x, async_op)

    def broadcast(self, x: Any, src: int = 0, *, async_op: bool = False) -> Any:
        """Replace `x` in place by the `x` of rank `src`; return `x`, or the `Work`."""
        self._check_member(src)
        offers, work = self._run("broadcast", x, f"from rank {src}", root=src)
        exchange.store(x, offers[self.ranks.index(src)].values)
        return self._argument_text(work, x, async_op)

    def all_gather(self, x: Any, *, async_op: bool = False) -> Any:
        """Return the `x` of every rank as a list, in group order; or the `Work`."""
        offers, work = self._run("all_gather", x, "")
        return self._argument_text(
            work, [exchange.like(x, exchange.snapshot(offer.values)) for offer in offers], async_op
        )

    def reduce_scatter(self, x: Any, op: ReduceOperator = "sum", *, async_op: bool = False) -> Any:
        """Return this rank's part of the reduction, along the first axis; or the `Work`."""
        length = exchange.describe(x).shape[:1]
        if not length or length[0] % self.size:
            raise ValueError(f"reduce_scatter needs a first axis that {self.size} ranks can divide, not {length}")
        offers, work = self._run("reduce_scatter", x, op)
        whole = exchange.reduced([offer.values for offer in offers], op)
        mine = exchange.part(whole, self.ranks.index(self.rank), self.size)
        return self._argument_text(work, exchange.like(x, mine), async_op)

    def barrier(self) -> None:
        """Wait until every rank arrives: an all-reduce of one element, as in HCCL."""
        self.all_reduce(np.zeros(1, np.float32))
        self._device.synchronize(launch_stream(self._device))

    def send(self, x: Any, dst: int, *, async_op: bool = False) -> Any:
        """Send `x` to rank `dst`, which must receive it; return `x`, or the `Work`."""
        self._check_member(dst)
        _, work = self._run("send", x, f"to rank {dst}", pair=(self.rank, dst))
        return self._argument_text(work, x, async_op)

    def recv(self, x: Any, src: int, *, async_op: bool = False) -> Any:
        """Replace `x` in place by the data from rank `src`; return `x`, or the `Work`."""
        self._check_member(src)
        offers, work = self._run("recv", x, f"from rank {src}", pair=(src, self.rank))
        exchange.store(x, offers[0].values)
        return self._argument_text(work, x, async_op)

    def _check_member(self, rank: int) -> None:
        if rank not in self.ranks:
            raise ValueError(f"rank {rank} is not in the group {self.name}, which has {list(self.ranks)}")

    def _run(
        self, kind: Kind, x: Any, detail: str, *, pair: tuple[int, int] | None = None, root: int | None = None
    ) -> tuple[list[_Offer], Work]:
        with recorded(self._device.host, f"dist.{kind}"):
            return self._rendezvous(kind, x, detail, pair, root)

    def _rendezvous(
        self, kind: Kind, x: Any, detail: str, pair: tuple[int, int] | None, root: int | None
    ) -> tuple[list[_Offer], Work]:
        operand = exchange.describe(x)
        members = self.ranks if pair is None else pair
        if pair is not None and pair[0] == pair[1]:
            raise ValueError(f"rank {self.rank} cannot send to itself")
        self._turn[members] = turn = self._turn.get(members, 0) + 1
        stages = plan(kind, members, self.rank, operand.size_bytes, self._topology, root)
        count = math.prod(operand.shape)
        collective = Collective(*_NAMES[kind], self.name, self.rank, self.ranks, operand.dtype, count, stages)
        stream = launch_stream(self._device)
        begun = self._channel.begin(collective, stream)
        offer = _Offer(kind, detail, operand, exchange.snapshot(x), begun.ready_ns)
        call = f"{kind}({operand.dtype}{list(operand.shape)}{', ' if detail else ''}{detail}) of {self.name}"
        key = (self.name, members, pair is not None, turn)
        offers: list[_Offer] = self._exchange.meet(key, self.rank, members, offer, call)
        _check_agreement(members, offers, pair is not None)
        _, ended = self._channel.finish(begun, collective, max(each.ready_ns for each in offers))
        return offers, Work(None, self._channel, ended, self._device)

    def _argument_text(self, work: Work, result: Any, async_op: bool) -> Any:
        work.result = result
        return work if async_op else work.wait()


def _check_agreement(ranks: Sequence[int], offers: Sequence[_Offer], is_pair: bool) -> None:
    """Raise a RankError where ranks call different collectives."""
    first = offers[0]
    for rank, offer in zip(ranks, offers, strict=True):
        is_same = offer.operand == first.operand and (is_pair or offer[:2] == first[:2])
        if not is_same:
            raise RankError(
                f"ranks {ranks[0]} and {rank} do not fit together: {_call_text(first)} and {_call_text(offer)}; all "
                "ranks of a group must call the same collectives, with equal shapes and data types, in the same order"
            )


def _call_text(offer: _Offer) -> str:
    return f"{offer.kind} {offer.detail} of {offer.operand.dtype}{list(offer.operand.shape)}"
