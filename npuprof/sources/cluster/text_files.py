"""Read the text files of an analysis of a cluster: groups of ranks, steps, communication of every rank.

Sets of ranks are ``(0, 1, 2)`` in text and ``[0, 1, 2]`` in JSON. Every reader raises a SourceError for a file that
cannot be read.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.files.small_files import convert
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.decimals import US_TO_NS
from npuprof.sources.text.communication_entries import (
    SIZES,
    Bandwidth,
    GroupEntry,
    Members,
    Row,
    Times,
    Transfer,
    fields_of,
)
from npuprof.sources.text.communication_json import (
    BANDWIDTHS,
    TIMES,
    TOTAL,
    TRANSFERS,
    load_summary,
    mapping,
    note_lacking,
    objects,
    with_starts,
)
from npuprof.sources.text.csv_table import CsvTable
from npuprof.sources.text.vendor_sums import DURATIONS
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes

MAX_RANK = 1_000_000
_MAX_TEXT = 1 << 20
_SET = re.compile(r"[\s\d,()\[\]]+")
_NUMBER = re.compile(r"\d{1,7}")


def rank_of(value: Any) -> int | None:
    """Return a rank from a number or its text; None for anything else, such as -1 and 4294967295."""
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if _NUMBER.fullmatch(text) else None
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < MAX_RANK else None


def ranks_of(value: Any) -> list[int]:
    """Return the ranks in a list or in a text such as ``(0, 1)``; none for anything else."""
    if isinstance(value, str):
        if len(value) > _MAX_TEXT or not _SET.fullmatch(value):
            return []
        value = _NUMBER.findall(value)
    parts = value if isinstance(value, list) else [value]
    return [rank for part in parts if (rank := rank_of(part)) is not None]


def as_text(ranks: Iterable[int]) -> str | None:
    """Return a set of ranks as ``0, 1, 2``; None for an empty set."""
    return ", ".join(map(str, ranks)) or None


COLUMNS = ("kind", "ranks", "size", "group", "group_id", "parallel")
_NAMED = "comm_group_parallel_info"
NO_RANKS = "a group has no ranks"
"""Why a group is left out."""
_MAX_GROUPS = 1_000_000


def read_groups(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``communication_group.json``.

    Columns are kind (collective or p2p), ranks (``0, 1, 2``), size, group, group_id and parallel (tp, dp ...). Older
    files hold sets of ranks only. Newer files repeat these sets as named groups, which are read together with the sets
    that no named group has.
    """
    plain = load_summary(path)
    if not isinstance(plain, dict):
        raise SourceError(f"{path} is no JSON object of groups of ranks; is it another file?")
    listed = _items(plain.get(_NAMED, []), path, notes)
    named = [group for group in listed if isinstance(group, dict)]
    notes.ledger.read(path.name, len(listed) - len(named))
    notes.leave_out(path.name, "a named group is no JSON object", len(listed) - len(named))
    groups = [fields_of(group, GroupEntry, path.name, notes) for group in named]
    rows = [tuple(map(group.get, ("type", "rank_set", "group_name", "group_id", "pg_name"))) for group in groups]
    seen = Counter((row[0], as_text(ranks_of(row[1]))) for row in rows)
    for kind, sets in plain.items():
        if kind == _NAMED:
            continue
        for listed_ranks in _items(sets, path, notes):
            members = _members(listed_ranks, path, notes)
            key = (kind, as_text(ranks_of(members)))
            seen[key] -= 1
            if seen[key] < 0:
                rows.append((kind, members, None, None, None))
    frame = groups_table(rows)
    notes.ledger.read(path.name, len(rows))
    notes.ledger.keep(path.name, STATISTICS, len(frame))
    notes.leave_out(path.name, NO_RANKS, len(rows) - len(frame))
    return frame


