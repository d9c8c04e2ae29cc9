"""What the task scheduler wrote of single tasks: states of copies, types, and numbers of blocks.

Each is a frame among the statistics, with a row a record; stars chips tell the same by their task records, so that a
run rarely has them.

Source: raw/FORMAT.md section 5.4 (functions 0x0B, 0x0C and 0x0F).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Records
from npuprof.ledger import STATISTICS
from npuprof.sources.raw.device.aicpu_fields import moments, stream_ids
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.dictionaries import Names
from npuprof.sources.raw.records import enums, layouts

_COPY_STATES = {0: "created", 1: "started", 2: "ended"}
_CHIPS = (Family.STARS, Family.HWTS)  # those whose records are of this length
_NONE = np.iinfo(np.int64).min


def read_statistics(devices: Sequence[Device]) -> dict[str, pd.DataFrame]:
    """Read ``scheduler_copy``, ``scheduler_task`` and ``scheduler_blocks``, those of them that have rows."""
    found: dict[str, list[pd.DataFrame]] = {}
    for device in devices:
        records = _read(device)
        for function, (name, columns) in _FUNCTIONS.items():
            own = records[records["function"] == function]
            if len(own):
                found.setdefault(name, []).append(_frame(device, own, columns(own)))
                device.keep("ts_track", STATISTICS, len(found[name][-1]))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}


def _read(device: Device) -> Records:
    name = f"ts_track.data.{device.id}"
    if name not in device.streams.names() or device.family not in _CHIPS:
        return np.empty(0, layouts.TRACK_OF_TASK)
    records = device.streams.read(name, layouts.TS_TRACK).view(layouts.TRACK_OF_TASK)
    wanted: Records = records[np.isin(records["function"], list(_FUNCTIONS))]
    return wanted


def _frame(device: Device, records: Records, columns: Mapping[str, Any]) -> pd.DataFrame:
    time_ns = moments(device, records["counter"])
    kept = time_ns >= device.started_ns  # what is not, reading steps and flips has noted
    kept &= time_ns != _NONE
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Device_id": np.full(len(records), device.id),
            "Timestamp(ns)": time_ns,
            "Stream ID": stream_ids(device, records),
            "Task ID": records["task"].astype(np.int64),
            **columns,
        }
    )
    sound: pd.DataFrame = frame[kept].sort_values("Timestamp(ns)", kind="stable", ignore_index=True)
    return sound


def _copies(records: Records) -> dict[str, Any]:
    states = Names.lookup(records["copy_state"], lambda value: _COPY_STATES.get(value) or str(value))
    return {"State": states.categorical()}


def _types(records: Records) -> dict[str, Any]:
    types = Names.lookup(records["type"], lambda value: enums.TRACK_TASK_TYPES.get(value) or str(value))
    return {"Task Type": types.categorical(), "State": records["type_state"].astype(np.int64)}


def _blocks(records: Records) -> dict[str, Any]:
    return {"Block Num": records["blocks"].astype(np.int64)}


_FUNCTIONS: Mapping[int, tuple[str, Callable[[Records], dict[str, Any]]]] = {
    0x0B: ("scheduler_copy", _copies),
    0x0C: ("scheduler_task", _types),
    0x0F: ("scheduler_blocks", _blocks),
}
