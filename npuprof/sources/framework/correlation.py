"""What caused what: links between operators, and from operators to the CANN calls that launched their tasks.

Source: sources/RESULTS.md section 2.4, and raw/FORMAT.md section 8.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.nullable import ABSENT
from npuprof.sources.framework.intervals import NONE, lanes_of, latest_before
from npuprof.sources.trace.nesting import innermost


def operator_links(operators: pd.DataFrame) -> pd.DataFrame:
    """Link enqueues to their dequeues, and calls of the forward pass to those of the backward pass that they cause.

    A backward call belongs to the last forward call of its sequence number before it. Of several backward calls of
    one sequence number that are around each other, the innermost is meant: it starts last.
    """
    start_ns = operators["start_ns"].to_numpy()
    enqueue, dequeue = (np.flatnonzero((operators["kind"] == kind).to_numpy()) for kind in ("enqueue", "dequeue"))
    ids = _numbers(operators, "correlation_id")
    causes = latest_before(ids[enqueue], start_ns[enqueue], ids[dequeue], start_ns[dequeue])
    queued = _links("enqueue", "operators", _rows(enqueue, causes), "operators", dequeue)
    forward, backward = _passes(operators, start_ns)
    return stacked([queued, _links("forward_backward", "operators", forward, "operators", backward)])


def _passes(operators: pd.DataFrame, start_ns: Int64) -> tuple[Int64, Int64]:
    sequence, thread = _numbers(operators, "sequence_number"), _numbers(operators, "forward_thread_id")
    forward = np.flatnonzero((sequence >= 0) & (thread == ABSENT))
    backward = np.flatnonzero((sequence >= 0) & (thread != ABSENT))
    # Rows are in order of time: the last of equal ones starts last.
    kept = pd.DataFrame({"sequence": sequence[backward], "thread": thread[backward]}).duplicated(keep="last")
    backward = backward[~kept.to_numpy()]
    causes = latest_before(sequence[forward], start_ns[forward], sequence[backward], start_ns[backward])
    return _rows(forward, causes), backward


def launch_links(operators: pd.DataFrame, api: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Link operators to the CANN calls that launched device tasks.

    Parameters
    ----------
    operators, api
        The run's tables.
    links
        Those of the raw directory: the sources of its ``api_task`` links are the launching calls.

    Notes
    -----
    A call inside a dequeue belongs to the operator around the enqueue of the same correlation id; any other to the
    innermost operator on its own thread.
    """
    launches = (links["kind"] == "api_task").to_numpy() & (links["source_table"] == "api").to_numpy()
    calls = np.unique(links["source_row"].to_numpy()[launches])
    threads, moments = api["thread_id"].to_numpy()[calls], api["start_ns"].to_numpy()[calls]
    return _links("operator_api", "operators", operator_rows(operators, threads, moments), "api", calls)


def operator_rows(operators: pd.DataFrame, threads: Int64, moments: Int64, chosen: Bools | None = None) -> Int64:
    """Find the operator that caused what happened on some threads at some moments.

    Parameters
    ----------
    operators
        The table.
    threads, moments
        Shape (events,).
    chosen
        Shape (operators,): the operators that may be meant; all where it is not given.

    Returns
    -------
    Shape (events,): the row of each cause, -1 where there is none.
    """
    is_operator = (operators["kind"] == "op").to_numpy()
    if chosen is not None:
        is_operator = is_operator & chosen
    enqueue, dequeue = (np.flatnonzero((operators["kind"] == kind).to_numpy()) for kind in ("enqueue", "dequeue"))
    start_ns, thread_id = operators["start_ns"].to_numpy(), operators["thread_id"].to_numpy()
    within = _innermost(operators, dequeue, threads, moments)
    queued = np.flatnonzero(within >= 0)
    ids = _numbers(operators, "correlation_id")
    taken = within[queued]
    sent = _rows(enqueue, latest_before(ids[enqueue], start_ns[enqueue], ids[taken], start_ns[taken]))
    threads, moments = threads.copy(), moments.copy()
    threads[queued[sent >= 0]], moments[queued[sent >= 0]] = thread_id[sent[sent >= 0]], start_ns[sent[sent >= 0]]
    return _innermost(operators, np.flatnonzero(is_operator), threads, moments)


def _innermost(operators: pd.DataFrame, rows: Int64, threads: Int64, moments: Int64) -> Int64:
    start_ns = operators["start_ns"].to_numpy()[rows]
    end_ns = start_ns + operators["duration_ns"].to_numpy()[rows]
    lanes, at_lanes = lanes_of(operators["thread_id"].to_numpy()[rows], threads)
    return _rows(rows, innermost(lanes, start_ns, end_ns, at_lanes, moments).astype(np.int64))


def _links(kind: str, source_table: str, source: Int64, target_table: str, target: Int64) -> pd.DataFrame:
    known = (source >= 0) & (target >= 0)
    codes = np.zeros(int(known.sum()), np.int8)
    return tables.build(
        "links",
        {
            "kind": tables.categorical(codes, [kind]),
            "source_table": tables.categorical(codes, [source_table]),
            "source_row": source[known],
            "target_table": tables.categorical(codes, [target_table]),
            "target_row": target[known],
        },
    )


def _rows(chosen: Int64, which: Int64) -> Int64:
    """Return rows of a table for indices into some of its rows; -1 stays -1."""
    if not len(chosen):
        return np.full(len(which), NONE, np.int64)
    return np.where(which >= 0, chosen[which], NONE)


def _numbers(frame: pd.DataFrame, column: str) -> Int64:
    if column not in frame:  # not every framework has a queue, or numbers its calls
        return np.full(len(frame), ABSENT)
    return frame[column].to_numpy(dtype=np.int64, na_value=ABSENT)
