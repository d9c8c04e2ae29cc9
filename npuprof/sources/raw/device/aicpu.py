"""AI CPU records: nodes, data preparation, models, queues, communication issued by AI CPUs, and task id wraps.

Source: raw/FORMAT.md section 5.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Bools, Float64, Int64, Records, taken
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.dictionaries import Dictionaries, NameColumn, hash_of
from npuprof.sources.raw.records import enums, layouts
from npuprof.tables.ledger import STATISTICS


def stream_ids(device: RawDevice, records: Records, field: str = "stream") -> Int64:
    """Return stream ids without their flag bits."""
    stream: Int64 = records[field].astype(np.int64)
    return stream if device.expanded else stream & device.stream_mask


def moments(device: RawDevice, counters: npt.NDArray[Any]) -> Int64:
    """Convert device counter values to UTC nanoseconds; ABSENT where no value was written."""
    good = device.clock.counter.reaches(counters) & (counters > 0)
    base = np.uint64(max(device.clock.counter.anchor_counter, 0))
    return np.where(good, device.clock.counter.to_ns(np.where(good, counters, base)), ABSENT)


_NO_RANK = 0xFFFFFFFF
_MOST = 1 << 62  # a larger value is not a size
_PARTS = {0: "head", 1: "tail"}

# Names of steps of which AI CPUs write only the hashes, which the host's dictionary may lack.
_STEP_NAMES = {
    hash_of(name): name
    for name in (
        *("hccl_info", "Notify_Record", "Notify_Wait", "Memcpy", "Inter_Rank_Record", "Inter_Processor_Sync"),
        *("Reduce_Inline", "RDMASend"),
    )
}


def read_operators(device: RawDevice, records: Records, names: Dictionaries) -> pd.DataFrame:
    """Build a row per operator that an AI CPU issued (type 10), with the stream and task of its kernel."""
    columns = {
        "Device_id": np.full(len(records), device.id),
        "Timestamp(ns)": optional(moments(device, records["stamp"])),
        "Stream ID": stream_ids(device, records),
        "Task ID": records["task"].astype(np.int64),
        "Group": _hash_names(names, records["group"]),
        "Data Type": _enum_names(records["data_type"], enums.HCCL_DATA_TYPES),
        "Algorithm": _hash_names(names, records["algorithm"]),
        "Count": _whole(records["count"], records["count"] < _MOST),
        "Rank Size": records["rank_size"].astype(np.int64),
        "Relay": records["flags"] & 1 != 0,
        "Retry": records["flags"] & 2 != 0,
    }
    return pd.DataFrame(columns)


def read_ends(device: RawDevice, records: Records, _names: Dictionaries) -> pd.DataFrame:
    """Build a row per first (``head``) or last (``tail``) step of a kernel that issues communication (type 12)."""
    columns = {
        "Device_id": np.full(len(records), device.id),
        "Stream ID": stream_ids(device, records),
        "Task ID": records["task"].astype(np.int64),
        "Main Stream ID": stream_ids(device, records, "main_stream"),
        "Main Task ID": records["main_task"].astype(np.int64),
        "Part": _enum_names(records["kind"], _PARTS),
    }
    return pd.DataFrame(columns)


def read_steps(device: RawDevice, records: Records, names: Dictionaries) -> pd.DataFrame:
    """Build a row per step that an AI CPU issued (type 13); a record holds two steps, the second one may be empty."""
    steps = np.ascontiguousarray(records["halves"]).reshape(-1)
    steps = steps[(steps["item"] != 0) | (steps["group"] != 0)]
    is_known = steps["item"] != 0
    columns = {
        "Device_id": np.full(len(steps), device.id),
        "Timestamp(ns)": optional(moments(device, steps["stamp"])),
        "Stream ID": stream_ids(device, steps),
        "Task ID": steps["task"].astype(np.int64) & 0xFFFF,
        "Name": NameColumn.lookup(steps["item"], lambda item: _step_name(names, item)).where(is_known).categorical(),
        "Group": _hash_names(names, steps["group"]),
        "Plane ID": steps["plane"].astype(np.int64),
        "Src Rank": _whole(steps["local_rank"], steps["local_rank"] != _NO_RANK),
        "Dst Rank": _whole(steps["remote_rank"], steps["remote_rank"] != _NO_RANK),
        "Rank Size": steps["rank_size"].astype(np.int64),
        "Stage": steps["stage"].astype(np.int64),
        "Notify ID": _whole(steps["notify"], steps["notify"] < _MOST),
        "Size(Byte)": _whole(steps["size"], steps["size"] < _MOST),
        "Duration Estimated(us)": np.where(np.isfinite(steps["estimated_us"]), steps["estimated_us"], np.nan),
        "Data Type": _enum_names(steps["data_type"], enums.HCCL_DATA_TYPES),
        "Link Type": _enum_names(steps["link"], enums.HCCL_LINKS),
        "Transport Type": _enum_names(steps["transport"], enums.HCCL_TRANSPORTS),
        "RDMA Type": _enum_names(steps["rdma"], enums.HCCL_RDMA_TYPES),
    }
    return pd.DataFrame(columns)


def _step_name(names: Dictionaries, item: int) -> str:
    return _STEP_NAMES[item] if item in _STEP_NAMES and not names.hashes.get(item) else names.name_of(item)


def _hash_names(names: Dictionaries, values: npt.NDArray[Any]) -> pd.Categorical:
    return names.names_of(values).where(values != 0).categorical()


def _enum_names(values: npt.NDArray[Any], names: Mapping[int, str]) -> pd.Categorical:
    """Return the names of enumeration values; unknown values are absent."""
    codes, distinct = pd.factorize(values)
    known_names = [names.get(value, "") for value in distinct.tolist()]
    absent = np.array([not name for name in known_names] + [True])[codes]
    return NameColumn.distinct(codes, known_names).where(~absent).categorical()


def _whole(values: npt.NDArray[Any], present: Bools) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(np.where(present, values, 0).astype(np.int64), ~present)


_NODE, _DATA, _MODEL, _QUEUE, _KFC_COMMUNICATION, _KFC_COMPUTE, _FLIP = 0, 1, 2, 3, 4, 5, 11
_OPERATORS, _ENDS, _STEPS = 10, 12, 13
_QUEUE_NODES = {1: "GetNext_dequeue_wait"}
_LONGEST_US = 366 * 86_400_000_000
_COMMUNICATION_STAMPS = (
    *("server_start", "wait_message", "algorithm_start", "send_task", "send_end", "queue_end", "server_end"),
)
_COMPUTE_STAMPS = ("wait_compute", "compute_start", "compute_end")


def read_aicpu(
    devices: Sequence[RawDevice], run: MutableMapping[str, pd.DataFrame], names: Dictionaries
) -> dict[str, pd.DataFrame]:
    """Read the records of AI CPUs.

    Parameters
    ----------
    run
        The tables of the run: `kernels` gets the columns `aicpu_compute_ns` and `aicpu_copy_ns` where AI CPUs ran
        kernels.

    Returns
    -------
    Frames with rows by name: ``aicpu`` and ``dp`` with the vendor's columns, where times are whole nanoseconds,
    ``Timestamp(ns)``; ``aicpu_mi`` (queues of MindSpore), ``aicpu_model``, ``kfc_comm_turn``, ``kfc_compute_turn`` and
    ``aicpu_flip`` with a row per record; and those of collectives, ``aicpu_hccl_op``, ``aicpu_hccl_ends`` and
    ``kfc_hccl_info``.
    """
    frames: dict[str, list[pd.DataFrame]] = {}
    nodes = []
    for device in devices:
        for kind, records in _by_type(device).items():
            if kind == _NODE:
                nodes.append(_node_rows(device, records, run["kernels"]))
                continue
            if kind in _NAMED_READERS:
                name, named_reader = _NAMED_READERS[kind]
                frames.setdefault(name, []).append(named_reader(device, records, names))
                device.keep("aicpu", STATISTICS, len(records), len(frames[name][-1]))
                continue
            name, reader = _READERS[kind]
            frames.setdefault(name, []).append(reader(device, records))
            device.keep("aicpu", STATISTICS, len(records), len(frames[name][-1]))
    if nodes:
        rows = pd.concat(nodes, ignore_index=True)
        run["kernels"] = _with_columns(run["kernels"], rows)
        frames["aicpu"] = [_node_table(rows, run["kernels"])]
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def _by_type(device: RawDevice) -> dict[int, Records]:
    """Read the records of a device by type, without the types that other readers read."""
    records = device.streams.read(f"aicpu.data.{device.id}", layouts.AICPU)
    undated = records["type"] == _STEPS  # the steps of these records have timestamps, the records do not
    dated = device.keep_sound(taken(records, ~undated), "aicpu", "stamp")
    records = np.concatenate((dated, records[undated])) if bool(undated.any()) else dated
    types = records["type"]
    known = {kind: dtype for kind, dtype in _LAYOUTS.items() if bool((types == kind).any())}
    other = int((~np.isin(types, list(_LAYOUTS))).sum())
    device.skip("aicpu", "records of other types are not decoded", other, info=True)
    return {kind: np.ascontiguousarray(records["body"][types == kind]).view(dtype) for kind, dtype in known.items()}


def _node_rows(device: RawDevice, records: Records, kernels: pd.DataFrame) -> pd.DataFrame:
    """Build a row per executed node; `kernel` is its row of `kernels`, or -1."""
    start, end = moments(device, records["run_start"]), moments(device, records["run_end"])
    ran = (start != ABSENT) & (end != ABSENT) & (start <= end)
    device.skip("aicpu", "nodes without start or end skipped", int((~ran).sum()))
    device.keep("aicpu", STATISTICS, int(ran.sum()))
    if not bool(ran.all()):
        records, start, end = records[ran], start[ran], end[ran]
    submitted, returned = moments(device, records["submit"]), moments(device, records["after_run"])
    total = np.where((submitted != ABSENT) & (returned != ABSENT), returned - submitted, -1)
    stream, task = stream_ids(device, records), records["task"].astype(np.int64)
    return pd.DataFrame(
        {
            "device": np.full(len(records), device.id),
            "stream": stream,
            "task": task,
            "start": start,
            "run": (end - start) / 1000,
            "compute": _passed_us(records["compute_start_us"], records["copy_start_us"]),
            "copy": _passed_us(records["copy_start_us"], records["copy_end_us"]),
            "dispatch": records["dispatch_us"].astype(np.float64),
            "total": np.where(total >= 0, total / 1000, np.nan),
            "kernel": _kernels_of(device, stream, task, start, kernels),
        }
    )


def _passed_us(begin: npt.NDArray[Any], end: npt.NDArray[Any]) -> Float64:
    passed = (end - begin).astype(np.float64)  # unsigned: a negative difference becomes huge
    return np.where((end >= begin) & (passed <= _LONGEST_US), passed, np.nan)


def _kernels_of(device: RawDevice, stream: Int64, task: Int64, start: Int64, kernels: pd.DataFrame) -> Int64:
    rows = np.flatnonzero(kernels["device_id"].to_numpy() == device.id)
    if not len(rows) or not len(start):
        return np.full(len(start), -1)
    selected_rows = kernels.iloc[rows]
    begins = selected_rows["start_ns"].to_numpy()
    ends = begins + selected_rows["duration_ns"].to_numpy()
    theirs = selected_rows["stream_id"].to_numpy(np.int64, na_value=-1) << 16 | selected_rows["task_id"].to_numpy(
        np.int64
    )
    row = joins.latest(stream << 16 | task, start, theirs, begins)
    within = (row >= 0) & (start <= ends[row])
    return np.where(within, rows[row], -1)


def _with_columns(kernels: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    joined_rows = rows[rows["kernel"] >= 0]
    if not len(joined_rows):
        return kernels
    columns = {}
    for name, source in (("aicpu_compute_ns", "compute"), ("aicpu_copy_ns", "copy")):
        values = np.full(len(kernels), ABSENT)
        written = joined_rows[joined_rows[source].notna()]
        values[written["kernel"].to_numpy()] = (written[source] * 1000).astype(np.int64).to_numpy()
        columns[name] = optional(values)
    return kernels.assign(**columns)


def _node_table(rows: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    names = np.array([*kernels["op_name"].astype(object), None], object)  # the last entry is for row -1
    return pd.DataFrame(
        {
            "Device_id": rows["device"],
            "Timestamp(ns)": rows["start"],
            "Node": pd.Series(names[rows["kernel"].to_numpy()], dtype=object),
            "Compute_time(us)": rows["compute"],
            "Memcpy_time(us)": rows["copy"],
            "Task_time(us)": rows["run"],
            "Dispatch_time(us)": rows["dispatch"],
            "Total_time(us)": rows["total"],
            "Stream ID": rows["stream"],
            "Task ID": rows["task"],
        }
    )


def _describe(device: RawDevice, records: Records, columns: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({"Device_id": np.full(len(records), device.id), **columns})


def _text(values: npt.NDArray[Any]) -> list[str]:
    return [value.split(b"\0", 1)[0].decode("utf-8", "replace") for value in values.tolist()]


def _data(device: RawDevice, records: Records) -> pd.DataFrame:
    columns = {
        "Timestamp(ns)": device.clock.counter.to_ns(records["stamp"]),
        "Action": _text(records["action"]),
        "Source": _text(records["source"]),
        "Cached Buffer Size": records["size"],
    }
    return _describe(device, records, columns)


def _model(device: RawDevice, records: Records) -> pd.DataFrame:
    columns = {
        "Timestamp(ns)": device.clock.counter.to_ns(records["stamp"]),
        **{f"{name.title()} Id": records[name] for name in ("index", "model", "tag", "event")},
    }
    return _describe(device, records, columns)


def _queue(device: RawDevice, records: Records) -> pd.DataFrame:
    """Read waits for a MindSpore queue; their microseconds come from an unknown clock and stay unconverted."""
    columns = {
        "Node Name": [_QUEUE_NODES.get(node) or str(node) for node in records["node"].tolist()],
        "Start(us)": records["start_us"],
        "End(us)": records["end_us"],
        "Queue Size": records["size"],
    }
    return _describe(device, records, columns)


def _turns(names: Sequence[str]) -> Callable[[RawDevice, Records], pd.DataFrame]:
    def read(device: RawDevice, records: Records) -> pd.DataFrame:
        stamps = {
            f"{name}(ns)": optional(moments(device, records["stamps"][:, column])) for column, name in enumerate(names)
        }
        ids = {"Stream ID": stream_ids(device, records), "Task ID": records["task"]}
        return _describe(device, records, {**ids, "Turns": records["turns"], "Turn": records["turn"], **stamps})

    return read


def _flip(device: RawDevice, records: Records) -> pd.DataFrame:
    columns = {
        "Timestamp(ns)": device.clock.counter.to_ns(records["stamp"]),
        "Stream ID": stream_ids(device, records),
        "Task ID": records["task"],
        "Flip": records["flips"],
    }
    return _describe(device, records, columns)


_LAYOUTS: Mapping[int, np.dtype[Any]] = {
    _NODE: layouts.AICPU_NODE,
    _DATA: layouts.AICPU_DATA,
    _MODEL: layouts.AICPU_MODEL,
    _QUEUE: layouts.AICPU_QUEUE,
    _KFC_COMMUNICATION: layouts.KFC_COMMUNICATION,
    _KFC_COMPUTE: layouts.KFC_COMPUTE,
    _FLIP: layouts.AICPU_FLIP,
    _OPERATORS: layouts.AICPU_HCCL_OP,
    _ENDS: layouts.AICPU_MASTER_STREAM,
    _STEPS: layouts.AICPU_KFC_HCCL,
}
_READERS: Mapping[int, tuple[str, Callable[[RawDevice, Records], pd.DataFrame]]] = {
    _DATA: ("dp", _data),
    _MODEL: ("aicpu_model", _model),
    _QUEUE: ("aicpu_mi", _queue),
    _KFC_COMMUNICATION: ("kfc_comm_turn", _turns(_COMMUNICATION_STAMPS)),
    _KFC_COMPUTE: ("kfc_compute_turn", _turns(_COMPUTE_STAMPS)),
    _FLIP: ("aicpu_flip", _flip),
}
_NAMED_READERS: Mapping[int, tuple[str, Callable[[RawDevice, Records, Dictionaries], pd.DataFrame]]] = {
    _OPERATORS: ("aicpu_hccl_op", read_operators),
    _ENDS: ("aicpu_hccl_ends", read_ends),
    _STEPS: ("kfc_hccl_info", read_steps),
}
