"""Figures of all ranks together, as methods of a set of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from npuprof.errors import NpuprofError
from npuprof.info import Info
from npuprof.parameters import checked
from npuprof.profile_figures import Figures, with_fallback
from npuprof.profiles import Profile
from npuprof.quantities import formatted_ranks
from npuprof.ranks.entries import Entry, read_or_none
from npuprof.ranks.together import every_table
from npuprof.sources.base import Decoded, PartName
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.global_ranks import MATRIX, groups_of, with_global_ranks

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go

    from npuprof.analysis.intervals import Spans
    from npuprof.analysis.rank_clocks import Lead
    from npuprof.ranks.scan import Scan


@checked
class SetFigures(Figures):
    """The figures of a :class:`npuprof.ranks.profile_set.ProfileSet`.

    Steps and the communication matrix only need small files of unread runs; other figures read all runs.
    """

    root: Path

    if TYPE_CHECKING:

        @property
        def absent(self) -> list[int]:
            """The ranks that some file refers to, but that have no run."""

        _entries: list[Entry]

        def _pieces(self, part: PartName) -> dict[int, pd.DataFrame]: ...
        def _scan(self, part: PartName) -> Scan | None: ...
        def _read_small_files(self) -> None: ...
        def _labelled_scan(self, scanned: Scan, ahead: Mapping[int, Lead]) -> pd.DataFrame: ...
        def _newest(self) -> dict[int, int]: ...
        def waits(self) -> pd.DataFrame:
            """Return how long each rank waited in each collective."""

        def _clock_leads(self) -> dict[int, Lead]: ...

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
        """Draw one flame graph of all ranks: equal call paths are one frame, and their times add up over ranks.

        Parameters
        ----------
        weight, root, orientation, search, regex, max_nodes, longest_name
            See :func:`npuprof.flame.figure.flamegraph`.
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

    @with_fallback("all ranks on one clock")
    def plot_ranks(self, *, step: int | None = None) -> go.Figure:
        """Draw what each rank did over time, on a common clock, with the collectives in which ranks waited longest.

        Small files of ranks are enough; kernels are drawn for ranks that were read. See
        :func:`npuprof.figures.rank_timeline.plot_rank_timeline`.

        Parameters
        ----------
        step
            The step; by default the longest.

        Raises
        ------
        NpuprofError
            If the step does not exist.
        """
        from npuprof.figures.rank_timeline import plot_rank_timeline
        from npuprof.ranks.job import step_window

        rows = self.waits()
        if not rows["op"].duplicated().any():
            return plot_rank_timeline(rows.iloc[:0], self._merged_info(), window=(0, 0))
        visible_rows, window, label = step_window(rows, step)
        kernels = self._kernel_spans()
        return plot_rank_timeline(visible_rows, self._merged_info(), window=window, kernels=kernels, subtitle=label)

    def _kernel_spans(self) -> dict[int, Spans]:
        """Return the intervals of kernels for each rank that was read, on the common clock."""
        from npuprof.analysis.intervals import covering

        ahead, spans = self._clock_leads(), {}
        for rank, row in self._newest().items():
            run = self._entries[row].profile
            if run is not None and len(run.kernels):
                start = run.kernels["start_ns"] if row not in ahead else ahead[row].taken_off(run.kernels["start_ns"])
                spans[rank] = covering(start.to_numpy(np.int64), run.kernels["duration_ns"].to_numpy(np.int64))
        return spans

    @with_fallback("pipeline")
    def plot_pipeline(self, number: int = 0, *, step: int | None = None) -> go.Figure:
        """Draw the stages of a pipeline over a step, with the microbatch that each stage works on.

        See :func:`npuprof.figures.pipeline.plot_stages`; without a pipeline, the figure says so.

        Parameters
        ----------
        number
            The number of the pipeline, in the order of ranks, if replicas have several.
        step
            The step; by default the longest.

        Raises
        ------
        NpuprofError
            If the pipeline or step does not exist.
        """
        from npuprof.figures.pipeline import plot_stages

        work, label = self._pipeline(number, step)
        return plot_stages(work, self._merged_info(), subtitle=label)

    def _pipeline(self, number: int, step: int | None) -> tuple[pd.DataFrame, str]:
        from npuprof.analysis.rank_groups import pipelines, rank_groups
        from npuprof.analysis.rank_pipeline import pipeline_work
        from npuprof.ranks.job import recorded_groups, step_window

        rows = self.waits()
        groups = rank_groups(rows, recorded_groups(entry.known for entry in self._entries))
        stages = pipelines(groups, sorted(set(rows["rank"].tolist())))
        if not stages:
            return pipeline_work(rows, (), (), (0, 0)), ""
        if not 0 <= number < len(stages):
            raise NpuprofError(f"there is no pipeline {number}: there are {len(stages)}, from 0 on")
        visible_rows, window, label = step_window(rows, step)
        inside = [group.key for group in groups if group.kind == "tp" or len(group.ranks) == 1]
        words = f"pipeline {number} of {len(stages)} (ranks {formatted_ranks(stages[number])})"
        return pipeline_work(visible_rows, stages[number], inside, window), " · ".join(filter(None, (words, label)))

    def _merged_info(self) -> Info:
        facts = [entry.known for entry in self._entries]
        chips = {info.chip for info in facts}
        return Info(
            name=self.root.name,
            chip=chips.pop() if len(chips) == 1 else "",
            simulated=any(info.simulated for info in facts),
        )

    def _step_parts(self, *, newest: bool = False) -> pd.DataFrame:
        """Return the steps of every rank; for a rank without steps, the rows of the vendor's analysis of all ranks.

        An unread rank has the vendor's breakdown, if there is one. If that does not separate waiting from moving, the
        starts of collectives on all ranks do. With `newest`, older sessions of a rank are left out.
        """
        from npuprof.analysis.accounting import account
        from npuprof.analysis.rank_steps import with_waiting

        unread = any(entry.profile is None for entry in self._entries if not entry.is_cluster)
        self._read_small_files()
        small = self._scan("step_times") if unread else None
        rows: set[int] = set()
        latest = self._newest()
        older = {
            row
            for row, entry in enumerate(self._entries)
            if newest and entry.info.rank is not None and latest[entry.info.rank] != row
        }
        parts = []
        if small is not None and len(small.frame):
            times = self._labelled_scan(small, {})
            rows = {row for row in times["run"].unique().tolist() if self._entries[row].profile is None}
            of_unread = times[times["run"].isin(rows - older).to_numpy(bool)].reset_index(drop=True)
            parts.append(account(every_table({"step_times": of_unread})).by_part())
        for row, entry in enumerate(self._entries):
            if row not in rows | older and not entry.is_cluster and (run := read_or_none(entry)) is not None:
                parts.append(run.accounting.by_part())
        parts = [steps[steps["basis"] != "run"] for steps in parts]
        if self.cluster is not None:
            with_steps = {rank for steps in parts for rank in steps["rank"].dropna()}
            remainder = account(self.cluster.tables).by_part()
            parts.append(remainder[~remainder["rank"].isin(with_steps).to_numpy(bool)])
        steps: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        if not len(steps) or not steps["communication"].any():
            return steps
        waits = self.waits()
        # The arrival of absent members is unknown: time that looks like moving may be waiting for them.
        if self.absent or len(latest) < 2 or not set(latest) <= set(waits["rank"].tolist()):
            return steps
        return with_waiting(steps, waits)

    def _traffic(self) -> pd.DataFrame:
        """Return the traffic of every rank by global rank, or that of the vendor's analysis if no rank has any."""
        from npuprof.analysis.traffic import all_traffic, rank_traffic

        parts = [rank_traffic(*transfers) for transfers in self._transfers()]
        if not any(map(len, parts)) and self.cluster is not None:
            parts = [rank_traffic(self.cluster.tables, self.cluster.statistics)]
        return all_traffic(parts)

    def _transfers(self) -> list[tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]]:
        """Return tables and statistics of every rank with global ranks; unread ranks are one, of transfers."""
        small = {} if all(entry.profile for entry in self._entries) else self._pieces("communication_matrix")
        unread = {row: frame for row, frame in small.items() if self._entries[row].profile is None}
        runs: dict[int, Decoded | Profile] = {}
        for row, entry in enumerate(self._entries):
            if row in unread:
                runs[row] = Decoded({}, entry.info, statistics={MATRIX: unread[row]})
            elif not entry.is_cluster and (run := read_or_none(entry)) is not None:
                runs[row] = run
        groups = groups_of(runs.values())
        whole = [(run.tables, run.statistics) for row, run in runs.items() if row not in unread]
        if unread:
            whole.insert(0, (every_table({}), {MATRIX: stacked(list(unread.values()))}))
        return [with_global_ranks(tables, statistics, groups) for tables, statistics in whole]

    def _collectives(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        runs = list(self._rank_runs()) or ([self.cluster] if self.cluster is not None else [])
        if not runs:
            return pd.DataFrame(), pd.DataFrame()
        times, packets = zip(*(run._collectives() for run in runs), strict=True)
        return _summed_times(_non_empty(times)), _summed_packets(_non_empty(packets))

    def _rank_runs(self) -> Iterator[Profile]:
        """Yield the profile of each rank, without the vendor's analyses of all ranks."""
        return (run for run in self if run.info.source != CLUSTER_ANALYSIS)


def _non_empty(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [part for part in parts if len(part)] or [parts[0]]


def _summed_times(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum the times of collectives over ranks, longest first."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    sums: pd.DataFrame = rows.drop(columns="known").groupby(["group", "op_type"], sort=True).sum().reset_index()
    sums = sums.assign(known=bool(rows["known"].all()))
    ordered: pd.DataFrame = sums.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    return ordered


def _summed_packets(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Sum packets of the same link and size over ranks; the bandwidth is over their total time."""
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    rows["duration_ns"] = rows["size_bytes"] * rows["count"] / rows["gb_per_s"]
    keys = ["link", "size_bytes", "whole"]
    sums: pd.DataFrame = rows.groupby(keys, sort=True)[["count", "duration_ns"]].sum().reset_index()
    known_rows: pd.DataFrame = sums.assign(gb_per_s=sums["size_bytes"] * sums["count"] / sums["duration_ns"])
    return known_rows
