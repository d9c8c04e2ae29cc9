"""Which notes concern which tables: by their words, since a reader of a report has nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable

KERNELS = ("kernels", "tasks")
COMMUNICATION = ("communication", "communication_tasks")
HOST = ("operators", "python", "api", "links")
STEPS = ("steps", "step_times")
MEMORY = ("memory", "allocations")

_CLOCKS = r"starts? before the calls?|returns? before its tasks|cannot be joined|clock"
_WORDS = {  # other tables are named as they are
    "kernels": r"kernel|COMPUTE_TASK_INFO|op_summary",
    "tasks": r"\btasks?\b|TASK\b",
    "communication": r"communication\b|collective|COMMUNICATION_OP|hccl",
    "communication_tasks": r"communication_tasks|COMMUNICATION_TASK_INFO|collective|communication",
    "operators": r"operators?\b|PYTORCH_API|op_range|operator_details",
    "python": r"python|PYTORCH_API",
    "api": r"\bcalls?\b|api\b|CANN_API",
    "links": r"links?\b|launch|flow|CONNECTION_IDS|connection",
    "steps": r"\bsteps?\b|step_times",
    "step_times": r"\bsteps?\b|step_times|step_trace_time",
    "overlap": r"overlap|kernel|communication|collective",
    "memory": r"memory|allocator|NPU_MEM|module_mem",
    "allocations": r"allocations?\b|blocks?\b|operator_memory|OP_MEMORY",
    "counters": r"counters?\b|sampled?s?\b|counted",
    "marks": r"marks?\b|markers?\b",
    "stack": r"stacks?\b|CALLCHAINS",
    "statistics": r"statistic|sums|missing",
    "clock": _CLOCKS,
    "rank": r"\branks?\b",
    "wall time": r"wall time",
    "": r".",
}


def concerning(notes: Iterable[tuple[str, str]], tables: Iterable[str], file: str = "") -> bool:
    """Return whether any note (source and message) names one of the tables, or a file."""
    stem = re.split(r"\.data|\.slice_|\.json|\.csv|\.db", file)[0].rpartition(".")[2]
    words = re.compile("|".join(_WORDS.get(name, name) for name in tables), re.IGNORECASE)
    texts = [" ".join(note) for note in notes]
    return any((stem and stem in text) or words.search(text) for text in texts)
