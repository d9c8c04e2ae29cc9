"""Copies: what memcpy_info tells of the tasks that a copy became.

Source: raw/FORMAT.md sections 4.1 and 8.10.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, Records
from npuprof.sources.raw.host.reader import Host
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.dictionaries import Names
from npuprof.sources.raw.records import layouts

_COPY = "MEMCPY_ASYNC"


def join_copies(host: Host, records: Records, types: Names) -> tuple[Int64, Int64]:
    """Join memcpy_info to copies by thread and stamp; a copy above its maximum became several tasks, in order.

    Source: raw/FORMAT.md section 8.10.
    """
    size, direction = np.full(len(records), -1, np.int64), np.full(len(records), -1, np.int64)
    infos, _ = host.read("compact.memcpy_info", layouts.MEMCPY_INFO)
    copies = np.flatnonzero(types.codes == types.names.index(_COPY)) if _COPY in types.names else None
    if copies is None or not len(infos):
        return size, direction
    group, info_group = _groups(records[copies], infos)
    held = np.flatnonzero(info_group >= 0)
    held = held[np.argsort(info_group[held], kind="stable")]
    infos, info_group = infos[held], info_group[held]
    if not len(infos):
        return size, direction
    biggest = np.maximum(infos["max_size"], 1)
    chunks = infos["size"] // biggest + (infos["size"] % biggest > 0)
    tasks_of = np.bincount(group)
    chunks = np.maximum(np.minimum(chunks, tasks_of[info_group].astype(np.uint64)).astype(np.int64), 1)
    first_turn = np.cumsum(chunks) - chunks
    first_turn -= first_turn[np.searchsorted(info_group, info_group)]
    turn = joins.turns(group)
    width = int(max(first_turn.max(initial=0), turn.max(initial=0))) + 1
    at = np.searchsorted(info_group * width + first_turn, group * width + turn, side="right") - 1
    chunk = turn - first_turn[at]
    found = (at >= 0) & (info_group[at] == group) & (chunk < chunks[at])
    rows, at, chunk = copies[found], at[found], chunk[found]
    left = infos["size"][at] - chunk.astype(np.uint64) * biggest[at]
    size[rows] = np.minimum(left, biggest[at]).astype(np.int64)
    direction[rows] = infos["direction"][at]
    return size, direction


def _groups(copies: Records, infos: Records) -> tuple[Int64, Int64]:
    """Assign a number to each distinct (thread, stamp) of copies, and to infos by it; -1 where no copy has it."""
    stamps, threads = (np.concatenate((copies[key], infos[key])) for key in ("stamp", "thread"))
    stamp_codes, distinct = pd.factorize(stamps)
    thread_codes, _ = pd.factorize(threads)
    codes, _ = pd.factorize(thread_codes.astype(np.int64) * len(distinct) + stamp_codes)
    group, info_group = codes[: len(copies)], codes[len(copies) :]
    return group, np.where(info_group <= group.max(), info_group, -1)
