"""Plans of collectives: the stages of each, who sends what to whom, and over which link."""

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
    """One kind of link.

    Attributes
    ----------
    kind
        ``HCCS`` inside a server, ``ROCE`` between servers.
    bytes_per_s
        Bandwidth of one link in one direction.
    latency_ns
        What a step costs whatever its size.
    """

    kind: LinkKind
    bytes_per_s: float
    latency_ns: int

    def duration_ns(self, size_bytes: int) -> int:
        """Return how long a step with so many bytes takes."""
        return self.latency_ns + round(size_bytes / self.bytes_per_s * 1e9)


LINKS: Mapping[LinkKind, Link] = MappingProxyType(
    {"HCCS": Link("HCCS", 28e9, 3_000), "ROCE": Link("ROCE", 25e9, 8_000)}
)


@dataclass(frozen=True)
class Topology:
    """Where ranks are: the first `per_server` of them in one server, the next in another.

    Attributes
    ----------
    per_server
        Ranks of a server.
    links
        What each kind of link can do.
    """

    per_server: int = RANKS_PER_SERVER
    links: Mapping[LinkKind, Link] = field(default_factory=lambda: LINKS)

    def link(self, one: int, other: int) -> Link:
        """Return the link between two ranks."""
        return self.links["HCCS" if one // self.per_server == other // self.per_server else "ROCE"]

    def servers(self, ranks: Sequence[int]) -> list[list[int]]:
        """Divide ranks by server, in order."""
        found: dict[int, list[int]] = {}
        for rank in ranks:
            found.setdefault(rank // self.per_server, []).append(rank)
        return [found[server] for server in sorted(found)]


Kind: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv"]
MoveKind: TypeAlias = Literal["copy", "reduce"]


@dataclass(frozen=True)
class Move:
    """Data that a rank sends, or waits for, in a stage.

    Attributes
    ----------
    plane
        Number of the stream that it runs on: planes run beside each other.
    peer
        The other rank.
    size_bytes
        What is sent; 0 for a rank that only waits.
    kind
        Whether the other rank's data is replaced or added to.
    link
        What kind of link it uses.
    """

    plane: int
    peer: int
    size_bytes: int
    kind: MoveKind
    link: LinkKind


@dataclass(frozen=True)
class Stage:
    """One rank's part of a stage, and how long all ranks take for theirs."""

    moves: tuple[Move, ...]
    duration_ns: int


@dataclass(frozen=True)
class Plan:
    """The stages of an operator for one rank, and the algorithm's name."""

    algorithm: str
    stages: tuple[Stage, ...]

    @property
    def planes(self) -> int:
        """How many streams it needs."""
        return 1 + max((move.plane for stage in self.stages for move in stage.moves), default=0)


def plan(
    kind: Kind, ranks: Sequence[int], rank: int, size_bytes: int, topology: Topology, root: int | None = None
) -> Plan:
    """Plan an operator for one rank.

    Parameters
    ----------
    kind
        What is done; for ``send`` and ``recv``, `ranks` are the sender and the receiver.
    ranks
        The group, in order; at least one.
    rank
        Whose part is wanted.
    size_bytes
        Of the whole operand: what each rank puts in, for ``all_gather`` what each adds.
    topology
        Where the ranks are.
    root
        Whose data is broadcast.
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
    """Hand everything from server to server; in each, one rank scatters it, and all gather what the others got."""
    order = sorted(range(len(servers)), key=lambda number: root not in servers[number])
    heads = [root if root in servers[number] else servers[number][0] for number in order]
    here = next(server for server in servers if rank in server)
    head = next(one for one in heads if one in here)
    stages = [_send(one, other, rank, size_bytes, topology) for one, other in itertools.pairwise(heads)]
    part = -(-size_bytes // len(here))
    others = [one for one in here if one != head]
    if others:  # one that is alone in its server has everything already
        longest_ns = max(topology.links["HCCS"].duration_ns(-(-size_bytes // len(server))) for server in servers)
        scattered = tuple(Move(plane, one, part, "copy", "HCCS") for plane, one in enumerate(others))
        stages.append(Stage(scattered if rank == head else (Move(0, head, 0, "copy", "HCCS"),), longest_ns))
        stages += [Stage(stage.moves, longest_ns) for stage in _mesh(here, rank, part, "copy", topology)]
    return Plan("CHAIN-MESH" if len(servers) > 1 else "MESH", tuple(stages))


def _send(one: int, other: int, rank: int, size_bytes: int, topology: Topology) -> Stage:
    """Send from one rank to another; the rest of the group waits for it."""
    link = topology.link(one, other)
    move = Move(0, other if rank == one else one, size_bytes if rank == one else 0, "copy", link.kind)
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
    links = [topology.link(one, other) for one, other in zip(ranks, after, strict=True)]
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
