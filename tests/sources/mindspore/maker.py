"""Writes a result as MindSpore does after a run on an NPU, for which there is no sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sources.msprof.results import csv
from tests.sources.text.kinds import KINDS
from tests.sources.trace.maker import CANN, HCCL, NPU, OVERLAP, TraceMaker, at

MINDSPORE, CPU_OP, SCOPES = 1, 2, 3
LAUNCH = "PynativeFramework::PyNativeLaunchTask::Default/network-Net/MatMul-op0"
KERNEL = "aclnnMatmul_MatMulCommon_MatMulV2"
KERNEL_HEAD = (
    "Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
    "Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,Step ID"
)
INFO = {
    "profiler_parameters": {
        "is_set_schedule": True,
        "profiler_level": "Level1",
        "activities": ["CPU", "NPU"],
        "aic_metrics": "PipeUtilization",
        "with_stack": True,
        "profile_memory": True,
        "mstx": False,
        "export_type": ["text"],
    },
    "ms_profiler_info": {"rank_id": 2},
    "cann_profiler_info": {},
    "ms_version": "2.7.0",
    "cann_version": "8.3.RC1",
    "jit_level": "O0",
}
TIMES = (
    *("Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)"),
    *("Wait Time Ratio", "Synchronization Time Ratio"),
)
TRANSFER: dict[str, Any] = {
    "Transport Type": "HCCS",
    "Transit Size(MB)": 4,
    "Transit Time(ms)": 2,
    "Bandwidth(GB/s)": 2,
}
OPERATOR: dict[str, Any] = {
    "Communication Time Info": {"Start Timestamp(us)": 1_763_600_000_000_200.0, **dict.fromkeys(TIMES, 0.05)},
    "Communication Bandwidth Info": {"HCCS": {**TRANSFER, "Large Packet Ratio": 1}},
}


class MindSporeTrace(TraceMaker):
    """Collects events; times and durations are text, and slices have no category but that of Python's calls."""

    def slice(
        self, pid: int, tid: int, name: str, start_us: float, duration_us: float, cat: str = "", /, **args: Any
    ) -> None:
        """Add a slice."""
        event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": at(start_us), "dur": f"{duration_us:.3f}"}
        self.events.append({**event, "cat": cat, "args": args})

    def instant(self, tid: int, name: str, us: float) -> None:
        """Add an operator that took no time."""
        event = {"name": name, "ph": "i", "ts": at(us), "pid": MINDSPORE, "tid": tid, "args": {}}
        self.events.append(event)


