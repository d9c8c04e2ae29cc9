"""The embedded NPU: a simulated device behind a package like pyACL's ``acl``, for machines without an NPU.

Use
---
>>> from npuprof import simulator
>>> acl = simulator.acl                      # what ``import acl`` gives on a machine with an NPU
>>> simulator.configure(semantics="legacy")  # or chip=, devices=, clock=, busy=
>>> device = simulator.current().device(0)
>>> task = device.launch("Add", inputs=[simulator.Tensor((1024,), "float16")])
>>> device.synchronize()

Arrays that work like NumPy's are in :mod:`npuprof.simulator.npu`. Ordinary torch code runs on it in a ``with`` block:

>>> with simulator.torch():
...     loss.backward()

Several ranks, each with its own thread and device, run collectives, and each writes a recording:

>>> simulator.ranks(8).run(lambda rank: rank.all_reduce(gradient), "runs")

Whatever it writes says that it is simulated (``"simulated": true`` in ``info.json``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Event, Stream, Task
from npuprof.simulator.machine import Simulator, configure, current, reset, using

if TYPE_CHECKING:
    from npuprof.simulator import acl
    from npuprof.simulator.cluster.ranks import Ranks as ranks  # noqa: N813 - called as a function is
    from npuprof.simulator.synthesis import synthesise
    from npuprof.simulator.torch_front import simulated_torch as torch

__all__ = [
    "Device",
    "Event",
    "Simulator",
    "Stream",
    "Task",
    "Tensor",
    "acl",
    "configure",
    "current",
    "ranks",
    "reset",
    "synthesise",
    "torch",
    "using",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: none of them is needed to import the package.
    if name == "acl":
        return importlib.import_module("npuprof.simulator.acl")
    if name == "synthesise":
        return importlib.import_module("npuprof.simulator.synthesis").synthesise
    if name == "ranks":
        return importlib.import_module("npuprof.simulator.cluster.ranks").Ranks
    if name == "torch":
        return importlib.import_module("npuprof.simulator.torch_front").simulated_torch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
