"""Operators of torch_npu that do the work of several of PyTorch in one kernel.

Source: the vendor's examples of fused operators (gitcode.com/Ascend/msprof-analyze, docs/en), and the list of
torch_npu's public functions (gitcode.com/Ascend/op-plugin, test/allowlist_for_publicAPI.json).
``npu_confusion_transpose`` and ``fast_gelu`` are left out: the first is to be removed, the other computes other values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LETTERS = {
    "a": ("aten::add", "aten::add_"),
    "m": ("aten::mul", "aten::mul_"),
    "d": ("aten::div", "aten::div_"),
    "v": ("aten::reciprocal",),
    "p": ("aten::pow", "aten::square"),
    "e": ("aten::mean",),
    "r": ("aten::rsqrt",),
    "n": ("aten::neg",),
    "c": ("aten::cat",),
    "s": ("aten::softmax", "aten::_softmax"),
    "x": ("aten::matmul", "aten::bmm", "aten::baddbmm"),
    "w": ("aten::linear", "aten::addmm", "aten::mm"),
    "f": ("aten::masked_fill", "aten::masked_fill_", "aten::where"),
    "o": ("aten::dropout", "aten::native_dropout", "npu::_npu_dropout"),
    "i": ("aten::silu", "aten::silu_", "npu::npu_silu"),
    "l": ("aten::log_softmax",),
    "L": ("aten::nll_loss_nd", "aten::nll_loss"),
    "C": ("aten::cross_entropy_loss",),
    "R": ("npu::npu_rms_norm",),
    "k": ("aten::stack",),
    "q": ("aten::norm", "aten::linalg_vector_norm"),
}
"""A letter for each kind of operator that :data:`COUNTERPARTS` are written with, by its names."""

_VIEWS = (
    "view reshape transpose permute t slice select narrow unsqueeze squeeze expand expand_as chunk split unbind "
    "as_strided alias detach contiguous to _to_copy clone type_as flatten size view_as item lift_fresh numel empty"
)
IGNORED = frozenset(f"aten::{name}" for name in _VIEWS.split())
"""Operators that only change how a tensor is seen, or its type, and so may stand between others."""


@dataclass(frozen=True)
class Counterpart:
    """A fused operator."""

    call: str  # what to call instead
    replaces: str  # what it replaces, in words
    operators: re.Pattern[str]  # its operators in PyTorch, in the letters of `LETTERS`
    # Words that the types of its kernels have in common; empty if kernels alone do not show it.
    kernels: tuple[str, ...] = ()


COUNTERPARTS = (
    Counterpart("torch_npu.npu_fusion_attention", "attention", re.compile(r"x[md]?[af]?so?x"), ("softmax",)),
    Counterpart("torch_npu.npu_scaled_masked_softmax", "masked softmax", re.compile(r"[md]?fs")),
    Counterpart("torch_npu.npu_rms_norm", "RMSNorm", re.compile(r"pearmm?"), ("rsqrt", "mean")),
    Counterpart("torch_npu.npu_add_rms_norm", "an addition before RMSNorm", re.compile(r"aR")),
    Counterpart("torch_npu.npu_rotary_mul", "rotary embedding", re.compile(r"m?ncma"), ("neg", "concat")),
    Counterpart("torch_npu.npu_swiglu", "SwiGLU", re.compile(r"iw?m"), ("sigmoid", "mul")),
    Counterpart("torch_npu.npu_cross_entropy_loss", "cross entropy", re.compile(r"lL|C")),
    Counterpart("optimizer.clip_grad_norm_fused_ of torch_npu.optim", "gradient clipping", re.compile(r"q+kqavm")),
)
"""Where several could stand at the same operators, the first one does."""
