"""Hosts whose ranks arrive late at collectives, compared with ranks on other hosts that run the same collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Floats, Job
from npuprof.arrays import Bools, Int64

_LEAST_RANKS = 2  # per host, among ranks with the same collectives: a single late rank may be a slow card


@dataclass(frozen=True)
class LateHost:
    """A host whose ranks are late.

    Attributes
    ----------
    host
        The host's number or name.
    ranks
        The late ranks.
    late_ns
        How much longer a late rank takes per step than the same ranks on other hosts.
    first
        The number of the first collective of a step at which they are late.
    own_ns
        The time of each row's rank before it arrives, with the late ranks as fast as on other hosts.
    """

    host: int | str
    ranks: tuple[int, ...]
    late_ns: int
    first: int
    own_ns: Floats


def latest_host(played: Job, hosts: Mapping[int, int | str], least_ns: float) -> LateHost | None:
    """Return the host whose ranks all arrive at a collective of each step later than those of every other host.

    Parameters
    ----------
    played
        The job.
    hosts
        The host of each rank, if known.
    least_ns
        The least lateness per step.
    """
    rows = played.rows
    rank, own_ns = rows["rank"].to_numpy(np.int64), rows["own_ns"].to_numpy(np.float64)
    steps = rows["step"].fillna(-1).to_numpy(np.int64)
    late_hosts: dict[int | str, list[_Late]] = {}
    for members in played.peers:
        known = [member for member in members if member in hosts]
        names = {hosts[member] for member in known}
        if len(names) < 2:
            continue
        at = rows_of_peers(played, known)
        of_host = np.array([list(names).index(hosts[member]) for member in known])
        for number, name in enumerate(names):
            late = _late(at, own_ns, steps[at[0]], of_host == number, least_ns)
            if late is not None:
                late_hosts.setdefault(name, []).append(late)
    if not late_hosts:
        return None
    host = max(late_hosts, key=lambda name: max(late.late_ns for late in late_hosts[name]))
    changed = own_ns.copy()
    for late in late_hosts[host]:
        changed[late.rows] = np.minimum(changed[late.rows], late.usual_ns)
    ranks = sorted({int(member) for late in late_hosts[host] for member in rank[late.rows]})
    most = max(late_hosts[host], key=lambda late: late.late_ns)
    return LateHost(host, tuple(ranks), round(most.late_ns), most.first, changed)


def rows_of_peers(played: Job, peers: Sequence[int]) -> Int64:
    """Return the rows of ranks that run the same collectives: a row per rank, a column per collective."""
    rank = played.rows["rank"].to_numpy(np.int64)
    begins, ends = (np.searchsorted(rank, peers, side) for side in ("left", "right"))
    rows: Int64 = begins[:, None] + np.arange(int(ends[0] - begins[0]) if len(begins) else 0)
    return rows


@dataclass(frozen=True)
class _Late:
    """Rows of late ranks, the time that their peers take there, and their lateness per step."""

    rows: Int64
    usual_ns: Floats
    late_ns: float
    first: int


def _late(at: Int64, own_ns: Floats, steps: Int64, here: Bools, least_ns: float) -> _Late | None:
    """Compare ranks of a host with their peers; `at` has the rows of each rank, `here` says which are on the host."""
    if here.sum() < _LEAST_RANKS or here.all():
        return None
    number = pd.Series(steps).groupby(steps).cumcount().to_numpy(np.int64)
    usual_of = pd.DataFrame(own_ns[at].T).groupby(number).median()  # per rank, at each collective of a step
    excess = usual_of.loc[:, here].min(axis=1) - usual_of.loc[:, ~here].max(axis=1)
    late = excess.index[(excess > least_ns).to_numpy(bool)]
    if not len(late):
        return None
    columns = np.isin(number, late)
    rows = at[here][:, columns]
    usual = np.broadcast_to(np.median(own_ns[at[~here][:, columns]], axis=0), rows.shape)
    return _Late(rows.ravel(), usual.ravel(), float(excess[late].sum()), int(late[0]))
