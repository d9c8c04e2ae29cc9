"""Task scheduler records: iterations (step tags), and frames of copies, task types and block numbers.

The task records of STARS chips already hold copies, types and block numbers, so these frames are rare.

Source: raw/FORMAT.md section 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.raw.device.aicpu import moments, stream_ids
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import Track
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts
from npuprof.tables.ledger import STATISTICS

_COPY_STATES = {0: "created", 1: "started", 2: "ended"}
_CHIPS = (Family.STARS, Family.HWTS)  # streams with records of this length
_NONE = np.iinfo(np.int64).min


def read_statistics(devices: Sequence[RawDevice]) -> dict[str, pd.DataFrame]:
    """Read the non-empty frames among ``scheduler_copy``, ``scheduler_task`` and ``scheduler_blocks``."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for device in devices:
        records = _read(device)
        for function, (name, columns) in _FUNCTIONS.items():
            selected = records[records["function"] == function]
            if len(selected):
                frames.setdefault(name, []).append(_frame(device, selected, columns(selected)))
                device.keep("ts_track", STATISTICS, len(frames[name][-1]))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def _read(device: RawDevice) -> Records:
    name = f"ts_track.data.{device.id}"
    if name not in device.streams.names() or device.family not in _CHIPS:
        return np.empty(0, layouts.TRACK_OF_TASK)
    records = device.streams.read(name, layouts.TS_TRACK).view(layouts.TRACK_OF_TASK)
    return records[np.isin(records["function"], list(_FUNCTIONS))]


def _frame(device: RawDevice, records: Records, columns: Mapping[str, Any]) -> pd.DataFrame:
    time_ns = moments(device, records["counter"])
    is_kept = time_ns >= device.started_ns  # other records were noted by the readers of steps and flips
    is_kept &= time_ns != _NONE
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Device_id": np.full(len(records), device.id),
            "Timestamp(ns)": time_ns,
            "Stream ID": stream_ids(device, records),
            "Task ID": records["task"].astype(np.int64),
            **columns,
        }
    )
    return frame[is_kept].sort_values("Timestamp(ns)", kind="stable", ignore_index=True)


def _copies(records: Records) -> dict[str, Any]:
    states = NameColumn.lookup(records["copy_state"], lambda value: _COPY_STATES.get(value) or str(value))
    return {"State": states.categorical()}


def _types(records: Records) -> dict[str, Any]:
    types = NameColumn.lookup(records["type"], lambda value: enums.TRACK_TASK_TYPES.get(value) or str(value))
    return {"Task Type": types.categorical(), "State": records["type_state"].astype(np.int64)}


def _blocks(records: Records) -> dict[str, Any]:
    return {"Block Num": records["blocks"].astype(np.int64)}


_FUNCTIONS: Mapping[int, tuple[str, Callable[[Records], dict[str, Any]]]] = {
    0x0B: ("scheduler_copy", _copies),
    0x0C: ("scheduler_task", _types),
    0x0F: ("scheduler_blocks", _blocks),
}


_STEP_BEGIN, _STEP_END = 60000, 60001
_MODEL_START, _MODEL_END, _ITERATION_END = 0, 1, 4
_NO_MODEL = 0xFFFFFFFF


def steps_table(devices: Sequence[RawDevice], tracks: Sequence[Track]) -> pd.DataFrame:
    """Read iterations: from step tags if the device wrote them, else from starts and ends of models.

    `device_id` and `model_id` (absent for steps of the framework) are added after the columns of the schema.
    """
    parts = [_device_side(device, track.steps) for device, track in zip(devices, tracks, strict=True)]
    parts = [part for part in parts if len(part["start_ns"])]
    if not parts:
        return tables.empty("steps")
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    model = columns.pop("model_id")
    model_id = pd.arrays.IntegerArray(model, (model < 0) | (model >= _NO_MODEL))
    return tables.sort_by_time(tables.build("steps", {**columns, "model_id": model_id}))


def steps_on_device(starts: Int64, devices: Int64, steps: pd.DataFrame) -> pd.arrays.IntegerArray:
    """Return the step of its device in which each kernel started; <NA> outside all steps."""
    step = np.zeros(len(starts), np.int64)
    outside = np.ones(len(starts), bool)
    if len(steps):
        begin = steps["start_ns"].to_numpy()
        at = joins.latest(devices, starts, steps["device_id"].to_numpy(), begin)
        end = begin + steps["duration_ns"].to_numpy()
        outside = (at < 0) | (starts > end[at])
        step = np.where(outside, 0, steps["step"].to_numpy(np.int64)[at])
    return pd.arrays.IntegerArray(step, outside)


def _device_side(device: RawDevice, records: Records) -> dict[str, Int64]:
    tags = records["tag"]
    begins, ends = records[tags == _STEP_BEGIN], records[tags == _STEP_END]
    keep_model, lost_count = not len(begins), 0
    if keep_model:
        lost_count = len(ends)  # steps whose begin is missing
        begins = records[tags == _MODEL_START]
        ends = records[tags == _ITERATION_END]
        if not len(ends):
            ends = records[tags == _MODEL_END]
    keys = [part["index"].astype(np.int64) ^ part["model"].astype(np.int64) << 32 for part in (begins, ends)]
    times = [device.clock.counter.to_ns(part["counter"]) for part in (begins, ends)]
    starts, stops = joins.pair(keys[0], times[0], keys[1], times[1])
    lost_count += len(begins) + len(ends) - 2 * len(starts)
    if lost_count:
        device.notes.warning(f"device {device.id}", "ts_track: step tags without their other end skipped", lost_count)
    model = begins["model"][starts].astype(np.int64) if keep_model else np.full(len(starts), -1, np.int64)
    return {
        "step": begins["index"][starts].astype(np.int64),
        "start_ns": times[0][starts],
        "duration_ns": times[1][stops] - times[0][starts],
        "device_id": np.full(len(starts), device.id),
        "model_id": model,
    }
