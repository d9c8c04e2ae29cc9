"""The job that the ranks of a set ran: facts for rules, groups and steps, from small files if these suffice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.accounting import Accounting, account, joined
from npuprof.analysis.rank_transfers import moved_ns
from npuprof.arrays import Bools
from npuprof.errors import NoRankError, NoSuchRankError, NpuprofError
from npuprof.ranks.entries import Entry, read_or_none
from npuprof.ranks.given_ranks import how_to_give
from npuprof.ranks.kept import keep, known, state_of
from npuprof.ranks.pieces import PieceTask, read_pieces
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.together import every_table
from npuprof.ranks.transfers import absent_ranks, matrix
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.global_ranks import global_ranks_of
from npuprof.sources.raw.metadata.dictionaries import hash_of
from npuprof.tables.info import Info
from npuprof.words.quantities import formatted_ranks

if TYPE_CHECKING:
    from npuprof.advice.job import JobFacts
from npuprof.advice.job_member import Member

_CALLED = {"duration_ns": "step"}
FEW = 8
"""Maximum number of ranks that are all read completely for findings; in larger jobs, only some are."""


def recorded_groups(infos: Iterable[Info]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return kind and ranks of the groups named in the metadata of runs, by their key in ``communication``."""
    groups_by_key: dict[str, tuple[str, tuple[int, ...]]] = {}
    for info in infos:
        groups = info.metadata.get("parallel_group_info")
        for name, group in groups.items() if isinstance(groups, dict) else ():
            if isinstance(group, dict):
                kind, ranks = group.get("group_name"), tuple(sorted(global_ranks_of(group.get("global_ranks"))))
                key = str(name) if str(name).isdecimal() else str(hash_of(str(name)))
                # CANN records the hash of a name, torch the name itself.
                groups_by_key |= dict.fromkeys((key, str(name)), (kind if isinstance(kind, str) else "", ranks))
    return groups_by_key


def job_facts(ranks: RankTables, whole: Collection[int] = ()) -> JobFacts:
    """Return the facts for rules about all ranks."""
    from npuprof.advice.job import JobFacts

    played = ranks.job()
    communication = tables.empty("communication") if played is not None else ranks.operators()
    steps = ranks.scans.rows_of("step_times")
    entries = {rank: (row, ranks.runs.entries[row]) for rank, row in ranks.runs.newest.items()}
    hosts = ranks.runs.hosts_of_ranks
    small = {rank: steps[row] for rank, (row, entry) in entries.items() if row in steps and entry.profile is None}
    parts = _parts_of({rank: frame for rank, frame in small.items() if rank not in whole})
    nothing = every_table({})
    members = [
        replace(member, host=hosts.get(rank))
        for rank, (_, entry) in sorted(entries.items())
        if (member := _member(rank, entry, parts.get(rank), nothing)) is not None
    ]
    if not members:
        how = how_to_give(ranks.runs.root, [entry.run for entry in ranks.runs.entries])
        raise NoRankError("no run here has a rank, so they are no job", f"{how}; runs.at(row) is a run alone")
    members = _on_one_basis(members, {rank: entry for rank, (_, entry) in entries.items()})
    simulated = any(entry.known.simulated for _, entry in entries.values())
    absent = absent_ranks(ranks)
    return JobFacts(
        members,
        communication,
        absent,
        simulated=simulated,
        matrix=matrix(ranks),
        played=played,
        groups=recorded_groups(entry.known for _, entry in entries.values()),
        unranked=sum(entry.info.rank is None and not entry.is_cluster for entry in ranks.runs.entries),
        moved_ns=lambda: {
            rank: moved_ns(entry.profile.tables, entry.profile.statistics)
            for rank, (_, entry) in entries.items()
            if entry.profile is not None
        },
        waits=None if absent else ranks.waits(),
    )


