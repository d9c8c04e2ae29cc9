"""Constants of pyACL: data type bits, metric groups, configuration kinds and return codes.

Source: collectors/FRONTENDS.md section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SUCCESS = 0

# data_type_config bits
ACL_API = 0x1
TASK_TIME = 0x2
AICORE_METRICS = 0x4
AICPU = 0x8
L2CACHE = 0x10
HCCL_TRACE = 0x20
TRAINING_TRACE = 0x40
MSPROFTX = 0x80
RUNTIME_API = 0x100
GE_API_L0 = 0x200
TASK_TIME_L0 = 0x800
TASK_MEMORY = 0x1000
OP_ATTR = 0x4000
GE_API_L1 = 0x1000000

LEVEL_MASKS: Mapping[str | int, int] = {
    "none": 0,
    0: ACL_API | TASK_TIME_L0,
    1: ACL_API | TASK_TIME | AICORE_METRICS | HCCL_TRACE,
    2: ACL_API | TASK_TIME | AICORE_METRICS | AICPU | HCCL_TRACE | RUNTIME_API,
}

METRICS: Mapping[str, int] = {
    "ArithmeticUtilization": 0,
    "PipeUtilization": 1,
    "Memory": 2,
    "MemoryL0": 3,
    "ResourceConflictRatio": 4,
    "MemoryUB": 5,
    "L2Cache": 6,
    "MemoryAccess": 8,
    "none": 0xFF,
}

GE_API_MASKS: Mapping[str, int] = {"off": 0, "l0": GE_API_L0, "l1": GE_API_L1}

# set_config kinds
STORAGE_LIMIT = 1
LLC_MODE = 4
RATES: Mapping[str, int] = {"memory_freq": 3, "io_freq": 5, "interconnection_freq": 6, "dvpp_freq": 7}
HOST_SYS = 8
HOST_SYS_USAGE = 9
HOST_SYS_USAGE_FREQ = 10


class Meaning(NamedTuple):
    """The meaning of a return code, and the remedy."""

    name: str
    meaning: str
    remedy: str


_CHECK_CANN = "check that the CANN toolkit and the driver are of matching versions, and run `npuprof doctor`"

CODES: Mapping[int, Meaning] = {
    100000: Meaning("INVALID_PARAM", "a parameter is not valid", _CHECK_CANN),
    100001: Meaning("UNINITIALIZE", "pyACL is not initialised", "call acl.init() first"),
    100002: Meaning(
        "REPEAT_INITIALIZE",
        "profiling is already initialised in this process by other code",
        "end that run with acl.prof.finalize(), then try again",
    ),
    100003: Meaning(
        "INVALID_FILE",
        "the output directory cannot be used",
        "choose a directory that this user can write to, without ';' in its path",
    ),
    100010: Meaning(
        "INVALID_PROFILING_CONFIG",
        "the configuration is refused, or differs from the one that is running",
        "leave out options that this chip lacks, and stop any other profiler of this process",
    ),
    100011: Meaning("INVALID_MODEL_ID", "no such model is loaded", "subscribe to a loaded model's id"),
    100033: Meaning("REPEAT_SUBSCRIBE", "the model is already subscribed to", "unsubscribe it first"),
    100037: Meaning("REPEAT_FINALIZE", "profiling was already finalised", "nothing is left to end"),
    100042: Meaning(
        "PROF_ALREADY_RUN",
        "another profiler is already running on this device",
        "stop it (msprof, torch_npu.profiler, another notebook), then try again",
    ),
    100043: Meaning("PROF_NOT_RUN", "profiling is not running", "start it first"),
    148046: Meaning("PROF_REPEAT_SUBSCRIBE", "the model is already subscribed to", "unsubscribe it first"),
    148047: Meaning(
        "PROF_API_CONFLICT",
        "another way of profiling is in use in this process",
        "use collection or model subscription, not both at a time",
    ),
    200000: Meaning("BAD_ALLOC", "no memory is left", "free memory, or collect at a lower level"),
    200006: Meaning(
        "FEATURE_UNSUPPORTED",
        "profiling is not possible in this mode",
        "unset PROFILING_MODE (it reserves the profiler for msprof --dynamic) and restart the kernel; "
        "on a machine without an NPU driver use the simulator",
    ),
    200007: Meaning(
        "PROF_MODULES_UNSUPPORTED", "this chip or CANN version lacks an option", "set a lower level or fewer options"
    ),
    500002: Meaning("GE_FAILURE", "the graph engine failed", _CHECK_CANN),
    500005: Meaning(
        "PROFILING_FAILURE", "the profiler failed", "check the free disk space and CANN's log (~/ascend/log)"
    ),
}


def explain(call: str, code: int) -> str:
    """Return a message with the call, its return code, the meaning and the remedy."""
    known = CODES.get(code)
    if known is None:
        return f"acl.prof.{call} returned {code}, which is not a documented code: see CANN's log (~/ascend/log)"
    return f"acl.prof.{call} returned {code} ({known.name}): {known.meaning}; {known.remedy}"
