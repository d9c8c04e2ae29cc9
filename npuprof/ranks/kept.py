"""Results about all ranks, cached until a file that they depend on changes.

Only results from small files are cached: results that need whole runs are computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache as once
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.files import cache
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.scan import Scan, keys_of, note_row
from npuprof.sources.base import PartName

_PARTS: tuple[PartName, ...] = ("communication", "step_times", "communication_matrix")
_ROW = "row of the table"


def state_of(ranks: RankTables) -> str:
    """Return a key that changes with the files of all ranks and with npuprof; empty if answers are not kept."""
    entries = ranks.runs.entries
    if any(entry.outcome is not None or entry.selection is not None or entry.run.unpacked for entry in entries):
        return ""
    described = [(str(entry.run.path), entry.run.source.name, repr(entry.info.to_dict())) for entry in entries]
    keys = [sorted(of_part.items()) for of_part in keys_of(entries, _PARTS).values()]
    if not any(keys):
        return ""
    plain = json.dumps([_made_by(), described, ranks.runs.boots, keys], default=repr)
    return sha256(plain.encode("utf-8", "surrogateescape")).hexdigest()


@once
def _made_by() -> tuple[str, ...]:
    """Return the state of npuprof's files: another version may compute other results."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return tuple(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def known(
    ranks: RankTables, subject: str, state: str, names: tuple[str, ...] = ()
) -> tuple[list[pd.DataFrame], Any] | None:
    """Return the cached answer for the same files, or None, and restore the notes of reading them."""
    if not state:
        return None
    frames, facts = [], None
    for name in ("", *names):
        kept = cache.load(_cache_name(ranks, subject, name))
        if kept is None or kept[1].get("state") != state:
            return None
        frames.append(kept[0])
        facts = facts or kept[1]
    try:
        for part, (rows, notes) in (facts or {})["notes"].items():
            ranks.scans.noted[part] = Scan(
                pd.DataFrame(), rows, {int(row): list(map(note_row, some)) for row, some in notes}
            )
    except (KeyError, TypeError, ValueError):  # not in our format
        return None
    return [frame.set_index(_ROW).rename_axis(None) for frame in frames[1:]], (facts or {})["facts"]


def keep(
    ranks: RankTables, subject: str, state: str, frames: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]
) -> None:
    """Keep an answer, unless a file has changed since `state`, or one of them is read anew each time."""
    if not state or state_of(ranks) != state:
        return
    noted = ranks.scans.noted.items()
    notes = {part: (scanned.rows, list(scanned.notes.items())) for part, scanned in noted}
    for name, frame in frames.items():
        cache.save(_cache_name(ranks, subject, name), frame.rename_axis(_ROW).reset_index(), {"state": state})
    cache.save(
        _cache_name(ranks, subject, ""), pd.DataFrame({_ROW: []}), {"state": state, "notes": notes, "facts": facts}
    )


def _cache_name(ranks: RankTables, subject: str, name: str) -> str:
    return " ".join(filter(None, (name, subject, "of", str(ranks.runs.root.absolute()))))
