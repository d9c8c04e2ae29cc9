"""Connections between rows: the table `links`.

``CONNECTION_IDS`` gives an operator any number of connection IDs, of two numberings: CANN's, which a CANN call and the
tasks that it launched also carry, and torch's, which pairs the two sides of the task queue, and forward with backward.
Torch's IDs begin at 5 << 28 in new files. In older files they may be any number, so the rows that share an ID
determine its numbering.

Source: sources/RESULTS.md section 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, first_rows
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.database.host import HostCalls, pairs_of
from npuprof.sources.database.reader import bare
from npuprof.tables.notes import Notes

_FIRST_OF_TORCH = 5 << 28
_TABLES = ["operators", "api", "tasks", "communication", "marks"]
_KINDS = ["operator_api", "api_task", "enqueue", "forward_backward", "mark"]


@dataclass
class _Links:
    parts: list[tuple[str, str, Int64, str, Int64]] = field(default_factory=list)

    def add(self, kind: str, source: tuple[str, Int64], target: tuple[str, Int64]) -> None:
        self.parts.append((kind, *source, *target))

    def table(self) -> pd.DataFrame:
        """Return the collected links as a table."""
        parts = [part for part in self.parts if len(part[2])]
        if not parts:
            return tables.empty("links")
        counts = [len(part[2]) for part in parts]

        def codes(names: list[str], place: int) -> pd.Categorical:
            numbers = [names.index(str(part[place])) for part in parts]
            used = sorted(set(numbers))
            places = np.searchsorted(used, numbers).astype(np.int8)
            return tables.categorical(np.repeat(places, counts), [names[number] for number in used])

        frame = tables.build(
            "links",
            {
                "kind": codes(_KINDS, 0),
                "source_table": codes(_TABLES, 1),
                "source_row": np.concatenate([part[2] for part in parts]),
                "target_table": codes(_TABLES, 3),
                "target_row": np.concatenate([part[4] for part in parts]),
            },
        )
        return frame.drop_duplicates(ignore_index=True)


def links_table(by_name: Mapping[str, pd.DataFrame], calls: HostCalls, marks: Int64, notes: Notes) -> pd.DataFrame:
    """Build `links` between the rows of the run's tables."""
    links = _Links()
    api, tasks, collectives = (_connections(by_name, name) for name in ("api", "tasks", "communication"))
    tasks = np.where(np.isin(tasks, collectives), ABSENT, tasks)  # the call launched the collective, not its steps
    _operator_links(links, by_name, calls, {"api": api, "tasks": tasks, "communication": collectives}, notes)
    for name, effects in (("tasks", tasks), ("communication", collectives)):
        call, row = _pair(api, effects)
        links.add("api_task", ("api", call), (name, row))
    mark, task = _pair(marks, tasks)
    links.add("mark", ("marks", mark), ("tasks", task))
    return links.table()


def _operator_links(
    links: _Links, by_name: Mapping[str, pd.DataFrame], calls: HostCalls, effects: dict[str, Int64], notes: Notes
) -> None:
    operators = by_name.get("operators")
    if operators is None:
        return
    rows, connection = calls.operator, calls.connection
    kind = operators["kind"].astype(object).to_numpy()[rows]
    begin, end = np.flatnonzero(kind == "enqueue"), np.flatnonzero(kind == "dequeue")
    first, second = pairs_of(connection[end], connection[begin], notes)
    links.add("enqueue", ("operators", rows[begin[first]]), ("operators", rows[end[second]]))
    plain = np.flatnonzero(kind == "op")
    forward, backward, torch = _forward_backward(operators, rows[plain], connection[plain], notes)
    links.add("forward_backward", ("operators", forward), ("operators", backward))
    remainder = plain[~torch]
    call = first_rows(effects["api"], connection[remainder])
    links.add("operator_api", ("operators", rows[remainder[call >= 0]]), ("api", call[call >= 0]))
    remainder = remainder[call < 0]  # the file lacks this call: the operator is linked to the task directly
    for name in ("tasks", "communication"):
        first, second = _pair(connection[remainder], effects[name])
        links.add("operator_api", ("operators", rows[remainder[first]]), (name, second))


def _forward_backward(
    operators: pd.DataFrame, rows: Int64, connection: Int64, notes: Notes
) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
    """Return pairs of forward and backward operators with an equal sequence number and connection.

    The third array marks the connections that torch numbers.
    """
    sequence = operators["sequence_number"].to_numpy(np.int64, na_value=ABSENT)[rows]
    is_backward = operators["forward_thread_id"].notna().to_numpy()[rows]
    forward, backward = np.flatnonzero(~is_backward), np.flatnonzero(is_backward)
    backwards, forwards = pairs_of(connection[backward], connection[forward], notes)
    is_same = sequence[forward[backwards]] == sequence[backward[forwards]]
    is_same &= sequence[forward[backwards]] != ABSENT
    begins, ends = forward[backwards[is_same]], backward[forwards[is_same]]
    torch = bare(connection) >= _FIRST_OF_TORCH
    torch[begins] = torch[ends] = True
    return rows[begins], rows[ends], torch


def _pair(causes: Int64, effects: Int64) -> tuple[Int64, Int64]:
    """Return pairs of rows that share a connection ID: each effect with its first cause."""
    cause = first_rows(causes, effects)
    row = np.flatnonzero((cause >= 0) & (effects != ABSENT))
    return cause[row], row


def _connections(by_name: Mapping[str, pd.DataFrame], name: str) -> Int64:
    frame = by_name.get(name)
    if frame is None:
        return np.empty(0, np.int64)
    return frame["connection_id"].to_numpy(np.int64, na_value=ABSENT)
