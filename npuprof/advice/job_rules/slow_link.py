"""Links between two ranks that are slower than links of the same kind, by the vendor's sums of transfers."""

from __future__ import annotations

import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.rules.slow_link import ACTION, NAME
from npuprof.advice.wording import named_parts
from npuprof.analysis.device_words import NPU
from npuprof.words.quantities import counted, duration


def check(facts: JobFacts) -> Finding:
    """Fire if two ranks reach at most 0.7 of the rate of links of the same kind, for transfers of the same size."""
    links = facts.slow_links
    if facts.job is None or links is None:
        return Finding(NAME, "cannot tell", collect="collect with --level 1 on all ranks")
    parts = facts.parts("link")
    named = {rank for part in parts for rank in part.suspect.ranks}
    slow = links[(links["low"].isin(named) & links["high"].isin(named)).to_numpy(bool)]
    if not len(slow):
        return Finding(NAME, "clean")
    of_pair = slow.groupby(["low", "high"])["more_ms"].sum().sort_values(ascending=False)
    pairs = [f"{low} and {high}" for low, high in of_pair.index]
    low, high = of_pair.index[0]
    of_link = slow[(slow["low"] == low) & (slow["high"] == high)]
    cost = round(float(of_pair.iloc[0]) * 1e6) // facts.steps
    worst = of_link.loc[of_link["time_ms"].idxmax()]
    rates = (
        f"{worst['name']} over {worst['transport'] or 'it'} runs at {worst['rate']:.1f} GB/s; {worst['links']} links "
        f"reach {worst['usual']:.1f} GB/s for these sizes: {duration(cost)} a step more"
    )
    return Finding(
        NAME,
        "fires",
        title=f"The link between ranks {pairs[0]} is slow"
        if len(pairs) == 1
        else f"{counted(len(pairs), 'link')} are slow: between ranks {'; '.join(pairs)}",
        cost_ns=cost,
        **facts.gain_of(parts),
        detail="; ".join(filter(None, (rates, _shared(of_pair, facts), named_parts(parts)))),
        action=ACTION,
        place="; ".join(f"ranks {pair}" for pair in pairs),
        table="communication",
        rows=facts.members[low].tables["communication"] if low in facts.members else pd.DataFrame(),
        rank=int(low) if low in facts.members else None,
    )


def _shared(of_pair: pd.Series[float], facts: JobFacts) -> str:
    """Return the rank or the host that all of several slow links have in common, which may be the cause instead."""
    if len(of_pair) < 2:
        return ""
    ends = [set(pair) for pair in of_pair.index]
    ranks = set.intersection(*ends)
    hosts = set.intersection(*({facts.hosts.get(rank) for rank in pair} for pair in ends)) - {None}
    what = [f"rank {rank}" for rank in ranks] or [f"host {host}" for host in hosts]
    return f"all of them end at {what[0]}, so its port or switch may be slow instead" if what else ""


def without(facts: JobFacts, times: Times) -> Times:
    """Return times with slow links as fast as other links of the same kind."""
    return times.without([part.suspect for part in facts.parts("link")])


RULE = JobRule(NAME, "links between ranks that are slower than others of their kind", check, without, frozenset({NPU}))
