"""What to do about a cause, on the device that a run is of: nothing is better than what another device has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npuprof.advice.facts import Facts
from npuprof.analysis.device_words import GPU, NPU, DeviceName
from npuprof.info import Info

FEWER_SIZES = "fewer sizes of tensors: pad batches and sequences"
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
        GPU: FEWER_SIZES,
    },
}
_OF_CUDA = {
    "alloc": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache() in the step",
    "fragmented_memory": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
}
# What actions of torch_npu are in MindSpore (mindspore.cn: mint.optim, ops, dataset, jit); empty for what has no
# counterpart. The first one that matches at a place counts.
_OF_MINDSPORE = {
    "torch_npu.npu.set_compile_mode(jit_compile=False), ": "",
    "torch.npu.config.allow_internal_format=False, ": "",
    "TASK_QUEUE_ENABLE=2, ": "",
    "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, ": "",
    "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True": FEWER_SIZES,
    "empty_cache()": "mindspore.runtime.empty_cache()",
    "torch_npu.optim.NpuFusedAdamW": "mindspore.mint.optim.FusedAdamW",
    "foreach optimizers, ": "",
    "(torch_npu.npu_rms_norm, npu_rotary_mul ...)": "(mindspore.ops.rms_norm ...)",
    "torch_npu.npu_rms_norm": "mindspore.ops.rms_norm",
    "optimizer.clip_grad_norm_fused_ of torch_npu.optim": "mindspore.ops.clip_by_global_norm",
    "one operator of torch_npu": "one operator of mindspore.ops",
    "graph mode": "graph mode (mindspore.jit)",
    "more DataLoader workers, prefetch_factor, pin_memory=True": "more num_parallel_workers and a larger prefetch_size "
    "of mindspore.dataset",
    ".item() and blocking copies": "asnumpy() and item()",
    "non_blocking copies from pinned memory": "data sinking (dataset_sink_mode=True), fewer copies",
}
_TORCH_WORDS = re.compile("|".join(map(re.escape, _OF_MINDSPORE)) + r"|torch_npu\.npu_\w+")
_SETTING = re.compile(r"([A-Z_]+)=(\S+)")


def action_for(cause: str, facts: Facts) -> str:
    """Return what to do about a cause on the run's device, apart from variables that were set so; may be empty."""
    known = _OF_CUDA.get(cause) if facts.runtime == "CUDA" else None
    action = known or _ACTIONS[cause].get(facts.device, "")
    return ", ".join(part for part in action.split(", ") if not _is_set(part, facts.info.environment))


def for_framework(action: str, info: Info) -> str:
    """Return an action in the words of the run's framework: rules know those of torch_npu."""
    if info.collector != "mindspore":
        return action
    return _TORCH_WORDS.sub(lambda match: _OF_MINDSPORE.get(match[0], "a fused operator of mindspore.ops"), action)


def _is_set(part: str, variables: Mapping[str, str]) -> bool:
    """Return whether a part of an action is a variable that the run had with that value, maybe among others."""
    setting = _SETTING.fullmatch(part)
    return setting is not None and setting[2].lower() in variables.get(setting[1], "").lower()
