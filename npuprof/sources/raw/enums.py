"""Enumerations of raw records and their names as the vendor shows them.

Source: formats/raw.md sections 4, 4.1, 4.2 and 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping


def _numbered(words: str) -> dict[int, str]:
    """Read names from words; a number says what the next name stands for, the ones after it count on."""
    names: dict[int, str] = {}
    number = 0
    for word in words.split():
        if word.isdecimal():
            number = int(word)
        else:
            names[number] = word
            number += 1
    return names


LEVELS: Mapping[int, str] = {
    20000: "acl",
    15000: "model",
    10000: "node",
    5500: "communication",
    5000: "runtime",
}
"""Levels of host calls that the `api` table holds."""
ACL, MODEL, NODE, COMMUNICATION, RUNTIME = 20000, 15000, 10000, 5500, 5000

GE_TASK_TYPES: Mapping[int, str] = _numbered(
    "0 AI_CORE AI_CPU AI_VECTOR_CORE WRITE_BACK MIX_AIC MIX_AIV FFTS_PLUS DSA_SQE DVPP COMMUNICATION FUSION INVALID "
    "256 HCCL_AI_CPU"
)
"""``taskType`` of node_basic_info."""

TRACK_TASK_TYPES: Mapping[int, str] = {
    0: "KERNEL_AICORE",
    1: "KERNEL_AICPU",
    2: "EVENT_RECORD",
    3: "STREAM_WAIT_EVENT",
    5: "MEMCPY_ASYNC",
    6: "MAINTENANCE",
    13: "MODEL_EXECUTE",
    14: "NOTIFY_WAIT",
    15: "NOTIFY_RECORD",
    16: "RDMA_SEND",
    50: "STARS_COMMON",
    52: "FFTS_PLUS",
    53: "CMO",
    55: "WRITE_VALUE",
    64: "PROFILING_ENABLE",
    65: "PROFILING_DISABLE",
    66: "KERNEL_AIVEC",
    92: "REDUCE_ASYNC_V2",
    98: "FLIP",
    107: "FUSION_KERNEL",
    108: "KERNEL_MIX_AIC",
    109: "KERNEL_MIX_AIV",
    113: "MEM_WRITE",
    114: "MEM_WAIT",
}
"""``taskType`` of task_track where the run's own dictionary does not name it."""

KERNEL_TASK_TYPES: Mapping[str, str] = {
    "KERNEL_AICORE": "AI_CORE",
    "KERNEL_AICPU": "AI_CPU",
    "KERNEL_AIVEC": "AI_VECTOR_CORE",
    "KERNEL_MIX_AIC": "MIX_AIC",
    "KERNEL_MIX_AIV": "MIX_AIV",
}
"""The cores that a launched kernel runs on, where no operator description says so."""

SQE_TYPES: Mapping[int, str] = _numbered(
    "0 AI_CORE AI_CPU AI_VECTOR_CORE PLACE_HOLDER EVENT_RECORD EVENT_WAIT NOTIFY_RECORD NOTIFY_WAIT WRITE_VALUE "
    "VQ6 TOF SDMA VPC JPEGE JPEGD DSA ROCCE PCIE_DMA HOST_CPU CDQM C_CORE"
)
"""``sqeType`` of a device record, for tasks that no host record describes."""

SUB_TASK_TYPES: Mapping[int, str] = {
    0: "AI_CORE",
    1: "AI_VECTOR_CORE",
    3: "NOTIFY_WAIT",
    4: "NOTIFY_RECORD",
    5: "WRITE_VALUE",
    6: "MIX_AIC",
    7: "MIX_AIV",
    8: "SDMA",
    9: "DATA",
    10: "DATA",
    11: "DATA",
    12: "AI_CPU",
    13: "LOAD",
    15: "DSA",
}
"""``subTaskType`` of an FFTS+ sub-task."""

MEMCPY_DIRECTIONS: Mapping[int, str] = {
    0: "host to host",
    1: "host to device",
    2: "device to host",
    3: "device to device",
    4: "managed",
    5: "device to device (address)",
    6: "host to device (extended)",
    7: "device to host (extended)",
}
"""``direction`` of memcpy_info."""

HCCL_DATA_TYPES: Mapping[int, str] = _numbered(
    "INT8 INT16 INT32 FP16 FP32 INT64 UINT64 UINT8 UINT16 UINT32 FP64 BFP16 INT128 14 HIF8 FP8E4M3 FP8E5M2 FP8E8M0"
)
"""Data types of communication; any other number stands for none."""

HCCL_LINKS: Mapping[int, str] = _numbered("ON_CHIP HCCS PCIE ROCE SIO HCCS_SW STANDARD_ROCE UB UBoE")
"""``linkType`` of hccl_info; any other number stands for none."""

