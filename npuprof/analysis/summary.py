"""The key figures of a run: its duration, the utilisation of devices, and the top kernels and calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, NOT_RECORDED, PARTS, Accounting, account
from npuprof.analysis.device_words import runtime_of
from npuprof.analysis.host_times import HostTimes
from npuprof.analysis.intervals import executed_spans, total, union, within
from npuprof.analysis.memory_peak import BLOCKS, owning_devices, peak_of_blocks
from npuprof.analysis.step_windows import Origin, run_window
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, size
from npuprof.words.texts import plain_lines

_PEAK_TYPES = {"device_id": "Int64", "time_ns": "Int64", "allocated_bytes": "Int64"}


@dataclass(frozen=True)
class DeviceTimes:
    """The parts of the steps of a device, in nanoseconds."""

    device_id: int | None  # the device; None if only its rank is known
    rank: int | None  # the rank in an analysis of all ranks; None in a run, and if the rank cannot be read
    basis: Origin  # the origin of the steps; `run` if there are none and the times are those of the whole run
    steps: tuple[int, ...]  # duration of each step
    parts: Mapping[str, int]  # time by part of `PARTS`; the parts add up to `span_ns`

    @property
    def label(self) -> str:
        """``device 0``, or in an analysis of all ranks ``rank 3``; ``rank unknown`` if the rank cannot be read."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return "rank unknown" if self.device_id is None else f"device {self.device_id}"

    @property
    def span_ns(self) -> int:
        """Total duration of all steps."""
        return sum(self.steps)

    @property
    def computing_ns(self) -> int:
        """Time of kernels."""
        return self.parts["computing"]

    @property
    def busy_ns(self) -> int:
        """Time with a kernel, collective or copy."""
        return self.span_ns - self.idle_ns - self.parts[BETWEEN_STEPS] - self.parts[NOT_RECORDED]

    @property
    def idle_ns(self) -> int:
        """Time of the steps' marks without a kernel, collective or copy."""
        return sum(self.parts[part] for part in IDLE)

    @property
    def communication_ns(self) -> int:
        """Time of exposed communication, which no kernel overlaps."""
        return sum(self.parts[part] for part in ("waiting", "moving", "communication"))

    @property
    def where(self) -> str:
        """What the times cover: ``3 steps``, or ``the run, which has no steps``."""
        if self.basis == "run":
            return "the run, which has no steps"
        return counted(len(self.steps), "step")


@dataclass(frozen=True)
class Summary:
    """Key figures of a run. Figures without a table are None or an empty frame."""

    # From start to stop of the collection if both are known, without the time in which no cell ran, else from the first
    # to the last slice. For a selected interval, its length; for selected steps, from their first to their last slice.
    wall_ns: int | None
    devices: tuple[DeviceTimes, ...]  # an entry per device, or per rank in an analysis of all ranks; see `accounting`
    # Time with any communication on any device; for devices that only have the table `communication`.
    communication_ns: int | None
    # Number of rows by table (`kernels`, `tasks`, `api`, `operators`, `communication`, `steps`); None if the run does
    # not have the table.
    counts: Mapping[str, int | None]
    # The ops with the most device time: `name, op_type, count, total_ns, mean_ns` (rounded down), `max_ns, share` (of
    # all kernel time, 0..1).
    top_ops: pd.DataFrame
    # The longest kernel of each name and input shapes: `name, op_type, start_ns, duration_ns, device_id, stream_id,
    # input_shapes, row, count, total_ns, bound` (the busiest pipe, or another counter).
    longest_kernels: pd.DataFrame
    # The CANN calls with the most host time, including callees: `name, level, count, total_ns, mean_ns, max_ns`.
    top_api: pd.DataFrame
    # The highest allocation of each device and component: `device_id, component, time_ns, allocated_bytes,
    # reserved_bytes` (at the same time).
    memory_peaks: pd.DataFrame
    step_ns: int | None  # the mean step; None without steps
    host: HostTimes  # host times, for a run without a device
    runtime: str  # the runtime that the host calls: `CANN`, `CUDA` ..

    def __repr__(self) -> str:
        shown = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self))
        return plain_lines(f"{type(self).__name__}({shown})")


