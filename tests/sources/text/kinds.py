"""Every kind of CSV file of a result: its columns as the vendor writes them, a row, and what must become of it."""

from __future__ import annotations

from tests.sources.text.kind import ALL, MINDSPORE, TORCH, Kind
from tests.sources.text.table_kinds import TABLE_KINDS, T
from tests.sources.trace.maker import ns

_NIC = (
    "Device_id,Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,rxError rate(%),"
    "rxDropped rate(%),Tx Bandwidth efficiency(%),txPacket/s,txError rate(%),txDropped rate(%),funcId"
)
_NIC_ROW = f"0,{T},200000.0,0.5,7.0,0.0,0.0,0.25,3.0,0.0,0.0,0"
_NIC_VALUES = {"Timestamp(ns)": ns(5), "Rx Bandwidth efficiency(%)": 0.5, "funcId": 0}

KINDS = (
    *TABLE_KINDS,
    Kind(
        "op_statistic",
        "Device_id,Model Name,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
        "0,net,MatMulV3,MIX_AIC,2,3.5,1,1.75,2.5,100.0",
        {"OP Type": "MatMulV3", "Core Type": "MIX_AIC", "Count": 2, "Total Time(us)": 3.5, "Ratio(%)": 100.0},
        fronts=ALL,
    ),
    Kind(
        "api_statistic",
        "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",
        "host,acl,aclnnAdd,7.25,3,2.4,1,4,0.5",
        {"Device_id": "host", "Level": "acl", "Time(us)": 7.25, "Count": 3},
        fronts=ALL,
    ),
    Kind(
        "operator_details",
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)",
        'aten::mm,"2,3;3,4","a.py(1): f;\nb.py(2): g",1.5,2,3,4,5,6.25',
        {"Name": "aten::mm", "Input Shapes": "2,3;3,4", "Call Stack": "a.py(1): f;\nb.py(2): g"},
        fronts=TORCH,
    ),
    Kind("operator_details", "Name,Input Shapes", 'Add,"[2, 3]"', {"Input Shapes": "[2, 3]"}, fronts=MINDSPORE),
    Kind(
        "static_op_mem",
        "Device_id,Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)",
        "host,Add_0,0,3,1,4294967295,64",
        {"Op Name": "Add_0", "Node Index End": 4294967295, "Size(KB)": 64},
        fronts=ALL,
    ),
    Kind(
        "fusion_op",
        "Device_id,Model Name,Model ID,Fusion Op,Original Ops,Memory Input(KB),Memory Output(KB),Memory Weight(KB),"
        "Memory Workspace(KB),Memory Total(KB)",
        "host,net,1,conv_relu,conv;relu,1,2,3,4.5,10.5",
        {"Fusion Op": "conv_relu", "Original Ops": "conv;relu", "Memory Total(KB)": 10.5},
    ),
    Kind(
        "aicpu",
        "Device_id,Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),"
        "Total_time(us),Stream ID,Task ID",
        f"0,{T},Cast,50.5,30,50,12,70,6,0",
        {"Timestamp(ns)": ns(5), "Node": "Cast", "Compute_time(us)": 50.5, "Stream ID": 6},
    ),
    Kind(
        "data_preprocess",
        "Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us)",
        f"{T},Cast,50.5,30,50,12,70",
        {"Timestamp(ns)": ns(5), "Task_time(us)": 50},
        fronts=ALL,
    ),
    Kind("aicpu_mi", "Node Name,Start Time(us),End Time(us),Queue Size", "GetNext,1,2,3", {"Queue Size": 3}),
    Kind(
        "dp",
        "Timestamp(us),Action,Source,Cached Buffer Size",
        f"{T},Last queue dequeue,iterator_default,8",
        {"Timestamp(ns)": ns(5), "Source": "iterator_default", "Cached Buffer Size": 8},
    ),
    Kind(
        "l2_cache",
        "Device_id,Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
        "0,2,5,N/A,1.666667,MatMul_0",
        {"Stream Id": 2, "Hit Rate": None, "Victim Rate": 1.666667},
        fronts=ALL,
    ),
    Kind(
        "soc_pmu",
        "Device_id,Stream Id,Task Id,TLB Miss Rate,TLB Hit Rate,Op Name",
        "0,2,5,0.5,3.5,MatMul_0",
        {"TLB Miss Rate": 0.5, "Op Name": "MatMul_0"},
    ),
    *(
        Kind(
            module,
            "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
            "0,hcom_allReduce_,1,58,58,58,58,100",
            {"OP Type": "hcom_allReduce_", "Total Time(us)": 58},
        )
        for module in ("communication_statistic", "hccl_statistic")
    ),
    Kind(
        "llc_read_write",
        "Device_id,Mode,Task,Hit Rate(%),Throughput(MB/s)",
        "0,read,Average,92.5,1.5",
        {"Mode": "read", "Hit Rate(%)": 92.5},
    ),
    *(
        Kind(
            module,
            "Device_id,Metric,Read(MB/s),Write(MB/s)",
            "0,Average,2.309,2.390",
            {"Metric": "Average", "Read(MB/s)": 2.309},
            fronts=("mindspore", "msprof"),
        )
        for module in ("hbm", "ddr")
    ),
    *(Kind(module, _NIC, _NIC_ROW, _NIC_VALUES, fronts=("mindspore", "msprof")) for module in ("nic", "roce")),
    Kind(
        "pcie",
        "Device_id,Mode,Min,Max,Avg",
        "0,Tx_p_avg(MB/s),11.444,12.398,11.9",
        {"Mode": "Tx_p_avg(MB/s)", "Max": 12.398},
        fronts=("mindspore", "msprof"),
    ),
    Kind(
        "hccs",
        "Device_id,Mode,Max,Min,Average",
        "0,Tx (MB/s),95.367,1.5,3.25",
        {"Mode": "Tx (MB/s)", "Average": 3.25},
        fronts=("mindspore", "msprof"),
    ),
    Kind(
        "dvpp",
        "Device_id,Dvpp Id,Engine Type,Engine ID,All Time(us),All Frame,All Utilization(%)",
        "0,0,VDEC,1,100,2,0.5%",
        {"Engine Type": "VDEC", "All Frame": 2, "All Utilization(%)": "0.5%"},
    ),
    *(
        Kind(
            module,
            "Device_id,Core ID,mac_fp16_ratio,mac_int8_ratio",
            "0,Average,0.25,0.5",
            {"Core ID": "Average", "mac_fp16_ratio": 0.25},
        )
        for module in ("ai_core_utilization", "ai_vector_core_utilization")
    ),
    *(
        Kind(
            f"{core}_cpu_top_function",
            "Device_id,Function,Module,Cycles,Cycles(%)",
            "0,memcpy,libc.so,12345,12.5",
            {"Function": "memcpy", "Cycles": 12345, "Cycles(%)": 12.5},
        )
        for core in ("ai", "ctrl", "ts")
    ),
    *(
        Kind(f"{core}_cpu_pmu_events", "Device_id,Event,Name,Count", "0,0x11,cpu_cycles,123", {"Event": "0x11"})
        for core in ("ai", "ctrl", "ts")
    ),
    Kind(
        "host_cpu_usage",
        "Device_id,Total Cpu Numbers,Occupied Cpu Numbers,Recommend Cpu Numbers",
        "host,192,1,1",
        {"Device_id": "host", "Total Cpu Numbers": 192},
    ),
    Kind(
        "host_mem_usage",
        "Device_id,Total Memory(KB),Peak Used Memory(KB),Recommend Memory(KB)",
        "host,791800000,8005.098,10006.372",
        {"Peak Used Memory(KB)": 8005.098},
    ),
    Kind(
        "host_disk_usage",
        "Device_id,Peak Disk Read(KB/s),Peak Disk Write(KB/s),Recommend Disk(KB/s)",
        "host,1.5,2,3",
        {"Recommend Disk(KB/s)": 3},
    ),
    Kind(
        "host_network_usage",
        "Device_id,Netcard Speed(KB/s),Peak Used Speed(KB/s),Recommend Speed(KB/s)",
        "host,125000,2.5,3",
        {"Peak Used Speed(KB/s)": 2.5},
    ),
    Kind(
        "cpu_usage",
        "Device_id,Cpu Type,User(%),Sys(%),IoWait(%),Irq(%),Soft(%),Idle(%)",
        "0,AI CPU,1.5,2,0,0,0,96.5",
        {"Cpu Type": "AI CPU", "Idle(%)": 96.5},
    ),
    Kind("process_cpu_usage", "Device_id,PID,Name,CPU(%)", "host,9,python3,99.5", {"PID": 9, "CPU(%)": 99.5}),
    Kind(
        "process_mem",
        "Device_id,PID,Name,Size(pages),Resident(pages),Shared(pages)",
        "host,9,python3,100,50,7",
        {"Name": "python3", "Resident(pages)": 50},
    ),
    *(
        Kind(
            "sys_mem",
            f"Device_id,Memory Total({kb}),Memory Free({kb}),Buffers({kb}),Cached({kb}),Share Memory({kb}),"
            f"Commit Limit({kb}),Committed AS({kb}),Huge Pages Total(pages),Huge Pages Free(pages)",
            "host,791800000,5,4,3,2,1,0,7,6",
            {f"Memory Total({kb})": 791800000, "Huge Pages Free(pages)": 6},
        )
        for kb in ("kB", "KB")
    ),
    Kind(
        "os_runtime_statistic",
        "Device_id,Process ID,Thread ID,Name,Time(%),Time(us),Count,Avg(us),Max(us),Min(us)",
        "host,9,10,pthread_mutex_lock,12.5,40.5,3,13.5,20,1",
        {"Name": "pthread_mutex_lock", "Count": 3, "Time(us)": 40.5},
    ),
    Kind(
        "dataset",
        "Operation,Stage,Occurrences,Avg. time (us),Custom Info",
        "Pipeline,Push,3,12.25,\"{'batch': '1'}\"",
        {"Operation": "Pipeline", "Occurrences": 3, "Avg. time (us)": 12.25},
        fronts=MINDSPORE,
    ),
    Kind(
        "minddata_pipeline_raw",
        "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
        "output_queue_usage_rate,sample_interval,parent_id,children_id",
        '1,BatchOp,8,"[0, 1, 2]",1.0,8,0.125,5,0,[2]',
        {
            "op_type": "BatchOp",
            "output_queue_size": "[0, 1, 2]",
            "output_queue_usage_rate": 0.125,
            "children_id": "[2]",
        },
        fronts=MINDSPORE,
    ),
    Kind(
        "cpu_op_type_info",
        "op_type,type_occurrences,execution_frequency(per-step),total_compute_time,avg_time(ms),percent",
        "MatMul,2,2,4.5,2.25,60.5",
        {"op_type": "MatMul", "type_occurrences": 2, "avg_time(ms)": 2.25},
        fronts=(),
    ),
    Kind(
        "cpu_op_detail_info",
        "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),total_proportion,"
        "subgraph,pid",
        "HostCpuOps,MatMul,MatMul-op0,Default/MatMul-op0,2,4.5,2.25,0.6,Default,7",
        {"full_op_name": "Default/MatMul-op0", "op_total_time(ms)": 4.5, "pid": 7},
        fronts=(),
    ),
)
