"""Writes small results as msprof exports them, for tests that need no samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.sources.trace.maker import HOST, NPU, OVERLAP, TraceMaker, at

STAMP = "20260101000000"
SUMMARY_HEAD = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
    "Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,"
    "Output Shapes,Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_time(us),"
    "aic_mac_ratio,aiv_time(us),aiv_total_cycles"
)
STEP_HEAD = (
    "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),FP to BP Time(us),"
    "Iteration Refresh(us),Data Aug Bound(us),Model ID,Reduce Start(us),Reduce Duration(us),Reduce Start(us),"
    "Reduce Duration(us)"
)
TX_HEAD = (
    "Device_id,pid,tid,category,event_type,payload_type,payload_value,Start_time(us),End_time(us),message_type,"
    "message,domain,Device Start_time(us),Device End_time(us)"
)


def kernel(name: str, start_us: float, duration_us: float, device: int = 0, task: int = 0) -> str:
    return (
        f"{device},4294967295,{task},2,{name},MatMulV3,dynamic,AI_CORE,{at(start_us)}\t,{duration_us},0,24,0,NO,"
        '"""2,3;"""' + ",FLOAT16,ND,N/A,N/A,N/A,N/A,9.25,100,5.5,0.5,0.0,0"
    )


def csv(path: Path, head: str, rows: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def device_trace(device: int = 0) -> TraceMaker:
    """Make the timeline of one kernel, one iteration and one mark, as msprof writes it."""
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", f"NPU {device}", 13)
    maker.process(HOST, "python3", "CPU")
    task = {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": 0, "Batch Id": 0, "Subtask Id": 4294967295}
    maker.slice(NPU, 2, "MatMul_0", 100, 10, **task, connection_id=10)
    maker.slice(NPU, 70007, "Iteration 4", 90, 100, "Iteration Time", **{"Iteration ID": 4})
    maker.slice(OVERLAP, 0, "Computing", 100, 10)
    maker.slice(HOST, 1, "forward", 80, 50, event_type="push/pop", Category="0", Payload_type=0)
    return maker


def result(root: Path) -> Path:
    """Write a ``PROF_*`` directory with an exported result of one kernel."""
    output = root / "mindstudio_profiler_output"
    csv(output / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, [kernel("MatMul_0", 100, 10)])
    device_trace().write(output / f"msprof_{STAMP}.json")
    return root


def old_trace(pid: int, start_us: float, name: str, iteration: int) -> list[dict[str, object]]:
    """Make a timeline of CANN 6: numbers for times, since the machine's start, and no device in any label."""
    task = {"Task Type": "AI_CORE", "Stream Id": 2, "Task Id": 4, "Batch Id": 0}
    step = {"Iteration ID": iteration, "Iteration Time(ns)": 20000.0}
    return [
        {"name": "process_name", "pid": pid, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
        {"name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "NPU"}, "ph": "M"},
        {"name": name, "pid": pid, "tid": 2, "ts": start_us, "dur": 5.25, "args": task, "ph": "X"},
        {
            "name": f"Iteration {iteration}",
            "pid": pid,
            "tid": 9,
            "ts": start_us - 5,
            "dur": 20.0,
            "cat": "Iteration Time",
            "args": step,
            "ph": "X",
        },
    ]


def old_result(root: Path, devices: Sequence[int] = (0,), iterations: Sequence[int] = (1, 2)) -> Path:
    """Write the layout of CANN 5 and 6, with the start_info that places it on UTC."""
    for device in devices:
        side = root / f"device_{device}"
        (side / "timeline").mkdir(parents=True)
        for iteration in iterations:
            events = old_trace(3, 1000.25 + 100 * iteration + device, f"Conv{device}", iteration)
            text = json.dumps(events)
            (side / "timeline" / f"msprof_{device}_2_{iteration}.json").write_text(text)
            (side / "timeline" / f"task_time_{device}_2_{iteration}.json").write_text(text)
        info = {"collectionTimeBegin": "1692340024324979", "clockMonotonicRaw": "1000000"}
        (side / f"start_info.{device}").write_text(json.dumps(info))
        (side / f"info.json.{device}").write_text(json.dumps({"platform_version": "1", "rank_id": 0}))
    return root
