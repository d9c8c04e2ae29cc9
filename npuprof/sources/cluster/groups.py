"""Read ``communication_group.json``: which ranks talk to each other, and for which kind of parallelism.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.cluster.ranks import as_text, ranks_of
from npuprof.sources.text.communication_json import load_summary, mapping

COLUMNS = ("kind", "ranks", "size", "group", "group_id", "parallel")
_NAMED = "comm_group_parallel_info"
NO_RANKS = "a group has no ranks"
"""Why a group is left out."""
_MAX_GROUPS = 1_000_000


def read_groups(path: Path, notes: Notes) -> pd.DataFrame:
    """Read the groups: kind (collective or p2p), ranks (as ``0, 1, 2``), size, group, group_id, parallel (tp, dp ...).

    The old form has sets of ranks alone. The new form has them too, and the same groups again with their names: those
    rows are taken, and of the sets only what no named group has.

    Raises
    ------
    SourceError
        If the file cannot be read or is no JSON.
    """
    plain = mapping(load_summary(path))
    listed = _items(plain.get(_NAMED))
    named = [one for one in listed if isinstance(one, dict)]
    notes.ledger.read(path.name, len(listed) - len(named))
    notes.leave_out(path.name, "a named group is no JSON object", len(listed) - len(named))
    rows = [
        (_text(one.get("type")), one.get("rank_set"), one.get("group_name"), one.get("group_id"), one.get("pg_name"))
        for one in named
    ]
    seen = Counter((row[0], as_text(ranks_of(row[1]))) for row in rows)
    for kind, sets in plain.items():
        if kind == _NAMED:
            continue
        for one in _items(sets):
            key = (kind, as_text(ranks_of(one)))
            seen[key] -= 1
            if seen[key] < 0:
                rows.append((kind, one, None, None, None))
    frame = groups_table(rows)
    notes.ledger.read(path.name, len(rows))
    notes.ledger.keep(path.name, STATISTICS, len(frame))
    notes.leave_out(path.name, NO_RANKS, len(rows) - len(frame))
    return frame


def groups_table(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """Return the frame of rows of kind, set of ranks, group, group id and parallelism; without those of no ranks."""
    kept = [
        (_text(kind), as_text(members), len(members), *map(_text, names))
        for kind, ranks, *names in rows
        if (members := ranks_of(ranks))
    ]
    frame: pd.DataFrame = pd.DataFrame(kept, columns=list(COLUMNS))
    return frame


def _items(value: Any) -> list[Any]:
    return value[:_MAX_GROUPS] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None