def _on_one_basis(members: list[Member], entries: Mapping[int, Entry]) -> list[Member]:
    """Return the members with the job's outliers, which its longest rank decides."""
    from npuprof.advice.facts import Facts
    from npuprof.advice.findings import Advice

    basis = joined([member.accounting for member in members]).basis
    is_outlier = np.zeros(sum(len(member.accounting.steps) for member in members), bool)
    is_outlier[basis.outlier_rows] = True
    shared, first = [], 0
    for member in members:
        own = member.accounting
        outlier = is_outlier[first : first + len(own.steps)]
        first += len(own.steps)
        if (outlier[own.basis.rows] != own.basis.outlier).any():
            accounting = replace(own, outlier=outlier)
            run = entries[member.rank].profile
            advice = Advice(Facts(member.tables, member.advice.facts.info, accounting), [])
            advice = advice if run is None or not member.advice.findings else run._advised(accounting)
            member = replace(member, accounting=accounting, advice=advice)
        shared.append(member)
    return shared


def _parts_of(steps: Mapping[int, pd.DataFrame]) -> dict[int, tuple[pd.DataFrame, Accounting]]:
    """Return step times of ranks with their breakdown, for all ranks at once: one at a time is slow."""
    if not steps:
        return {}
    times = stacked([frame.assign(rank=pd.array([rank] * len(frame), "Int64")) for rank, frame in steps.items()])
    whole = account(every_table({"step_times": times.reset_index(drop=True)}))
    ranks = whole.steps["rank"].to_numpy(np.int64)
    order = np.argsort(ranks, kind="stable")
    of_row = ranks[order]
    of_interval = ranks[whole.intervals["row"].to_numpy(np.int64)]
    in_order = whole.intervals.iloc[np.argsort(of_interval, kind="stable")]
    of_interval.sort()
    by_rank = {}
    for rank, frame in steps.items():
        rows = order[slice(*np.searchsorted(of_row, (rank, rank + 1)))]
        intervals = in_order.iloc[slice(*np.searchsorted(of_interval, (rank, rank + 1)))]
        place = np.searchsorted(rows, intervals["row"].to_numpy(np.int64))
        accounting = Accounting(
            whole.steps.iloc[rows].reset_index(drop=True),
            intervals.assign(row=place).reset_index(drop=True),
            whole.unmeasured,
        )
        by_rank[rank] = frame, accounting
    return by_rank


def _member(
    rank: int, entry: Entry, parts: tuple[pd.DataFrame, Accounting] | None, nothing: Mapping[str, pd.DataFrame]
) -> Member | None:
    from npuprof.advice.facts import Facts
    from npuprof.advice.findings import Advice
    from npuprof.advice.job_member import Member

    run = entry.profile if entry.profile is not None or parts is not None else read_or_none(entry)
    if run is not None:
        return Member(rank, run.tables, run.accounting, run.advice())
    if entry.problem or parts is None:
        return None
    steps, accounting = parts
    frames = {**nothing, "step_times": steps}
    return Member(rank, frames, accounting, Advice(Facts(frames, entry.info, accounting), []))


def explaining(facts: JobFacts) -> set[int]:
    """Return the ranks that may explain most: for each stage, the rank with the most time outside collectives."""
    own_ns = facts.own_ns()
    every = sorted(facts.members)
    if len(every) <= FEW:
        return set(every)
    stages = [[rank for rank in stage if rank in own_ns.index and rank in facts.members] for stage in facts.stages()]
    slowest = [max(stage, key=lambda rank: own_ns[rank]) for stage in stages if stage][:FEW]
    return set(slowest or every[:1])


def waits_of_all(ranks: RankTables) -> pd.DataFrame:
    """Return the waits of all ranks, with those for absent ranks; see :meth:`npuprof.ProfileSet.waits`."""
    return ranks.memo.of_state("waits", lambda: _waits_of_all(ranks))


