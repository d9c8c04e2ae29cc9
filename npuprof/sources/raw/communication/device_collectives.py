"""Collectives that AI CPUs issue on the device: their steps have AI CPU records instead of host records.

A kernel on the issuing stream of a group is the operator; tasks on the group's streams that start while it runs are its
steps.

Source: raw/FORMAT.md sections 4.2 (mc2_comm_info) and 5.6 (types 10 and 13).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Uint64
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.raw.host.captures import CaptureStreams
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.records import layouts

_AI_CPU = "AI_CPU"
_MARK = "MsTx"
_DIGITS = 3  # digits of the group's hash in operator names
_MOST_ISSUERS = 8  # issuers per stream: a stream is in few groups


@dataclass(frozen=True)
class Groups:
    """Communication groups that AI CPUs serve; parallel arrays, a row per stream of a group."""

    group: Uint64  # the group's hash
    rank_size: Int64  # its number of ranks
    stream: Int64  # A stream on which its steps run
    issuer: Int64  # the stream of the kernels that issue the steps


def read_groups(host: RawHost) -> tuple[Groups, pd.DataFrame]:
    """Read mc2_comm_info: the groups, and the records as a statistics frame; both may be empty."""
    records, _ = host.read("additional.mc2_comm_info", layouts.MC2_COMM)
    width = records["streams"].shape[1]
    counts = np.minimum(records["count"], width)
    rows, columns = np.nonzero(np.arange(width) < counts[:, None])
    groups = Groups(
        records["group"][rows],
        records["rank_size"][rows].astype(np.int64),
        records["streams"][rows, columns].astype(np.int64),
        records["kfc_stream"][rows].astype(np.int64),
    )
    listed = zip(records["streams"].tolist(), counts.tolist(), strict=True)
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Group": host.names.names_of(records["group"]).categorical(),
            "Rank Size": records["rank_size"],
            "Rank ID": records["rank"],
            "User Rank ID": records["user_rank"],
            "Issuing Stream ID": records["kfc_stream"],
            "Stream IDs": [",".join(map(str, ids[:count])) for ids, count in listed],
        }
    )
    return groups, frame


def add_rows(
    host: RawHost,
    graphs: CaptureStreams,
    frames: MutableMapping[str, pd.DataFrame],
    statistics: Mapping[str, pd.DataFrame],
) -> dict[str, pd.DataFrame]:
    """Add the communication that AI CPUs issued to `communication` and `communication_tasks`."""
    groups, listed = read_groups(host)
    if not len(listed):
        return {}
    kernels = _issuers(frames["kernels"], groups, graphs)
    steps = _steps(frames["tasks"], frames["communication_tasks"], groups)
    kernel, row = _issued_by(kernels, steps, groups)
    steps = steps.assign(kernel=kernel, row=row)
    steps = steps[steps["kernel"] >= 0].reset_index(drop=True)
    if len(steps):
        operators, operator_of_step = _operators(host, kernels, steps, groups, statistics.get("aicpu_hccl_op"))
        described = _describe(steps, operator_of_step, statistics.get("kfc_hccl_info"))
        _append(frames, operators, described)
    return {"mc2_comm_info": listed}


def are_issuers(kernels: pd.DataFrame, graphs: CaptureStreams, listed: pd.DataFrame | None) -> Bools:
    """Return a mask of kernels on streams that issue communication, by ``mc2_comm_info``; they do not compute."""
    if listed is None:
        return np.zeros(len(kernels), bool)
    device, stream = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("device_id", "stream_id"))
    return np.isin(graphs.original_of(device, stream, kernels["start_ns"].to_numpy()), listed["Issuing Stream ID"])


def _issuers(kernels: pd.DataFrame, groups: Groups, graphs: CaptureStreams) -> pd.DataFrame:
    on_ai_cpu = kernels[(kernels["core"] == _AI_CPU).fillna(False).to_numpy(bool)]
    device, stream = (on_ai_cpu[name].to_numpy(np.int64) for name in ("device_id", "stream_id"))
    issuer = graphs.original_of(device, stream, on_ai_cpu["start_ns"].to_numpy())
    return on_ai_cpu.assign(issuer=issuer)[np.isin(issuer, groups.issuer)].reset_index(drop=True)


def _steps(tasks: pd.DataFrame, known_rows: pd.DataFrame, groups: Groups) -> pd.DataFrame:
    is_selected = tasks["stream_id"].isin(groups.stream) & (tasks["task_type"] != _MARK)
    ids = ["device_id", "stream_id", "task_id", "start_ns"]
    rows = tasks[is_selected.to_numpy(bool)]
    if len(known_rows):
        taken = pd.MultiIndex.from_frame(known_rows[ids].astype(np.int64))
        rows = rows[~pd.MultiIndex.from_frame(rows[ids].astype(np.int64)).isin(taken)]
    return rows.reset_index(drop=True)


def _issued_by(kernels: pd.DataFrame, steps: pd.DataFrame, groups: Groups) -> tuple[Int64, Int64]:
    """Return the kernel that issued each step, and the row of its group; -1 for none."""
    kernel, row = np.full(len(steps), -1, np.int64), np.full(len(steps), -1, np.int64)
    if not len(kernels) or not len(steps):
        return kernel, row
    device, starts = (steps[name].to_numpy(np.int64) for name in ("device_id", "start_ns"))
    kernel_keys = kernels["device_id"].to_numpy(np.int64) << 32 | kernels["issuer"].to_numpy(np.int64)
    begins = kernels["start_ns"].to_numpy()
    ends = begins + kernels["duration_ns"].to_numpy()
    latest = np.full(len(steps), np.iinfo(np.int64).min)
    for at in _rows_of_streams(steps["stream_id"].to_numpy(np.int64), groups):
        issuer = np.append(groups.issuer, -1)[at]
        latest_kernel = joins.latest(device << 32 | issuer, starts, kernel_keys, begins)
        better = (at >= 0) & (latest_kernel >= 0) & (starts <= ends[latest_kernel]) & (begins[latest_kernel] > latest)
        kernel[better], row[better], latest[better] = latest_kernel[better], at[better], begins[latest_kernel[better]]
    return kernel, row


def _rows_of_streams(streams: Int64, groups: Groups) -> list[Int64]:
    """Return the rows of `groups` for each stream, as columns: the n-th array has the n-th row, -1 for none."""
    _, first = np.unique(np.stack((groups.stream, groups.issuer)), axis=1, return_index=True)
    order = first[np.argsort(groups.stream[first], kind="stable")]
    ordered = groups.stream[order]
    low, high = np.searchsorted(ordered, streams), np.searchsorted(ordered, streams, side="right")
    turns = min(int((high - low).max(initial=0)), _MOST_ISSUERS)
    return [
        np.where(low + turn < high, np.append(order, -1)[np.minimum(low + turn, len(order))], -1)
        for turn in range(turns)
    ]


def _operators(
    host: RawHost, kernels: pd.DataFrame, steps: pd.DataFrame, groups: Groups, recorded: pd.DataFrame | None
) -> tuple[pd.DataFrame, Int64]:
    """Build the operators, each from its first step's start to its last step's end, and each step's operator."""
    ends = steps["start_ns"].to_numpy() + steps["duration_ns"].to_numpy()
    issuing, operator = np.unique(steps["kernel"].to_numpy(), return_inverse=True)
    first = np.full(len(issuing), np.iinfo(np.int64).max)
    last = np.full(len(issuing), np.iinfo(np.int64).min)
    np.minimum.at(first, operator, steps["start_ns"].to_numpy())
    np.maximum.at(last, operator, ends)
    row = np.zeros(len(issuing), np.int64)
    row[operator] = steps["row"].to_numpy()
    selected_rows = kernels.iloc[issuing]
    group = groups.group[row]
    kinds = selected_rows["name"].astype(object).where(selected_rows["name"].notna(), _AI_CPU).tolist()
    columns: dict[str, Any] = {
        "start_ns": first,
        "duration_ns": last - first,
        "device_id": selected_rows["device_id"].to_numpy(),
        "op_type": pd.Categorical(kinds),
        "group": host.names.names_of(group).where(group != 0).categorical(),
        "connection_id": selected_rows["connection_id"].array,
        "step": selected_rows["step"].array,
        "rank_size": pd.array(groups.rank_size[row], "Int64"),
        **_ai_cpu_records(selected_rows, recorded),
    }
    order = np.argsort(first, kind="stable")
    number = np.zeros(len(order), np.int64)
    codes, _ = pd.factorize(group)
    number[order] = joins.turns((columns["device_id"] * (len(order) + 1) + codes)[order])
    parts = zip(kinds, group.tolist(), number.tolist(), strict=True)
    columns["name"] = pd.Categorical([f"{kind}_{str(suffix)[-_DIGITS:]}_{turn}_1" for kind, suffix, turn in parts])
    return tables.build("communication", columns), operator


