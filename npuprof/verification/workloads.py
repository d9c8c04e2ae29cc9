"""Small known workloads, so that their recordings can be checked.

Each has a few matrix products and additions; pyACL, which has no ready-made operators, copies memory instead.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from npuprof.errors import CollectorError
from npuprof.options import Options

STEPS = 5
_SIZE = 256
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Workload:
    """A workload and the minimum content of its recording."""

    name: str
    prepare: Callable[[], Callable[[], object]]  # runs all slow initialisation and returns the function to record
    # kernels, operators, tasks: minimum number of kernels by part of their operator type, of framework operators by
    # part of their name, and of device tasks by part of their type.
    kernels: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)


_PRODUCTS = {"MatMul": STEPS, "Add": STEPS}


def _simulated_workload() -> Callable[[], object]:
    from npuprof.simulator import npu

    return _repeat(npu.ones((_SIZE, _SIZE)))


def _repeat(matrix: Any, finish: Callable[[], object] = lambda: None) -> Callable[[], object]:
    def run() -> None:
        for _ in range(STEPS):
            (matrix @ matrix) + matrix
        finish()

    return run


def _torch_npu() -> Callable[[], object]:
    torch = import_module("torch")
    npu = import_module("torch_npu").npu
    run = _repeat(torch.ones((_SIZE, _SIZE), device="npu"), npu.synchronize)
    run()
    return run


def _torch_cpu() -> Callable[[], object]:
    torch = import_module("torch")
    run = _repeat(torch.ones((_SIZE, _SIZE)))
    run()
    return run


def _mindspore() -> Callable[[], object]:
    mindspore = import_module("mindspore")
    matrix = mindspore.Tensor([[1.0] * _SIZE] * _SIZE, mindspore.float32)
    run = _repeat(matrix, mindspore.hal.synchronize if hasattr(mindspore, "hal") else lambda: None)
    run()
    return run


def _tensorflow() -> Callable[[], object]:
    tensorflow = import_module("tensorflow")
    import_module("npu_device").open().as_default()
    matrix = tensorflow.ones((_SIZE, _SIZE))
    run = _repeat(matrix, lambda: (matrix + matrix).numpy())
    run()
    return run


def _copies() -> Callable[[], object]:
    acl = import_module("acl")
    acl.init()
    _succeed("acl.rt.set_device", acl.rt.set_device(0))
    stream, code = acl.rt.create_stream()
    _succeed("acl.rt.create_stream", code)
    host, code = acl.rt.malloc_host(_COPY_BYTES)
    _succeed("acl.rt.malloc_host", code)
    device, code = acl.rt.malloc(_COPY_BYTES, 0)
    _succeed("acl.rt.malloc", code)

    def run() -> None:
        for _ in range(STEPS):
            _succeed("acl.rt.memcpy_async", acl.rt.memcpy_async(device, _COPY_BYTES, host, _COPY_BYTES, 1, stream))
        _succeed("acl.rt.synchronize_stream", acl.rt.synchronize_stream(stream))

    run()
    return run


def _succeed(call: str, code: int) -> None:
    if code:
        raise CollectorError(f"{call} returned {code}: check the device with `npu-smi info`")


SIMULATED = Workload("the simulated NPU", _simulated_workload, kernels=_PRODUCTS)
TORCH_NPU = Workload("torch_npu", _torch_npu, kernels=_PRODUCTS)
TORCH_CPU = Workload("torch on the CPU", _torch_cpu, operators={"aten::mm": STEPS, "aten::add": STEPS})
MINDSPORE = Workload("MindSpore", _mindspore, kernels=_PRODUCTS)
MINDSPORE_CPU = Workload("MindSpore on the CPU", _mindspore, operators=_PRODUCTS)
TENSORFLOW = Workload("TensorFlow", _tensorflow, kernels=_PRODUCTS)
COPIES = Workload("pyACL copies", _copies, tasks={"MEMCPY": STEPS})

_BY_COLLECTOR = {"simulator": SIMULATED, "torch_npu": TORCH_NPU, "mindspore": MINDSPORE, "tensorflow": TENSORFLOW}

# If a framework records operators with stacks, no stacks are sampled.
_SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "kineto": {"activities": "cpu", "stacks": True},
    "torch_npu": {"stacks": True},
    "mindspore": {"stacks": True},
}


def choose(collector: str) -> Workload:
    """Return the workload for a front end on this machine."""
    if collector == "kineto":
        return TORCH_CPU
    if collector == "mindspore" and import_module("mindspore").get_context("device_target") == "CPU":
        return MINDSPORE_CPU
    if collector in _BY_COLLECTOR:
        return _BY_COLLECTOR[collector]
    for module, workload in (("torch_npu", TORCH_NPU), ("mindspore", MINDSPORE)):
        if importlib.util.find_spec(module) is not None:
            return workload
    return COPIES


def options_for(collector: str, output: str) -> Options:
    """Return the options of a verification: level 1 with markers, framework operators and no sampled stacks."""
    plain: dict[str, Any] = {"collector": collector, "output": output, "name": f"verify {collector}"}
    return Options.from_dict({**plain, **_SPECIAL.get(collector, {"activities": "npu"})})
