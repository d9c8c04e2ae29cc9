"""The tables of all runs of a set, stacked, and the job and the clocks that the collectives in them tell of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import Spans, covering
from npuprof.analysis.rank_clocks import Lead, clocks
from npuprof.analysis.rank_replay import Job, job, without_group
from npuprof.analysis.rank_waits import collectives, waits
from npuprof.exports.chrome_trace import TracedRun
from npuprof.ranks.clocks import RunClock, run_clocks
from npuprof.ranks.memo import Memo
from npuprof.ranks.run_list import RunList
from npuprof.ranks.scan import Scan, Scans
from npuprof.ranks.together import RankOnClock, labelled, nothing, on_one_clock, together
from npuprof.sources.base import PartName
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.files.memory_limit import give_back
from npuprof.sources.global_ranks import groups_of, with_global_ranks
from npuprof.tables import NAMES

_SMALL: tuple[PartName, ...] = ("communication", "step_times")  # tables of which a rank has a small file


class _StackedTables(Mapping[str, pd.DataFrame]):
    def __init__(self, of: RankTables) -> None:
        self._of = of

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in NAMES:
            raise KeyError(name)
        return self._of.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __repr__(self) -> str:
        return f"<{len(self)} tables of all ranks: {', '.join(self)}>"


class RankTables:
    """The tables of all ranks: from small files where these suffice, else from whole runs.

    Attributes
    ----------
    runs
        The runs.
    scans
        Parts of unread runs, from their small files.
    memo
        What was computed from both.
    """

    def __init__(self, runs: RunList) -> None:
        self.runs = runs
        self.memo = Memo(lambda: runs.rows_read)
        self.scans = Scans(runs, self.memo)

    def table(self, name: str, *, align: bool = False) -> pd.DataFrame:
        """Stack a table of all readable runs; see :meth:`npuprof.ProfileSet.table`."""
        if name not in _SMALL or not self.runs.any_unread or (scanned := self.scans.of(name)) is None:
            self.runs.read()
            frames = self._of_read(name, range(len(self.runs.entries)), self.leads() if align else {})
            return stacked(frames) if frames else nothing(name)
        leads = self.leads() if align else {}
        of_read = self._of_read(name, set(self.runs.rows_read) - set(scanned.rows), leads)
        frames = [frame for frame in (self.labelled_scan(scanned, leads), *of_read) if len(frame)]
        return stacked(frames).sort_values("run", kind="stable", ignore_index=True) if frames else nothing(name)

    def unread(self, but: Collection[int] = ()) -> RankTables:
        """Return the tables as if only the small files of runs had been read, apart from the runs of some ranks."""
        rows = set(self.scans.rows_of("step_times")) & set(self.runs.rows_read)
        rows -= {row for rank, row in self.runs.newest.items() if rank in but}
        if not rows:
            return self
        name = " ".join(map(str, ["unread but", *sorted(but)]))
        return self.memo.of_state(name, lambda: RankTables(self.runs.unread(rows)))

    def by_name(self) -> Mapping[str, pd.DataFrame]:
        """Return the tables by name, each stacked when it is taken."""
        return _StackedTables(self)

    def labelled_scan(self, scanned: Scan, leads: Mapping[int, Lead]) -> pd.DataFrame:
        """Add rank and host to the rows from small files, for all runs at once."""
        entries = self.runs.entries
        runs = scanned.frame["run"].to_numpy(np.int64)
        ranks = pd.array([entry.info.rank for entry in entries], "Int64")
        columns: dict[str, Any] = {"rank": ranks[runs], "host": recoded(runs.astype(np.int32), self.runs.hosts)}
        if leads and "start_ns" in scanned.frame:
            late, rate, middle = (np.zeros(len(entries), kind) for kind in (np.int64, np.float64, np.int64))
            for row, lead in leads.items():
                late[row], rate[row], middle[row] = lead.offset_ns, lead.rate, lead.middle_ns
            start = scanned.frame["start_ns"].to_numpy(np.int64)
            columns["start_ns"] = start - late[runs] - np.rint((start - middle[runs]) * rate[runs]).astype(np.int64)
        return scanned.frame.assign(**columns)

    def _of_read(self, name: str, rows: Collection[int], leads: Mapping[int, Lead]) -> list[pd.DataFrame]:
        """Return a table for each of the given runs that were read, if it has rows."""
        profiles, hosts = self.runs.profiles, self.runs.hosts
        groups = groups_of(profiles.values())
        return [
            labelled(
                with_global_ranks(run.tables, {}, groups)[0][name],
                run=row,
                rank=self.runs.entries[row].info.rank,
                host=hosts[row],
                devices=run.info.devices,
                ahead=leads.get(row),
            )
            for row, run in profiles.items()
            if row in rows and len(run.tables[name])
        ]

    def operators(self) -> pd.DataFrame:
        """Return the columns of ``communication`` that answers about all ranks need, in rows of :meth:`table`.

        For unread ranks they come from small files; for a rank with several sessions, only the newest counts.
        """
        asks_small_files = self.runs.any_unread and not self.runs.profiles and self.scans.known("communication") is None
        scanned = self.scans.operators() if asks_small_files else None
        operators = self.table("communication") if scanned is None else self.labelled_scan(scanned, {})
        newest = list(self.runs.newest.values())
        known_rows: pd.DataFrame = operators[operators["run"].isin(newest).to_numpy(bool)].reset_index(drop=True)
        return known_rows if len(known_rows) < len(operators) else operators

    def job(self) -> Job | None:
        """Return the collectives of all ranks, ready for a replay; None if there are none."""
        return self.memo.of_state("job", self._job)

    def known_job(self) -> Job | None:
        """Return the collectives of all ranks if they were joined."""
        before: RankTables | None = self.memo.known("unread but")
        played: Job | None = self.memo.known("job")
        return before.known_job() if played is None and before is not None else played

    def _job(self) -> Job | None:
        operators = self.operators()
        has_groups = (operators["rank"].notna() & operators["group"].notna()).any()
        played = job(operators) if has_groups else None
        del operators
        give_back()
        return played

    def waits(self) -> pd.DataFrame:
        """Return the waits of all ranks; see :func:`npuprof.analysis.rank_waits.waits`."""
        played = self.job()
        if played is None:
            return waits(self.operators())
        lacking = without_group(played.rows)
        rows: pd.DataFrame = played.rows.drop(columns="own_ns")
        if lacking.any():
            rows = rows[~lacking].reset_index(drop=True)
            rows = rows.assign(op=pd.factorize(rows["op"])[0])
        return rows

    def clocks(self) -> list[RunClock]:
        """Return the clock of each run, without analyses of all ranks, which come last."""
        boots = self.runs.boots
        played = self.job()
        estimated = clocks(collectives(self.operators())) if played is None else played.clocks
        return run_clocks(self.runs.hosts[: len(boots)], boots, estimated, self.runs.newest)

    def leads(self) -> dict[int, Lead]:
        """Return the lead of each run's clock over the first rank's clock, by row, if known."""
        return {row: clock.lead for row, clock in enumerate(self.clocks()) if clock.lead is not None}

    def merged(self, *, apart: bool = False) -> dict[str, pd.DataFrame]:
        """Return the tables of all ranks as one run; see :func:`npuprof.ranks.together.together`."""
        leads = self.leads()
        return together([RankOnClock(run, leads.get(row)) for row, run in self.runs.read_all().items()], apart=apart)

    def traced_runs(self) -> list[TracedRun]:
        """Return every run on the first rank's clock, to write it."""
        leads = self.leads()
        return [on_one_clock(RankOnClock(run, leads.get(row))) for row, run in self.runs.read_all().items()]

    def kernel_spans(self) -> dict[int, Spans]:
        """Return the intervals of kernels for each rank that was read, on the common clock."""
        leads, profiles, spans = self.leads(), self.runs.profiles, {}
        for rank, row in self.runs.newest.items():
            if row in profiles and len(kernels := profiles[row].kernels):
                start = kernels["start_ns"] if row not in leads else leads[row].taken_off(kernels["start_ns"])
                spans[rank] = covering(start.to_numpy(np.int64), kernels["duration_ns"].to_numpy(np.int64))
        return spans
