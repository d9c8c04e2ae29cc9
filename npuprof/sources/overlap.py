"""`overlap`, computed from kernels, communication operators and the other tasks of each device, as the vendor does.

Kernels that carry out communication, on vector cores or AI CPUs, count as communication and not as computing: their
names end in ``AivKernel`` or ``AicpuKernel``. The range of a device spans all its tasks except kernels and the tasks
that switch profiling on and off: a copy before the first kernel or after the last one adds free time.

Source: raw/FORMAT.md section 9, and the results of the vendor's parser.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import Spans, breakdown
from npuprof.arrays import Bools, Int64

_KINDS = ["computing", "communication", "communication_not_overlapped", "free"]
SPAN = ["start_ns", "duration_ns", "device_id"]
"""The columns of a row that `overlap` needs."""

COMMUNICATION_KERNELS = ("AivKernel", "AicpuKernel")
"""Name suffixes of kernels that carry out communication."""

WITHOUT_SPAN = frozenset(
    {
        *("KERNEL_AICORE", "KERNEL_AIVEC", "KERNEL_MIX_AIC", "KERNEL_MIX_AIV", "FFTS_PLUS"),
        *("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"),
        *("PROFILING_ENABLE", "PROFILING_DISABLE", "MsTx"),
    }
)
"""Types of tasks that do not widen the range of a device; kernels widen it through their own table."""


def overlap_table(kernels: pd.DataFrame, communication: pd.DataFrame, others: pd.DataFrame | None) -> pd.DataFrame:
    """Compute `overlap` for each device, in order of time."""
    compute = kernels[SPAN][are_compute(kernels)]
    frames = [compute, communication, *([] if others is None else [others])]
    parts: list[tuple[int, str, Spans]] = []
    devices = np.unique(np.concatenate([frame["device_id"].to_numpy(np.int64) for frame in frames]))
    for device in devices.tolist():
        spans = [_spans(frame, device) for frame in frames]
        parts += [(device, kind, span) for kind, span in breakdown(*spans).items()]
    if not parts:
        return tables.empty("overlap")
    counts = [len(starts) for _, _, (starts, _) in parts]
    start = np.concatenate([starts for _, _, (starts, _) in parts])
    columns: dict[str, Any] = {
        "start_ns": start,
        "duration_ns": np.concatenate([ends for _, _, (_, ends) in parts]) - start,
        "device_id": np.repeat([device for device, _, _ in parts], counts),
        "kind": tables.categorical(np.repeat([_KINDS.index(kind) for _, kind, _ in parts], counts), _KINDS),
    }
    return tables.sort_by_time(tables.build("overlap", columns))


def are_compute(kernels: pd.DataFrame) -> Bools:
    """Return a mask of the kernels that compute; the rest carry out communication operators."""
    return ~tables.matching(kernels["name"], lambda name: name.endswith(COMMUNICATION_KERNELS))


def of_span(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return device and times of the tasks that widen the range of their device."""
    narrow = tables.matching(tasks["task_type"], WITHOUT_SPAN.__contains__) | tables.matching(
        tasks["name"], WITHOUT_SPAN.__contains__
    )
    return tasks[SPAN][~narrow]


def _spans(frame: pd.DataFrame, device: int) -> Spans:
    of_device = (frame["device_id"] == device).to_numpy()
    start: Int64 = frame["start_ns"].to_numpy(np.int64)[of_device]
    return start, start + frame["duration_ns"].to_numpy(np.int64)[of_device]
