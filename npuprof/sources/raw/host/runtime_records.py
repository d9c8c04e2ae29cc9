"""Runtime records besides calls and tasks: streams and queues, copies, fills and blocks of memory, threads.

Each type is a statistics frame with one row per record. The runtime writes these records only if configured to.

Source: raw/FORMAT.md sections 4 (runtime types 806, 807 and 810 to 812), 4.1 and 4.2 (Multi_Thread).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Records
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts
from npuprof.tables.ledger import STATISTICS

_STREAM_SQ, _DPU, _COPY, _FILL, _MEMORY = 807, 806, 810, 811, 812
_STATES = {0: "created", 1: "destroyed"}
_MEMORIES = {1: "host", 2: "device", 3: "managed"}
_MOST = 1 << 62  # a larger value is not a size
_DEVICE_BITS = 12

# Names of runtime types that the dictionary lacks, as in the files.
_FALLBACK = {_STREAM_SQ: "stream_sq_info", _DPU: "dpu_track"}


def read_statistics(host: RawHost) -> dict[str, pd.DataFrame]:
    """Read all non-empty frames by name.

    Returns
    -------
    ``stream_queue`` (which hardware queue serves a stream), ``memory_copy``, ``memory_fill``, ``memory_management``
    (allocations and releases of the runtime), ``dpu_task`` and ``multi_thread`` (threads that launch together).
    """
    readers: Mapping[str, tuple[str | None, np.dtype[Any], Callable[[RawHost, Records], dict[str, Any]]]] = {
        "stream_queue": (_compact(host, _STREAM_SQ), layouts.STREAM_SQ, _stream_queue),
        "memory_copy": (_compact(host, _COPY), layouts.MEMCPY_EXT, _memory_copy),
        "memory_fill": (_compact(host, _FILL), layouts.MEMSET, _memory_fill),
        "memory_management": (_compact(host, _MEMORY), layouts.MEMORY_MANAGEMENT, _memory_management),
        "dpu_task": (_compact(host, _DPU), layouts.DPU_TRACK, _dpu_task),
        "multi_thread": ("additional.Multi_Thread", layouts.MULTI_THREAD, _multi_thread),
    }
    frames = {}
    for name, (stream, record, columns) in readers.items():
        records = host.read(stream, record, used=False)[0] if stream else np.empty(0, record)
        if stream and len(records):
            host.keep(stream, STATISTICS, len(records))
            common = {"Timestamp(ns)": host.clock.to_ns(records["stamp"]), "Thread ID": records["thread"]}
            frames[name] = pd.DataFrame({**common, **columns(host, records)})
    return frames


def _compact(host: RawHost, kind: int) -> str | None:
    """Return the stream of a runtime type; its name is that of the type in the dictionary."""
    name = host.names.types.get((enums.RUNTIME, kind)) or _FALLBACK.get(kind)
    return f"compact.{name}" if name else None


def _stream_queue(_host: RawHost, records: Records) -> dict[str, Any]:
    return {
        "Device_id": records["device"],
        "Stream ID": records["stream"],
        "State": _name(records["status"], _STATES),
        "Queue ID": records["queue"],
        "Scheduler ID": records["scheduler"],
    }


def _memory_copy(_host: RawHost, records: Records) -> dict[str, Any]:
    return {
        "Device_id": records["device"],
        "Stream ID": records["stream"],
        "Direction": _name(records["kind"], enums.MEMCPY_DIRECTIONS),
        "Size(Byte)": _size(records["size"]),
    }


def _memory_fill(_host: RawHost, records: Records) -> dict[str, Any]:
    return {
        "Device_id": records["device"],
        "Stream ID": records["stream"],
        "Value": records["value"],
        "Size(Byte)": _size(records["size"]),
    }


def _memory_management(_host: RawHost, records: Records) -> dict[str, Any]:
    """Return the columns of memory management; the meaning of the runtime's operation numbers is unknown."""
    return {
        "Device_id": records["device"],
        "Stream ID": records["stream"],
        "Memory": _name(records["memory"], _MEMORIES),
        "Kind": records["kind"],
        "Address": records["address"],
        "Size(Byte)": _size(records["size"]),
    }


def _dpu_task(host: RawHost, records: Records) -> dict[str, Any]:
    start = host.clock.reaches(records["start"])
    start_ns = host.clock.to_ns(np.where(start, records["start"], 0))
    return {
        "Device_id": records["device"] & ((1 << _DEVICE_BITS) - 1),
        "Stream ID": records["stream"],
        "Task ID": records["task"],
        "Task Type": NameColumn.lookup(records["task_type"], lambda value: _task_type(host, value)).categorical(),
        "Start(ns)": pd.arrays.IntegerArray(start_ns, ~start),
    }


def _task_type(host: RawHost, value: int) -> str:
    return host.names.type_name(enums.RUNTIME, value, enums.TRACK_TASK_TYPES)


def _multi_thread(_host: RawHost, records: Records) -> dict[str, Any]:
    counts = np.minimum(records["count"], records["threads"].shape[1]).tolist()
    threads = zip(records["threads"].tolist(), counts, strict=True)
    return {"Threads": [",".join(map(str, ids[:count])) for ids, count in threads]}


def _name(values: npt.NDArray[Any], names: Mapping[int, str]) -> pd.Categorical:
    return NameColumn.lookup(values, lambda value: names.get(value) or str(value)).categorical()


def _size(values: npt.NDArray[Any]) -> pd.arrays.IntegerArray:
    sound = values < _MOST
    return pd.arrays.IntegerArray(np.where(sound, values, 0).astype(np.int64), ~sound)
