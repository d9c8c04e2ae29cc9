"""Operations of collectives, from the names of their kernels.

The libraries put each collective into a kernel of its own name, which has changed with nearly every major version. The
libraries' own kernels begin with the library's name; those of serving frameworks and of torch's symmetric memory are
known by their function.

Source: sources/RESULTS.md section 8.2.
"""

from __future__ import annotations

import re
from functools import lru_cache

UNNAMED = ""
"""The operation of a kernel that runs several kinds of collectives."""

_MANGLED = r"(?:_ZN?\d{1,3})?"  # ROCm may leave the symbol as the compiler wrote it
_LIBRARY = re.compile(_MANGLED + r"(nccl|rccl|msccl|hccl|hcom|oneccl|nvshmem)", re.IGNORECASE)
_NAMESPACE = re.compile(
    r"\b(mscclpp|nvshmem|rocshmem|quickreduce|hybrid_ep|c10d::symmetric_memory|deep_ep::(intra|inter)node(_ll)?)::",
    re.IGNORECASE,
)
_FUNCTION = re.compile(
    r"cross_device_(all_?)?reduce"  # vLLM, SGLang, AITER
    r"|(one|two)_?shot_?(push_?)?(all_?reduce|reduce_?scatter|all_?gather)"  # TensorRT-LLM, torch
    r"|hybrid_?cube_?mesh_?all_?reduce"
    r"|all_?reduce_[12]_?shot"  # SGLang
    r"|_?(all_?gather|reduce_?scatter)_(kernel|vec|last_?dim|naive|first_?dim|split|cross_device|registered)"  # AITER
    r"|moe_?a2a_?(dispatch|combine)_?kernel"  # TensorRT-LLM
    r"|ep_?(dispatch|combine)_?(intra|inter)_?node"  # MORI
    r"|multimem_(all|one_shot|two_shot|reduce)"
    r"|lamport_style_one_shot_all_?reduce"  # TensorRT-LLM, flashinfer
    r"|rmsnorm_?lamport"  # flashinfer: it waits for the second half of an all-reduce
    r"|k?userbuffers_(fp16|push|pull|alltoall|inplace)"  # TransformerEngine, TensorRT-LLM
    # flashinfer
    r"|(trtllm_|moe[a-z]{0,10}_|lamport_)?all_?reduce_(fusion|one_?shot|two_?shot|prototype|lamport|kernel)",
    re.IGNORECASE,
)
# The first that matches: a reduce-scatter is no reduce.
_OPERATIONS = (
    # of experts, and of what each rank will send
    ("all_to_all", re.compile(r"all_?to_?all|moe_?a2a|^(ep_?|(cached_)?notify_)?(dispatch|combine)", re.IGNORECASE)),
    ("all_gather", re.compile(r"userbuffers_\w*_ag(_|$)")),
    ("reduce_scatter", re.compile(r"userbuffers_\w*_rs(_|$)")),
    ("allreduce", re.compile(r"userbuffers_fp16_sum|rmsnorm_?lamport", re.IGNORECASE)),
    ("allreduce", re.compile(r"all_?reduce|cross_device_reduce|multimem_(one_shot_)?reduce_kernel", re.IGNORECASE)),
    ("all_gather", re.compile(r"all_?gather", re.IGNORECASE)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast", re.IGNORECASE)),
    ("send_recv", re.compile(r"send_?recv|batch_?send", re.IGNORECASE)),
    ("send", re.compile(r"send", re.IGNORECASE)),
    ("receive", re.compile(r"recv|receive", re.IGNORECASE)),
    ("scatter", re.compile(r"scatter", re.IGNORECASE)),
    ("gather", re.compile(r"gather", re.IGNORECASE)),
    ("barrier", re.compile(r"barrier", re.IGNORECASE)),
    ("reduce", re.compile(r"reduce", re.IGNORECASE)),
)


@lru_cache(maxsize=4096)
def operation_of(kernel: str, function: str) -> str | None:
    """Return the operation of a kernel of a collective; None for other kernels.

    Parameters
    ----------
    kernel
        The symbol of the kernel: ``void vllm::cross_device_reduce_1stage<float, 2>(float*)``.

    Returns
    -------
    ``allreduce``, ``all_gather``, ``send_recv`` and the like; :data:`UNNAMED` if the name does not tell.
    """
    qualified = kernel.partition("(")[0].partition("<")[0]
    if not (_LIBRARY.match(function) or _NAMESPACE.search(qualified) or _FUNCTION.match(function)):
        return None
    return operation_in(function)


def operation_in(name: str) -> str:
    """Return the operation that the name of a collective contains; :data:`UNNAMED` if it tells none."""
    return next((operation for operation, pattern in _OPERATIONS if pattern.search(name)), UNNAMED)
