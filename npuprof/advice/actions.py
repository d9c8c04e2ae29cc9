"""What to do about a cause, on the device that a run is of: nothing is better than what another device has."""

from __future__ import annotations

import re
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
_SETTING = re.compile(r"([A-Z_]+)=(\S+)")


def action_for(cause: str, facts: Facts) -> str:
    """Return what to do about a cause on the run's device, apart from variables that were set so; may be empty."""
    known = _OF_CUDA.get(cause) if facts.runtime == "CUDA" else None
    action = known or _ACTIONS[cause].get(facts.device, "")
    return ", ".join(part for part in action.split(", ") if not _is_set(part, facts.info.environment))


def _is_set(part: str, variables: Mapping[str, str]) -> bool:
    """Return whether a part of an action is a variable that the run had with that value, maybe among others."""
    setting = _SETTING.fullmatch(part)
    return setting is not None and setting[2].lower() in variables.get(setting[1], "").lower()
