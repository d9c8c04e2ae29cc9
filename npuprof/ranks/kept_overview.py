"""An overview of all ranks as tables and plain facts, to be kept, and made of these again."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.job import JobFacts, told_apart
from npuprof.analysis.accounting import WAITS, Accounting
from npuprof.analysis.backlog import Backlog
from npuprof.analysis.rank_groups import RankGroup
from npuprof.ranks import overview as look
from npuprof.ranks.kept import keep, known, state_of
from npuprof.ranks.overview import Overview
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.together import every_table

_WHAT = "overview"
_FRAMES = ("steps", "communication", "caused", "accounted", "intervals", "by_part", "by_rank", "lanes")
_NOT_PLAIN = ("rows", "explore", "parts", "saves")


def overview(ranks: RankTables) -> Overview:
    """Return the overview of all ranks of a set, from the cache if their files have not changed."""
    state = state_of(ranks)
    if (kept := _read(ranks, state)) is not None:
        return kept
    made = look.overview(ranks)
    _keep(ranks, made, state)
    return made


def _keep(ranks: RankTables, made: Overview, state: str) -> None:
    if made.advice is None or not state:
        return
    about = made.advice.facts
    accounting = about.accounting
    by_part = about.by_part if isinstance(about, JobFacts) else accounting.by_part()
    caused = made.caused.to_frame("wait_ns")
    tables = (
        *(made.steps, made.communication, caused, accounting.steps, accounting.intervals),
        *(by_part[list(WAITS)], made.by_rank, made.lanes),
    )
    shown = enumerate(finding.rows for finding in made.advice.findings)
    evidence = {f"evidence {number}": rows for number, rows in shown if len(rows.columns)}
    facts = {
        "verdict": made.verdict,
        "parts": dict(made.parts),
        "slow": [*map(int, made.slow)],
        "window": made.lanes.attrs,
        "findings": [
            {
                field.name: _plain(getattr(finding, field.name))
                for field in fields(finding)
                if field.name not in _NOT_PLAIN
            }
            for finding in made.advice.findings
        ],
        "evidence": list(evidence),
        "groups": [
            [group.key, group.kind, [*map(int, group.ranks)], group.recorded, group.sends] for group in made.groups
        ],
        "absent": made.absent,
        "warnings": made.warnings,
        "together_ns": made.advice.together_ns,
        "unmeasured": dict(accounting.unmeasured),
        "backlog": None if made.advice.facts.backlog is None else asdict(made.advice.facts.backlog),
    }
    keep(ranks, _WHAT, state, dict(zip(_FRAMES, tables, strict=True)) | evidence, facts)


def _read(ranks: RankTables, state: str) -> Overview | None:
    kept = known(ranks, _WHAT, state, _FRAMES)
    if kept is None:
        return None
    (steps, communication, caused, accounted, intervals, by_part, by_rank, lanes), facts = kept
    lanes.attrs = facts["window"]
    shown = known(ranks, _WHAT, state, tuple(facts["evidence"]))
    if shown is None:
        return None
    rows = dict(zip(facts["evidence"], shown[0], strict=True))
    findings = [
        Finding(**fields_of, rows=rows.get(f"evidence {number}", pd.DataFrame()))
        for number, fields_of in enumerate(facts["findings"])
    ]
    info = ranks.runs.merged_info
    accounting = Accounting(accounted, intervals, facts["unmeasured"])
    about = Facts(every_table({}), info, accounting)
    about.sums = told_apart(about.sums, accounting, by_part)
    about.backlog = None if facts["backlog"] is None else Backlog(**facts["backlog"])
    groups = [
        RankGroup(key, kind, tuple(ranks), recorded, sends) for key, kind, ranks, recorded, sends in facts["groups"]
    ]
    return Overview(
        facts["verdict"],
        Advice(about, findings, together_ns=facts["together_ns"], scope="ranks"),
        facts["parts"],
        by_rank,
        lanes,
        facts["slow"],
        steps,
        groups,
        communication,
        caused["wait_ns"],
        ranks.runs.ranks,
        facts["absent"],
        facts["warnings"],
        info,
    )


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value
