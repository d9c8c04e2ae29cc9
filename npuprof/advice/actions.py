"""What to do about a cause, on the device that a run is of: nothing is better than what another device has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npuprof.advice.facts import Facts
from npuprof.analysis.device_words import GPU, NPU, DeviceName
from npuprof.tables.info import Info

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
# What actions of torch_npu are in other frameworks; empty for what has no counterpart. The first one that matches at a
# place counts. MindSpore: mindspore.cn (mint.optim, ops, dataset, jit, communication fusion).
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
    "non_blocking=True from pinned memory": "data sinking (dataset_sink_mode=True)",
    "DDP bucket_cap_mb": "comm_fusion of mindspore.set_auto_parallel_context",
    "ZeRO stage": "enable_parallel_optimizer",
    "a larger bucket_cap_mb": "comm_fusion of mindspore.set_auto_parallel_context",
}
# TensorFlow on an NPU: npu_device (2.x) and npu_bridge (1.x), which run graphs (hiascend.com, TensorFlow migration
# guides and HCCL's Python interface).
_SEVERAL_STEPS = "several steps in each call (npu_device.set_npu_loop_size; 1.x: iterations_per_loop of NPURunConfig)"
_SEGMENTS = "hccl.split.api.set_split_strategy_by_size"
_OF_TENSORFLOW = {
    "torch_npu.npu.set_compile_mode(jit_compile=False), ": "",
    "torch.npu.config.allow_internal_format=False, contiguous tensors": "one precision_mode",
    "TASK_QUEUE_ENABLE=2, ": "",
    "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, no empty_cache() in the step": FEWER_SIZES,
    "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True": FEWER_SIZES,
    "no empty_cache() in the step": FEWER_SIZES,
    " (torch_npu.optim.NpuFusedAdamW)": "",
    "foreach optimizers, ": "",
    " (torch_npu.npu_rms_norm, npu_rotary_mul ...)": "",
    "optimizer.clip_grad_norm_fused_ of torch_npu.optim": "tf.clip_by_global_norm",
    "one operator of torch_npu": "one operator",
    "graph mode": _SEVERAL_STEPS,
    "more DataLoader workers, prefetch_factor, pin_memory=True": "num_parallel_calls=tf.data.AUTOTUNE, and prefetch() "
    "at the end of the tf.data pipeline",
    ".item() and blocking copies": "numpy(), fetches of sess.run and hooks",
    "non_blocking copies from pinned memory": f"{_SEVERAL_STEPS}, fewer fetches",
    "non_blocking=True from pinned memory": "input from a tf.data pipeline",
    "gradient buckets (DDP bucket_cap_mb), a separate stream, ZeRO stage": f"other segments of the gradient "
    f"({_SEGMENTS}), is_tailing_optimization of NPUOptimizer (1.x)",
    "a larger bucket_cap_mb, coalesced or flattened tensors": f"fewer segments of the gradient ({_SEGMENTS})",
}
_WORDS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "mindspore": (_OF_MINDSPORE, "a fused operator of mindspore.ops"),
    "tensorflow": (_OF_TENSORFLOW, "a fused operator"),
}
"""By framework: its words, and what it has instead of any other operator of torch_npu."""
_FUNCTION = r"torch_npu\.npu_\w+"
_SETTING = re.compile(r"([A-Z_]+)=(\S+)")


def action_for(cause: str, facts: Facts) -> str:
    """Return what to do about a cause on the run's device, apart from variables that were set so; may be empty."""
    known = _OF_CUDA.get(cause) if facts.runtime == "CUDA" else None
    action = known or _ACTIONS[cause].get(facts.device, "")
    return ", ".join(part for part in action.split(", ") if not _is_set(part, facts.info.environment))


def for_framework(action: str, info: Info) -> str:
    """Return an action in the words of the run's framework: rules know those of torch_npu."""
    if info.collector not in _WORDS:
        return action
    words, other = _WORDS[info.collector]
    known = "|".join(map(re.escape, words))
    return re.sub(f"{known}|{_FUNCTION}", lambda match: words.get(match[0], other), action)


def _is_set(part: str, variables: Mapping[str, str]) -> bool:
    """Return whether a part of an action is a variable that the run had with that value, maybe among others."""
    setting = _SETTING.fullmatch(part)
    return setting is not None and setting[2].lower() in variables.get(setting[1], "").lower()