def _waits_of_all(ranks: RankTables) -> pd.DataFrame:
    from npuprof.analysis.rank_absent import with_absent
    from npuprof.analysis.rank_peers import waited_for, with_late_peers
    from npuprof.analysis.rank_waits import counts

    groups = recorded_groups(entry.known for entry in ranks.runs.entries)
    rows, played = ranks.waits(), ranks.job()
    whole = with_absent(rows, groups, None if played is None else counts(rows, played.clocks))
    newest, profiles = ranks.runs.newest, ranks.runs.profiles
    nothing: pd.DataFrame = pd.DataFrame()

    def late(rank: int) -> pd.DataFrame:
        run = profiles.get(newest.get(rank, -1))
        return nothing if run is None else waited_for(run.tables, rank)

    return with_late_peers(whole, late)


def absent_last(ranks: RankTables) -> Bools | None:
    """Return the rows of the job in operators whose last member is not here; None without a job."""
    from npuprof.analysis.rank_replay import without_group

    played = ranks.job()
    if played is None:
        return None
    rows = waits_of_all(ranks)
    named = rows["last_rank"].notna() & ~rows["last_rank"].isin(played.ranks)
    absent = np.zeros(len(played.rows), bool)
    absent[~without_group(played.rows)] = named.fillna(value=False).to_numpy(bool)
    return absent


def waits_caused(facts: JobFacts, absent: Bools | None = None) -> pd.Series[int]:
    """Return the time per step that all ranks together wait for the own time of each rank that is named, by rank.

    See :func:`npuprof.analysis.rank_blame.certain_blame`.
    """
    from npuprof.analysis.rank_blame import certain_blame

    if facts.job is None:
        return pd.Series(dtype="int64")
    absent = absent if absent is not None and len(absent) == len(facts.job.rows) else None
    roots = certain_blame(facts.job, absent).dropna(subset="root_rank")
    caused: Any = roots.groupby(roots["root_rank"].astype("int64"))["wait_ns"].sum() // facts.steps
    return caused


def step_window(rows: pd.DataFrame, step: int | None) -> tuple[pd.DataFrame, tuple[int, int], str]:
    """Return the collectives of a step, its window on the common clock, and a name of the step."""
    ends = rows["start_ns"] + rows["wait_ns"] + rows["moving_ns"]
    is_known = rows["step"].notna()
    if not is_known.any():
        if step is not None:
            raise NpuprofError("the collectives of these ranks belong to no step")
        return rows, (int(rows["start_ns"].min()), int(ends.max())), ""
    bounds = pd.DataFrame({"step": rows["step"], "start": rows["start_ns"], "end": ends})[is_known.to_numpy(bool)]
    spans = bounds.groupby("step").agg({"start": "min", "end": "max"}).astype("int64").sort_values("start")
    spans["start"] = spans["end"].shift(fill_value=int(spans["start"].iloc[0])).clip(upper=spans["start"])
    if step is None:
        step = int((spans["end"] - spans["start"]).idxmax())
        label = f"step {step}" + (f", the longest of {len(spans)}" if len(spans) > 1 else "")
    elif step not in spans.index:
        raise NpuprofError(f"there is no step {step!r}: there are {', '.join(map(str, spans.index[:20]))}")
    else:
        label = f"step {step}"
    of_step = rows[(rows["step"] == step).fillna(value=False).to_numpy(bool)]
    return of_step, (int(spans["start"][step]), int(spans["end"][step])), label


