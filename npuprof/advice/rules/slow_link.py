"""A link between two ranks that moves data slower than other links of the same kind."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.accounting import moves_data
from npuprof.analysis.device_words import NPU
from npuprof.analysis.links import LEAST_LINKS, SLOW, SMALLEST
from npuprof.words.quantities import counted, duration

NAME = "slow_link"
_LEAST_TASKS = 5
ACTION = "Check its ports (`hccn_tool -i DEVICE -stat -g`) and where the ranks are placed."


def check(facts: Facts) -> Finding:
    """Fire if a link has at least five transfers, at less than 0.7 of the usual rate of links of the same kind."""
    tasks = facts.tables["communication_tasks"]
    if not tasks["task_type"].notna().any() and len(facts.tables["communication"]):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives", instead="load all ranks"))
    moves = transfers(tasks)
    if not len(moves):
        return Finding(NAME, "clean")
    links = moves.groupby(["transport", "src", "dst"])[["duration_ns", "usual_ns"]].agg(["sum", "size"])
    enough = links[links[("usual_ns", "size")] >= _LEAST_TASKS]
    rate = enough[("usual_ns", "sum")] / enough[("duration_ns", "sum")]
    slow = rate[rate < SLOW].sort_values()
    if not len(slow):
        return Finding(NAME, "clean")
    rows = moves[pd.MultiIndex.from_frame(moves[["transport", "src", "dst"]]).isin(slow.index)]
    counts = facts.starts_in_steps("communication_tasks")[rows.index.to_numpy(np.int64)]
    more = round(float((rows["duration_ns"] - rows["usual_ns"])[counts].sum())) // facts.steps
    cost = max(0, min(more, facts.per_step(["moving"])))
    (transport, src, dst), worst = slow.index[0], float(slow.iloc[0])
    of_link = rows[(rows[["transport", "src", "dst"]] == [transport, src, dst]).all(axis=1)]
    usual = of_link["size_bytes"].sum() / of_link["usual_ns"].sum()
    place = f"{_end_kind(facts)} {src} to {dst}"
    return Finding(
        NAME,
        "fires",
        title=f"The link from {place} is slow",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"{counted(len(of_link), 'transfer')} over {transport or 'it'} at {usual * worst:.1f} GB/s, {worst:.0%} "
        f"of the {usual:.1f} GB/s of other links for these sizes: {duration(more)} a step more"
        f"{'; ' + counted(len(slow) - 1, 'more slow link') if len(slow) > 1 else ''}",
        action=ACTION,
        place=place,
        table="communication_tasks",
        rows=tasks.loc[rows.index],
        parts=("moving",),
    )


def transfers(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the transfers between ranks that can be compared: ``src``, ``dst`` and their usual duration.

    Usual is the median over links of each link's median rate, for the same transport and sizes within a factor of two.
    """
    moves = tasks[moves_data(tasks)]
    moves = moves[(moves[["src_rank", "dst_rank", "size_bytes"]].notna().all(axis=1)).to_numpy(bool)]
    moves = moves[((moves["size_bytes"] >= SMALLEST) & (moves["duration_ns"] > 0)).to_numpy(bool)]
    transfers = pd.DataFrame(
        {
            "transport": moves["transport"].astype(object).fillna("").astype(str),
            "src": moves["src_rank"].astype("int64"),
            "dst": moves["dst_rank"].astype("int64"),
            "size_bytes": moves["size_bytes"].astype("int64"),
            "duration_ns": moves["duration_ns"].astype("int64"),
        }
    )
    transfers = transfers[transfers["src"] != transfers["dst"]]
    transfers["bucket"] = np.log2(transfers["size_bytes"].to_numpy(np.float64)).astype(np.int64)
    transfers["rate"] = transfers["size_bytes"] / transfers["duration_ns"]
    of_link = transfers.groupby(["transport", "bucket", "src", "dst"])["rate"].median()
    usual = of_link.groupby(["transport", "bucket"]).agg(["median", "size"])
    usual = usual[usual["size"] >= LEAST_LINKS]["median"].rename("usual")
    joined_rows: pd.DataFrame = transfers.join(usual, on=["transport", "bucket"], how="inner")
    return joined_rows.assign(usual_ns=joined_rows["size_bytes"] / joined_rows["usual"])


def _end_kind(facts: Facts) -> str:
    """Return the kind of the end numbers: ranks if this run's number within the group equals its rank, else members."""
    numbers = set(facts.tables["communication_tasks"]["src_rank"].dropna().unique().tolist())
    return "rank" if numbers == {facts.info.rank} else "member"


RULE = Rule(NAME, "links that move data slower than others of their kind", check, frozenset({NPU}))
