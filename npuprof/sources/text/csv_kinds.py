"""The kinds of CSV files of a result: what they are called, who writes them, how they are known, what they fill.

Source: sources/RESULTS.md sections 1.2, 1.3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

FrontEnd: TypeAlias = Literal["torch_npu", "mindspore", "msprof"]


@dataclass(frozen=True)
class CsvKind:
    """A kind of file."""

    names: tuple[str, ...]  # what the files are called, without rank, numbers, stamp and suffix
    # Columns by which a file of any name is known; a bar separates the names of one over the versions.
    columns: tuple[str, ...]
    fronts: tuple[FrontEnd, ...]  # the front ends that write it into their result
    table: str = ""  # the table that it fills; empty for a frame of `statistics` that is called as the file
    not_with: str = ""  # A column that only another kind with the same columns has

    def fits(self, header: Collection[str]) -> bool:
        """Return whether a file with these columns is of this kind."""
        return self.not_with not in header and all(
            any(name in header for name in column.split("|")) for column in self.columns
        )


_ALL: tuple[FrontEnd, ...] = ("torch_npu", "mindspore", "msprof")
_FRAMEWORKS: tuple[FrontEnd, ...] = ("torch_npu", "mindspore")
_DEVICE: tuple[FrontEnd, ...] = ("mindspore", "msprof")
_MSPROF: tuple[FrontEnd, ...] = ("msprof",)
_MINDSPORE: tuple[FrontEnd, ...] = ("mindspore",)
_KERNEL = (
    "Name|Op Name",
    "Start Time(us)|Task Start Time(us)|Task Start Time",
    "Duration(us)|Task Duration(us)",
)
_ALLOCATOR = ("Component", "Timestamp(us)", "Total Allocated(MB)|Total Allocated(KB)")
_BLOCK = ("Name", "Size(KB)|Size(MB)", "Allocation Time(us)")

KINDS = (
    CsvKind(("kernel_details",), _KERNEL, _FRAMEWORKS, "kernels"),
    CsvKind(("op_summary",), _KERNEL, _MSPROF, "kernels"),
    CsvKind(("task_time",), ("kernel_name", "task_start(us)"), _MSPROF, "tasks"),
    CsvKind(("msprof_tx",), ("message", "Start_time(us)"), _MSPROF, "marks"),
    CsvKind(("step_trace",), ("Iteration ID", "Iteration End(us)"), _MSPROF, "steps"),
    CsvKind(
        ("step_trace_time",),
        ("Computing", "Free", "Communication"),
        _FRAMEWORKS,
        "step_times",
        not_with="Index",  # of a whole cluster
    ),
    CsvKind(("memory_record",), _ALLOCATOR, _ALL, "memory"),
    CsvKind(("ge_memory_record",), _ALLOCATOR, _MSPROF, "memory"),
    CsvKind(
        ("npu_module_mem",), ("Component", "Timestamp(us)", "Total Reserved(MB)|Total Reserved(KB)"), _ALL, "memory"
    ),
    CsvKind(("npu_mem",), ("event", "timestamp(us)"), ("torch_npu", "msprof"), "memory"),
    CsvKind(("operator_memory",), _BLOCK, _ALL, "allocations"),
    CsvKind(("ge_operator_memory",), _BLOCK, _MSPROF, "allocations"),
    # sums and samples, which are kept unconverted
    CsvKind(("op_statistic",), ("OP Type", "Core Type", "Count"), _ALL),
    CsvKind(("communication_statistic", "hccl_statistic"), ("OP Type", "Count", "Total Time(us)"), _MSPROF),
    CsvKind(("api_statistic",), ("Level", "API Name"), _ALL),
    CsvKind(("operator_details",), ("Name", "Input Shapes"), _FRAMEWORKS),
    CsvKind(("static_op_mem",), ("Graph ID", "Node Index Start"), _ALL),
    CsvKind(("fusion_op",), ("Fusion Op", "Original Ops"), _MSPROF),
    CsvKind(("aicpu",), ("Device_id", "Node", "Compute_time(us)"), _MSPROF),
    CsvKind(("data_preprocess",), ("Node", "Compute_time(us)"), _ALL),
    CsvKind(("aicpu_mi",), ("Node Name", "Queue Size"), _MSPROF),
    CsvKind(("dp",), ("Timestamp(us)", "Action", "Source"), _MSPROF),
    CsvKind(("l2_cache",), ("Hit Rate", "Victim Rate"), _ALL),
    CsvKind(("soc_pmu",), ("TLB Hit Rate", "TLB Miss Rate"), _MSPROF),
    CsvKind(("llc_read_write",), ("Mode", "Throughput(MB/s)"), _MSPROF),
    CsvKind(("hbm", "ddr"), ("Metric", "Read(MB/s)"), _DEVICE),
    CsvKind(("nic", "roce"), ("Timestamp(us)", "rxPacket/s"), _DEVICE),
    CsvKind(("pcie", "hccs"), ("Mode", "Min", "Max"), _DEVICE),
    CsvKind(("dvpp",), ("Dvpp Id", "Engine Type"), _MSPROF),
    CsvKind(("ai_core_utilization", "ai_vector_core_utilization"), ("Device_id", "Core ID"), _MSPROF),
    CsvKind(
        ("ai_cpu_top_function", "ctrl_cpu_top_function", "ts_cpu_top_function"),
        ("Function", "Module", "Cycles"),
        _MSPROF,
    ),
    CsvKind(("ai_cpu_pmu_events", "ctrl_cpu_pmu_events", "ts_cpu_pmu_events"), ("Event", "Name", "Count"), _MSPROF),
    CsvKind(("host_cpu_usage",), ("Total Cpu Numbers", "Occupied Cpu Numbers"), _MSPROF),
    CsvKind(("host_mem_usage",), ("Total Memory(KB)", "Peak Used Memory(KB)"), _MSPROF),
    CsvKind(("host_disk_usage",), ("Device_id", "Recommend Disk(KB/s)"), _MSPROF),
    CsvKind(("host_network_usage",), ("Device_id", "Recommend Speed(KB/s)"), _MSPROF),
    CsvKind(("os_runtime_statistic",), ("Process ID", "Thread ID", "Name", "Time(%)"), _MSPROF),
    CsvKind(("cpu_usage",), ("Cpu Type", "User(%)", "Idle(%)"), _MSPROF),
    CsvKind(("process_cpu_usage",), ("PID", "Name", "CPU(%)"), _MSPROF),
    CsvKind(("process_mem",), ("PID", "Name", "Size(pages)"), _MSPROF),
    *(CsvKind(("sys_mem",), (f"Memory Total({kb})", f"Memory Free({kb})"), _MSPROF) for kb in ("kB", "KB")),
    CsvKind(("dataset",), ("Operation", "Stage", "Occurrences"), _MINDSPORE),
    CsvKind(("minddata_pipeline_raw",), ("op_id", "op_type", "num_workers"), _MINDSPORE),
    CsvKind(("cpu_op_type_info",), ("op_type", "type_occurrences"), ()),  # beside the result
    CsvKind(("cpu_op_detail_info",), ("op_side", "op_type", "op_name"), ()),
)
"""Those that fill a table come first, and a file is of the first kind that fits."""


def kind_of(header: Collection[str]) -> CsvKind | None:
    """Return the kind of a file by its columns; None for an unknown one."""
    return next((kind for kind in KINDS if kind.fits(header)), None)


def in_tables(*fronts: FrontEnd) -> frozenset[str]:
    """Return the names of the files of front ends that fill tables."""
    return frozenset(name for kind in KINDS if kind.table and {*kind.fronts} & {*fronts} for name in kind.names)
