"""Categories of torch's traces (Kineto), in the spellings of all years and devices.

Until 2022 categories were capitalised words (``Kernel``, ``Runtime``), since then they are ``kernel`` and
``cuda_runtime``; builds for other devices add their own.

Source: sources/RESULTS.md section 8.
"""

from __future__ import annotations

from collections.abc import Mapping

KERNEL, COPY, FILL, COLLECTIVE = "kernel", "gpu_memcpy", "gpu_memset", "collective_comm"
"""Categories of device tasks, as `task_type` in ``tasks``: a kernel, a copy, memory that is set, and a collective."""

_KINDS = {
    "operator": "cpu_op operator",
    "annotation": "user_annotation",
    "device_annotation": "gpu_user_annotation mlu_user_annotation gcu_user_annotation",
    "python": "python_function python",
    "call": "cuda_runtime cuda_driver runtime hip_runtime hip_driver xpu_runtime xpu_driver mtia_runtime glow_runtime "
    "privateuse1_runtime privateuse1_driver mlu_runtime gcu_runtime gcu_driver",
    "task": "kernel concurrent_kernel gpu_memcpy memcpy mlu_memcpy gcu_memcpy gpu_memset memset mlu_memset gcu_memset "
    "cuda_sync cuda_event xpu_sync gcu_sync mlu_notifier mtia_ccp_events collective_comm hpu_op",
    "memory": "cpu_instant_event memory",
    "span": "trace",  # the whole recording as one slice
    "overhead": "overhead",  # slices of the profiler itself
}
_KIND_OF_CATEGORY: Mapping[str, str] = {
    category: kind for kind, categories in _KINDS.items() for category in categories.split()
}
_SHARED = frozenset(["cpu_op", "operator", "user_annotation", "python_function", "python", "memory", "collective_comm"])
"""Categories that timelines of other front ends have too, or may have."""
_TASK_TYPES = {
    "concurrent_kernel": KERNEL,
    **dict.fromkeys(("memcpy", "mlu_memcpy", "gcu_memcpy"), COPY),
    **dict.fromkeys(("memset", "mlu_memset", "gcu_memset"), FILL),
}

FORWARD_BACKWARD = ("fwdbwd", "fwd_bwd", "forward_backward")
"""Categories of the flows from forward to backward operators."""
GPU_LAUNCHES = ("ac2g", "async_gpu", "async_cpu_to_gpu", "async")
"""Categories of the flows from runtime calls to device tasks."""


def kind_of_category(category: str | None) -> str | None:
    """Return the kind of slice that a category stands for, in any spelling; None for an unknown category."""
    return _KIND_OF_CATEGORY.get((category or "").lower())


def is_of_torch(category: str | None) -> bool:
    """Return whether only torch's profiler writes slices or flows of this category."""
    name = (category or "").lower()
    return (name in _KIND_OF_CATEGORY and name not in _SHARED) or name in GPU_LAUNCHES or name == "cuda_profiler_range"


def task_type(category: str) -> str:
    """Return the `task_type` of device tasks of a category: the newest spelling."""
    name = category.lower()
    return _TASK_TYPES.get(name, name)