HCCL_TRANSPORTS: Mapping[int, str] = _numbered("SDMA RDMA LOCAL UB ROCE")
"""``transport`` of hccl_info; any other number stands for none."""

HCCL_RDMA_TYPES: Mapping[int, str] = _numbered("RDMA_SEND_NOTIFY RDMA_SEND_PAYLOAD")
"""``rdma`` of hccl_info; any other number stands for none."""

MEMORY_MODULES: Mapping[int, str] = _numbered(
    "SLOG IDEDD SCC HCCL FMK CCU DVPP RUNTIME CCE HDC DRV NET MDCLOCATION MDCPERCEPTION MDCFSM MDCCOMMON "
    "MDCMONITOR MDCBSWP MDCDEFAULT MDCSC MDCPNC MLL DEVMM KERNEL LIBMEDIA CCECPU ASCENDDK ROS HCCP ROCE "
    "TEFUSION PROFILING DP APP TS TSDUMP AICPU LP TDT FE MD MB ME IMU IMP GE MDCFUSA CAMERA ASCENDCL TEEOS "
    "ISP SIS HSM DSS PROCMGR BBOX AIVECTOR TBE FV MDCMAP TUNE HSS FFTS OP UDF HICAID TSYNC AUDIO TPRT "
    "ASCENDCKERNEL ASYS ATRACE RTC SYSMONITOR AMP ADETECT MBUFF CUSTOM"
)
"""Modules of the software that hold device memory (npu_module_mem); a number where none is known."""

DTYPES: Mapping[int, str] = _numbered(
    "FLOAT FLOAT16 INT8 INT32 UINT8 6 INT16 UINT16 UINT32 INT64 UINT64 DOUBLE BOOL STRING DUAL_SUB_INT8 "
    "DUAL_SUB_UINT8 COMPLEX64 COMPLEX128 QINT8 QINT16 QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL DT_VARIANT "
    "DT_BF16 DT_UNDEFINED DT_INT4 DT_UINT1 DT_INT2 DT_UINT2 DT_COMPLEX32 DT_HIFLOAT8 DT_FLOAT8_E5M2 "
    "DT_FLOAT8_E4M3FN DT_FLOAT8_E8M0 DT_FLOAT6_E3M2 DT_FLOAT6_E2M3 DT_FLOAT4_E2M1 DT_FLOAT4_E1M2 DT_MAX 229 BEGIN "
    "BOOL_ INT_ INT8_ INT16_ INT32_ INT64_ UINT_ UINT8_ UINT16_ UINT32_ UINT64_ FLOAT_ FLOAT16_ FLOAT32_ FLOAT64_ "
    "COMPLEX_ 4294967295 UNDEFINED"
)
"""Tensor data types of tensor_info (GE, then MindSpore)."""

FORMATS: Mapping[int, str] = _numbered(
    "NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0 FRACTAL_DECONV_TRANSPOSE "
    "FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN FRACTAL_DECONV_SP_STRIDE8_TRANS HWCN NC1KHKWHWC0 "
    "BN_WEIGHT FILTER_HWCK HASHTABLE_LOOKUP_LOOKUPS HASHTABLE_LOOKUP_KEYS HASHTABLE_LOOKUP_VALUE "
    "HASHTABLE_LOOKUP_OUTPUT HASHTABLE_LOOKUP_HITS C1HWNCoC0 MD NDHWC FRACTAL_ZZ FRACTAL_NZ NCDHW DHWCN NDC1HWC0 "
    "FRACTAL_Z_3D CN NC DHWNC FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM FRACTAL_Z_G RESERVED ALL NULL ND_RNN_BIAS "
    "FRACTAL_ZN_RNN NYUV NYUV_A NCL FRACTAL_Z_WINO C1HWC0 FRACTAL_NZ_C0_16 FRACTAL_NZ_C0_32 FRACTAL_NZ_C0_2 "
    "FRACTAL_NZ_C0_4 FRACTAL_NZ_C0_8 END 255 MAX 200 UNKNOWN_ DEFAULT_ NC1KHKWHWC0_ ND_ NCHW_ NHWC_ HWCN_ NC1HWC0_ "
    "FRAC_Z_ C1HWNCOC0_ FRAC_NZ_ NC1HWC0_C04_ FRACTAL_Z_C04_ NDHWC_ FRACTAL_ZN_LSTM_ FRACTAL_ZN_RNN_ ND_RNN_BIAS_ "
    "NDC1HWC0_ NCDHW_ FRACTAL_Z_3D_ DHWNC_ DHWCN_ 4294967295 UNDEFINED"
)
"""Tensor formats of tensor_info (GE, then MindSpore)."""
