"""What executions of a notebook may show otherwise than the saved one, and why: expressions by notebook and cell."""

from __future__ import annotations

from collections.abc import Mapping

_COSTLIEST = (r"^evidence: # row of ",)  # which rows cost most is in the host's time
# Where the host's own time decides: a busy machine stalls single steps, and moves findings into `also` and out of it.
_OF_A_BUSY_HOST = (
    *_COSTLIEST,
    r"^also: ",
    r"^idle #: ",
    r"^# Python\b",  # what else its time is, and which lines have most of it
    r"^→ less Python between operators",  # and what else to do
    r"^Sequences of small kernels come again",
    r"each as one kernel would take up to",
    r"^→ one operator of torch_npu for the sequence",
    r"^advice\(\)\['fusible_repeats'\]",
    r"^gain #( \(bounded\))?$",
)
_FOLDER = r"^# run below "
# The sampler looks when the host lets it: which frames of Python it meets differs.
_FRAMES = (r"^\S+\.py(\(#\)|:)", r"^thread$", r"^<?[\w.]+>?:?,?$")

MAY_DIFFER: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "load_my_result": {"path": _OF_A_BUSY_HOST, "timeline": _FRAMES},
    "quickstart": {
        "train": (*_OF_A_BUSY_HOST, *_FRAMES),
        "mended": (*_OF_A_BUSY_HOST, *_FRAMES, r"^# a step, was "),
        "history": (r"noise|faster",),
    },
    "explorer_tour": {
        "timeline": _FRAMES,
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
        "simulated": (*_OF_A_BUSY_HOST, _FOLDER),
        "forks": (*_OF_A_BUSY_HOST, _FOLDER),
    },
    "operators": {"what": _OF_A_BUSY_HOST},
    "host_bound": {
        "starved": _FRAMES,
        "busy": (r".",),  # where the first step begins, and what samples meet
        "what": (r"^(at|In|and|line|unexplained,|\(#\);?|\[#\],?|#[;,]?)$",),  # how many lines have most of it
        "lines": (r"^(# )+",),  # which lines have costs and marks
    },
    "slow_step": {"advice": _OF_A_BUSY_HOST, "see": (r"^aclrt",)},
}