def summarise(
    tables: Mapping[str, pd.DataFrame], info: Info, accounting: Accounting | None = None, *, top: int = 5
) -> Summary:
    """Compute the key figures of a run."""
    counted_names = ("kernels", "tasks", "api", "operators", "communication", "steps")
    parts = (
        account(
            tables,
            selection=info.selection,
            executed=info.executed,
            examination=info.examination,
            recorded=info.recorded,
        )
        if accounting is None
        else accounting
    )
    return Summary(
        wall_ns=_wall_ns(tables, info),
        devices=() if parts.of_host else device_times(parts, by_rank="rank" in tables["step_times"]),
        communication_ns=_communication_ns(tables["communication"]),
        counts={name: len(tables[name]) or None for name in counted_names},
        top_ops=top_ops(tables["kernels"], top),
        longest_kernels=longest_kernels(tables["kernels"], top),
        top_api=_totals(tables["api"], ["name", "level"]).head(top),
        memory_peaks=memory_peaks(tables["memory"], tables["allocations"]),
        step_ns=parts.basis.mean_ns if parts.has_steps else None,
        host=HostTimes(tables, parts, top),
        runtime=runtime_of(tables["api"]["name"].cat.categories, info),
    )


def _wall_ns(tables: Mapping[str, pd.DataFrame], info: Info) -> int | None:
    bounds = info.selection.get("start_ns", info.started_ns), info.selection.get("end_ns", info.stopped_ns)
    if bounds[0] is not None and bounds[1] is not None and "steps" not in info.selection:
        begin, end = int(bounds[0]), max(int(bounds[0]), int(bounds[1]))
        if not info.executed:
            return end - begin
        return int(within(executed_spans(info.executed), np.array([begin]), np.array([end]))[0])
    span = run_window(tables)
    return None if span is None else span[1] - span[0]


def device_times(accounting: Accounting, *, by_rank: bool = False) -> tuple[DeviceTimes, ...]:
    """Sum the steps of each device that figures rest on, ordered by device."""
    parts = accounting.by_part().iloc[accounting.basis.rows]
    devices = []
    for number, rows in parts.groupby("rank" if by_rank else "device_id", dropna=False, sort=True):
        device = rows["device_id"].dropna()
        devices.append(
            DeviceTimes(
                device_id=int(device.iloc[0]) if len(device) else 0 if not by_rank else None,
                rank=None if not by_rank or pd.isna(number) else int(cast("int", number)),
                basis=rows["basis"].iloc[0],
                steps=tuple(rows["duration_ns"].tolist()),
                parts={part: int(rows[part].sum()) for part in PARTS},
            )
        )
    return tuple(devices)


def _communication_ns(communication: pd.DataFrame) -> int | None:
    starts = communication["start_ns"].to_numpy(np.int64)
    return total(union(starts, starts + communication["duration_ns"].to_numpy(np.int64))) if len(starts) else None