def trace(*, with_numbers: bool = False) -> MindSporeTrace:
    """Make the timeline of a step: Python calls, operators on two threads, a launch, its kernel and a collective.

    `with_numbers` gives operators the arguments that releases before 2.5 wrote.
    """
    maker = MindSporeTrace()
    for pid, name, label, sort in (
        (MINDSPORE, "MindSpore", "CPU", 1),
        (CPU_OP, "CPU OP", "CPU", 2),
        (CANN, "CANN", "CPU", 7),
        (SCOPES, "Scope Layer", "CPU", 12),
        (NPU, "Ascend Hardware", "NPU 1", 13),
        (HCCL, "Communication", "NPU 1", 15),
        (OVERLAP, "Overlap Analysis", "NPU 1", 23),
    ):
        maker.process(pid, name, label, sort)
    maker.thread(HCCL, 0, "Group 0 Communication")
    numbers: dict[str, Any] = {"Sequence number": 4, "Fwd thread id": 0, "Input Dims": "2,3\r\n3,4"}
    args = numbers if with_numbers else {}
    maker.slice(MINDSPORE, 11, "ProfilerStep#3", 0, 1000, **args)
    maker.slice(MINDSPORE, 11, "PynativeFramework::RunOp::MatMul", 10, 20, **args)
    maker.slice(MINDSPORE, 12, LAUNCH, 35, 10, **args)
    maker.slice(MINDSPORE, 13, "Dataset::Pipeline::Push", 5, 4, **args)
    maker.instant(11, "PynativeFramework::Wait::", 50)
    maker.slice(MINDSPORE, 11, "train.py(9): main", 0, 900, "python_function")
    maker.slice(MINDSPORE, 11, "mindspore/nn/cell.py(700): __call__", 8, 40, "python_function")
    maker.slice(CPU_OP, 0, "Default/Cast-op1", 300, 7.5, type="HostCpuOps")
    maker.slice(SCOPES, 0, "Default", 100, 50)
    maker.slice(SCOPES, 1, "network-Net", 100, 50)
    maker.slice(CANN, 12, "AscendCL@aclnnMatmul", 36, 8, level="acl", id="aclnnMatmul", item_id="0", connection_id=9)
    maker.slice(CANN, 12, "Node@launch", 38, 2, level="node", id="0", item_id=KERNEL, connection_id=10)
    task: dict[str, Any] = {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": 5, "Batch Id": 0}
    maker.slice(NPU, 2, KERNEL, 100, 10.5, connection_id=10, mindspore_op=LAUNCH, **task)
    collective: dict[str, Any] = {"connection_id": 11, "data_type": "FP32", "alg_type": "MESH", "count": 8}
    maker.slice(HCCL, 0, "hcom_allReduce__586_0_1", 200, 50, **collective)
    maker.slice(OVERLAP, 0, "Computing", 100, 10.5)
    maker.flow("async_mindspore", 77, (MINDSPORE, 11, 10), (MINDSPORE, 12, 35))
    maker.flow("HostToDevice", str(10 << 32), (CANN, 12, 38.5), (NPU, 2, 100))
    maker.flow("async_npu", at(100), (MINDSPORE, 12, 35), (NPU, 2, 100))
    return maker


def result(root: Path) -> Path:
    """Write the directory."""
    output = root / "ASCEND_PROFILER_OUTPUT"
    for kind in KINDS:
        if "mindspore" in kind.fronts:
            rank = "_2" if kind.module.startswith("minddata") else ""
            csv(output / f"{kind.module}{rank}.csv", kind.head, [kind.row])
    shapes = '"""2,3;3,4""",FLOAT;FLOAT,ND;ND,"""2,4""",FLOAT,ND'
    kernel = (
        f"4294967295,5,2,{LAUNCH}/{KERNEL},MatMulV2,dynamic,AI_CORE,{at(100)}\t,10.5,0,20,0,NO,{shapes},N/A,9.5,99,3"
    )
    absent = ",".join(["N/A"] * 12)
    collective = f"4294967295,N/A,N/A,hcom_allReduce__586_0_1,hcom_allReduce_,N/A,COMMUNICATION,{at(200)}\t,50,1"
    csv(output / "kernel_details.csv", KERNEL_HEAD, [kernel, f"{collective},{absent},3"])
    trace().write(output / "trace_view.json")
    csv(output / "op_statistic.csv", "OP Type,Core Type,Count,Total Time(us)", ["MatMulV2,AI_CORE,1,10.5"])
    csv(output / "api_statistic.csv", "Level,API Name,Time(us),Count", ["acl,aclnnMatmul,8,1", "node,launch,2,1"])
    csv(output / "step_trace_time.csv", "Step,Computing,Communication,Free", ["3,10.5,50,4"])
    for name, entry in (("communication", OPERATOR), ("communication_matrix", {"0-1": TRANSFER})):
        analysed = {"step3": {"p2p": {}, "collective": {"hcom_allReduce__586_0_1@4586": entry}}}
        (output / f"{name}.json").write_text(json.dumps(analysed))
    (root / "profiler_info_2.json").write_text(json.dumps(INFO))
    (root / "profiler_metadata.json").write_text('{"parallel_group_info": {"4586": {"group_name": "hccl_world"}}}')
    return root
