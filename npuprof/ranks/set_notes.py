"""The notes of a set: findings of searching and reading its runs, and their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_high

import numpy as np
import pandas as pd

from npuprof.analysis.rank_absent import NO_RUN, RAISED
from npuprof.analysis.rank_replay import Job
from npuprof.ranks.entries import Entry
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.scan import by_run
from npuprof.ranks.transfers import absent_ranks
from npuprof.sources.base import PartName
from npuprof.sources.columns.shares import AS_PERCENT, MOST_OF_A_FRACTION, SHARES
from npuprof.tables import matching
from npuprof.tables.notes import Notes
from npuprof.words.quantities import formatted_ranks

MAX_SHOWN = 40
_IN_ORDER: tuple[PartName, ...] = ("communication", "step_times", "communication_matrix", "kernels")
_UNLIKE = 10  # times larger shares are usual where a rank's may have another unit


def notes_of(ranks: RankTables) -> pd.DataFrame:
    """Return the notes of a set; see :attr:`npuprof.ProfileSet.notes`."""
    runs, notes = ranks.runs, Notes()
    for problem in runs.problems:
        notes.warning(runs.root.name, problem)
    _note_raised(runs.entries, notes)
    absent = absent_ranks(ranks)
    for rank in absent[:MAX_SHOWN]:
        notes.warning(f"rank {rank}", f"{NO_RUN} of this rank")
    if absent[MAX_SHOWN:]:
        notes.warning("ranks", f"{NO_RUN} of ranks {formatted_ranks(absent[MAX_SHOWN:])} either")
    hosts = {host for host in runs.hosts if host is not None}
    if len(hosts) > 1:
        notes.info(
            "clocks",
            f"the runs are of {len(hosts)} hosts, whose clocks may differ; clocks() estimates by how much, and "
            "table(name, align=True) takes it off",
        )
    _note_scans(ranks, notes)
    for which, problem in runs.failed.items():
        notes.error(f"rank {which}" if isinstance(which, int) else which, problem)
    _note_sessions(runs.entries, notes)
    steps = _known_steps(ranks)
    _note_other_steps(steps, _joined_as(ranks) if len({*steps.values()}) > 1 else None, notes)
    _note_other_units(runs.entries, notes)
    return notes.to_frame()


def _note_raised(entries: Sequence[Entry], notes: Notes) -> None:
    """Note the ranks that ended with an exception, and its message."""
    raised = [(entry.info.rank, entry.info.failed) for entry in entries if entry.info.failed]
    for rank, failed in raised[:MAX_SHOWN]:
        notes.warning("a process without a rank" if rank is None else f"rank {rank}", f"{RAISED} {failed}")
    if raised[MAX_SHOWN:]:
        notes.warning("ranks", f"{RAISED} in other processes too", len(raised) - MAX_SHOWN)


def _note_scans(ranks: RankTables, notes: Notes) -> None:
    """Add the notes of reading parts of runs, and note runs that have no file of a part."""
    runs, scans = ranks.runs, ranks.scans
    for part, scanned in ((part, scans.noted[part]) for part in _IN_ORDER if part in scans.noted):
        has_part = set(scanned.rows)
        lacking = [row for row, entry in enumerate(runs.entries) if row not in has_part and not entry.is_cluster]
        for row in lacking[:MAX_SHOWN]:
            missing = f"there is no file of {part}, which other ranks have; at({row}) reads what there is"
            notes.warning(runs.where(row), missing)
        for row, records in scanned.notes.items():
            for severity, source, message, count in records:
                add = {"info": notes.info, "warning": notes.warning}.get(severity, notes.error)
                add(runs.where(row), f"{source}: {message}", count)


def _known_steps(ranks: RankTables) -> dict[int, frozenset[int]]:
    """Return the step numbers of ranks whose steps were read."""
    scanned = ranks.scans.known("step_times")
    frames = {} if scanned is None else by_run(scanned)
    known = {}
    for rank, row in ranks.runs.newest.items():
        profile = ranks.runs.entries[row].profile
        steps = frames.get(row) if profile is None else profile.accounting.steps
        if steps is not None and len(numbers := steps["step"].dropna()):
            known[rank] = frozenset(numbers.astype("int64").tolist())
    return known


def _joined_as(ranks: RankTables) -> dict[int, int] | None:
    """Return the shift of each rank's step numbers that joins its collectives; None if they were not joined."""
    played: Job | None = ranks.known_job()
    if played is None:
        return None
    first, recorded = (rows.groupby("rank")["step"].min() for rows in (played.rows, ranks.operators()))
    shifts = (first - recorded.reindex(first.index)).dropna()
    return dict(zip(shifts.index.to_numpy(np.int64).tolist(), shifts.to_numpy(np.int64).tolist(), strict=True))


