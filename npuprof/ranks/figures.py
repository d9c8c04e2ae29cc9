"""Figures of all ranks together, as methods of a set of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof import tables
from npuprof.info import Info
from npuprof.profile_figures import Figures, with_fallback
from npuprof.profiles import Profile
from npuprof.ranks.entries import Entry, read_or_none
from npuprof.sources.base import Decoded, PartName
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.global_ranks import MATRIX, groups_of, with_global_ranks

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go

    from npuprof.ranks.scan import Scan


class SetFigures(Figures):
    """The figures of a :class:`npuprof.ranks.profile_set.ProfileSet`.

    Steps and the communication matrix are drawn of the small files of runs that were not read; for others all are read.
    """

    root: Path

    if TYPE_CHECKING:
        _entries: list[Entry]

        def _pieces(self, part: PartName) -> dict[int, pd.DataFrame]: ...
        def _scan(self, part: PartName) -> Scan | None: ...
        def _labelled_scan(self, scanned: Scan, ahead: Mapping[int, int]) -> pd.DataFrame: ...

        @property
        def cluster(self) -> Profile | None:
            """The vendor's analysis of all ranks."""

        def __iter__(self) -> Iterator[Profile]: ...

    @with_fallback("flame graph")
    def flamegraph(
        self,
        *,
        weight: Literal["host", "device", "count"] = "host",
        root: str | Sequence[str] = (),
        orientation: Literal["icicle", "flame"] = "icicle",
        search: str = "",
        regex: bool = False,
        max_nodes: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw one flame graph of all ranks: equal call paths are one frame, and their times add up over the ranks.

        Parameters
        ----------
        weight, root, orientation, search, regex, max_nodes, longest_name
            As for :func:`npuprof.flame.figure.flamegraph`.
        """
        from npuprof.flame.figure import flamegraph

        return flamegraph(
            self._merged_tables(apart=True),
            self._merged_info(),
            weight=weight,
            root=root,
            orientation=orientation,
            search=search,
            regex=regex,
            max_nodes=max_nodes,
            longest_name=longest_name,
        )

    def _merged_info(self) -> Info:
        facts = [entry.known for entry in self._entries]
        chips = {info.chip for info in facts}
        return Info(
            name=self.root.name,
            chip=chips.pop() if len(chips) == 1 else "",
            simulated=any(info.simulated for info in facts),
        )

    def _step_parts(self) -> pd.DataFrame:
        """Return the steps of every rank; for a rank without steps, the rows of the vendor's analysis of all ranks.

        A rank that was not read has the vendor's breakdown, if it has one, which does not tell waiting from moving.
        """
        from npuprof.analysis.accounting import account

        unread = any(entry.profile is None for entry in self._entries if not entry.is_cluster)
        small = self._scan("step_times") if unread else None
        rows: set[int] = set()
        parts = []
        if small is not None and len(small.frame):
            times = self._labelled_scan(small, {})
            rows = {row for row in times["run"].unique().tolist() if self._entries[row].profile is None}
            of_unread = times[times["run"].isin(rows).to_numpy(bool)].reset_index(drop=True)
            parts.append(account(every_table({"step_times": of_unread})).by_part())
        for row, entry in enumerate(self._entries):
            if row not in rows and not entry.is_cluster and (run := read_or_none(entry)) is not None:
                parts.append(run.accounting.by_part())
        parts = [steps[steps["basis"] != "run"] for steps in parts]
        if self.cluster is not None:
            with_steps = {rank for steps in parts for rank in steps["rank"].dropna()}
            rest = account(self.cluster.tables).by_part()
            parts.append(rest[~rest["rank"].isin(with_steps).to_numpy(bool)])
        steps_of_all: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        return steps_of_all

    def _traffic(self) -> pd.DataFrame:
        """Return the traffic of every rank by global rank; without any, that of the vendor's analysis of all ranks."""
        from npuprof.analysis.traffic import all_traffic, rank_traffic

        small = {} if all(entry.profile for entry in self._entries) else self._pieces("communication_matrix")
        runs: list[Decoded | Profile] = []
        for row, entry in enumerate(self._entries):
            if entry.profile is None and row in small:
                runs.append(Decoded(every_table({}), entry.info, statistics={MATRIX: small[row]}))
            elif not entry.is_cluster and (run := read_or_none(entry)) is not None:
                runs.append(run)
        groups = groups_of(runs)
        parts = [rank_traffic(*with_global_ranks(run.tables, run.statistics, groups)) for run in runs]
        if not any(map(len, parts)) and self.cluster is not None:
            parts = [rank_traffic(self.cluster.tables, self.cluster.statistics)]
        return all_traffic(parts)

    def _collectives(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        runs = list(self._rank_runs()) or ([self.cluster] if self.cluster is not None else [])
        if not runs:
            return pd.DataFrame(), pd.DataFrame()
        times, packets = zip(*(run._collectives() for run in runs), strict=True)
        return _summed_times(_non_empty(times)), _summed_packets(_non_empty(packets))

    def _rank_runs(self) -> Iterator[Profile]:
        """Return the profile of each rank, without the vendor's analyses of all ranks."""
        return (run for run in self if run.info.source != CLUSTER_ANALYSIS)


def every_table(some: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return every table: those given, the others empty."""
    return {name: some[name] if name in some else tables.empty(name) for name in tables.NAMES}


def _non_empty(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [part for part in parts if len(part)] or [parts[0]]


def _summed_times(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum the times of collectives over the ranks, the longest first."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    sums: pd.DataFrame = rows.drop(columns="known").groupby(["group", "op_type"], sort=True).sum().reset_index()
    sums = sums.assign(known=bool(rows["known"].all()))
    ordered: pd.DataFrame = sums.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    return ordered


def _summed_packets(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum packets of one link and size over the ranks; the bandwidth is over the time of all of them."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    rows["duration_ns"] = rows["size_bytes"] * rows["count"] / rows["gb_per_s"]
    keys = ["link", "size_bytes", "whole"]
    sums: pd.DataFrame = rows.groupby(keys, sort=True)[["count", "duration_ns"]].sum().reset_index()
    known: pd.DataFrame = sums.assign(gb_per_s=sums["size_bytes"] * sums["count"] / sums["duration_ns"])
    return known
