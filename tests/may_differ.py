"""What executions of a notebook may show otherwise than the saved one, and why: expressions by notebook and cell."""

from __future__ import annotations

from collections.abc import Mapping

_COSTLIEST = (r"^evidence: # row of ",)  # which rows cost most is in the host's time
_OF_A_BUSY_HOST = (r".",)  # a busy machine stalls single steps: claims about findings are tests of their own
# The sampler looks when the host lets it: which frames of Python it meets differs.
_FRAMES = (r"^\S+\.py(\(#\)|:)", r"^thread$", r"^<?[\w.]+>?:?,?$")

_TITLES = (r"^The NPU idles # of (a step|the run): ", r"^(most|of|all|mostly)( \w+)*$")

MAY_DIFFER: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "load_my_result": {"path": _OF_A_BUSY_HOST, "timeline": (*_FRAMES, *_TITLES), "steps": _TITLES},
    "quickstart": {
        "train": _OF_A_BUSY_HOST,
        "mended": _OF_A_BUSY_HOST,
        "history": (r"noise|faster",),
    },
    "explorer_tour": {
        "timeline": (*_FRAMES, *_TITLES),
        "steps": _TITLES,
        "flame": _FRAMES,
        "counters": (r"^(HBM|read|write|#/s)$",),  # a run that is over before their first sample has none
    },
    "torch_simulated": {
        "profile": (r".",),  # torch itself computes: which findings there are is in the host's time
        "timeline": _FRAMES,
        "flame": (*_FRAMES, r"…"),
        "rank-timeline": _FRAMES,
    },
    "two_ranks": {"planted": _COSTLIEST, "fixed": _COSTLIEST},
    "ranks": {
        "simulated": _OF_A_BUSY_HOST,
        "forks": _OF_A_BUSY_HOST,
    },
    "operators": {"what": _OF_A_BUSY_HOST},
    "serving": {"slow": _TITLES},
    "many_processes": {"answer": (r"^copies\b",)},  # a share that fits its segment, or not
    "untouched_code": {"environment": _TITLES},
    "host_bound": {
        "starved": _FRAMES,
        "busy": (r".",),  # where the first step begins, and what samples meet
        "what": _OF_A_BUSY_HOST,
        "lines": _OF_A_BUSY_HOST,
    },
    "slow_step": {"advice": _OF_A_BUSY_HOST, "lines": _OF_A_BUSY_HOST, "see": (r"^aclrt",)},
}