def step_parts(ranks: RankTables, *, newest: bool = False) -> pd.DataFrame:
    """Return the steps of every rank; for a rank without steps, the rows of the vendor's analysis of all ranks.

    An unread rank has the vendor's breakdown, if there is one. If that does not separate waiting from moving, the
    starts of collectives on all ranks do. With `newest`, older sessions of a rank are left out.
    """
    from npuprof.analysis.rank_steps import with_waiting

    runs = ranks.runs
    any_unread = runs.any_unread
    ranks.scans.read_ahead()
    small = ranks.scans.of("step_times") if any_unread else None
    latest = runs.newest
    done = {
        row
        for row, entry in enumerate(runs.entries)
        if newest and entry.info.rank is not None and latest[entry.info.rank] != row
    }
    parts = []
    if small is not None and len(small.frame):
        times = ranks.labelled_scan(small, {})
        rows = {row for row in times["run"].unique().tolist() if runs.entries[row].profile is None}
        of_unread = times[times["run"].isin(rows - done).to_numpy(bool)].reset_index(drop=True)
        parts.append(account(every_table({"step_times": of_unread})).by_part())
        done |= rows
    for row, entry in enumerate(runs.entries):
        if row not in done and not entry.is_cluster and (run := read_or_none(entry)) is not None:
            parts.append(run.accounting.by_part())
    parts = [steps[steps["basis"] != "run"] for steps in parts]
    if (cluster := runs.cluster) is not None:
        with_steps = {rank for steps in parts for rank in steps["rank"].dropna()}
        of_cluster = cluster.accounting.by_part()
        parts.append(of_cluster[~of_cluster["rank"].isin(with_steps).to_numpy(bool)])
    steps: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if not len(steps) or not steps["communication"].any():
        return steps
    waits = ranks.waits()
    # The arrival of absent members is unknown: time that looks like moving may be waiting for them.
    if absent_ranks(ranks) or len(latest) < 2 or not set(latest) <= set(waits["rank"].tolist()):
        return steps
    return with_waiting(steps, waits)


def of_basis(steps: pd.DataFrame, facts: JobFacts) -> pd.DataFrame:
    """Return the rows of :func:`npuprof.analysis.rank_steps.ranks_by_step` that figures of a job rest on."""
    every = facts.accounting.steps
    place = every.groupby(["rank", "device_id"], dropna=False).cumcount()
    counted = every.assign(step=every["step"].astype("Int64").fillna(place)).iloc[facts.basis.rows]
    keys = [pd.MultiIndex.from_frame(frame[["rank", "step"]].astype("int64")) for frame in (steps, counted)]
    chosen: pd.DataFrame = steps[keys[0].isin(keys[1])]
    return chosen if len(chosen) else steps


def pipeline(ranks: RankTables, number: int, step: int | None) -> tuple[pd.DataFrame, str]:
    """Return the work of the stages of a pipeline in a step, and a name of both."""
    from npuprof.analysis.rank_groups import pipelines, rank_groups
    from npuprof.analysis.rank_pipeline import pipeline_work

    rows = ranks.waits()
    groups = rank_groups(rows, recorded_groups(entry.known for entry in ranks.runs.entries))
    stages = pipelines(groups, sorted(set(rows["rank"].tolist())))
    if not stages:
        return pipeline_work(rows, (), (), (0, 0)), ""
    if not 0 <= number < len(stages):
        raise NpuprofError(f"there is no pipeline {number}: there are {len(stages)}, from 0 on")
    visible_rows, window, label = step_window(rows, step)
    inside = [group.key for group in groups if group.kind == "tp" or len(group.ranks) == 1]
    words = f"pipeline {number} of {len(stages)} (ranks {formatted_ranks(stages[number])})"
    return pipeline_work(visible_rows, stages[number], inside, window), " · ".join(filter(None, (words, label)))


def stages_of_ranks(ranks: RankTables) -> dict[int, int]:
    """Return the pipeline stage of each rank; empty without a pipeline."""
    from npuprof.analysis.rank_groups import pipelines, rank_groups

    rows = ranks.waits()
    groups = rank_groups(rows, recorded_groups(entry.known for entry in ranks.runs.entries))
    stages = pipelines(groups, sorted(set(rows["rank"].tolist())))
    return {rank: stage for members in stages for stage, rank in enumerate(members)}


def blamed_ranks(ranks: RankTables) -> pd.DataFrame:
    """Return the ranks that cause the waits of all ranks, from the cache if no file has changed."""
    from npuprof.analysis.rank_blame import blame, certain_blame

    state = state_of(ranks)
    if (kept := known(ranks, "blame", state, ("roots",))) is not None:
        return kept[0][0]
    played = ranks.job()
    roots = blame(ranks.operators()) if played is None else certain_blame(played, absent_last(ranks))
    keep(ranks, "blame", state, {"roots": roots}, {})
    return roots


