"""The tables of several ranks as those of one run: what figures of all ranks together are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.correlation import LAYERS, whole_links
from npuprof.ranks.labels import labelled
from npuprof.sources.columns.concatenation import merged

if TYPE_CHECKING:
    from npuprof.profiles import Profile


class Part(NamedTuple):
    """One rank's run; `ahead_ns` is how far its clock was ahead, which is taken off its times."""

    run: Profile
    ahead_ns: int


def together(parts: Sequence[Part], *, apart: bool = False) -> dict[str, pd.DataFrame]:
    """Merge the tables of ranks in the order of time, with the columns that tell of which rank a row is.

    Parameters
    ----------
    parts
        The runs.
    apart
        Whether threads, devices and numbers of Python calls, which several ranks may share, are numbered anew, so that
        no call of one rank seems to have called one of another.

    Returns
    -------
    Every table of the schema; ``links`` and other numbers of rows follow.
    """
    joined = merged([_labelled(part, number, apart=apart) for number, part in enumerate(parts)]) if parts else {}
    return {name: joined.get(name, tables.empty(name)) for name in tables.NAMES}


def _labelled(part: Part, number: int, *, apart: bool) -> dict[str, pd.DataFrame]:
    own = dict(part.run.tables)
    own["links"] = whole_links(own)
    if apart:
        own |= _numbered_anew(own, number)
    info = part.run.info
    return {
        name: labelled(frame, run=number, rank=info.rank, host=None, devices=info.devices, ahead_ns=part.ahead_ns)
        for name, frame in own.items()
    }


def _numbered_anew(own: dict[str, pd.DataFrame], number: int) -> dict[str, pd.DataFrame]:
    first = number << 40  # room for the threads and the Python calls of a run
    threads = np.unique(np.concatenate([own[name]["thread_id"].to_numpy(np.int64) for name in LAYERS]))
    anew = {
        name: own[name].assign(thread_id=np.searchsorted(threads, own[name]["thread_id"].to_numpy(np.int64)) + first)
        for name in LAYERS
    }
    python = own["python"]
    ids = pd.Index(python["id"].to_numpy())
    asked = pd.Index(python["parent_id"].to_numpy(dtype=np.int64, na_value=-1))
    parents = ids.get_indexer(asked) if ids.is_unique else np.full(len(ids), -1)
    absent = (parents < 0) | python["parent_id"].isna().to_numpy()
    anew["python"] = anew["python"].assign(
        id=np.arange(len(ids), dtype=np.int64) + first,
        parent_id=pd.arrays.IntegerArray(np.where(absent, 0, parents + first).astype(np.int64), absent),
    )
    devices = {name: own[name].assign(device_id=np.full(len(own[name]), number)) for name in ("kernels", "tasks")}
    return anew | devices
