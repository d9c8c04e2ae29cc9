"""Names of the AI Core metrics in the native library, and their numbers in older interfaces.

Source: collectors/FRONTENDS.md section 6.
"""

from __future__ import annotations

from collections.abc import Mapping

NATIVE: Mapping[str, str] = {
    "ACL_AICORE_NONE": "none",
    "ACL_AICORE_PIPE_UTILIZATION": "PipeUtilization",
    "ACL_AICORE_ARITHMETIC_UTILIZATION": "ArithmeticUtilization",
    "ACL_AICORE_MEMORY_BANDWIDTH": "Memory",
    "ACL_AICORE_L0B_AND_WIDTH": "MemoryL0",
    "ACL_AICORE_MEMORY_UB": "MemoryUB",
    "ACL_AICORE_RESOURCE_CONFLICT_RATIO": "ResourceConflictRatio",
    "ACL_AICORE_L2_CACHE": "L2Cache",
    "ACL_AICORE_MEMORY_ACCESS": "MemoryAccess",
}
"""Names in the native library, which torch_npu and MindSpore write into their results."""

NUMBERED: Mapping[int, str] = {
    0: "ArithmeticUtilization",
    1: "PipeUtilization",
    2: "Memory",
    3: "MemoryL0",
    4: "ResourceConflictRatio",
    5: "MemoryUB",
    6: "L2Cache",
}
"""Numbers in MindSpore before 2.5; its -1 means none, or the default of the level."""
