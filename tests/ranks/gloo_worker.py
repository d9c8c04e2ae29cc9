"""A worker of two that trains with torch's DDP on the CPU, and profiles two cycles: ``RANK STORE FOLDER``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main(rank: int, store: str, folder: str) -> None:
    """Train for six steps, of which two cycles of two are profiled."""
    torch: Any = import_module("torch")
    distributed: Any = import_module("torch.distributed")
    profiler: Any = import_module("torch.profiler")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = import_module("torch.nn.parallel").DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU],
        schedule=profiler.schedule(wait=0, warmup=1, active=2, repeat=2),
        on_trace_ready=profiler.tensorboard_trace_handler(folder),
    ) as prof:
        for _ in range(6):
            model(torch.ones(8, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
