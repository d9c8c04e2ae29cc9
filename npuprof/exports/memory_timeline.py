"""Memory over time as JSON.

Source: the Ascend PyTorch Profiler guide (export_memory_timeline), where the suffix of the file selects the format.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from npuprof.errors import OptionsError

_SUFFIXES = (".json", ".json.gz", ".html")
_SIZES = ("allocated_bytes", "reserved_bytes", "active_bytes")


def select(memory: pd.DataFrame, device: str | None, kind: str) -> pd.DataFrame:
    """Return the rows of a device, named ``npu:0`` or ``0``; all rows by default.

    `kind` is what torch calls the devices of the run, such as ``npu``.
    """
    if device is None:
        return memory
    number = str(device).rpartition(":")[2]
    if not number.isascii() or not number.isdecimal():
        raise OptionsError(f"device must be a name like {kind}:0, not {device!r}")
    selected: pd.DataFrame = memory[(memory["device_id"] == int(number)).fillna(value=False)]
    if not len(selected):
        sampled = sorted(memory["device_id"].dropna().unique().tolist())
        names = ", ".join(f"{kind}:{number}" for number in sampled) or "none: collect with memory on"
        raise OptionsError(f"there are no memory samples of {device}; devices with samples: {names}")
    return selected


def content(name: str, memory: pd.DataFrame, device: str | None, kind: str) -> str:
    """Return the samples of one device, or all, as JSON: for each component the times in ns and the sizes in bytes.

    A size that was not sampled is ``null``, as is the time of a history without times. The key of a component has its
    device (``npu:0`` if `kind` is ``npu``), and its rank if there are several.
    """
    if not name.endswith(_SUFFIXES[:2]):
        raise OptionsError(f"the name of a memory timeline must end in one of {', '.join(_SUFFIXES)}, not {name!r}")
    return json.dumps(_series(select(memory, device, kind), kind))


def _series(memory: pd.DataFrame, kind: str) -> dict[str, dict[str, list[int | None]]]:
    ranked = memory if "rank" in memory else memory.assign(rank=np.nan)
    series: dict[str, dict[str, list[int | None]]] = {}
    groups: Any = ranked.groupby(["rank", "device_id", "component"], observed=True, dropna=False)
    for (rank, device, component), rows in groups:
        parts = ["" if pd.isna(rank) else f"rank {rank}", "" if pd.isna(device) else f"{kind}:{device}", str(component)]
        sizes = {name: [None if pd.isna(value) else int(value) for value in rows[name]] for name in _SIZES}
        series[" ".join(filter(None, parts))] = {
            "time_ns": [None if pd.isna(time) else int(time) for time in rows["time_ns"]],
            **sizes,
        }
    return series