def _ai_cpu_records(kernels: pd.DataFrame, recorded: pd.DataFrame | None) -> dict[str, Any]:
    """Return the AI CPU records of the operators of these kernels."""
    if recorded is None:
        return {}
    ids = ("device_id", "stream_id", "task_id")
    at = _match(kernels, ids, recorded, ("Device_id", "Stream ID", "Task ID"))
    records = recorded.iloc[at].reset_index(drop=True)
    absent = at < 0
    names = {"data_type": "Data Type", "algorithm": "Algorithm", "count": "Count", "relay": "Relay", "retry": "Retry"}
    columns = {}
    for column, name in names.items():
        values = records[name].astype("boolean") if records[name].dtype == bool else records[name]
        columns[column] = values.mask(absent).array
    return columns


def _describe(steps: pd.DataFrame, operator: Int64, recorded: pd.DataFrame | None) -> pd.DataFrame:
    columns: dict[str, Any] = {
        **{name: steps[name].to_numpy() for name in ("start_ns", "duration_ns", "device_id")},
        "op_id": operator,
        "task_type": steps["task_type"].array,
        **{name: steps[name].array for name in ("stream_id", "task_id", "context_id")},
        "estimated_us": np.full(len(steps), np.nan),
    }
    if recorded is not None:
        at = _match(steps, ("device_id", "stream_id", "task_id"), recorded, ("Device_id", "Stream ID", "Task ID"))
        absent = at < 0
        records = recorded.iloc[at].reset_index(drop=True).apply(lambda column: column.mask(absent))
        named_rows = records["Name"].astype(object)
        columns["task_type"] = pd.Categorical(named_rows.where(named_rows.notna(), steps["task_type"].astype(object)))
        names = {"plane_id": "Plane ID", "src_rank": "Src Rank", "dst_rank": "Dst Rank", "size_bytes": "Size(Byte)"}
        names |= {"notify_id": "Notify ID"}
        columns |= {column: records[name].astype("Int64").array for column, name in names.items()}
        names = {"transport": "Transport Type", "link": "Link Type", "data_type": "Data Type", "rdma_type": "RDMA Type"}
        columns |= {column: records[name].astype("category").array for column, name in names.items()}
        columns["estimated_us"] = records["Duration Estimated(us)"].to_numpy(np.float64)
        lasted = np.where(columns["duration_ns"] > 0, columns["duration_ns"], np.nan)
        columns["bandwidth_gb_s"] = records["Size(Byte)"].to_numpy(np.float64, na_value=np.nan) / lasted
    return tables.build("communication_tasks", columns)


