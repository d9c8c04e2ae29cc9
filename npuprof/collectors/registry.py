"""Which collector a session uses, and why."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from npuprof.collectors.base import Collector

# Each front end's module and class; imported when it is chosen.
_HOMES = {
    "acl": ("npuprof.collectors.acl", "AclCollector"),
    "torch_npu": ("npuprof.collectors.torch_npu", "TorchNpuCollector"),
    "mindspore": ("npuprof.collectors.mindspore", "MindSporeCollector"),
    "tensorflow": ("npuprof.collectors.tensorflow", "TensorFlowCollector"),
    "msprof": ("npuprof.collectors.msprof", "MsprofCollector"),
    "kineto": ("npuprof.collectors.kineto", "KinetoCollector"),
    "simulator": ("npuprof.collectors.simulator", "SimulatorCollector"),
}

# What a process that trains or serves has imported, in the order in which it is looked for.
_FRAMEWORKS = (
    ("torch_npu", ("torch_npu",)),
    ("mindspore", ("mindspore",)),
    ("tensorflow", ("npu_bridge", "npu_device")),
)


class Choice(NamedTuple):
    """A collector and the reason for choosing it, in words for the user."""

    collector: Collector
    reason: str


def make(name: str) -> Collector:
    """Make a collector by its name, without importing its front end."""
    module, kind = _HOMES[name]
    factory: Callable[[], Collector] = getattr(import_module(module), kind)
    return factory()


def choose(name: str) -> Choice:
    """Choose a collector by its name, or the one that fits this process for ``auto``.

    ``auto`` takes the framework that the process has imported, else pyACL where it is installed. It never falls
    back to the simulated NPU beside either: a broken installation is an error to mend, not a reason to show
    simulated times. Torch's own profiler, the simulated NPU beside a real one, and the msprof tool are asked for
    by name.
    """
    if name != "auto":
        return Choice(make(name), "asked for")
    for collector, packages in _FRAMEWORKS:
        for package in packages:
            if package in sys.modules:
                return Choice(make(collector), f"{package} is imported in this process")
    if is_installed("acl"):
        return Choice(make("acl"), "pyACL is installed")
    return Choice(make("simulator"), "no native front end is installed on this machine, so the NPU is simulated")


def is_installed(module: str) -> bool:
    """Tell, without importing it, whether a module can be found."""
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a half-made module of that name in sys.modules
        return module in sys.modules
