"""Transfers between all ranks: from whole runs, the matrices of unread runs, or the vendor's analysis of all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from npuprof.analysis.traffic import all_traffic, rank_traffic
from npuprof.profiles.profile import Profile
from npuprof.ranks.entries import read_or_none
from npuprof.ranks.rank_discovery import communicating_ranks, ranks_of_groups, referenced_ranks
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.together import every_table
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.global_ranks import MATRIX, Groups, groups_of, with_global_ranks
from npuprof.sources.vendor_matrix import vendor_matrix


def absent_ranks(ranks: RankTables) -> list[int]:
    """Return the ranks that some file refers to, but that have no run."""
    runs = ranks.runs
    referenced = set().union(*(referenced_ranks(entry.info) for entry in runs.entries))
    communicating = ranks_of_groups(_groups(ranks)) | communicating_ranks(runs.profiles.values())
    return sorted((referenced | communicating) - set(runs.ranks))


def matrix(ranks: RankTables) -> pd.DataFrame:
    """Return the vendor's sums of transfers of all ranks, with global ranks."""
    return ranks.memo.of_state("matrix", lambda: _matrix(ranks))


def _matrix(ranks: RankTables) -> pd.DataFrame:
    runs = list(_with_matrix(ranks))
    nothing: pd.DataFrame = pd.DataFrame()
    frames = [frame for run in runs if len(frame := run.statistics.get(MATRIX, nothing))]
    if not frames:
        return nothing
    is_known = not ranks.runs.rows_read and all(run.info.rank is not None for run in runs)
    groups = _groups(ranks) if is_known else groups_of(runs)
    return with_global_ranks({}, {MATRIX: stacked(frames)}, groups)[1][MATRIX]


def _groups(ranks: RankTables) -> Groups:
    """Return the groups in the vendor's communication matrices of runs with a rank."""
    return ranks.memo.once("groups", lambda: groups_of(run for run in _with_matrix(ranks) if run.info.rank is not None))


def _with_matrix(ranks: RankTables) -> Iterator[Decoded | Profile]:
    """Yield each run with the vendor's communication matrix and its facts; the whole run if it was read."""
    frames = ranks.scans.rows_of("communication_matrix")
    for row, entry in enumerate(ranks.runs.entries):
        if entry.profile is not None and not entry.is_cluster:
            yield entry.profile
        elif not entry.is_cluster:
            statistics = {MATRIX: frames[row]} if row in frames else vendor_matrix(entry.run.path)
            yield Decoded(info=entry.info, statistics=statistics)


def transfers(ranks: RankTables) -> list[tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]]:
    """Return tables and statistics of every rank with global ranks; unread ranks are one, of transfers."""
    entries = ranks.runs.entries
    small = {} if all(entry.profile for entry in entries) else ranks.scans.rows_of("communication_matrix")
    unread = {row: frame for row, frame in small.items() if entries[row].profile is None}
    runs: dict[int, Decoded | Profile] = {}
    for row, entry in enumerate(entries):
        if row in unread:
            runs[row] = Decoded({}, entry.info, statistics={MATRIX: unread[row]})
        elif not entry.is_cluster and (run := read_or_none(entry)) is not None:
            runs[row] = run
    groups = groups_of(runs.values())
    whole = [(run.tables, run.statistics) for row, run in runs.items() if row not in unread]
    if unread:
        whole.insert(0, (every_table({}), {MATRIX: stacked(list(unread.values()))}))
    return [with_global_ranks(tables, statistics, groups) for tables, statistics in whole]


def traffic(ranks: RankTables) -> pd.DataFrame:
    """Return the traffic of every rank by global rank, or the vendor's analysis if no rank has any."""
    parts = [rank_traffic(*of_rank) for of_rank in transfers(ranks)]
    if not any(map(len, parts)) and (cluster := ranks.runs.cluster) is not None:
        parts = [rank_traffic(cluster.tables, cluster.statistics)]
    return all_traffic(parts)


def times_and_packets(ranks: RankTables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the time of collectives by operator, and the packets by link, summed over ranks."""
    runs = list(ranks.runs.read_all().values())
    if not runs and (cluster := ranks.runs.cluster) is not None:
        runs = [cluster]
    if not runs:
        return pd.DataFrame(), pd.DataFrame()
    times, packets = zip(*(run._collectives() for run in runs), strict=True)
    return _summed_times(_non_empty(times)), _summed_packets(_non_empty(packets))


def _non_empty(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [part for part in parts if len(part)] or [parts[0]]


def _summed_times(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum the times of collectives over ranks, longest first."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    sums: pd.DataFrame = rows.drop(columns="known").groupby(["group", "op_type"], sort=True).sum().reset_index()
    sums = sums.assign(known=bool(rows["known"].all()))
    return sums.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _summed_packets(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum packets of the same link and size over ranks; the bandwidth is over their total time."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    rows["duration_ns"] = rows["size_bytes"] * rows["count"] / rows["gb_per_s"]
    keys = ["link", "size_bytes", "whole"]
    sums: pd.DataFrame = rows.groupby(keys, sort=True)[["count", "duration_ns"]].sum().reset_index()
    return sums.assign(gb_per_s=sums["size_bytes"] * sums["count"] / sums["duration_ns"])
