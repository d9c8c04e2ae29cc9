"""Read ``communication.json`` and ``communication_matrix.json`` as statistics.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.columns.builders import of_one_kind
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.files.gzip_file import read_whole
from npuprof.sources.text.communication_entries import (
    SIZES,
    START,
    Bandwidth,
    Times,
    Transfer,
    fields_of,
)
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes
from npuprof.words.texts import repaired_json

TOTAL = "Total Op Info"
_EARLIEST_MOMENT_US = 1e14  # in 1973; durations are shorter
MAX_BYTES = 512 << 20
_WHERE = ("step", "kind", "name", "group")
TIMES = tuple(Times.__annotations__)
BANDWIDTHS = tuple(key for key in Bandwidth.__annotations__ if key != SIZES)
TRANSFERS = tuple(key for key in Transfer.__annotations__ if key != "Op Name")
_LFS = b"version https://git-lfs"


def read_communication(path: Path, notes: Notes) -> dict[str, pd.DataFrame]:
    """Read times and bandwidths of communication operators; the ledger counts operators.

    Returns
    -------
    ``communication``: step, kind (p2p or collective), name, group, the times as in the file and an exact `start_ns`;
    ``communication_bandwidth``: step, kind, name, group, link type and its numbers. SDMA sums the link types within the
    node. The file's totals are left out, so that nothing is counted twice.
    """
    times, bandwidths = [], []
    totals = lacking = 0
    for where, operator in _operators(path, notes):
        if where["name"] == TOTAL:
            totals += 1
            continue
        times.append({**where, **fields_of(operator.get("Communication Time Info"), Times, path.name, notes)})
        links = mapping(operator.get("Communication Bandwidth Info"))
        lacking += not links
        for link, numbers in links.items():
            flat = fields_of(numbers, Bandwidth, path.name, notes)
            flat.pop(SIZES, None)
            bandwidths.append({**where, "link": link, **flat})
    _account(path, notes, len(times), totals)
    if lacking:
        notes.warning(path.name, "an operator has no 'Communication Bandwidth Info'", lacking)
    note_lacking(times, TIMES, path, notes)
    note_lacking(bandwidths, BANDWIDTHS, path, notes)
    return {"communication": _frame(times), "communication_bandwidth": _frame(bandwidths)}


def read_communication_matrix(path: Path, notes: Notes) -> pd.DataFrame:
    """Read transfers between pairs of ranks; the ledger counts pairs.

    Columns are step, kind, name, group, src_rank, dst_rank and the numbers as in the file.
    """
    rows, unreadable = [], 0
    for where, pairs in _operators(path, notes):
        for pair, numbers in objects(pairs, path.name, notes):
            source, _, target = pair.partition("-")
            unreadable += not (source.isdecimal() and target.isdecimal())
            rows.append(
                {**where, "src_rank": source, "dst_rank": target, **fields_of(numbers, Transfer, path.name, notes)}
            )
    _account(path, notes, len(rows))
    if unreadable:
        notes.warning(path.name, "a pair of ranks cannot be read", unreadable)
    note_lacking(rows, TRANSFERS, path, notes)
    return _frame(rows)


def _account(path: Path, notes: Notes, kept: int, used: int = 0) -> None:
    notes.ledger.read(path.name, kept + used)
    notes.ledger.keep(path.name, STATISTICS, kept)
    notes.ledger.use(path.name, used)


def note_lacking(rows: list[dict[str, Any]], keys: Sequence[str], path: Path, notes: Notes) -> None:
    """Warn of entries that lack a key which the vendor always writes."""
    lacking = {key for row in rows for key in keys if row.get(key) is None}
    if lacking:
        count = sum(not lacking.isdisjoint(key for key in keys if row.get(key) is None) for row in rows)
        notes.warning(path.name, f"an entry has no {' or '.join(key for key in keys if key in lacking)}", count)


def with_starts(frame: pd.DataFrame, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Add the column `start_ns`, exact to the last digit in the file."""
    if START not in frame:
        return frame
    recorded = [row.get(START) for row in rows]
    starts = pd.Series(
        [scaled_one(str(start), US_TO_NS) or None for start in recorded], frame.index, "Int64"
    )  # 0 means no start
    frame[START] = [float(start) if isinstance(start, Decimal) else start for start in recorded]
    frame.insert(list(frame.columns).index(START) + 1, "start_ns", starts)
    return frame


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(_WHERE), dtype=object)
    return of_one_kind(with_starts(frame, rows))


def _operators(path: Path, notes: Notes) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield step, kind, name and group of each operator with its entry; results of msprof have no step and kind."""
    plain = load_summary(path)
    if not isinstance(plain, dict):
        raise SourceError(f"{path} is no JSON object of communication operators; is it another file?")
    if any("@" in key or key == TOTAL for key in plain):
        plain = {"": {"": plain}}
    for step, kinds in objects(plain, path.name, notes):
        for kind, operators in objects(kinds, path.name, notes):
            for key, operator in objects(operators, path.name, notes):
                name, _, group = key.partition("@")
                yield {"step": step.removeprefix("step"), "kind": kind, "name": name, "group": group}, operator


def _number(text: str) -> float | Decimal:
    value = float(text)
    return Decimal(text) if _EARLIEST_MOMENT_US <= abs(value) < math.inf else value


_DECODER = msgspec.json.Decoder(float_hook=_number)


def load_summary(path: Path) -> Any:
    """Decode a JSON file of sums; a time of day becomes a Decimal with all its digits."""
    try:
        content, problem = read_whole(path, MAX_BYTES)
        return _DECODER.decode(repaired_json(content.removeprefix(b"\xef\xbb\xbf")))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{path} is {_fault(content, problem or str(error))}") from error


def _fault(content: bytes, problem: str) -> str:
    """Return the fault of an invalid JSON file, and its remedy."""
    if not content.strip():
        return "empty: the export was stopped or the disk was full; export the result again"
    if content.startswith(_LFS):
        return "a git-LFS pointer, not the data; run `git lfs pull` in its folder"
    return f"damaged: {problem}; export the result again"


def objects(value: Any, source: str, notes: Notes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a JSON object that are objects; a note counts other entries."""
    if not isinstance(value, dict):
        value = {"": value}
    for key, entry in value.items():
        if isinstance(entry, dict):
            yield key, entry
        else:
            notes.ledger.read(source, 1)
            notes.leave_out(source, "an entry is no JSON object", 1, affects="the statistics of communication")


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}
