"""What processes of multiprocessing do in tests: functions of a file, as spawned processes need them."""

from __future__ import annotations

import ctypes
import os
from multiprocessing.connection import Connection

from npuprof.simulator import npu


def multiply(rank: int) -> int:
    """Launch some kernels as a rank, and return its process."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    x = npu.ones((16, 16))
    for _ in range(rank + 1):
        x @ x
    return os.getpid()


def train(steps: int) -> int:
    """Launch a kernel per step, and return the process that did; workers of pools call it."""
    x = npu.ones((16, 16))
    for _ in range(steps):
        x + x
    return os.getpid()


def serve(requests: Connection) -> None:
    """Answer requests until there are none: each is a number of steps, or a number of seconds in native code."""
    while (request := requests.recv()) is not None:
        if isinstance(request, float):
            requests.send(0)
            ctypes.PyDLL(None).usleep(int(request * 1e6))  # holds Python's lock
        else:
            requests.send(train(request))
