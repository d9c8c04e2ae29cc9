"""Writes the traces of a job on GPUs: ranks that compute, reduce their gradients and send to the next rank."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sources.kineto.traces import BASE_NS, OFFSET_US, KinetoTrace

_STEP_US = 2000
_MOVING_US = 40
_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class TorchJob:
    """A job whose ranks take given times for the kernels of a step, in microseconds.

    Attributes
    ----------
    computing_us
        By rank: the time of its kernel in each step.
    steps
        The number of steps of a cycle of the profiler's schedule.
    named
        Whether collectives have arguments.
    """

    computing_us: Sequence[int]
    steps: int = 4
    named: bool = True

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.computing_us)

    def starts_us(self, step: int) -> list[int]:
        """Return when each rank begins its all-reduce of a step."""
        return [step * _STEP_US + 20 + computing for computing in self.computing_us]

    def wait_ns(self, rank: int) -> int:
        """Return how long a rank waits in each all-reduce."""
        return 1000 * (max(self.computing_us) - self.computing_us[rank])

    def write(self, folder: Path, cycles: int = 1, *, name: str = "node-1_{process}.{time}.pt.trace.json") -> Path:
        """Write a file per rank and cycle, as torch's trace handler names them; return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for cycle in range(cycles):
            for rank in range(self.size):
                first = cycle * self.steps
                written_ns = BASE_NS + 1000 * (OFFSET_US + (first + self.steps) * _STEP_US)
                file = name.format(process=700 + rank, time=written_ns, rank=rank)
                self._trace(rank, range(first, first + self.steps)).write(folder / file)
        return folder

    def _trace(self, rank: int, steps: range) -> KinetoTrace:
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": self.size, "ranks": [*range(self.size)]}
        job = {"backend": "nccl", "rank": rank, "world_size": self.size, "pg_config": [group]}
        trace = KinetoTrace(head={"schemaVersion": 1, "distributedInfo": job})
        for step in steps:
            self._add_step(trace, rank, step, step - steps.start)
        return trace

    def _add_step(self, trace: KinetoTrace, rank: int, step: int, place: int) -> None:
        begin, first = step * _STEP_US, 10 * step
        starts = self.starts_us(step)
        end = max(starts) + _MOVING_US
        event = 2 * place  # torch numbers its events in each trace
        trace.slice("user_annotation", f"ProfilerStep#{step}", begin, _STEP_US, External_id=first, Ev_Idx=event)
        trace.operator("aten::mm", begin + 5, 4, first + 5, Ev_Idx=event + 1)
        trace.slice("cuda_runtime", "cudaLaunchKernel", begin + 6, 2, correlation=first + 1, External_id=first + 5)
        lane = {"stream": 7, "External_id": first + 5}
        trace.on_gpu("kernel", "gemm", begin + 20, self.computing_us[rank], 0, correlation=first + 1, **lane)
        trace.slice("cuda_runtime", "cudaLaunchKernelExC", begin + 12, 2, correlation=first + 2)
        self._collective(trace, _REDUCE, starts[rank], end, first + 2, "allreduce")
        for number, kind in enumerate(("send", "all_to_all")):
            peer = {"Dst Rank": (rank + 1) % self.size} if kind == "send" else {}
            call, start = first + 3 + number, end + 10 + 50 * number
            trace.slice("cuda_runtime", "cudaLaunchKernelExC", begin + 15 + 3 * number, 2, correlation=call)
            self._collective(trace, _SEND_RECV, start, start + 30, call, kind, **peer)

    def _collective(
        self, trace: KinetoTrace, name: str, start: int, end: int, correlation: int, kind: str, **peer: int
    ) -> None:
        args = {
            "Collective name": kind,
            "In msg nelems": 1024 * self.size,
            "Group size": self.size,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Ranks": json.dumps([*range(self.size)]),
            **peer,
        }
        trace.on_gpu(
            "kernel", name, start, end - start, 0, stream=20, correlation=correlation, **(args if self.named else {})
        )
