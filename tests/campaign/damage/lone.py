"""What no second part of a recording holds: losses of it that nothing can tell, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAMPLES = "sampled counters and memory"
_CACHE = "the cache's hit rates, which not every kernel has"
_CLOCK = "a clock that is off by less than launches and waits show"
_SAMPLED = "NPU_MEM|NPU_MODULE_MEM|HBM|LLC|SOC_BANDWIDTH_LEVEL|ACC_PMU|AICORE_FREQ"

LONE: Mapping[str, Mapping[str, str]] = {
    "text of torch_npu": {
        r"^l2_cache.csv: .* deleted": _CACHE,
        r"all rows deleted of C ": _SAMPLES,
    },
    "database of torch_npu": {
        rf"all rows deleted of ({_SAMPLED})$|: ({_SAMPLED}) dropped": _SAMPLES,
        r"clock drifts by": _CLOCK,
    },
    "a recording of 2 simulated devices": {r"clock drifts by": _CLOCK},
    "raw files of torch_npu": {r"^torch.op_range: 1 of .* deleted": "operators and steps, which nothing numbers there"},
}
"""Why nothing tells a damage, by a pattern of its name, by source."""


def is_lone(source: str, name: str) -> bool:
    """Return whether no other part of a recording holds what a damage changed."""
    return any(re.search(pattern, name) for pattern in LONE.get(source, {}))
