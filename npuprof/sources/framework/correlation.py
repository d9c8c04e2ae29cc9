"""Links between operators and from operators to their CANN calls; FLOPs of operators from the markers around them.

Source: sources/RESULTS.md section 2.4, raw/FORMAT.md section 8 and collectors/FRONTENDS.md section 2.2.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64
from npuprof.recordings.recording import FLOPS_DOMAIN
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.framework.intervals import NONE, lanes_of, latest_before
from npuprof.sources.trace.nesting import innermost
from npuprof.tables.notes import Notes


def operator_links(operators: pd.DataFrame) -> pd.DataFrame:
    """Link enqueues to dequeues, and forward calls to the backward calls that they cause.

    A backward call belongs to the latest earlier forward call with its sequence number. Of nested backward calls with
    one sequence number only the innermost is linked.
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
    # Rows are sorted by time: the innermost call is the last.
    outer = pd.DataFrame({"sequence": sequence[backward], "thread": thread[backward]}).duplicated(keep="last")
    backward = backward[~outer.to_numpy()]
    causes = latest_before(sequence[forward], start_ns[forward], sequence[backward], start_ns[backward])
    return _rows(forward, causes), backward


def launch_links(operators: pd.DataFrame, api: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Link operators to the CANN calls that launched device tasks, the sources of ``api_task`` links in `links`.

    A call within a dequeue belongs to the operator around the enqueue with its correlation ID, any other call to the
    innermost operator on its thread.
    """
    launches = (links["kind"] == "api_task").to_numpy() & (links["source_table"] == "api").to_numpy()
    calls = np.unique(links["source_row"].to_numpy()[launches])
    threads, moments = api["thread_id"].to_numpy()[calls], api["start_ns"].to_numpy()[calls]
    return _links("operator_api", "operators", operator_rows(operators, threads, moments), "api", calls)


def operator_rows(operators: pd.DataFrame, threads: Int64, moments: Int64, is_selected: Bools | None = None) -> Int64:
    """Return the operator (among `is_selected`, if given) around each event of a thread and time; -1 for none."""
    is_operator = (operators["kind"] == "op").to_numpy()
    if is_selected is not None:
        is_operator = is_operator & is_selected
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
    is_known = (source >= 0) & (target >= 0)
    codes = np.zeros(int(is_known.sum()), np.int8)
    return tables.build(
        "links",
        {
            "kind": tables.categorical(codes, [kind]),
            "source_table": tables.categorical(codes, [source_table]),
            "source_row": source[is_known],
            "target_table": tables.categorical(codes, [target_table]),
            "target_row": target[is_known],
        },
    )


def _rows(chosen: Int64, positions: Int64) -> Int64:
    """Return the rows at indices into `chosen`; -1 stays -1."""
    if not len(chosen):
        return np.full(len(positions), NONE, np.int64)
    return np.where(positions >= 0, chosen[positions], NONE)


def _numbers(frame: pd.DataFrame, column: str) -> Int64:
    if column not in frame:  # some frameworks have no queue, or do not number their calls
        return np.full(len(frame), ABSENT)
    return frame[column].to_numpy(dtype=np.int64, na_value=ABSENT)


_MESSAGE = r"^([0-9]{1,18})-"


def add_flops(frames: MutableMapping[str, pd.DataFrame], notes: Notes) -> None:
    """Add the column `flops` to ``operators`` from the ranges in ``marks``, in place.

    With ``with_flops`` and ``mstx``, torch_npu opens a range named ``<operations>-<function>`` (such as ``512-linear``)
    around each call of a function with a known formula. A range belongs to the outermost operator of its thread within
    it.
    """
    marks, operators = frames.get("marks"), frames.get("operators")
    if marks is None or operators is None or "flops" in operators:
        return
    ranges = marks[(marks["domain"] == FLOPS_DOMAIN).to_numpy()]
    if not len(ranges):
        return
    figures = ranges["message"].astype("string").str.extract(_MESSAGE, expand=False)
    if unreadable := int(figures.isna().sum()):
        notes.warning("marks", f"ranges of {FLOPS_DOMAIN} have no number of operations in their names", unreadable)
    is_known = figures.notna().to_numpy()
    ranges, flops = ranges[is_known], figures[is_known].to_numpy(np.int64)
    rows = _outermost(operators, ranges)
    is_matched = rows >= 0
    if unmatched := int((~is_matched).sum()):
        notes.warning(
            "operators",
            f"ranges of {FLOPS_DOMAIN} hold no operator: their operations are in marks and not in flops",
            unmatched,
        )
    column = np.full(len(operators), ABSENT, np.int64)
    column[rows[is_matched]] = flops[is_matched]
    frames["operators"] = operators.assign(flops=optional(column))


def _outermost(operators: pd.DataFrame, ranges: pd.DataFrame) -> Int64:
    """Return the row of the longest operator within each range; -1 for none."""
    result = np.full(len(ranges), ABSENT, np.int64)
    threads = operators["thread_id"].to_numpy(np.int64)
    starts = operators["start_ns"].to_numpy(np.int64)
    durations = operators["duration_ns"].to_numpy(np.int64)
    calls = (operators["kind"] == "op").to_numpy()
    range_threads = ranges["thread_id"].to_numpy(np.int64)
    begins = ranges["start_ns"].to_numpy(np.int64)
    ends = begins + ranges["duration_ns"].to_numpy(np.int64)
    for thread in np.unique(range_threads):
        of_thread = np.flatnonzero(range_threads == thread)
        of_thread = of_thread[np.argsort(begins[of_thread], kind="stable")]
        rows = np.flatnonzero(calls & (threads == thread))
        place = np.searchsorted(begins[of_thread], starts[rows], side="right") - 1
        rows, around = rows[place >= 0], of_thread[place[place >= 0]]
        within = starts[rows] + durations[rows] <= ends[around]
        rows, around = rows[within], around[within]
        # of operators with equal durations, the caller comes first and thus last here
        longest = np.lexsort((-rows, durations[rows]))
        result[around[longest]] = rows[longest]
    return result
