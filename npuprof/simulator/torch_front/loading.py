"""Importing torch, and what is needed of it."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from npuprof.errors import FrontEndAbsentError

# What the context asks of torch beside its documented interface.
_NEEDED = ("_current_autograd_node", "_current_graph_task_id", "_dispatch_has_kernel_for_dispatch_key")


@cache
def load_torch() -> Any:
    """Return torch.

    Raises
    ------
    FrontEndAbsentError
        If it is not installed, fails while it is imported, or lacks what is needed of it.
    """
    try:
        torch: Any = importlib.import_module("torch")
        importlib.import_module("torch.utils._python_dispatch")
    except (ImportError, OSError, RuntimeError) as error:
        raise FrontEndAbsentError(
            f"torch cannot be imported ({error}): `pip install torch`, of which the build for CPUs is enough, or use "
            "npuprof.simulator.npu, which needs NumPy only"
        ) from error
    if lacking := [name for name in _NEEDED if not hasattr(torch._C, name)]:
        raise FrontEndAbsentError(
            f"torch {torch.__version__} lacks {', '.join(lacking)}, so that its backward pass cannot be followed: "
            "install a newer one (2.13 is known to work)"
        )
    return torch
