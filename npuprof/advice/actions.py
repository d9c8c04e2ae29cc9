"""What to do about a cause, on the device that a run is of: nothing is better than what another device has."""

from __future__ import annotations

from collections.abc import Mapping

from npuprof.advice.facts import Facts
from npuprof.analysis.device_words import GPU, NPU, DeviceName

_ACTIONS: Mapping[str, Mapping[DeviceName, str]] = {
    "op_compile": {NPU: "torch_npu.npu.set_compile_mode(jit_compile=False), static shapes"},
    "alloc": {
        NPU: "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, no empty_cache() in the step",
        GPU: "no empty_cache() in the step",
    },
    "optimizer": {
        NPU: "a fused optimizer (torch_npu.optim.NpuFusedAdamW)",
        GPU: "a fused optimizer (fused=True in torch.optim)",
    },
    "dispatch": {
        NPU: "TASK_QUEUE_ENABLE=2, larger batches, graph mode",
        GPU: "larger batches, torch.compile, captured graphs (torch.cuda.graph)",
    },
    "small_kernels": {
        NPU: "fused operators (torch_npu.npu_rms_norm, npu_rotary_mul ...), foreach optimizers, graph mode",
        GPU: "torch.compile, foreach or fused optimizers, captured graphs (torch.cuda.graph)",
    },
    "fragmented_memory": {
        NPU: "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        GPU: "fewer sizes of tensors: pad batches and sequences",
    },
}
_OF_CUDA = {
    "alloc": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache() in the step",
    "fragmented_memory": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
}


def action_for(cause: str, facts: Facts) -> str:
    """Return what to do about a cause on the run's device; empty if nothing is known to help there."""
    if facts.runtime == "CUDA" and cause in _OF_CUDA:
        return _OF_CUDA[cause]
    return _ACTIONS[cause].get(facts.device, "")
