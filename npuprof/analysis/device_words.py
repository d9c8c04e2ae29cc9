"""What the device of a run, and the runtime that its host calls, are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.info import Info

DeviceName: TypeAlias = Literal["NPU", "GPU", ""]
"""What a run's devices are called; empty for a run of the host alone."""

NPU: DeviceName = "NPU"
GPU: DeviceName = "GPU"
NONE: DeviceName = ""

OF_DEVICE = ("tasks", "kernels", "communication", "communication_tasks", "overlap", "step_times")
"""The tables of a device."""

_ON_GPUS = "kineto"  # the only front end of another device
_RUNTIMES = (
    ("CUDA", re.compile(r"cuda[A-Z]|cu[A-Z]\w+$")),
    ("HIP", re.compile(r"hip[A-Z]")),
    ("Level Zero", re.compile(r"ze[A-Z]|ur[A-Z]\w+$|pi[A-Z]\w+$")),
)


def device_of(info: Info, tables: Mapping[str, pd.DataFrame]) -> DeviceName:
    """Return what the devices of a run are called."""
    if info.collector != _ON_GPUS:
        return NPU
    return GPU if any(len(tables[name]) for name in OF_DEVICE) else NONE


def runtime_of(calls: Iterable[str]) -> str:
    """Return the runtime that some calls are of: ``CANN``, or ``CUDA`` and the like by the names of the calls."""
    names = [str(call) for call in calls]
    return next((runtime for runtime, pattern in _RUNTIMES if any(map(pattern.match, names))), "CANN")