def _match(
    left_rows: pd.DataFrame, left_ids: tuple[str, ...], right: pd.DataFrame, right_ids: tuple[str, ...]
) -> Int64:
    """Return the row of `right` with the ids of each row of `left_rows`; repeated ids are matched in order."""
    keys = []
    for frame, names in ((left_rows, left_ids), (right, right_ids)):
        device, stream, task = (frame[name].to_numpy(np.int64) for name in names)
        keys.append(joins.task_keys(device, stream, np.zeros(len(frame), np.int64), task))
    return joins.match(keys[0], np.arange(len(left_rows)), keys[1], np.arange(len(right)))


def _append(frames: MutableMapping[str, pd.DataFrame], operators: pd.DataFrame, steps: pd.DataFrame) -> None:
    """Merge the rows into those of the host in order of time, and renumber `op_id`."""
    before = len(frames["communication"])
    joined_rows = stacked([frames["communication"], operators])
    order = np.lexsort((-joined_rows["duration_ns"].to_numpy(), joined_rows["start_ns"].to_numpy()))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    frames["communication"] = joined_rows.iloc[order].reset_index(drop=True)
    tasks = stacked([frames["communication_tasks"], steps.assign(op_id=steps["op_id"] + before)])
    tasks["op_id"] = pd.array(rank[tasks["op_id"].to_numpy(np.int64)], "Int64")
    frames["communication_tasks"] = tables.sort_by_time(tasks)
