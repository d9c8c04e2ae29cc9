"""Tables of several ranks stacked, with rank and host columns, or merged into the tables of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.correlation import LAYERS, whole_links
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.concatenation import merged

if TYPE_CHECKING:
    from npuprof.profiles import Profile


_TIMES = ("start_ns", "time_ns", "allocated_ns", "released_ns", "device_start_ns")


def labelled(
    frame: pd.DataFrame, *, run: int, rank: int | None, host: str | None, devices: Sequence[int], ahead_ns: int = 0
) -> pd.DataFrame:
    """Add the columns `run`, `rank` and `host`, and `device_id` to a table of the host's.

    Parameters
    ----------
    frame
        A table of one run; it stays as it is.
    run, rank, host
        The run's row in the set, its rank and host.
    devices
        The run's devices; `device_id` is absent where they are several.
    ahead_ns
        How far the run's clock was ahead, which is taken off its times.
    """
    count = len(frame)
    own: dict[str, Any] = {time: frame[time] - ahead_ns for time in _TIMES if ahead_ns and time in frame}
    if "device_id" not in frame:
        device = devices[0] if len(devices) == 1 else pd.NA
        own["device_id"] = pd.array([device] * count, dtype="Int64")
    own["run"] = np.full(count, run, np.int64)
    own["rank"] = pd.array([pd.NA if rank is None else rank] * count, dtype="Int64")
    own["host"] = recoded(np.zeros(count, np.int32), [host])
    added: pd.DataFrame = frame.assign(**own)
    return added


def nothing(name: str) -> pd.DataFrame:
    """Make the stacked table of runs that have no rows of it."""
    return labelled(tables.empty(name), run=0, rank=None, host=None, devices=())


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
