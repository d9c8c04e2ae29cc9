"""Device records of the stars v6 family (950 and later): tasks of 32-bit ids, step tags, blocks, fused tasks.

A 32-bit id is unique on its device: there are no batches, and the stream of a task comes from the host. Source:
raw/FORMAT.md section 5.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, Records
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks, Track, join, pair_rows
from npuprof.sources.raw.join_keys.batches import Flips
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import chip_layouts, enums, layouts
from npuprof.tables.notes import Notes

_TASK_START, _TASK_END = 0, 1
_FUSED_START, _FUSED_END = 0b010110, 0b010111
_BLOCK_START, _BLOCK_END = 0b100100, 0b100101
_STEP = 0x0A
_FUSED_TYPES: Mapping[int, str] = {1: "CPU", 2: "AI_CPU", 4: "AI_CORE", 8: "CCU die 0", 16: "CCU die 1"}
_CORES = ("aic", "aiv")
CONTEXT_PMU, BLOCK_PMU = 0b101010, 0b101001
"""Function codes of counter records: per core of a task, and per block."""


def read_track(device: RawDevice) -> Track:
    """Read ``ts_track``: step tags; 32-bit ids do not wrap."""
    records = device.read("ts_track", chip_layouts.TS_TRACK_V6)
    tagged = records[records["function"] == _STEP]
    other = len(records) - len(tagged)
    device.skip("ts_track", "records of other functions are not decoded", other, info=True)
    device.use("ts_track", len(tagged))
    tagged = tagged[np.argsort(tagged["counter"], kind="stable")]
    steps = np.zeros(len(tagged), layouts.TS_TRACK)
    for field in chip_layouts.TS_TRACK_V6.names or ():
        steps[field] = tagged[field]
    empty = np.empty(0, np.int64)
    return Track(Flips(empty, empty, empty), steps, np.empty(0, chip_layouts.TASK_STATE))


def read_tasks(device: RawDevice) -> DeviceTasks:
    """Read and pair start and end records of tasks by their ids."""
    records = device.read("stars_soc", chip_layouts.STARS_V6)
    function = records["head"] & 0x3F
    handled = (_TASK_START, _TASK_END, _FUSED_START, _FUSED_END, _BLOCK_START, _BLOCK_END)
    other = int((~np.isin(function, handled)).sum())
    device.skip("stars_soc", "records of other types skipped", other, info=True)
    device.use("stars_soc", int(np.isin(function, handled[2:]).sum()))  # read by :func:`read_details`
    task, counter = records["task"].astype(np.int64), records["counter"].astype(np.int64)
    rows, closing = pair_rows(device, "stars_soc", task, counter, function == _TASK_START, function == _TASK_END)
    device.keep("stars_soc", "tasks", 2 * len(rows), len(rows))
    start_ns = device.clock.counter.to_ns(records["counter"][rows])
    kinds = NameColumn.lookup(records["head"][rows] >> 10, lambda value: enums.V6_SQE_TYPES.get(value) or str(value))
    tasks = DeviceTasks(
        device=np.full(len(rows), device.id),
        start_ns=start_ns,
        duration_ns=device.clock.counter.to_ns(records["counter"][closing]) - start_ns,
        begin=counter[rows],
        end=counter[closing],
        stream=np.full(len(rows), -1, np.int64),
        batch=np.full(len(rows), -1, np.int64),
        task=task[rows],
        context=np.full(len(rows), -1, np.int64),
        kind=kinds,
    )
    return join([tasks])


def read_details(device: RawDevice) -> dict[str, pd.DataFrame]:
    """Read parts of tasks: ``block_times`` (a block on a core) and ``fusion_tasks`` (a part of a fused task).

    Both have the columns Device_id, Task Id, Start(ns) and Duration(ns).
    """
    records = _noted_records(device, "stars_soc", chip_layouts.STARS_V6)
    of_blocks = device.read("stars_block", chip_layouts.STARS_V6)
    device.use("stars_block", len(of_blocks))
    blocks = _blocks(device, np.concatenate((records, of_blocks)))
    if not len(blocks):
        blocks = _counted_blocks(device)
    frames = {"block_times": blocks, "fusion_tasks": _fuse(device, records)}
    return {name: frame for name, frame in frames.items() if len(frame)}


def _noted_records(device: RawDevice, stream: str, record: np.dtype[Any], stamp: str = "counter") -> Records:
    """Read a stream again; its damage was noted by the first reading."""
    return replace(device, notes=Notes()).read(stream, record, stamp)


def _blocks(device: RawDevice, records: Records) -> pd.DataFrame:
    records = records[np.isin(records["head"] & 0x3F, (_BLOCK_START, _BLOCK_END))]
    core_type = (records["core_type"] & 1).astype(np.int64)
    key = core_type << 56 | records["core"].astype(np.int64) << 48
    key |= records["block"].astype(np.int64) << 32 | records["task"].astype(np.int64)
    rows, spans = _spans(device, "stars_block", records, key, (_BLOCK_START, _BLOCK_END))
    columns = {
        "Core": NameColumn.lookup(core_type[rows], lambda core: _CORES[core]).categorical(),
        "Core Id": records["core"][rows].astype(np.int64),
        "Block Id": records["block"][rows].astype(np.int64),
    }
    return _frame(device, records[rows], columns, spans)


def _counted_blocks(device: RawDevice) -> pd.DataFrame:
    """Read blocks from their counter records, which hold times too."""
    records = _noted_records(device, "ffts_profile", chip_layouts.PMU_V6, "end")
    clock = device.clock.counter
    sound = (
        (records["head"] & 0x3F == BLOCK_PMU) & clock.reaches(records["start"]) & (records["start"] <= records["end"])
    )
    records = records[sound]
    records = records[np.lexsort((records["end"], records["start"]))]
    columns = {
        "Core": NameColumn.lookup(records["core_type"] & 1, lambda core: _CORES[core]).categorical(),
        "Core Id": records["core"].astype(np.int64),
        "Block Id": records["block"].astype(np.int64),
    }
    start_ns = clock.to_ns(records["start"])
    return _frame(device, records, columns, (start_ns, clock.to_ns(records["end"]) - start_ns))


def _fuse(device: RawDevice, records: Records) -> pd.DataFrame:
    records = records[np.isin(records["head"] & 0x3F, (_FUSED_START, _FUSED_END))]
    part = (records["fusion"] & 0x1FF).astype(np.int64)
    key = part << 32 | records["task"].astype(np.int64)
    rows, spans = _spans(device, "stars_soc", records, key, (_FUSED_START, _FUSED_END))
    types = NameColumn.lookup(part[rows] & 0x1F, lambda value: _FUSED_TYPES.get(value) or str(value))
    columns = {"Type": types.categorical(), "Mission Id": part[rows] >> 5}
    return _frame(device, records[rows], columns, spans)


def _spans(
    device: RawDevice, source: str, records: Records, keys: Int64, functions: tuple[int, int]
) -> tuple[Int64, tuple[Int64, Int64]]:
    """Pair records; return the rows of the starts in order of time, and their starts and durations in ns."""
    function, counter = records["head"] & 0x3F, records["counter"].astype(np.int64)
    is_start, is_end = function == functions[0], function == functions[1]
    rows, closing = pair_rows(device, source, keys, counter, is_start, is_end, accounted=True)
    order = np.lexsort((counter[closing], counter[rows]))
    rows, closing = rows[order], closing[order]
    start_ns = device.clock.counter.to_ns(records["counter"][rows])
    return rows, (start_ns, device.clock.counter.to_ns(records["counter"][closing]) - start_ns)


def _frame(device: RawDevice, records: Records, details: dict[str, Any], spans: tuple[Int64, Int64]) -> pd.DataFrame:
    columns = {
        "Device_id": np.full(len(records), device.id),
        "Task Id": records["task"].astype(np.int64),
        **details,
        "Start(ns)": spans[0],
        "Duration(ns)": spans[1],
    }
    return pd.DataFrame(columns)
