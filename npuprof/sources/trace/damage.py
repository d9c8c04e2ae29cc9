"""Signs that the arguments of an event were damaged, where the JSON is sound all the same.

A key that lost or changed a character is the key of nothing; the argument that it named is absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

import msgspec
import numpy as np

from npuprof.arrays import Records
from npuprof.sources.columns.nullable import ABSENT
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.layouts import COMMUNICATION, Layout, keys_of

_MOST_LOOKED_AT = 100  # of a batch: damage is rare, and many rows without an argument are no damage
_SIMILAR = 0.8


def lost_arguments(layout: Layout, events: Sequence[Event], columns: Mapping[str, Records]) -> tuple[int, int]:
    """Count the events that lack an argument which most have, and show why.

    Parameters
    ----------
    layout, events
        Events of one kind.
    columns
        What was read of their arguments.

    Returns
    -------
    renamed
        Events with an unknown argument of nearly the name that they lack.
    without
        Events without any argument.
    """
    names = {field.name: field.encode_name for field in msgspec.structs.fields(layout.args)}
    absent = {names[name]: _absent(values) for name, values in columns.items()}
    usual = {name: rows for name, rows in absent.items() if 0 < np.count_nonzero(rows) <= len(events) // 2}
    if not usual:
        return 0, 0
    renamed = without = 0
    known = frozenset(names.values())
    for row in islice(np.flatnonzero(np.any(list(usual.values()), axis=0)).tolist(), _MOST_LOOKED_AT):
        keys = keys_of(events[row])
        lacking = tuple(name for name, rows in usual.items() if rows[row])
        without += not keys and layout is not COMMUNICATION  # old results have operators without any
        renamed += any(_is_nearly(key, lacking) for key in keys - known)
    return renamed, without


def _absent(values: Records) -> Records:
    none = ABSENT if values.dtype == np.int64 else -1
    absent: Records = np.isnan(values) if values.dtype == np.float64 else values == none
    return absent


@lru_cache(maxsize=4096)
def _is_nearly(key: str, names: tuple[str, ...]) -> bool:
    return bool(get_close_matches(key, names, 1, _SIMILAR))
