"""The budget of a step: each nanosecond of it by part and cause, and what to record to know the causes that are not."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.host_causes import LABELS
from npuprof.advice.to_collect import is_unknown
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, NOT_RECORDED
from npuprof.analysis.host_accounting import HOST
from npuprof.analysis.idle_causes import UNEXPLAINED
from npuprof.words.quantities import share

UNKNOWN_PART = "unknown"
"""The part of a budget that is idle time without a known cause."""

_ORDER = (
    "computing",
    "waiting",
    "moving",
    "communication",
    "copy",
    HOST,
    "idle",
    BETWEEN_STEPS,
    NOT_RECORDED,
    UNKNOWN_PART,
)
_WITH_CAUSES = (HOST, "idle", BETWEEN_STEPS, UNKNOWN_PART)
_WORTH = 0.01  # of the step: causes of less time are named together
_FIRST = 0.1  # of the step: from here on, unknown idle time is the first line of a report


def budget(facts: Facts) -> pd.DataFrame:
    """Return where a mean step goes, and a usual one.

    Returns
    -------
    pandas.DataFrame
        ``part`` (``computing``, ``waiting``, ``moving``, ``communication``, ``copy``, ``host``, ``idle``,
        ``between_steps``, ``not_recorded``, and last ``unknown``: idle time without a known cause), ``cause`` (of idle
        time, and what the host did), ``time_ns``, ``usual_ns`` and ``collect``: what to record to know the cause. The
        times add up to ``facts.step_ns``, those of the usual step to ``facts.usual_ns``, where no finding costs more
        than its rows.
    """
    sums: dict[tuple[str, str], list[int]] = {}
    for column, causes in enumerate((facts.mean_causes, facts.usual_causes)):
        for part, cause, time in causes:
            name = UNKNOWN_PART if is_unknown(part, cause) else "idle" if part in IDLE else part
            key = (name, cause if name in _WITH_CAUSES else "")
            sums.setdefault(key, [0, 0])[column] += time
    rows = sorted(sums.items(), key=lambda item: (_ORDER.index(item[0][0]), -item[1][0]))
    frame: pd.DataFrame = pd.DataFrame(
        [
            (part, cause, *times, facts.what_tells(cause) if part == UNKNOWN_PART else "")
            for (part, cause), times in rows
        ],
        columns=["part", "cause", "time_ns", "usual_ns", "collect"],
    )
    return frame.astype({"time_ns": "int64", "usual_ns": "int64"})


def unknown_ns(table: pd.DataFrame) -> int:
    """Return the idle time of a budget whose cause is not known."""
    return int(table["time_ns"][(table["part"] == UNKNOWN_PART).to_numpy(bool)].sum())


def unexplained_host_ns(table: pd.DataFrame) -> int:
    """Return the host time without a known cause in a budget without a device."""
    unexplained = (table["part"] == HOST) & (table["cause"] == UNEXPLAINED)
    return int(table["time_ns"][unexplained.to_numpy(bool)].sum())


def first_line(table: pd.DataFrame, step_ns: int) -> str:
    """Return how much of a step is idle without a known cause, and what to record; empty if that is little."""
    unknown = table[(table["part"] == UNKNOWN_PART).to_numpy(bool)]
    if unknown_ns(table) < max(1, _FIRST * step_ns):
        return ""
    return (
        f"{share(unknown_ns(table), step_ns)} idle, cause not recorded: {'; '.join(dict.fromkeys(unknown['collect']))}"
    )


def idle_text(table: pd.DataFrame, step_ns: int) -> str:
    """Return idle time by cause in one sentence: ``idle 28 %: forward dispatch 9 %, ...``; empty without causes."""
    parts = ("idle", BETWEEN_STEPS, UNKNOWN_PART)
    idle = table[table["part"].isin(parts).to_numpy(bool)]
    if not len(idle) or (idle["part"] == UNKNOWN_PART).all():
        return ""
    named, rest = [], 0
    for cause, time in _by_cause(idle):
        if time >= _WORTH * step_ns:
            named.append(f"{LABELS.get(cause, cause)} {share(time, step_ns)}")
        else:
            rest += time
    named += [f"other causes {share(rest, step_ns)}"] if rest else []
    unknown = idle[(idle["part"] == UNKNOWN_PART).to_numpy(bool)]
    if len(unknown):
        remedies = "" if first_line(table, step_ns) else f" ({'; '.join(dict.fromkeys(unknown['collect']))})"
        named.append(f"unknown {share(unknown_ns(table), step_ns)}{remedies}")
    between = "and between steps " * bool((idle["part"] == BETWEEN_STEPS).any())
    return f"idle {between}{share(int(idle['time_ns'].sum()), step_ns)}: {', '.join(named)}"


def _by_cause(idle: pd.DataFrame) -> Iterable[tuple[str, int]]:
    known = idle[(idle["part"] != UNKNOWN_PART).to_numpy(bool)]
    sums = known.groupby("cause", sort=False)["time_ns"].sum().sort_values(ascending=False, kind="stable")
    return zip(sums.index.tolist(), sums.tolist(), strict=True)