def top_ops(kernels: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the kernels with the most total device time, by name and op type."""
    totals = _totals(kernels, ["name", "op_type"])
    whole = int(kernels["duration_ns"].sum())
    totals["share"] = totals["total_ns"] / whole if whole else np.full(len(totals), np.nan)
    return totals.iloc[:top]


def longest_kernels(kernels: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the longest kernel of each name and input shapes, earlier ones first at equal durations, and its bound.

    ``row`` is the kernel's row in ``kernels``; ``count`` and ``total_ns`` cover all kernels of the name and shapes.
    """
    columns = ["name", "op_type", "start_ns", "duration_ns", "device_id", "stream_id", "input_shapes"]
    if kernels.empty:
        counts = dict.fromkeys(("row", "count", "total_ns"), np.zeros(0, np.int64))
        return pd.DataFrame({name: kernels[name].array for name in columns} | counts | {"bound": np.zeros(0, object)})
    durations = kernels["duration_ns"].to_numpy(np.int64)
    order = np.lexsort((kernels["start_ns"].to_numpy(), -durations))
    number = (
        kernels.groupby(["name", "input_shapes"], observed=True, dropna=False, sort=False).ngroup().to_numpy(np.int64)
    )
    rows = order[np.sort(np.unique(number[order], return_index=True)[1])[:top]]
    longest: pd.DataFrame = kernels.iloc[rows][columns].reset_index(drop=True)
    total = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    np.add.at(total, number, durations)
    longest["row"] = rows
    longest["count"], longest["total_ns"] = np.bincount(number, minlength=len(total))[number[rows]], total[number[rows]]
    longest["bound"] = [bound_by(kernels.iloc[row]) for row in rows]
    return longest


PIPES = ("mac", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe")
"""The pipes of a core."""
COUNTED = ("aic_", "aiv_", *(f"{pipe}_" for pipe in PIPES))
"""How columns of counters begin: those of a chip with one kind of core have no prefix."""
_L2 = ("(read|write)_cache_hit|_l2_hit", "(read|write)_cache_miss|_l2_miss")


def bound_by(kernel: pd.Series[Any]) -> str:
    """Return the bound of a kernel by its recorded counters; empty without counters.

    It is the busiest pipe, ``mte2 92 %``; without pipe metrics, the greatest of the recorded ratios,
    ``vec fp32 12 %``, the hit rate of L2, ``L2 hits 80 %``, the greatest bandwidth,
    ``main mem read 12.5 GB/s``, or amount of data, ``gm to l1 1.00 MiB``.
    """
    values = {
        name: float(kernel[name])
        for name in kernel.index
        if name.startswith(COUNTED) and not pd.isna(kernel[name]) and float(kernel[name]) > 0
    }
    hits, misses = (sum(value for name, value in values.items() if re.search(kind, name)) for kind in _L2)
    if hits or misses:
        return f"L2 hits {100 * hits / (hits + misses):.0f} %"
    pipes = {name: value for name, value in values.items() if _counter(name).removesuffix("_ratio") in PIPES}
    for ending, of in (("_ratio", pipes), ("_ratio", values), ("_bw_gb_s", values), ("_kb", values)):
        chosen = {name: value for name, value in of.items() if name.endswith(ending)}
        if greatest := max(chosen, key=lambda name: chosen[name], default=""):
            value = chosen[greatest]
            formatted = {"_ratio": f"{100 * value:.0f} %", "_kb": size(round(1024 * value))}
            counter = _counter(greatest).removesuffix(ending).replace("_", " ")
            return f"{counter} {formatted.get(ending, f'{value:,.1f} GB/s')}"
    return ""


def _counter(column: str) -> str:
    """Return the name of a counter without the core that counted it."""
    return column.removeprefix("aic_").removeprefix("aiv_")


def memory_peaks(memory: pd.DataFrame, allocations: pd.DataFrame) -> pd.DataFrame:
    """Return the sample with the highest allocation for each device and component, and what blocks show beyond it."""
    columns = ["device_id", "component", "time_ns", "allocated_bytes", "reserved_bytes"]
    if memory.empty and allocations.empty:
        return memory[columns]
    known_rows = memory[memory["allocated_bytes"].notna()]
    ordered = known_rows.sort_values(["allocated_bytes", "time_ns"], ascending=[False, True], kind="stable")
    peaks: pd.DataFrame = ordered.drop_duplicates(["device_id", "component"])[columns].reset_index(drop=True)
    for device in owning_devices({"memory": memory, "allocations": allocations}):
        _, time_ns, most = peak_of_blocks(allocations, device)
        of_device = peaks["device_id"].isna() if device is None else peaks["device_id"].isin([device])
        of_samples = peaks.loc[of_device.to_numpy(bool), "allocated_bytes"].max()
        if most and (pd.isna(of_samples) or most > of_samples):
            row = {"device_id": device, "component": BLOCKS, "time_ns": time_ns, "allocated_bytes": most}
            peaks = pd.concat([pd.DataFrame([row]).astype(_PEAK_TYPES), peaks], ignore_index=True)[columns]
    return peaks


def _totals(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Count rows and sum durations by the columns `by`, greatest sum first; integers stay exact."""
    if frame.empty:
        none = dict.fromkeys(("count", "total_ns", "mean_ns", "max_ns"), np.zeros(0, np.int64))
        return pd.DataFrame({name: frame[name].array for name in by} | none)
    groups = frame.groupby(by, observed=True, dropna=False, sort=False)["duration_ns"]
    totals: pd.DataFrame = groups.agg(count="size", total_ns="sum", max_ns="max").reset_index()
    totals.insert(len(by) + 2, "mean_ns", totals["total_ns"] // totals["count"])
    order = np.argsort(-totals["total_ns"].to_numpy(), kind="stable")
    return totals.iloc[order].reset_index(drop=True)
