"""The key figures of a run: how long, how busy the devices were, and which kernels and calls took the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from npuprof.analysis.host_times import HostTimes, host_times
from npuprof.analysis.overlap import total, union
from npuprof.info import Info

_SUMMED = ("computing_ns", "communication_ns", "communication_not_overlapped_ns", "free_ns")
_SPANS = ("steps", "python", "operators", "api", "tasks", "kernels", "communication", "marks")


@dataclass(frozen=True)
class DeviceTimes:
    """How one device spent its time, in nanoseconds.

    Attributes
    ----------
    device_id
        The device.
    span_ns
        Time covered: ``computing_ns + communication_not_overlapped_ns + free_ns``, exactly.
    computing_ns, communication_ns
        Time in which it computed, and in which it communicated; both may be true at once.
    communication_not_overlapped_ns
        Time in which it communicated and did not compute.
    free_ns
        Time in which it did neither.
    rank
        The rank that it is of, in an analysis of all ranks; else None.
    in_steps
        Whether these are the vendor's sums over steps, the time between and around which is not covered.
    """

    device_id: int
    span_ns: int
    computing_ns: int
    communication_ns: int
    communication_not_overlapped_ns: int
    free_ns: int
    rank: int | None = None
    in_steps: bool = False

    @property
    def label(self) -> str:
        """What to call it: ``device 0``, or of all ranks ``rank 3``."""
        return f"device {self.device_id}" if self.rank is None else f"rank {self.rank}"

    @property
    def busy_ns(self) -> int:
        """Time in which the device computed or communicated."""
        return self.computing_ns + self.communication_not_overlapped_ns


@dataclass(frozen=True)
class Summary:
    """Key figures of a run. What its tables cannot tell is None, or a frame without rows.

    Attributes
    ----------
    wall_ns
        From start to stop of the collection when both are known, else from the first to the last slice. Of a
        selected stretch of time its length, of selected steps from their first to their last slice.
    devices
        One entry for each device with rows in ``overlap``; without any, for each device or rank in ``step_times``.
    communication_ns
        Time in which anything communicated, all devices together; where ``communication`` alone tells of a device.
    counts
        Rows by table name (``kernels``, ``tasks``, ``api``, ``operators``, ``communication``, ``steps``);
        None where the run does not have the table.
    top_ops
        The ops with the most device time: ``name, op_type, count, total_ns, mean_ns, max_ns, share``
        (share of the time of all kernels, 0..1).
    longest_kernels
        The longest single kernels: ``name, op_type, start_ns, duration_ns, device_id, stream_id, input_shapes, row``.
    top_api
        The CANN calls with the most host time, their callees' included: ``name, level, count, total_ns,
        mean_ns, max_ns``.
    memory_peaks
        The highest allocation of each device and component: ``device_id, component, time_ns, allocated_bytes,
        reserved_bytes`` (reserved at that moment).
    steps
        ``step, duration_ns`` in the order of time.
    host
        What the host did, in a run without a device.
    """

    wall_ns: int | None
    devices: tuple[DeviceTimes, ...]
    communication_ns: int | None
    counts: Mapping[str, int | None]
    top_ops: pd.DataFrame
    longest_kernels: pd.DataFrame
    top_api: pd.DataFrame
    memory_peaks: pd.DataFrame
    steps: pd.DataFrame
    host: HostTimes


def summarise(tables: Mapping[str, pd.DataFrame], info: Info, *, top: int = 5) -> Summary:
    """Sum a run up.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    info
        What is known of the run.
    top
        How many ops, kernels and calls to list.
    """
    counted = ("kernels", "tasks", "api", "operators", "communication", "steps")
    return Summary(
        wall_ns=_wall_ns(tables, info),
        devices=device_times(tables["overlap"]) or _step_sums(tables["step_times"]),
        communication_ns=_communication_ns(tables["communication"]),
        counts={name: len(tables[name]) or None for name in counted},
        top_ops=top_ops(tables["kernels"], top),
        longest_kernels=longest_kernels(tables["kernels"], top),
        top_api=_totals(tables["api"], ["name", "level"]).head(top),
        memory_peaks=memory_peaks(tables["memory"]),
        steps=tables["steps"].sort_values("start_ns", kind="stable")[["step", "duration_ns"]].reset_index(drop=True),
        host=host_times(tables, top),
    )


def covered(tables: Mapping[str, pd.DataFrame]) -> tuple[int, int] | None:
    """Return the first start and the last end of all slices, in epoch nanoseconds; None without any slice."""
    bounds = [
        (int(starts.min()), int((starts + frame["duration_ns"].to_numpy()).max()))
        for frame in (tables[name] for name in _SPANS)
        if len(starts := frame["start_ns"].to_numpy())
    ]
    if not bounds:
        return None
    return min(start for start, _ in bounds), max(end for _, end in bounds)


def _wall_ns(tables: Mapping[str, pd.DataFrame], info: Info) -> int | None:
    bounds = info.selection.get("start_ns", info.started_ns), info.selection.get("end_ns", info.stopped_ns)
    if bounds[0] is not None and bounds[1] is not None and "steps" not in info.selection:
        return int(bounds[1] - bounds[0])
    span = covered(tables)
    return None if span is None else span[1] - span[0]


def device_times(overlap: pd.DataFrame) -> tuple[DeviceTimes, ...]:
    """Sum the ``overlap`` table up for each device, in the order of device ids."""
    sums = overlap.groupby(["device_id", "kind"], observed=True)["duration_ns"].sum()
    devices = []
    for device in sorted(set(overlap["device_id"].tolist())):
        computing, communication, exposed, free = (
            int(sums.get((device, kind), 0))
            for kind in ("computing", "communication", "communication_not_overlapped", "free")
        )
        devices.append(DeviceTimes(device, computing + exposed + free, computing, communication, exposed, free))
    return tuple(devices)


def _step_sums(step_times: pd.DataFrame) -> tuple[DeviceTimes, ...]:
    """Sum the vendor's breakdown of steps up for each device, or each rank of an analysis of all of them."""
    rows = step_times[step_times[list(_SUMMED)].notna().any(axis=1).to_numpy(bool)]
    if "kind" in rows:  # a stage's times are the longest of its ranks
        rows = rows[(rows["kind"] == "rank").to_numpy(dtype=bool, na_value=False)]
    by_rank = "rank" in rows
    whose = rows["rank" if by_rank else "device_id"].fillna(-1 if by_rank else 0)
    devices = []
    for number, own in rows.groupby(whose.to_numpy(np.int64)):
        computing, communication, exposed, free = (int(own[name].fillna(0).sum()) for name in _SUMMED)
        device = own["device_id"].dropna()
        times = (computing + exposed + free, computing, communication, exposed, free)
        rank = int(cast("int", number)) if by_rank else None
        devices.append(DeviceTimes(int(device.iloc[0]) if len(device) else 0, *times, rank=rank, in_steps=True))
    return tuple(devices)


