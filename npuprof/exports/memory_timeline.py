"""Memory over time as a file of its own: JSON lists, or a page with the figure.

Source: the Ascend PyTorch Profiler guide (export_memory_timeline), which tells the form by the file's suffix.
"""

from __future__ import annotations

import json

import pandas as pd

from npuprof.errors import OptionsError

_SUFFIXES = (".json", ".json.gz", ".html")
_SIZES = ("allocated_bytes", "reserved_bytes", "active_bytes")


def select(memory: pd.DataFrame, device: str | None) -> pd.DataFrame:
    """Keep the rows of a device, named ``npu:0`` or ``0``; all when not given.

    Raises
    ------
    OptionsError
        If it names no device, or one without memory samples.
    """
    if device is None:
        return memory
    number = str(device).rpartition(":")[2]
    if not number.isascii() or not number.isdecimal():
        raise OptionsError(f"device must be named like npu:0, not {device!r}")
    chosen: pd.DataFrame = memory[memory["device_id"] == int(number)]
    if not len(chosen):
        seen = sorted(memory["device_id"].dropna().unique().tolist())
        told = ", ".join(f"npu:{one}" for one in seen) or "none: collect with memory on"
        raise OptionsError(f"there are no memory samples of {device}; the devices that have some: {told}")
    return chosen


def content(name: str, memory: pd.DataFrame, device: str | None = None) -> str:
    """Return the samples as JSON.

    Parameters
    ----------
    name
        The file's, which ends in ``.json`` or ``.json.gz``.
    memory
        The table ``memory``.
    device
        As :func:`select` takes it.

    Returns
    -------
    str
        An object: for each component a list of times in ns and a list of each size in bytes, ``null`` where it was
        not sampled.

    Raises
    ------
    OptionsError
        If the suffix is another one, or as :func:`select` says.
    """
    if not name.endswith(_SUFFIXES[:2]):
        raise OptionsError(f"the file of a memory timeline must end in one of {', '.join(_SUFFIXES)}, not {name!r}")
    return json.dumps(_series(select(memory, device)))


def _series(memory: pd.DataFrame) -> dict[str, dict[str, list[int | None]]]:
    series: dict[str, dict[str, list[int | None]]] = {}
    for (device, component), rows in memory.groupby(["device_id", "component"], observed=True, dropna=False):
        label = str(component) if device is pd.NA else f"npu:{device} {component}"
        sizes = {name: [None if pd.isna(value) else int(value) for value in rows[name]] for name in _SIZES}
        series[label] = {"time_ns": rows["time_ns"].tolist(), **sizes}
    return series