def groups_table(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """Return the frame of rows of kind, ranks, group, group id and parallelism; groups without ranks are dropped."""
    kept = [
        (_text(kind), as_text(members), len(members), *map(_text, names))
        for kind, ranks, *names in rows
        if (members := ranks_of(ranks))
    ]
    return pd.DataFrame(kept, columns=list(COLUMNS))


def _items(value: Any, path: Path, notes: Notes) -> list[Any]:
    """Return the entries of a list of groups; a note counts other values."""
    left_out = 1 if not isinstance(value, list) else max(len(value) - _MAX_GROUPS, 0)
    notes.ledger.read(path.name, left_out)
    if not isinstance(value, list):
        notes.leave_out(path.name, "an entry is no list of groups", 1)
        return []
    notes.leave_out(path.name, f"a group after the first {_MAX_GROUPS:,}", left_out)
    return value[:_MAX_GROUPS]


def _members(listed: Any, path: Path, notes: Notes) -> list[int]:
    """Return the ranks of a group; a note counts unreadable ranks."""
    try:
        members: list[int] = convert(listed, Members)
    except ValueError:
        members = ranks_of(listed)
        if members and not isinstance(listed, str):
            notes.warning(path.name, "a group names a rank that cannot be read; its others are kept")
    return members


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


_KINDS = ("rank", "stage")
PLACES = {"dp_index": "DP Index", "pp_index": "PP Index", "tp_index": "TP Index"}


def read_steps(path: Path, notes: Notes) -> pd.DataFrame:
    """Read ``cluster_step_trace_time.csv`` as the table ``step_times`` of a cluster.

    Columns are `kind` (``rank`` or ``stage``), `rank` (in rows of a rank), `ranks` (in rows of a stage, ``0, 1, 2``)
    and, if the file has them, `dp_index`, `pp_index` and `tp_index`. The row of a stage holds the maxima over its
    ranks: never add it to their rows.
    """
    # steps may be missing, and a stage has no parallel indexes
    table = CsvTable(path, notes, ("Step", *PLACES.values()))
    if not {"Type", "Index"} <= set(table.names):
        raise SourceError(f"{path} has no columns 'Type' and 'Index' of ranks and stages; is it another file?")
    table.expect(("Step", "Type", "Index", *DURATIONS.values(), *PLACES.values()))
    columns: dict[str, Any] = {"step": table.whole("Step")} if "Step" in table.names else {}
    for name, header in DURATIONS.items():
        if header in table.names:
            columns[name] = table.scaled(header, US_TO_NS)
    identity = rank_columns(table.text("Type").to_pylist(), table.text("Index").to_pylist())
    columns |= identity
    for name, header in PLACES.items():
        if header in table.names:
            columns[name] = table.whole(header)
    is_known = np.isin(identity["kind"].astype(object), _KINDS) & ~(
        identity["rank"].isna() & pd.isna(identity["ranks"])
    )
    table.warn("a row has no readable rank or stage", int((~is_known).sum()))
    table.put("step_times")
    return tables.build("step_times", columns)


def rank_columns(types: Sequence[Any], indexes: Sequence[Any]) -> dict[str, Any]:
    """Return the columns `kind`, `rank` and `ranks` from the columns Type and Index."""
    kinds = [str(text).strip().lower() if text is not None else None for text in types]
    ranks = [rank_of(text) if kind == "rank" else None for kind, text in zip(kinds, indexes, strict=True)]
    stages = [as_text(ranks_of(text)) if kind != "rank" else None for kind, text in zip(kinds, indexes, strict=True)]
    return {
        "kind": recoded(np.arange(len(kinds)), kinds),
        "rank": pd.array(ranks, dtype="Int64"),
        "ranks": recoded(np.arange(len(stages)), stages),
    }


Frames = dict[str, pd.DataFrame]
RANKS = ("rank", "src_rank", "dst_rank")


def read_communication(path: Path, notes: Notes) -> Frames:
    """Read ``cluster_communication.json``: times and bandwidths of communication operators, one row per rank.

    Returns
    -------
    ``communication``: step, kind (p2p or collective), ranks of the group, name, group, rank, the times as in the file
    and an exact `start_ns`; ``communication_bandwidth``: the same for each link type (SDMA is the sum of the links
    within the node); ``communication_packets``: the same for each packet size. Totals over operators become
    frames whose names end in ``_total``, so that nothing is counted twice.
    """
    times, links, packets, lacking = [], [], [], 0
    for where, by_rank in _operators(path, notes):
        for rank, entry in objects(by_rank, path.name, notes):
            of_rank = {**where, "rank": rank_of(rank)}
            times.append({**of_rank, **fields_of(entry.get("Communication Time Info"), Times, path.name, notes)})
            bandwidths = mapping(entry.get("Communication Bandwidth Info"))
            lacking += not bandwidths
            for link, numbers in bandwidths.items():
                of_link = {**of_rank, "link": link}
                known = fields_of(numbers, Bandwidth, path.name, notes)
                packets += [{**of_link, **_packet(*packet)} for packet in (known.pop(SIZES, {})).items()]
                links.append({**of_link, **known})
    notes.ledger.read(path.name, len(times))
    notes.ledger.keep(path.name, STATISTICS, len(times))
    _note_unreadable_ranks(times, ("rank",), path, notes)
    if lacking:
        notes.warning(path.name, "an operator has no 'Communication Bandwidth Info'", lacking)
    note_lacking([row for row in times if row["name"] != TOTAL], TIMES, path, notes)
    note_lacking([row for row in links if row["name"] != TOTAL], BANDWIDTHS, path, notes)
    named = {"communication": times, "communication_bandwidth": links, "communication_packets": packets}
    return {key: frame for name, rows in named.items() for key, frame in split_totals(name, rows).items()}


def read_matrix(path: Path, notes: Notes) -> Frames:
    """Read ``cluster_communication_matrix.json``: transfers between pairs of ranks of the whole cluster.

    Returns
    -------
    ``communication_matrix``: step, kind, ranks, name, group, src_rank, dst_rank and the numbers as in the file, and its
    totals as ``communication_matrix_total``.
    """
    rows = []
    for where, pairs in _operators(path, notes):
        for pair, numbers in pairs.items():
            source, _, target = pair.partition("-")
            rows.append(
                {
                    **where,
                    "src_rank": rank_of(source),
                    "dst_rank": rank_of(target),
                    **fields_of(numbers, Transfer, path.name, notes),
                }
            )
    _note_unreadable_ranks(rows, ("src_rank", "dst_rank"), path, notes)
    notes.ledger.read(path.name, len(rows))
    notes.ledger.keep(path.name, STATISTICS, len(rows))
    note_lacking(rows, TRANSFERS, path, notes)
    return split_totals("communication_matrix", rows)


def _note_unreadable_ranks(rows: list[Row], keys: Sequence[str], path: Path, notes: Notes) -> None:
    if count := sum(any(row[key] is None for key in keys) for row in rows):
        notes.warning(path.name, "a rank cannot be read, and is absent", count)


def split_totals(name: str, rows: list[Row]) -> Frames:
    """Return a frame of the operators and, if there are totals, a frame of the totals."""
    totals = [row for row in rows if row["name"] == TOTAL]
    frames = {name: _frame([row for row in rows if row["name"] != TOTAL])}
    if totals:
        frames[f"{name}_total"] = _frame(totals).drop(columns="name")
    return frames


def _frame(rows: list[Row]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame(rows)
    for name in RANKS:
        if name in frame:
            frame[name] = frame[name].astype("Int64")
    return with_starts(frame, rows)


def _operators(path: Path, notes: Notes) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield step, kind, ranks, name and group of each operator with its entry; notes count entries of other types."""
    for kind, steps in objects(load_summary(path), path.name, notes):
        ranks = as_text(ranks_of(kind))
        for step, operators in objects(steps, path.name, notes):
            for key, operator in objects(operators, path.name, notes):
                name, _, group = key.partition("@")
                where = {
                    "step": step.removeprefix("step"),
                    "kind": "collective" if ranks else kind,
                    "ranks": ranks,
                    "name": name,
                    "group": group,
                }
                yield where, operator


def _packet(size: str, counted: tuple[float, float]) -> Row:
    """Return the packet size, count and time of an entry such as ``"2.06": [3, 0.5]``."""
    return {"Package Size(MB)": _number(size), "Count": counted[0], "Total Duration(ms)": counted[1]}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
