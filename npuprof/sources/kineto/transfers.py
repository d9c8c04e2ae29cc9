"""What each rank sends to which, from the arguments of collectives: sends, and all-to-alls.

Which links the other operations use is the library's choice, and in no trace. Nor is when data moved: an operator's
time is that of waiting too, so transfers have sizes and no times.

Source: sources/RESULTS.md section 8.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

_NUMBER = re.compile(r"\d{1,15}")
_TO_ALL = re.compile(r"all_?to_?all", re.IGNORECASE)
_SEND = "send"


def sent_bytes(
    communication: pd.DataFrame, groups: Mapping[str, Mapping[str, Any]], rank: int | None
) -> pd.DataFrame | None:
    """Return the bytes that this rank sent to each other one, in the form of the vendor's ``communication_matrix``.

    Returns
    -------
    A row per operation, group and pair of ranks, which are numbered within the group; None if nothing is known.
    """
    members = {name: group["global_ranks"] for name, group in groups.items()}
    columns = ("group", "op_type", "dst_rank", "size_bytes", "input_splits")
    rows = communication[list(columns)].astype(object)
    sums: Counter[tuple[str, str, int, int]] = Counter()
    counts: Counter[tuple[str, str, int, int]] = Counter()
    for group, kind, target, size, splits in rows.itertuples(index=False):
        of_group = members.get(group, [])
        if pd.isna(size) or rank not in of_group:
            continue
        for number, moved in _parts(str(kind), target, int(size), splits, of_group):
            key = str(kind), str(group), of_group.index(rank), number
            sums[key] += moved
            counts[key] += 1
    if not sums:
        return None
    names, keys, sources, targets = zip(*sums, strict=True)
    return pd.DataFrame(
        {
            "name": names,
            "group": keys,
            "src_rank": sources,
            "dst_rank": targets,
            "Transit Size(MB)": np.array([*sums.values()], np.float64) / 1e6,
            "Transit Time(ms)": np.nan,
            "Transport Type": "",
            "Count": [counts[key] for key in sums],
        }
    )


def _parts(kind: str, target: Any, size: int, splits: Any, members: Sequence[int]) -> list[tuple[int, int]]:
    """Return the receivers of an operator's input, as numbers in its group, and the bytes for each."""
    if kind == _SEND:
        return [] if pd.isna(target) or target not in members else [(members.index(target), size)]
    if not _TO_ALL.search(kind):
        return []
    text = "" if pd.isna(splits) else str(splits)
    weights = [int(number) for number in _NUMBER.findall(text)] or [1] * len(members)
    if len(weights) != len(members) or "..." in text or not sum(weights):
        return []
    return [(number, size * weight // sum(weights)) for number, weight in enumerate(weights) if weight]
