"""The tables of launches: `api`, `tasks`, `kernels` and `links`.

Source: raw/FORMAT.md sections 8 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, first_rows
from npuprof.sources.columns.builders import recoded, where_present, whole
from npuprof.sources.columns.steps import waits
from npuprof.sources.raw.correlation.collectives import Collectives
from npuprof.sources.raw.correlation.launches import TaskOrigins
from npuprof.sources.raw.device import pmu, track_records
from npuprof.sources.raw.device.tasks import DeviceTasks
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import Operators, take
from npuprof.sources.raw.host.tracks import Tracks
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums

_FIRST_MARK_CONNECTION = 4_000_000_001  # connection IDs of marks are far above those of calls


@dataclass(frozen=True)
class DecodedLaunches:
    """The launches of a raw directory, decoded and joined; `is_part`: only the selected ones."""

    api: Api
    operators: Operators
    tracks: Tracks
    tasks: DeviceTasks
    launches: TaskOrigins
    collectives: Collectives
    is_part: bool = False


def api_table(run: DecodedLaunches, communication: pd.DataFrame) -> pd.DataFrame:
    """Build `api`; `communication` has the connection IDs and names of the operators that calls launched.

    Calls are numbered from 1: these are their connection IDs. Source: raw/FORMAT.md section 8.4.
    """
    api = run.api
    levels = NameColumn.lookup(api.level, lambda level: enums.LEVELS[level])
    columns = {
        "start_ns": api.start_ns,
        "duration_ns": api.duration_ns,
        "name": api.name.categorical(),
        "level": levels.categorical(),
        "thread_id": api.thread.astype(np.int64),
        "connection_id": np.arange(1, len(api) + 1),
    }
    frame = tables.build("api", columns)
    frame["item"] = _items(frame, [communication, spans(run)[run.launches.is_kernel]])
    return frame


def times_of_calls(run: DecodedLaunches) -> pd.DataFrame:
    """Return times and connections of all calls, before their table is made."""
    api = run.api
    columns = {"start_ns": api.start_ns, "duration_ns": api.duration_ns, "connection_id": np.arange(1, len(api) + 1)}
    return pd.DataFrame(columns)


def _items(api: pd.DataFrame, launched_tables: Sequence[pd.DataFrame]) -> pd.Categorical:
    """Return the column `item`: the name of the launched row, from the last table that has it."""
    items, names = np.full(len(api), -1, np.int64), [""]
    for frame in launched_tables:
        call = frame["connection_id"].to_numpy(np.int64, na_value=0) - 1
        at = np.flatnonzero((call >= 0) & (call < len(api)))[::-1]  # the first row that a call launched stays
        items[call[at]] = len(names) + frame["name"].cat.codes.to_numpy(np.int64)[at]
        names.extend(frame["name"].cat.categories)
    launches = api["level"].isin(("node", "communication")).to_numpy()
    return recoded(np.where(launches, items, -1), [*names])


def tasks_table(run: DecodedLaunches) -> pd.DataFrame:
    """Build `tasks`. `copied_bytes` and `copy_direction`, for copies, are added after the columns of the schema."""
    track = run.launches.track
    copied = take(run.tracks.copied_bytes, track)
    direction = NameColumn.lookup(
        run.tracks.copy_direction, lambda value: enums.MEMCPY_DIRECTIONS.get(value) or str(value)
    )
    columns = _task_columns(run, np.arange(len(run.tasks)))
    columns["copied_bytes"] = where_present(copied, copied >= 0)
    columns["copy_direction"] = direction.take(track).where(copied >= 0).categorical()
    return tables.build("tasks", columns)


def spans(run: DecodedLaunches) -> pd.DataFrame:
    """Return times, stream, type, name and connection of all tasks, before any table of them is made."""
    return pd.DataFrame(
        {name: values for name, values in _task_columns(run, np.arange(len(run.tasks))).items() if name in _OF_SPANS}
    )


_OF_SPANS = {"start_ns", "duration_ns", "device_id", "stream_id", "context_id", "task_type", "name", "connection_id"}


def _task_columns(run: DecodedLaunches, rows: Int64) -> dict[str, Any]:
    tasks, launches = run.tasks, run.launches

    def of(values: Int64) -> Int64:
        return values[rows]  # a copy: callers may change a table before another one is made of the same values

    context, call, mark = of(tasks.context), of(launches.call), of(launches.mark)
    connection = np.where(mark >= 0, mark + _FIRST_MARK_CONNECTION, call + 1)
    return {
        "start_ns": of(tasks.start_ns),
        "duration_ns": of(tasks.duration_ns),
        "device_id": of(tasks.device),
        "stream_id": where_present(of(tasks.stream), of(tasks.stream) >= 0),
        "task_id": of(tasks.task),
        "batch_id": where_present(of(tasks.batch), of(tasks.batch) >= 0),
        "context_id": where_present(context, context >= 0),
        "task_type": launches.task_type.take(rows).categorical(),
        "name": launches.name.take(rows).categorical(),
        "connection_id": where_present(connection, (call >= 0) | (mark >= 0)),
        **_models(of(launches.model)),
    }


def _models(model: Int64) -> dict[str, Any]:
    """Return the column `model_id`; no column in a run without models."""
    is_known = model >= 0
    return {"model_id": where_present(model, is_known)} if bool(is_known.any()) else {}


def kernels_table(run: DecodedLaunches, counters: Sequence[pmu.Counters], steps_frame: pd.DataFrame) -> pd.DataFrame:
    """Build `kernels`: compute tasks with their operators, waits, steps and performance counters.

    `wait_ns` is the time since the end of the compute kernel or collective that started last before it on its device, 0
    if that was still running. Times of counters are estimates in integer ns; see ``device/pmu.py``.
    """
    rows = np.flatnonzero(run.launches.is_kernel)
    tasks, operators = run.tasks, run.operators
    operator = run.launches.operator[rows]
    is_known = operator >= 0
    columns = _task_columns(run, rows)
    blocks, mix = _blocks(run, rows)
    columns |= {
        "op_name": columns["name"],
        "op_type": operators.op_type.take(operator).categorical(),
        "core": columns["task_type"],
        "op_state": NameColumn(
            np.where(is_known, _flags(operators.dynamic, operator), -1), ["static", "dynamic"]
        ).categorical(),
        "block_num": where_present(blocks, blocks > 0),
        "mix_block_num": where_present(mix, blocks > 0),
        "hf32": pd.arrays.BooleanArray(_flags(operators.hf32, operator).astype(bool), ~is_known),
        **{column: names.take(operator).categorical() for column, names in operators.tensors.items()},
        **_attributes(operators.attributes, operator),
        "wait_ns": _waits(tasks, rows, run.collectives),
        "step": track_records.steps_on_device(columns["start_ns"], columns["device_id"], steps_frame),
        **_counters(run, rows, blocks, mix, counters),
    }
    return tables.build("kernels", columns)


def _attributes(attributes: NameColumn, operator: Int64) -> dict[str, Any]:
    return {"attributes": attributes.take(operator).categorical()} if attributes.names else {}


def _flags(values: Bools, operator: Int64) -> Int64:
    return np.maximum(take(values.astype(np.int64), operator), 0)


def _blocks(run: DecodedLaunches, rows: Int64) -> tuple[Int64, Int64]:
    """Return blocks, and blocks of the other core (0 if unknown); from the track if it records them."""
    track, operator = run.launches.track[rows], run.launches.operator[rows]
    extended = _flags(run.tracks.extended, track).astype(bool)
    blocks = np.where(extended, take(run.tracks.blocks, track), take(run.operators.blocks, operator))
    ratio = np.where(extended, take(run.tracks.ratio, track), take(run.operators.ratio, operator))
    return np.maximum(blocks, 0), np.maximum(blocks, 0) * np.maximum(ratio, 0)


def _counters(
    run: DecodedLaunches,
    rows: Int64,
    blocks: Int64,
    mix: Int64,
    counters: Sequence[pmu.Counters],
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for of in counters:
        of_device = np.flatnonzero(run.tasks.device[rows] == of.device_id)
        kernels = pmu.Kernels(run.tasks, rows[of_device], blocks[of_device], mix[of_device], run.is_part)
        for name, values in of.read(kernels).items():
            if len(of_device) == len(rows):
                columns[name] = values
            else:
                columns.setdefault(name, np.full(len(rows), np.nan))[of_device] = values
    for name in columns:
        if name.endswith(("_time_ns", "_cycles")):
            columns[name] = whole(columns[name])  # in place: each column of floats is freed before the next
    return columns


def _waits(tasks: DeviceTasks, rows: Int64, collectives: Collectives) -> Int64:
    device = np.concatenate((tasks.device[rows], collectives.device))
    start = np.concatenate((tasks.start_ns[rows], collectives.start_ns))
    end = np.concatenate((tasks.start_ns[rows] + tasks.duration_ns[rows], collectives.end_ns))
    return waits(device, start, end, len(rows))


def links_table(run: DecodedLaunches, marks: pd.DataFrame) -> pd.DataFrame:
    """Build `links`: from calls to launched tasks, and from marks to their device tasks."""
    targets = np.flatnonzero(run.launches.call >= 0)
    sources = run.launches.call[targets]
    mark_rows, mark_tasks = _mark_links(run, marks)
    kind = np.repeat([0, 1], [len(targets), len(mark_rows)])
    return tables.build(
        "links",
        {
            "kind": tables.categorical(kind, ["api_task", "mark"]),
            "source_table": tables.categorical(kind, ["api", "marks"]),
            "source_row": np.concatenate((sources, mark_rows)),
            "target_table": tables.categorical(np.zeros(len(kind), np.int64), ["tasks"]),
            "target_row": np.concatenate((targets, mark_tasks)),
        },
    )


def _mark_links(run: DecodedLaunches, marks: pd.DataFrame) -> tuple[Int64, Int64]:
    rows = np.flatnonzero(run.launches.mark >= 0)
    ids = marks["id"].to_numpy(np.int64, na_value=-1)
    seen_rows = np.flatnonzero(marks["device_start_ns"].notna().to_numpy())
    seen = first_rows(ids[seen_rows], run.launches.mark[rows])
    return seen_rows[seen[seen >= 0]], rows[seen >= 0]