def _communication_ns(communication: pd.DataFrame) -> int | None:
    starts = communication["start_ns"].to_numpy(np.int64)
    return total(union(starts, starts + communication["duration_ns"].to_numpy(np.int64))) if len(starts) else None


def top_ops(kernels: pd.DataFrame, top: int) -> pd.DataFrame:
    """List the kernels with the most device time in all, by name and op type."""
    totals = _totals(kernels, ["name", "op_type"])
    whole = int(kernels["duration_ns"].sum())
    totals["share"] = totals["total_ns"] / whole if whole else np.full(len(totals), np.nan)
    first: pd.DataFrame = totals.iloc[:top]
    return first


def longest_kernels(kernels: pd.DataFrame, top: int) -> pd.DataFrame:
    """List the longest single kernels, the earlier first among equals; ``row`` is the row of ``kernels``."""
    columns = ["name", "op_type", "start_ns", "duration_ns", "device_id", "stream_id", "input_shapes"]
    rows = np.lexsort((kernels["start_ns"].to_numpy(), -kernels["duration_ns"].to_numpy()))[:top]
    longest: pd.DataFrame = kernels.iloc[rows][columns].reset_index(drop=True)
    longest["row"] = rows
    return longest


def memory_peaks(memory: pd.DataFrame) -> pd.DataFrame:
    """Find the sample of the highest allocation for each device and component."""
    columns = ["device_id", "component", "time_ns", "allocated_bytes", "reserved_bytes"]
    known = memory[memory["allocated_bytes"].notna()]
    ordered = known.sort_values(["allocated_bytes", "time_ns"], ascending=[False, True], kind="stable")
    peaks: pd.DataFrame = ordered.drop_duplicates(["device_id", "component"])[columns].reset_index(drop=True)
    return peaks


def _totals(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Count and sum durations by the columns `by`, the greatest sum first; integers stay exact."""
    groups = frame.groupby(by, observed=True, dropna=False, sort=False)["duration_ns"]
    totals: pd.DataFrame = groups.agg(count="size", total_ns="sum", max_ns="max").reset_index()
    totals.insert(len(by) + 2, "mean_ns", totals["total_ns"] // totals["count"])
    order = np.argsort(-totals["total_ns"].to_numpy(), kind="stable")
    ordered: pd.DataFrame = totals.iloc[order].reset_index(drop=True)
    return ordered
