"""A link between two ranks that is slower than links of the same kind, by the vendor's sums of transfers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.rules.slow_link import ACTION, LEAST_LINKS, NAME, SMALLEST
from npuprof.analysis.device_words import NPU
from npuprof.analysis.links import SLOW, beside_peers
from npuprof.analysis.traffic import VARIANTS
from npuprof.quantities import counted, duration

_NAMES = {"Transit Size(MB)": "size_mb", "Transit Time(ms)": "time_ms", "Transport Type": "transport"}
_COLUMNS = {*_NAMES, "name", "group", "src_global_rank", "dst_global_rank"}


def check(facts: JobFacts) -> Finding:
    """Fire if two ranks reach at most 0.7 of the rate of links of the same kind, for transfers of the same size."""
    if facts.job is None or facts.absent or facts.matrix is None or not set(facts.matrix.columns) >= _COLUMNS:
        return Finding(NAME, "cannot tell", collect="collect with --level 1 on all ranks")
    links = compared(facts.matrix)
    slow = links[links["rate"] < SLOW * links["usual"]]
    if not len(slow):
        return Finding(NAME, "clean")
    of_pair = slow.groupby(["low", "high"])["more_ms"].sum()
    low, high = of_pair.idxmax()
    of_link = slow[(slow["low"] == low) & (slow["high"] == high)]
    gain = _gain(facts, slow)
    cost = round(float(of_pair.max()) * 1e6) // facts.steps
    worst = of_link.loc[of_link["time_ms"].idxmax()]
    others = f", and {counted(len(of_pair) - 1, 'more slow link')}" if len(of_pair) > 1 else ""
    return Finding(
        NAME,
        "fires",
        title=f"The link between ranks {low} and {high} is slow",
        cost_ns=cost,
        gain_lo_ns=gain or 0,
        gain_hi_ns=cost if gain is None else gain,
        confidence="bounded" if gain is None else "measured",
        detail=f"{worst['name']} over {worst['transport'] or 'it'} at {worst['rate']:.1f} GB/s, where {worst['links']} "
        f"links have {worst['usual']:.1f} GB/s for these sizes; {duration(cost)} a step more{others}",
        action=ACTION,
        place=f"ranks {low} and {high}",
        table="communication",
        rows=facts.members[low].tables["communication"] if low in facts.members else pd.DataFrame(),
        rank=int(low) if low in facts.members else None,
    )


def compared(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return the rate of each link by group and operator, and the usual rate of links of the same kind, in GB/s."""
    known = matrix.rename(columns=_NAMES)
    for column in ("src_global_rank", "dst_global_rank", "size_mb", "time_ms"):
        known[column] = pd.to_numeric(known[column], errors="coerce")
    known = known[known[["src_global_rank", "dst_global_rank"]].notna().all(axis=1).to_numpy(bool)]
    known = known[~known["name"].astype(str).str.contains(VARIANTS, regex=True).to_numpy(bool)]
    known = known[((known["size_mb"] * 1e6 >= SMALLEST) & (known["time_ms"] > 0)).to_numpy(bool)]
    src, dst = (known[f"{side}_global_rank"].to_numpy(np.int64) for side in ("src", "dst"))
    known = known.assign(low=np.minimum(src, dst), high=np.maximum(src, dst))[src != dst]
    keys = ["transport", "name", "group", "low", "high"]
    sums = known.groupby(keys, observed=True, dropna=False)[["size_mb", "time_ms"]].sum().reset_index()
    sums["rate"] = sums["size_mb"] / sums["time_ms"]
    sums["size_bytes"] = sums["size_mb"] * 1e6
    sums["links"], sums["usual"] = beside_peers(sums, ["transport", "name"], sums["rate"])
    sums["more_ms"] = sums["time_ms"] - sums["size_mb"] / sums["usual"]
    enough: pd.DataFrame = sums[(sums["links"] > LEAST_LINKS).to_numpy(bool)].reset_index(drop=True)
    return enough


def _gain(facts: JobFacts, slow: pd.DataFrame) -> int | None:
    """Return the gain of a replay in which the groups of a slow link are faster, as at the usual rate."""
    return facts.gain_ns(moving_ns=_faster(facts, slow, facts.recorded).moving_ns)


def without(facts: JobFacts, times: Times) -> Times:
    """Return times with slow links as fast as other links of the same kind."""
    links = compared(pd.DataFrame(columns=[*_COLUMNS]) if facts.matrix is None else facts.matrix)
    return _faster(facts, links[links["rate"] < SLOW * links["usual"]], times)


def _faster(facts: JobFacts, slow: pd.DataFrame, times: Times) -> Times:
    if facts.job is None:
        return times
    rows, moving = facts.job.rows, times.moving_ns
    faster = (slow["rate"] / slow["usual"]).groupby(slow["group"].astype(str)).min()
    group = rows["group"].astype("category")
    here = group.isin(faster.index).to_numpy(bool)
    changed = moving.copy()
    ops = rows["op"].to_numpy(np.int64)[here]
    changed[ops] = moving[ops] * group[here].map(faster).to_numpy(np.float64)
    return Times(times.own_ns, changed)


RULE = JobRule(NAME, "links between ranks that are slower than others of their kind", check, without, frozenset({NPU}))
