"""Writes small timelines and results in the vendor's form, for tests that need no samples."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_US = 1_763_600_000_000_000
HOST, CANN, NPU, HCCL, OVERLAP, HBM, ACC, GC = 100, 320, 417, 481, 737, 545, 673, 32


def at(us: float) -> str:
    """Return a moment as the vendor writes it: text of microseconds with three decimals."""
    return f"{BASE_US + int(us)}.{round(us % 1 * 1000):03d}"


def ns(us: float) -> int:
    return BASE_US * 1000 + round(us * 1000)


@dataclass
class TraceMaker:
    """Collects events; each method adds one as torch_npu and msprof write them."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def process(self, pid: int, name: str, label: str, sort_index: int = 0) -> None:
        for key, args in (
            ("process_name", {"name": name}),
            ("process_labels", {"labels": label}),
            ("process_sort_index", {"sort_index": sort_index}),
        ):
            self.events.append({"name": key, "pid": pid, "tid": 0, "args": args, "ph": "M"})

    def thread(self, pid: int, tid: int, name: str) -> None:
        self.events.append({"name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}, "ph": "M"})

    def slice(
        self, pid: int, tid: int, name: str, start_us: float, duration_us: float, cat: str = "", /, **args: Any
    ) -> None:
        event: dict[str, Any] = {"name": name, "pid": pid, "tid": tid, "ts": at(start_us), "dur": duration_us}
        if cat:
            event["cat"] = cat
        self.events.append({**event, "args": args, "ph": "X"})

    def flow(self, cat: str, id_: int | str, begin: tuple[int, int, float], *ends: tuple[int, int, float]) -> None:
        for phase, (pid, tid, us) in (("s", begin), *(("f", end) for end in ends)):
            self.events.append({"ph": phase, "name": cat, "id": id_, "pid": pid, "tid": tid, "ts": at(us), "cat": cat})

    def counter(self, pid: int, name: str, us: float, **args: Any) -> None:
        self.events.append({"name": name, "ts": at(us), "pid": pid, "tid": 0, "args": args, "ph": "C"})

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(self.events))
        return path


def small_trace(*, cann_named: bool = True) -> TraceMaker:
    """Make a step with two operators, their launches, three tasks, a collective with a plane, and counters."""
    maker = TraceMaker()
    maker.process(HOST, "Python", "CPU")
    if cann_named:
        maker.process(CANN, "CANN", "CPU", 10)
    maker.process(NPU, "Ascend Hardware", "NPU 1", 13)
    maker.process(HCCL, "Communication", "NPU 1", 15)
    maker.process(OVERLAP, "Overlap Analysis", "NPU 1", 23)
    maker.process(HBM, "HBM", "NPU 1", 17)
    maker.process(ACC, "Acc PMU", "NPU 1", 21)
    maker.thread(HCCL, 0, "Group 0 Communication")
    maker.thread(HCCL, 1, "Plane 0")
    maker.slice(HOST, 1, "ProfilerStep#7", 0, 1000, "cpu_op", **{"Sequence number": -1, "Fwd thread id": 0})
    operator: dict[str, Any] = {
        "Sequence number": 3,
        "Fwd thread id": 0,
        "Input Dims": "2,3;\r\n",
        "Call stack": "a(1): f;\r\nb(2): g",
    }
    maker.slice(HOST, 1, "aten::mm", 10, 40, "cpu_op", **operator)
    maker.slice(HOST, 1, "aten::add", 60, 20, "cpu_op", **{"Sequence number": -1, "Fwd thread id": 0})
    maker.slice(HOST, 1, "Enqueue", 12, 2, "enqueue", correlation_id=5)
    maker.slice(HOST, 2, "Dequeue@mm", 15, 20, "dequeue", correlation_id=5)
    maker.slice(HOST, 1, "root", 0, 1000, "python_function", **{"Python id": 0, "Python parent id": 0})
    maker.slice(HOST, 1, "train.py(3): step", 1, 900, "python_function", **{"Python id": 4, "Python parent id": 0})
    if cann_named:
        maker.slice(CANN, 2, "AscendCL@aclnnMm", 16, 10, level="acl", id="aclnnMm", item_id="0", connection_id=9)
        maker.slice(CANN, 2, "Node@launch", 18, 4, level="node", id="0", item_id="MatMul1", connection_id=10)
        maker.slice(CANN, 2, "Hccl@allReduce", 30, 4, level="hccl", id="0", item_id="0", connection_id=11)
    for number, (name, start, kind) in enumerate(
        (("MatMul1", 100.001, "AI_CORE"), ("Add2", 150.002, "AI_VECTOR_CORE"), ("EVENT_WAIT", 160, "EVENT_WAIT_SQE"))
    ):
        task: dict[str, Any] = {
            "Task Type": kind,
            "Physic Stream Id": 2,
            "Task Id": number,
            "Batch Id": 0,
            "Subtask Id": 4294967295,
        }
        maker.slice(NPU, 2, name, start, 10.5, connection_id=10, **task)
    operator = {"connection_id": 11, "data_type": "FP32", "alg_type": "MESH-RING", "count": 8}
    maker.slice(HCCL, 0, "hcom_allReduce__586_0_1", 200, 50.00021875, **operator)
    step: dict[str, Any] = {
        "task type": "Memcpy",
        "src rank": 0,
        "dst rank": 4294967295,
        "link type": "INVALID_TYPE",
        "size(Byte)": 64,
    }
    maker.slice(HCCL, 1, "Memcpy", 210, 5, **{**step, "transport type": "SDMA", "bandwidth(GB/s)": 1.5})
    for kind, start, length in (
        ("Computing", 100.001, 10.5),
        ("Computing", 150.002, 10.5),
        ("Communication(Not Overlapped)", 200, 50),
        ("Free", 120, 10),
    ):
        maker.slice(OVERLAP, 0, kind, start, length)
    maker.counter(HBM, "HBM 0/Read", 5, **{"Read(MB/s)": 2.5})
    maker.counter(ACC, "read_bandwidth", 6, value=7, acc_id=3)
    maker.flow("async_task_queue", 5, (HOST, 1, 12), (HOST, 2, 15))
    maker.flow("HostToDevice", str(10 << 32), (CANN, 2, 19), (NPU, 2, 100.001), (NPU, 2, 150.002))
    maker.flow("HostToDevice", str(11 << 32), (CANN, 2, 31), (HCCL, 0, 200))
    maker.flow("async_npu", ns(100.001), (HOST, 1, 10), (NPU, 2, 100.001))
    maker.flow("async_npu", 5, (HOST, 1, 60), (HCCL, 0, 200))
    return maker
