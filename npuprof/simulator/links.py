"""The links between ranks, as data: bandwidth and latency of each kind, and which two ranks have which.

A step over a link takes its latency and its bytes at its bandwidth (the alpha-beta model); links do not slow each other
down. The figures are a model of servers with eight 910B, every two of which have an HCCS link of their own, and a RoCE
port for each: 28 GB/s is one direction of one of seven links that share 392 GB/s counted in both directions, 25 GB/s is
a port of 200 Gbit/s. Latencies are modelled, not published: an SDMA copy between two devices costs some microseconds, a
send through the network card more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