def side_by_side(ranks: RankTables, chosen: list[int]) -> pd.DataFrame:
    """Return times of ranks side by side; see :meth:`npuprof.ProfileSet.side_by_side`."""
    from npuprof.analysis.rank_steps import ranks_by_step

    newest = ranks.runs.newest
    for rank in chosen:
        if rank not in newest:
            raise NoSuchRankError(f"rank {rank} has no run here: the ranks are {formatted_ranks(ranks.runs.ranks)}")
    facts = job_facts(ranks)
    every = of_basis(ranks_by_step(step_parts(ranks, newest=True)), facts)
    steps = every.set_index("rank").drop(columns="step")
    means = steps.groupby(level=0).mean().reindex(chosen).dropna(how="all")
    rows = [(_CALLED.get(name, name.removesuffix("_ns")), "", means[name]) for name in means if means[name].any()]
    for part, sums in (
        ("outside collectives", facts.own_ns()),
        ("waits it causes", waits_caused(facts, absent_last(ranks))),
    ):
        if len(sums):
            rows.append((part, "", sums.reindex(chosen).fillna(0)))
    times = {rank: kernel_times(ranks.runs.entries[newest[rank]], facts.steps) for rank in chosen}
    wide = pd.DataFrame({rank: of_rank for rank, of_rank in times.items() if len(of_rank)}).fillna(0)
    order = wide.max(axis=1).sort_values(ascending=False, kind="stable").index
    rows += [("kernels", str(kind), wide.loc[kind]) for kind in order]
    cells = [
        {"part": part, "name": name, "rank": int(rank), "time_ns": round(time), "median_ns": round(row.median())}
        for part, name, row in rows
        for rank, time in row.items()
    ]
    frame: pd.DataFrame = pd.DataFrame(cells, columns=["part", "name", "rank", "time_ns", "median_ns"])
    return frame.assign(delta_ns=frame["time_ns"] - frame["median_ns"])


def kernel_times(entry: Entry, steps: int) -> pd.Series[float]:
    """Return the time of a run's kernels per step, by type; an unread run's is read from its kernel file."""
    if entry.profile is not None:
        kernels = entry.profile.kernels
    else:
        task = PieceTask(entry.run.source.name, entry.run.path.absolute(), {"kernels": ()})
        kernels = read_pieces([task])[0]["kernels"].frame
    return kernels.groupby("op_type", observed=True)["duration_ns"].sum() / max(1, steps)


def kernels_beside(ranks: RankTables, rank: int) -> pd.DataFrame:
    """Return the kernels of a rank and a peer side by side; see :meth:`npuprof.ProfileSet.blame`."""
    run_of_rank, facts = ranks.runs.of_rank(rank), job_facts(ranks)
    if facts.job is None:
        raise NpuprofError("no two ranks have collectives in common: load the ranks of one job, collected at level 1")
    alike = next((role.ranks for role in facts.roles if rank in role.ranks), ())
    others = [other for other in [*alike, *facts.members] if other != rank]
    peer = next((other for other in dict.fromkeys(others) if len(ranks.runs.of_rank(other).kernels)), None)
    if peer is None or not len(run_of_rank.kernels):
        raise NpuprofError(f"rank {rank}, or every other rank, has no kernels: collect them on two ranks at least")
    keys = ["op_type", "line"]
    sides = [
        run.by("op_type", "line").set_index(keys)["total_ns"] // facts.steps
        for run in (run_of_rank, ranks.runs.of_rank(peer))
    ]
    beside = pd.concat(sides, axis=1, keys=["time_ns", "peer_ns"]).fillna(0).astype("int64").reset_index()
    beside = beside.assign(delta_ns=beside["time_ns"] - beside["peer_ns"])
    beside.insert(0, "root_rank", rank)
    beside.insert(1, "peer", peer)
    return beside.sort_values("delta_ns", ascending=False, ignore_index=True, key=abs)
