"""What to do about a problem, on the device that a run is of and in the words of its framework."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npuprof.advice.facts import Facts
from npuprof.analysis.device_words import GPU, NPU, DeviceName
from npuprof.tables.info import Info

_EXPANDABLE = "expandable_segments:True"
_FEWER_SIZES = "Use fewer sizes of tensors: pad batches and sequences"
_ACTIONS: Mapping[str, Mapping[DeviceName, str]] = {
    "optimizer": {
        NPU: "Use a fused optimizer: `torch_npu.optim.NpuFusedAdamW`.",
        GPU: "Use a fused optimizer: `fused=True` in `torch.optim`.",
    },
    "small_kernels": {
        NPU: "Use fused operators, such as `torch_npu.npu_rms_norm`, or graph mode.",
        GPU: "Use `torch.compile`, `foreach` optimizers, or CUDA graphs.",
    },
}
# What actions for torch_npu are in other frameworks. The first that matches at a place counts.
_OF_MINDSPORE = {
    "torch_npu.optim.NpuFusedAdamW": "mindspore.mint.optim.FusedAdamW",
    "torch_npu.npu_rms_norm": "mindspore.ops.rms_norm",
    "optimizer.clip_grad_norm_fused_ of torch_npu.optim": "mindspore.ops.clip_by_global_norm",
    "torch.nn.functional.gelu": "mindspore.ops.gelu",
    "graph mode": "graph mode (`mindspore.jit`)",
    "Copy from pinned memory with `non_blocking=True`, in": "Use data sinking (`dataset_sink_mode=True`), and",
    ", and `torch.npu.config.allow_internal_format=False`": "",
    "gradient buckets (`bucket_cap_mb`), a separate stream": "`comm_fusion` of `set_auto_parallel_context`",
    "a larger `bucket_cap_mb`, coalesced tensors": "`comm_fusion` of `set_auto_parallel_context`",
}
# TensorFlow on an NPU: npu_device (2.x) and npu_bridge (1.x), which run graphs (hiascend.com, TensorFlow migration
# guides and HCCL's Python interface).
_SEGMENTS = "`hccl.split.api.set_split_strategy_by_size`"
_OF_TENSORFLOW = {
    ": `torch_npu.optim.NpuFusedAdamW`": "",
    ", such as `torch_npu.npu_rms_norm`, or graph mode": "; several steps a call (`npu_device.set_npu_loop_size`)",
    "optimizer.clip_grad_norm_fused_ of torch_npu.optim": "tf.clip_by_global_norm",
    "torch.nn.functional.gelu": "tf.nn.gelu",
    "graph mode": "several steps a call (`npu_device.set_npu_loop_size`)",
    "Copy from pinned memory with `non_blocking=True`, in": "Feed from a `tf.data` pipeline, with",
    ", and `torch.npu.config.allow_internal_format=False`": " and one `precision_mode`",
    "gradient buckets (`bucket_cap_mb`), a separate stream": f"other gradient segments ({_SEGMENTS})",
    "a larger `bucket_cap_mb`, coalesced tensors": f"fewer gradient segments ({_SEGMENTS})",
}
_WORDS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "mindspore": (_OF_MINDSPORE, "a fused operator of `mindspore.ops`"),
    "tensorflow": (_OF_TENSORFLOW, "a fused operator"),
}
"""By framework: its words, and what it has instead of any other operator of torch_npu."""
_FUNCTION = r"`torch_npu\.[\w.]+`"


def action_for(cause: str, facts: Facts) -> str:
    """Return what to do about a problem on the run's device; empty where nothing is known."""
    return _ACTIONS[cause].get(facts.device, "")


def less_fragments(facts: Facts) -> str:
    """Return an action against fragmented memory that is not set already."""
    name = f"PYTORCH_{'CUDA' if facts.runtime == 'CUDA' else 'NPU'}_ALLOC_CONF"
    is_set = _EXPANDABLE.lower() in facts.info.environment.get(name, "").lower()
    is_torch = facts.device == NPU or facts.runtime == "CUDA"
    if not is_torch or is_set or facts.info.collector in _WORDS:
        return _FEWER_SIZES
    return f"Set `{name}={_EXPANDABLE}`"


def for_framework(action: str, info: Info) -> str:
    """Return an action in the words of the run's framework; rules use torch_npu's words."""
    if info.collector not in _WORDS:
        return action
    words, other = _WORDS[info.collector]
    known = "|".join(map(re.escape, words))
    return re.sub(f"{known}|{_FUNCTION}", lambda match: words.get(match[0], other), action)