def _note_sessions(entries: Sequence[Entry], notes: Notes) -> None:
    """Note ranks with several runs: how many, whether other ranks have as many, and which runs are copies."""
    of_ranks = Counter(entry.info.rank for entry in entries if entry.info.rank is not None)
    if max(of_ranks.values(), default=0) < 2:
        return
    shown = "the newest is runs[rank], tables of the set hold all; their column `run` and at(row) separate them"
    by_count = {count: [rank for rank in of_ranks if of_ranks[rank] == count] for count in sorted({*of_ranks.values()})}
    if len(by_count) == 1:
        notes.info("ranks", f"each rank has {max(by_count)} runs: {shown}", len(of_ranks))
    else:
        counts = "; ".join(f"{count} of rank {formatted_ranks(ranks)}" for count, ranks in by_count.items())
        several = sum(len(ranks) for count, ranks in by_count.items() if count > 1)
        notes.warning("ranks", f"ranks have different numbers of runs, so that sums differ: {counts}; {shown}", several)
    starts = Counter((entry.info.rank, entry.info.started_ns) for entry in entries)
    for (rank, start_ns), count in starts.items():
        if rank is not None and start_ns is not None and count > 1:
            twice = "runs of this rank began at the same nanosecond: they are copies of one, which the set counts again"
            notes.warning(f"rank {rank}", twice, count)


def _note_other_steps(steps: Mapping[int, frozenset[int]], added: Mapping[int, int] | None, notes: Notes) -> None:
    """Note ranks that number their steps unlike most ranks.

    Parameters
    ----------
    added
        What was added to the numbers of each rank's steps to join its collectives with those of the others; None if
        they were not joined.
    """
    by_numbers: dict[frozenset[int], list[int]] = {}
    for rank, numbers in steps.items():
        by_numbers.setdefault(numbers, []).append(rank)
    usual, *others = sorted(by_numbers, key=lambda numbers: -len(by_numbers[numbers])) or [frozenset[int]()]
    for numbers in others:
        ranks = by_numbers[numbers]
        has = "rank {} has" if len(ranks) == 1 else "ranks {} have"
        shifts = None if added is None else {added.get(rank, 0) for rank in ranks}
        notes.warning(
            "steps",
            f"{has.format(formatted_ranks(ranks))} the steps {formatted_ranks(numbers)}, other ranks "
            f"{formatted_ranks(usual)}: {_how_joined(min(numbers), shifts)}",
            len(ranks),
        )


def _how_joined(first: int, shifts: set[int] | None) -> str:
    """Return how the collectives of ranks are joined with others, by the shift of their first step."""
    if shifts is None:
        return "once waits() or advice() have joined their collectives, this note says as which steps"
    if len(shifts) == 1 and shifts != {0}:
        return (
            f"by the ends of collectives step {first} here is step {first + min(shifts)} there, and is joined with it"
        )
    return "collectives are joined by step number, so waits and clocks are wrong if equal numbers are not the same step"


def _note_other_units(entries: Sequence[Entry], notes: Notes) -> None:
    """Warn of ranks whose hit rates or shares of ports may have another unit than other ranks."""
    largest: dict[str, dict[int, float]] = {}
    in_percent = _ranks_in_percent(entries)
    for entry in entries:
        if entry.profile is None or entry.known.rank is None:
            continue
        counters = entry.profile.tables["counters"]
        shares = counters[matching(counters["counter"], lambda name: name.endswith(SHARES))]
        for name, value in shares.groupby("counter", observed=True)["value"].max().items():
            if value > 0:
                largest.setdefault(str(name), {})[entry.known.rank] = float(value)
    for name, of_ranks in largest.items():
        usual = median_high(of_ranks.values())
        small = sorted(rank for rank, value in of_ranks.items() if value < MOST_OF_A_FRACTION < usual / _UNLIKE)
        if small:
            shown = max(of_ranks[rank] for rank in small)
            notes.warning(
                f"rank {formatted_ranks(small)}",
                f"{name} reaches {shown:.3g} %, and {usual:.3g} % on the other ranks: if their files differ in the "
                "unit, it is 100 times too low",
                len(small),
            )
        most = 100 * MOST_OF_A_FRACTION
        large = sorted(rank for rank, value in of_ranks.items() if rank not in in_percent and value <= most)
        if in_percent and large:
            notes.warning(
                f"rank {formatted_ranks(large)}",
                f"{name} is read from fractions here, and on rank {formatted_ranks(in_percent)} from percent, as the "
                "values of each file suggest: if all ranks write percent, it is 100 times too high here",
                len(large),
            )


def _ranks_in_percent(entries: Sequence[Entry]) -> list[int]:
    """Return the ranks whose files have shares in percent, against what files of their format usually have."""
    read = [(entry.known.rank, entry.profile) for entry in entries if entry.profile is not None]
    return sorted(
        rank
        for rank, profile in read
        if rank is not None and bool(profile.notes["message"].str.contains(AS_PERCENT, regex=False).any())
    )
