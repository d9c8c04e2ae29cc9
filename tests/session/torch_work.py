"""Training on the CPU with gloo, as a rank of a job that a launcher or a test starts."""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import Any

SLOW_RANK, LATE_S, STEPS = 2, 0.05, 6


def train(rank: int | None = None, size: int | None = None, store: str = "") -> None:
    """Train for some steps, in which one rank comes late; without arguments the environment has the rank."""
    torch: Any = import_module("torch")
    distributed: Any = import_module("torch.distributed")
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if rank is None:
        distributed.init_process_group("gloo")
    else:
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    model = import_module("torch.nn.parallel").DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        if distributed.get_rank() == min(SLOW_RANK, distributed.get_world_size() - 1):
            time.sleep(LATE_S)
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    distributed.destroy_process_group()


if __name__ == "__main__":
    train()
