"""The kinds of CSV files of a result that fill tables: columns as the vendor writes them, a row, what becomes of it."""

from __future__ import annotations

from tests.sources.msprof.results import STEP_HEAD, TX_HEAD
from tests.sources.text.kind import BOTH, MINDSPORE, TORCH, Kind
from tests.sources.trace.maker import at, ns

T, LATER = at(5) + "\t", at(9.5) + "\t"
MB, KB = 1 << 20, 1 << 10
_STEP_TIMES = (
    "Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive)"
)
_STEP_VALUES = {
    "computing_ns": 8_827_473,
    "communication_not_overlapped_ns": 2000,
    "overlapped_ns": 1000,
    "communication_ns": 3000,
    "free_ns": 500,
    "stage_ns": 10_250,
    "bubble_ns": 0,
}
_BLOCKS = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)

TABLE_KINDS = (
    Kind(
        "operator_memory",
        _BLOCKS,
        f"aten::mm,0.5,{T},{LATER},,4.5,,1,2,1,0,2,0,188921,NPU:4",
        {
            "name": "aten::mm",
            "size_bytes": 512,
            "allocated_ns": ns(5),
            "released_ns": ns(9.5),
            "device_id": 4,
            "stream": 188921,
        },
        fronts=TORCH,
    ),
    Kind(
        "operator_memory",
        _BLOCKS,
        f"Add,2.0,{T},N/A,N/A,N/A,N/A,1,2,1,N/A,N/A,N/A,7,NPU:0",
        {"size_bytes": 2048, "allocated_ns": ns(5), "released_ns": None},
        fronts=MINDSPORE,
    ),
    Kind(
        "operator_memory",
        "Device_id,Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(KB),"
        "Allocation Total Reserved(KB),Release Total Allocated(KB),Release Total Reserved(KB),Device",
        f"3,Add_0,4.0,{T},4.5,8,16,4,16,NPU:3",
        {"size_bytes": 4096, "allocated_ns": ns(5), "released_ns": ns(9.5), "device_id": 3},
    ),
    Kind(
        "memory_record",
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type",
        f"PTA,{T},1.5,2,1.25,188921,NPU:4",
        {
            "time_ns": ns(5),
            "component": "PTA",
            "allocated_bytes": MB * 3 // 2,
            "reserved_bytes": 2 * MB,
            "active_bytes": MB * 5 // 4,
            "device_id": 4,
        },
        fronts=TORCH,
    ),
    Kind(  # 2023
        "memory_record",
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type",
        f"APP,{at(5)[:-4]},,2,NPU:0",
        {"time_ns": ns(5), "allocated_bytes": None, "reserved_bytes": 2 * MB, "active_bytes": None},
        fronts=TORCH,
    ),
    Kind(
        "memory_record",
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Device Type",
        f"MindSpore,{at(5)},0.025,1048.576,0.0005,NPU:0",
        {"component": "MindSpore", "allocated_bytes": 25_600, "reserved_bytes": 1 << 30, "active_bytes": 512},
        fronts=MINDSPORE,
    ),
    Kind(
        "memory_record",
        "Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device",
        f"2,GE,{T},8.5,16,NPU:2",
        {"time_ns": ns(5), "allocated_bytes": 8704, "reserved_bytes": 16 * KB, "device_id": 2},
    ),
    Kind(
        "npu_module_mem",
        "Component,Timestamp(us),Total Reserved(MB),Device",
        f"RUNTIME,{T},3,NPU:1",
        {"time_ns": ns(5), "component": "RUNTIME (module)", "reserved_bytes": 3 * MB, "device_id": 1},
        fronts=TORCH,
    ),
    Kind(
        "npu_module_mem",
        "Device_id,Component,Timestamp(us),Total Reserved(KB),Device",
        f"1,SLOG,{T},-1,NPU:1",
        {"component": "SLOG (module)", "reserved_bytes": None, "device_id": 1},
        fronts=("mindspore", "msprof"),
    ),
    Kind(
        "npu_mem",
        "Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)",
        f"0,app,1,2,3,{T}",
        {"time_ns": ns(5), "component": "APP", "reserved_bytes": 3072, "hbm_bytes": 2048, "ddr_bytes": 1024},
        fronts=BOTH,
    ),
    Kind(
        "step_trace_time",
        f"Device_id,Step,{_STEP_TIMES},Preparing",
        "1,7,8827.472999999998,2,1,3,0.5,10.25,0.0,2,0.75",
        {**_STEP_VALUES, "step": 7, "device_id": 1, "preparing_ns": 750},
        fronts=TORCH,
    ),
    Kind(
        "step_trace_time",
        f"Step,{_STEP_TIMES}",
        ",8827.472999999998,2,1,3,0.5,10.25,0.0,2",
        {**_STEP_VALUES, "step": None, "preparing_ns": None},
        fronts=("torch_npu", "mindspore"),
    ),
    Kind(
        "step_trace",
        STEP_HEAD,
        f"1,3,{at(1)}\t,{at(4)}\t,{LATER},4.5,3,0,N/A,7,{at(2)},0.5,{at(3)},0.25",
        {"start_ns": ns(5), "duration_ns": 4500, "step": 3},
    ),
    Kind(
        "task_time",
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)",
        f"1,N/A,MEMCPY_ASYNC,2,8,4.5,{T},{LATER}",
        {"start_ns": ns(5), "duration_ns": 4500, "device_id": 1, "task_type": "MEMCPY_ASYNC", "name": None},
    ),
    Kind(
        "msprof_tx",
        TX_HEAD,
        f"host,9,5,0,start/end,0,0,{T},{LATER},0,forward,mine,{at(20)}\t,{at(23)}\t",
        {
            "start_ns": ns(5),
            "duration_ns": 4500,
            "message": "forward",
            "domain": "mine",
            "thread_id": 5,
            "device_start_ns": ns(20),
            "device_duration_ns": 3000,
        },
    ),
)
