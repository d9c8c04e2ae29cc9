"""The journal of a run whose process was killed: steps, markers and facts recorded until then."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.recordings.recording import JOURNAL_FILE_NAME, stored_message
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import merged

_MAX_BYTES = 128 << 20
_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Start(msgspec.Struct, tag="start", array_like=True):
    """The time at which the profiled code began."""

    start_ns: _Int64


class JournalStep(msgspec.Struct, tag="step", array_like=True, gc=False):
    """A step that had ended."""

    number: _Int64
    start_ns: _Int64
    end_ns: _Int64


class JournalMark(msgspec.Struct, tag="mark", array_like=True, gc=False):
    """A marker, or a range that had ended."""

    message: str
    domain: str
    thread_id: _Int64
    start_ns: _Int64
    end_ns: _Int64


class Fact(msgspec.Struct, tag="fact", array_like=True):
    """A fact that the user had attached."""

    key: str
    value: Any


@dataclass
class Recovered:
    """The contents of a journal, in order; `damaged` counts unreadable lines, including one cut off by the kill."""

    started_ns: int = 0
    steps: list[JournalStep] = field(default_factory=list)
    marks: list[JournalMark] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    damaged: int = 0


def read(path: Path, more: bytes = b"") -> Recovered:
    """Read a journal up to 128 MiB, which is more than npuprof writes, and `more` of its end, which the file lacks."""
    recovered = Recovered()
    decode = msgspec.json.Decoder(Start | JournalStep | JournalMark | Fact).decode
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES) + more
    for line in content.splitlines():
        try:
            entry = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            recovered.damaged += 1
            continue
        if isinstance(entry, JournalStep):
            recovered.steps.append(entry)
        elif isinstance(entry, JournalMark):
            recovered.marks.append(entry)
        elif isinstance(entry, Fact):
            recovered.metadata[entry.key] = entry.value
        else:
            recovered.started_ns = entry.start_ns
    return recovered


def complete(decoded: Decoded, marks: list[JournalMark]) -> None:
    """Add the markers that the front end had not written yet, and the domains of the markers that it had written.

    The front end writes markers as they end, so for each message the first ones are in its files.
    """
    table = decoded.tables.get("marks", tables.empty("marks"))
    seen = table["message"].astype(object).map(lambda message: stored_message(str(message))).tolist()
    ends = table["start_ns"].to_numpy() + table["duration_ns"].to_numpy()
    rows_of: dict[str, deque[int]] = {}
    for row in np.argsort(ends, kind="stable").tolist():
        rows_of.setdefault(seen[row], deque()).append(row)
    domains = table["domain"].astype(object)
    missing = []
    for mark in marks:
        rows = rows_of.get(stored_message(mark.message))
        if not rows:
            missing.append(mark)
        elif (row := rows.popleft()) >= 0 and mark.domain and pd.isna(domains.iloc[row]):
            domains.iloc[row] = mark.domain
    if marks:
        decoded.tables["marks"] = table.assign(domain=domains.astype("category"))
    if missing:
        decoded.tables = merged([decoded.tables, {"marks": _table(missing)}])
    ledger = decoded.notes.ledger
    ledger.read(JOURNAL_FILE_NAME, len(marks))
    ledger.keep(JOURNAL_FILE_NAME, "marks", len(missing))
    ledger.use(JOURNAL_FILE_NAME, len(marks) - len(missing))


def _table(marks: list[JournalMark]) -> pd.DataFrame:
    start_ns = np.array([mark.start_ns for mark in marks], np.int64)
    return tables.build(
        "marks",
        {
            "start_ns": start_ns,
            "duration_ns": np.maximum(np.array([mark.end_ns for mark in marks], np.int64) - start_ns, 0),
            "message": pd.Categorical([mark.message for mark in marks]),
            "domain": pd.Categorical([mark.domain or None for mark in marks]),
            "thread_id": np.array([mark.thread_id for mark in marks], np.int64),
        },
    )
