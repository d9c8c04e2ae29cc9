"""What AI CPUs wrote of the communication that they issue: operators, their first and last steps, and every step.

Source: raw/FORMAT.md section 5.6 (types 10, 12 and 13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Bools, Records
from npuprof.sources.columns.nullable import optional
from npuprof.sources.raw.device.aicpu_fields import moments, stream_ids
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.metadata.dictionaries import Dictionaries, Names, hash_of
from npuprof.sources.raw.records import enums

_NO_RANK = 0xFFFFFFFF
_MOST = 1 << 62  # more is no size of anything
_PARTS = {0: "head", 1: "tail"}

# Names of steps that AI CPUs write the hashes of, which no dictionary of the host need hold.
_STEPS = {
    hash_of(name): name
    for name in (
        *("hccl_info", "Notify_Record", "Notify_Wait", "Memcpy", "Inter_Rank_Record", "Inter_Processor_Sync"),
        *("Reduce_Inline", "RDMASend"),
    )
}


def read_operators(device: Device, records: Records, names: Dictionaries) -> pd.DataFrame:
    """Make a row an operator that an AI CPU issued (type 10); stream and task are those of its kernel."""
    columns = {
        "Device_id": np.full(len(records), device.id),
        "Timestamp(ns)": optional(moments(device, records["stamp"])),
        "Stream ID": stream_ids(device, records),
        "Task ID": records["task"].astype(np.int64),
        "Group": _hashed(names, records["group"]),
        "Data Type": _named(records["data_type"], enums.HCCL_DATA_TYPES),
        "Algorithm": _hashed(names, records["algorithm"]),
        "Count": _whole(records["count"], records["count"] < _MOST),
        "Rank Size": records["rank_size"].astype(np.int64),
        "Relay": records["flags"] & 1 != 0,
        "Retry": records["flags"] & 2 != 0,
    }
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def read_ends(device: Device, records: Records, _names: Dictionaries) -> pd.DataFrame:
    """Make a row a first (``head``) or last (``tail``) step of a kernel that issues communication (type 12)."""
    columns = {
        "Device_id": np.full(len(records), device.id),
        "Stream ID": stream_ids(device, records),
        "Task ID": records["task"].astype(np.int64),
        "Main Stream ID": stream_ids(device, records, "main_stream"),
        "Main Task ID": records["main_task"].astype(np.int64),
        "Part": _named(records["kind"], _PARTS),
    }
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def read_steps(device: Device, records: Records, names: Dictionaries) -> pd.DataFrame:
    """Make a row a step that an AI CPU issued (type 13); a record holds two of them, the second may be blank."""
    steps = np.ascontiguousarray(records["halves"]).reshape(-1)
    steps = steps[(steps["item"] != 0) | (steps["group"] != 0)]
    known = steps["item"] != 0
    columns = {
        "Device_id": np.full(len(steps), device.id),
        "Timestamp(ns)": optional(moments(device, steps["stamp"])),
        "Stream ID": stream_ids(device, steps),
        "Task ID": steps["task"].astype(np.int64) & 0xFFFF,
        "Name": Names.lookup(steps["item"], lambda item: _step_name(names, item)).where(known).categorical(),
        "Group": _hashed(names, steps["group"]),
        "Plane ID": steps["plane"].astype(np.int64),
        "Src Rank": _whole(steps["local_rank"], steps["local_rank"] != _NO_RANK),
        "Dst Rank": _whole(steps["remote_rank"], steps["remote_rank"] != _NO_RANK),
        "Rank Size": steps["rank_size"].astype(np.int64),
        "Stage": steps["stage"].astype(np.int64),
        "Notify ID": _whole(steps["notify"], steps["notify"] < _MOST),
        "Size(Byte)": _whole(steps["size"], steps["size"] < _MOST),
        "Duration Estimated(us)": np.where(np.isfinite(steps["estimated_us"]), steps["estimated_us"], np.nan),
        "Data Type": _named(steps["data_type"], enums.HCCL_DATA_TYPES),
        "Link Type": _named(steps["link"], enums.HCCL_LINKS),
        "Transport Type": _named(steps["transport"], enums.HCCL_TRANSPORTS),
        "RDMA Type": _named(steps["rdma"], enums.HCCL_RDMA_TYPES),
    }
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def _step_name(names: Dictionaries, item: int) -> str:
    return _STEPS[item] if item in _STEPS and not names.hashes.get(item) else names.name_of(item)


def _hashed(names: Dictionaries, values: npt.NDArray[Any]) -> pd.Categorical:
    return names.names_of(values).where(values != 0).categorical()


def _named(values: npt.NDArray[Any], names: Mapping[int, str]) -> pd.Categorical:
    """Name the numbers of an enumeration; any other number stands for none."""
    codes, distinct = pd.factorize(values)
    known = [names.get(value, "") for value in distinct.tolist()]
    absent = np.array([not name for name in known] + [True])[codes]
    return Names.distinct(codes, known).where(~absent).categorical()


def _whole(values: npt.NDArray[Any], present: Bools) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(np.where(present, values, 0).astype(np.int64), ~present)
