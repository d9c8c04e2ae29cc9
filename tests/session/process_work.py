"""What processes of multiprocessing do in tests: functions of a file, as spawned processes need them."""

from __future__ import annotations

import os

from npuprof.simulator import npu


def multiply(rank: int) -> int:
    """Launch some kernels as a rank, and return its process."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    x = npu.ones((16, 16))
    for _ in range(rank + 1):
        x @ x
    return os.getpid()
