"""Links between two ranks that are slower than links of the same kind, by the vendor's sums of transfers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from npuprof.analysis.links import LEAST_LINKS, SLOW, SMALLEST, beside_peers
from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_suspects import Suspect
from npuprof.analysis.rank_variants import Less
from npuprof.analysis.traffic import VARIANTS

_NAMES = {"Transit Size(MB)": "size_mb", "Transit Time(ms)": "time_ms", "Transport Type": "transport"}
_COLUMNS = {*_NAMES, "name", "group", "src_global_rank", "dst_global_rank"}


def slow_links(matrix: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return the slow links by group and type of operator, the rate of each and the usual one, in GB/s.

    Parameters
    ----------
    matrix
        The vendor's sums of transfers between pairs of ranks, with the ranks of the whole job.

    Returns
    -------
    pandas.DataFrame or None
        ``low``, ``high``, ``transport``, ``name``, ``group``, ``rate``, ``usual``, ``links``, ``time_ms`` and
        ``more_ms``; None without a matrix.
    """
    if matrix is None or not set(matrix.columns) >= _COLUMNS:
        return None
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
    is_slow = (sums["links"] > LEAST_LINKS) & (sums["rate"] < SLOW * sums["usual"])
    return sums[is_slow.to_numpy(bool)].reset_index(drop=True)


def group_rates(slow: pd.DataFrame) -> dict[str, float]:
    """Return the least share of the usual rate that a slow link of each group has."""
    ratios = (slow["rate"] / slow["usual"]).groupby(slow["group"].astype(str)).min()
    return {str(group): float(ratio) for group, ratio in ratios.items()}


def link_suspects(played: Job, slow: pd.DataFrame, moving_ns: Floats) -> list[Suspect]:
    """Return the slow links; those in one group are one suspect, since all of the group wait for the slowest."""
    rows = played.rows
    number = {str(name): place for place, name in enumerate(rows["group"].cat.categories)}
    group = rows["group"].cat.codes.to_numpy(np.int64)
    suspects = []
    for links in _sharing_groups(slow):
        factor = np.ones(len(number))
        for name, of_group in group_rates(links).items():
            if name in number:
                factor[number[name]] = of_group
        here = factor[group] < 1
        ops, first = np.unique(rows["op"].to_numpy(np.int64)[here], return_index=True)
        less = moving_ns[ops] * (1 - factor[group[here][first]])
        ranks = sorted({*links["low"].tolist(), *links["high"].tolist()})
        per_step = round(float(links.groupby(["low", "high"])["more_ms"].sum().max()) * 1e6) // len(played.steps)
        suspects.append(Suspect("link", tuple(ranks), per_step, Less(ops=ops, moving_ns=less)))
    return suspects


def _sharing_groups(slow: pd.DataFrame) -> Iterable[pd.DataFrame]:
    """Yield the rows of links that share groups, directly or through others."""
    lowest: dict[str, str] = {}

    def root(name: str) -> str:
        while lowest.setdefault(name, name) != name:
            name = lowest[name]
        return name

    groups = slow["group"].astype(str)
    for _, of_link in groups.groupby([slow["low"], slow["high"]]):
        first = root(of_link.iloc[0])
        for name in of_link:
            lowest[root(name)] = first
    for _, links in slow.groupby(groups.map(root), sort=True):
        yield links
