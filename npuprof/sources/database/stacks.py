"""Call stacks of operators: ``PYTORCH_CALLCHAINS``, a row a frame.

Source: sources/RESULTS.md section 5.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import first_of
from npuprof.sources.database.names import Names

_MAX_TEXT = 64 << 10
_ODD = np.uint64(0x9E3779B97F4A7C15)


def stack_names(database: Database, chains: Records, strings: Names) -> pd.Categorical:
    """Return the stack of each chain's number, innermost frame first, a frame a line."""
    rows = database.rows("PYTORCH_CALLCHAINS", ["id", "stack", "stackDepth"])
    database.accounts.use("PYTORCH_CALLCHAINS", len(rows["id"]))
    order = np.lexsort((rows["stackDepth"], rows["id"]))
    ids, frames = rows["id"][order], rows["stack"][order]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1)) if len(ids) else np.empty(0, np.intp)
    texts, kinds = _distinct_stacks(frames, starts, strings)
    row = first_of(ids[starts], chains)
    codes = np.where(row >= 0, kinds[row], -1) if len(starts) else np.full(len(chains), -1)
    return recoded(codes.astype(np.int32), texts)


def _distinct_stacks(frames: Int64, starts: npt.NDArray[np.intp], strings: Names) -> tuple[list[str | None], Int64]:
    """Join the frames of each distinct chain once: texts, and which of them each chain has.

    Thousands of operators share a stack, and every one writes its own chain. Equal chains are found by a
    64-bit sum over frames and their places, so that no chain is joined more than once.
    """
    if not len(starts):
        return [], np.empty(0, np.int64)
    lengths = np.diff(starts, append=len(frames))
    places = np.arange(len(frames)) - np.repeat(starts, lengths)
    sums = np.add.reduceat(_mixed(_mixed(frames.astype(np.uint64)) + places.astype(np.uint64)), starts)
    kinds, _ = pd.factorize(sums)
    _, first = np.unique(kinds, return_index=True)
    texts: list[str | None] = []
    for chain in first.tolist():
        numbers = frames[starts[chain] : starts[chain] + lengths[chain]].tolist()
        texts.append("\n".join(text for number in numbers if (text := strings.text(number)))[:_MAX_TEXT])
    return texts, kinds.astype(np.int64)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread the bits of each value over all 64 (one round of a multiplicative hash; it may wrap)."""
    spread = values * _ODD
    mixed: npt.NDArray[np.uint64] = (spread ^ (spread >> np.uint64(29))) * _ODD
    return mixed
