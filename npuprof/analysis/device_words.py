"""What the device of a run, and the runtime that its host calls, are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, TypeVar

import pandas as pd

from npuprof.tables.info import Info

DeviceName: TypeAlias = Literal["NPU", "GPU", ""]
"""What a run's devices are called; empty for a run of the host alone."""

_Word = TypeVar("_Word", bound=str)

NPU: DeviceName = "NPU"
GPU: DeviceName = "GPU"
NONE: DeviceName = ""

OF_DEVICE = ("tasks", "kernels", "communication", "communication_tasks", "overlap", "step_times")
"""The tables of a device."""
HOST_DEVICE = -1
"""The device of collectives that the host runs itself, such as gloo's."""

_ON_GPUS = "kineto"  # the only front end of another device
_RUNTIMES = (
    ("CUDA", re.compile(r"cuda[A-Z]|cu[A-Z]\w+$")),
    ("HIP", re.compile(r"hip[A-Z]")),
    ("Level Zero", re.compile(r"ze[A-Z]|ur[A-Z]\w+$|pi[A-Z]\w+$")),
)


def device_of(info: Info, tables: Mapping[str, pd.DataFrame]) -> DeviceName:
    """Return what the devices of a run are called."""
    return by_front_end(info, NPU, GPU if has_device(tables) else NONE)


def has_device(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a run has rows of a device."""
    collectives = tables["communication"]["device_id"]
    others = any(len(tables[name]) for name in OF_DEVICE if name != "communication")
    return others or bool((collectives != HOST_DEVICE).any())


def by_front_end(info: Info, of_npu: _Word, of_torch: _Word) -> _Word:
    """Return what to say of a run of an NPU, or of one that torch's own profiler recorded."""
    return of_torch if info.collector == _ON_GPUS else of_npu


def runtime_of(calls: Iterable[str], info: Info | None = None) -> str:
    """Return the runtime that some calls are of: ``CUDA`` and the like by the names of the calls, else ``CANN``.

    If `info` says that the run is of another device, an unknown runtime has no name: ``runtime``.
    """
    names = [str(call) for call in calls]
    unknown = "CANN" if info is None else by_front_end(info, "CANN", "runtime")
    return next((runtime for runtime, pattern in _RUNTIMES if any(map(pattern.match, names))), unknown)


def torch_device(info: Info, tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what torch calls the devices of a run, before the colon of ``npu:0``."""
    # Torch calls AMD's GPUs "cuda" too.
    is_intel = runtime_of(tables["api"]["name"].cat.categories) == "Level Zero"
    return by_front_end(info, "npu", "xpu" if is_intel else "cuda")
