"""Read ``cluster_communication.json`` and ``cluster_communication_matrix.json``: communication of every rank.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.cluster.ranks import as_text, rank_of, ranks_of
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

Frames = dict[str, pd.DataFrame]
Row = dict[str, Any]

RANKS = ("rank", "src_rank", "dst_rank")
_SIZES = "Size Distribution"


def read_communication(path: Path, notes: Notes) -> Frames:
    """Read times and bandwidths of communication operators, a row a rank.

    Returns
    -------
    ``communication``: step, kind (p2p or collective), ranks (of the group, where told), name, group, rank, the times
    as they came and `start_ns`, which keeps every digit of the start;
    ``communication_bandwidth``: the same for each link type (SDMA is the sum of those on the node);
    ``communication_packets``: the same for each size of packets. The file's totals over operators are frames of their
    own, whose names end in ``_total``: with them everything would count twice.

    Raises
    ------
    SourceError
        If the file cannot be read or is no JSON.
    """
    times, links, packets, read = [], [], [], []
    for where, by_rank in _operators(path, notes):
        for rank, told in objects(by_rank, path.name, notes):
            of_rank = {**where, "rank": rank_of(rank)}
            read.append(told)
            times.append({**of_rank, **_plain(told.get("Communication Time Info"))})
            for link, numbers in mapping(told.get("Communication Bandwidth Info")).items():
                links.append({**of_rank, "link": link, **_plain(numbers)})
                for size, counted in mapping(mapping(numbers).get(_SIZES)).items():
                    packets.append({**of_rank, "link": link, **_packet(size, counted)})
    notes.ledger.read(path.name, len(times))
    notes.ledger.keep(path.name, STATISTICS, len(times))
    if lacking := sum(not mapping(told.get("Communication Bandwidth Info")) for told in read):
        notes.warning(path.name, "an operator has no 'Communication Bandwidth Info'", lacking)
    note_lacking([row for row in times if row["name"] != TOTAL], TIMES, path, notes)
    note_lacking([row for row in links if row["name"] != TOTAL], BANDWIDTHS, path, notes)
    named = {"communication": times, "communication_bandwidth": links, "communication_packets": packets}
    return {key: frame for name, rows in named.items() for key, frame in split_totals(name, rows).items()}


def read_matrix(path: Path, notes: Notes) -> Frames:
    """Read what went between each two ranks, whose numbers are those of the whole cluster.

    Returns
    -------
    ``communication_matrix``: step, kind, ranks, name, group, src_rank, dst_rank and the numbers as they came; the
    file's totals as ``communication_matrix_total``.

    Raises
    ------
    SourceError
        If the file cannot be read or is no JSON.
    """
    rows = []
    for where, pairs in _operators(path, notes):
        for pair, numbers in pairs.items():
            source, _, target = pair.partition("-")
            rows.append({**where, "src_rank": rank_of(source), "dst_rank": rank_of(target), **_plain(numbers)})
    notes.ledger.read(path.name, len(rows))
    notes.ledger.keep(path.name, STATISTICS, len(rows))
    note_lacking(rows, TRANSFERS, path, notes)
    return split_totals("communication_matrix", rows)


def split_totals(name: str, rows: list[Row]) -> Frames:
    """Make a frame of the rows of operators and, where there are any, one of the totals over them."""
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
    """Iterate over operators with their step, kind, ranks, name and group; what has another shape is noted."""
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


def _plain(numbers: Any) -> Row:
    return {key: value for key, value in mapping(numbers).items() if not isinstance(value, dict | list)}


def _packet(size: str, counted: Any) -> Row:
    """Return a size of packets with their count and time, which are a pair: ``"2.06": [3, 0.5]``."""
    count, duration = (*counted, None, None)[:2] if isinstance(counted, list) else (None, None)
    return {"Package Size(MB)": _number(size), "Count": count, "Total Duration(ms)": duration}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
