"""Plans of collectives: the stages of each, the data of each stage, and the links.

Ranks of a server form a mesh and send to all others at once; across servers, ranks with the same position form a ring.
A group with unequal numbers of ranks per server is a single ring. Ranks enter a stage together. A stage takes the
latency of its link plus its bytes over the link's bandwidth (the alpha-beta model); links do not slow each other down.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

LinkKind: TypeAlias = Literal["HCCS", "ROCE"]

RANKS_PER_SERVER = 8


@dataclass(frozen=True)
class Link:
    """A kind of link: ``HCCS`` within a server, ``ROCE`` between servers; bandwidth of one direction, and latency."""

    kind: LinkKind
    bytes_per_s: float
    latency_ns: int

    def duration_ns(self, size_bytes: int) -> int:
        """Return the time of a step of this size."""
        return self.latency_ns + round(size_bytes / self.bytes_per_s * 1e9)


LINKS: Mapping[LinkKind, Link] = MappingProxyType(
    {"HCCS": Link("HCCS", 28e9, 3_000), "ROCE": Link("ROCE", 25e9, 8_000)}
)


@dataclass(frozen=True)
class Topology:
    """Servers with `per_server` ranks each, and the links between ranks."""

    per_server: int = RANKS_PER_SERVER
    links: Mapping[LinkKind, Link] = field(default_factory=lambda: LINKS)

    def link(self, rank: int, other: int) -> Link:
        """Return the link between two ranks."""
        return self.links["HCCS" if rank // self.per_server == other // self.per_server else "ROCE"]

    def servers(self, ranks: Sequence[int]) -> list[list[int]]:
        """Group ranks by server, in order."""
        by_server: dict[int, list[int]] = {}
        for rank in ranks:
            by_server.setdefault(rank // self.per_server, []).append(rank)
        return [by_server[server] for server in sorted(by_server)]


Kind: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv"]
MoveKind: TypeAlias = Literal["copy", "reduce"]


@dataclass(frozen=True)
class Move:
    """A transfer, or a wait for a transfer, by a rank in a stage.

    `plane` is the number of its stream, since planes run concurrently; `size_bytes` is 0 for a rank that only waits;
    `kind` says whether the peer's data is replaced or added to.
    """

    plane: int
    peer: int
    size_bytes: int
    kind: MoveKind
    link: LinkKind


@dataclass(frozen=True)
class Stage:
    """The transfers of a rank in a stage, and the duration of the stage on all ranks."""

    moves: tuple[Move, ...]
    duration_ns: int


@dataclass(frozen=True)
class Plan:
    """The stages of a collective for one rank, and the name of the algorithm."""

    algorithm: str
    stages: tuple[Stage, ...]

    @property
    def planes(self) -> int:
        """The number of streams."""
        return 1 + max((move.plane for stage in self.stages for move in stage.moves), default=0)


def plan(
    kind: Kind, ranks: Sequence[int], rank: int, size_bytes: int, topology: Topology, root: int | None = None
) -> Plan:
    """Plan a collective for one rank.

    For ``send`` and ``recv``, `ranks` are the sender and the receiver; otherwise they are the group. `size_bytes` is
    the operand of each rank; `root` is the source of a broadcast.
    """
    if kind in ("send", "recv"):
        return _point_to_point(ranks, rank, size_bytes, topology)
    servers = topology.servers(ranks)
    if len(ranks) == 1:
        return Plan("LOCAL", ())
    if kind == "broadcast":
        return _broadcast(servers, rank, ranks[0] if root is None else root, size_bytes, topology)
    if len({len(server) for server in servers}) > 1:
        return Plan("RING", tuple(_flat_ring(kind, ranks, rank, size_bytes, topology)))
    here = next(server for server in servers if rank in server)
    across = [server[here.index(rank)] for server in servers]
    stages = tuple(_hierarchy(kind, here, across, rank, size_bytes, topology))
    names = [name for name, group in (("MESH", here), ("RING", across)) if len(group) > 1]
    return Plan("-".join(names), stages)


def _hierarchy(
    kind: Kind, here: Sequence[int], across: Sequence[int], rank: int, size_bytes: int, topology: Topology
) -> Iterator[Stage]:
    local, servers = len(here), len(across)
    if kind == "all_gather":
        yield from _ring(across, rank, size_bytes, servers - 1, "copy", topology)
        yield from _mesh(here, rank, size_bytes * servers, "copy", topology)
        return
    part = -(-size_bytes // local)
    yield from _mesh(here, rank, part, "reduce", topology)
    yield from _ring(across, rank, -(-part // servers), servers - 1, "reduce", topology)
    if kind != "reduce_scatter":
        yield from _ring(across, rank, -(-part // servers), servers - 1, "copy", topology)
        yield from _mesh(here, rank, part, "copy", topology)


def _flat_ring(kind: Kind, ranks: Sequence[int], rank: int, size_bytes: int, topology: Topology) -> Iterator[Stage]:
    turns = len(ranks) - 1
    if kind == "all_gather":
        yield from _ring(ranks, rank, size_bytes, turns, "copy", topology)
        return
    part = -(-size_bytes // len(ranks))
    yield from _ring(ranks, rank, part, turns, "reduce", topology)
    if kind != "reduce_scatter":
        yield from _ring(ranks, rank, part, turns, "copy", topology)


def _broadcast(servers: Sequence[Sequence[int]], rank: int, root: int, size_bytes: int, topology: Topology) -> Plan:
    """Send the data from server to server; within a server, scatter it and gather the parts."""
    order = sorted(range(len(servers)), key=lambda number: root not in servers[number])
    heads = [root if root in servers[number] else servers[number][0] for number in order]
    here = next(server for server in servers if rank in server)
    head = next(sender for sender in heads if sender in here)
    stages = [_send(sender, other, rank, size_bytes, topology) for sender, other in itertools.pairwise(heads)]
    part = -(-size_bytes // len(here))
    others = [sender for sender in here if sender != head]
    if others:  # the only rank of a server already has all the data
        longest_ns = max(topology.links["HCCS"].duration_ns(-(-size_bytes // len(server))) for server in servers)
        scattered = tuple(Move(plane, sender, part, "copy", "HCCS") for plane, sender in enumerate(others))
        stages.append(Stage(scattered if rank == head else (Move(0, head, 0, "copy", "HCCS"),), longest_ns))
        stages += [Stage(stage.moves, longest_ns) for stage in _mesh(here, rank, part, "copy", topology)]
    return Plan("CHAIN-MESH" if len(servers) > 1 else "MESH", tuple(stages))


def _send(sender: int, receiver: int, rank: int, size_bytes: int, topology: Topology) -> Stage:
    """Send from one rank to another, while the rest of the group waits."""
    link = topology.link(sender, receiver)
    move = Move(0, receiver if rank == sender else sender, size_bytes if rank == sender else 0, "copy", link.kind)
    return Stage((move,), link.duration_ns(size_bytes))


def _mesh(ranks: Sequence[int], rank: int, size_bytes: int, kind: MoveKind, topology: Topology) -> Iterator[Stage]:
    others = [other for other in ranks if other != rank]
    if others:
        link = topology.link(rank, others[0])
        moves = tuple(Move(plane, other, size_bytes, kind, link.kind) for plane, other in enumerate(others))
        yield Stage(moves, link.duration_ns(size_bytes))


def _ring(
    ranks: Sequence[int], rank: int, size_bytes: int, turns: int, kind: MoveKind, topology: Topology
) -> Iterator[Stage]:
    if not turns:
        return
    after = [*ranks[1:], ranks[0]]
    links = [topology.link(sender, receiver) for sender, receiver in zip(ranks, after, strict=True)]
    at = ranks.index(rank)
    slowest_ns = max(link.duration_ns(size_bytes) for link in links)
    stage = Stage((Move(0, after[at], size_bytes, kind, links[at].kind),), slowest_ns)
    yield from [stage] * turns


def _point_to_point(ranks: Sequence[int], rank: int, size_bytes: int, topology: Topology) -> Plan:
    sender, receiver = ranks
    link: Link = topology.link(sender, receiver)
    sends = rank == sender
    move = Move(0, receiver if sends else sender, size_bytes if sends else 0, "copy", link.kind)
    return Plan("DIRECT", (Stage((move,), link.duration_ns(size_bytes)),))
