"""The words of the field and of the reports, each in a sentence."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

TERMS: Mapping[str, str] = {
    "AI Core": "The compute unit of an Ascend chip: a cube unit for matrices, vector units, and memories of its own.",
    "AI CPU": "A general processor on the chip, which runs operators that the AI Cores cannot, much more slowly.",
    "AIC": "The part of an AI Core that has the cube unit, on chips that have it apart from the vector units.",
    "AIV": "A vector core: the vector units of an AI Core, on chips that have them apart from the cube unit.",
    "allocator": "What gives tensors device memory. It keeps freed blocks, so that more is reserved than allocated.",
    "between samples": "The line of a kernel that was launched too long after a sample of the Python stack to tell.",
    "not recorded": "Time in which a device may have run what is not in the recording, by what the rest of it says.",
    "between steps": "The time from the end of a step's mark to the next step, less what the device did in it.",
    "block": "A share of a kernel that one core computes. A kernel of fewer blocks than cores leaves cores unused.",
    "bounded": "Of a gain: the time lies between two limits, and findings are ordered by a tenth of the way from the "
    "lower to the upper one. It was not replayed, since the recording does not say enough.",
    "busiest pipe": "The pipe of the AI Core that was busy for the greatest share of a kernel. It limits the kernel.",
    "CANN": "The software of Ascend chips below the frameworks: operators, runtime, compiler and profiler.",
    "cannot tell": "The answer of a rule that lacks something in the recording. It names the option that records it.",
    "collective": "An operation of several ranks, such as an all-reduce. It ends when all of them have taken part.",
    "critical path": "The chain of calls, kernels and collectives without slack that decides how long a step takes.",
    "cube": "The unit of an AI Core that multiplies matrices.",
    "emulation": "The time in which this computer computes values for the simulated NPU. All figures leave it out.",
    "enqueue": "The call that puts an operator into the task queue. The dequeue, on another thread, launches it.",
    "exposed communication": "The time of collectives during which the device computes nothing.",
    "fixpipe": "The pipe of the AI Core that moves the cube's results out, and converts them.",
    "FRACTAL_NZ": "The layout in which the cube unit reads matrices: tiles of 16 by 16. Others are converted first.",
    "HBM": "The memory of the device. Kernels read their tensors from it, and write them to it.",
    "HCCL": "Huawei's library of collectives, the counterpart of NCCL.",
    "HCCS": "The link between the NPUs of a host. Between hosts data goes over RoCE.",
    "hidden by noise": "Of a difference: the steps vary so much that it may be chance.",
    "idle head": "The idle time of the device from the start of a step to its first task.",
    "idle tail": "The idle time of the device from the last task of a step to the end of the step's mark.",
    "L2 cache": "The cache of the chip between the AI Cores and the HBM.",
    "launch": "The call of the host that gives the device a kernel to run.",
    "measured": "Of a gain: a replay of the recording without the cause takes so much less time.",
    "MFU": "Model FLOPs utilization: the operations of a step, divided by its time, as a share of the chip's peak.",
    "moving": "The part of a collective in which data is sent, after all ranks have come.",
    "mte1": "The pipe of the AI Core that moves data from its L1 memory to the cube's inputs.",
    "mte2": "The pipe of the AI Core that reads from the HBM or L2. Where it is busiest, memory limits a kernel.",
    "mte3": "The pipe of the AI Core that writes to the HBM or the L2 cache.",
    "Notify_Wait": "A task of a collective that waits for a signal of another rank.",
    "pipeline bubble": "The time in which a stage waits, before its first micro-batch or after its last one.",
    "PMU": "The counters of an AI Core: the cycles of a kernel, and in how many of them each pipe was busy.",
    "rank": "A process of a job, by its number. Each rank uses one NPU.",
    "replay": "How long a step would take with a change: calls and kernels keep their order and what they wait for.",
    "RoCE": "Ethernet with remote access to memory, the link between hosts.",
    "roof": "The most that a chip can do at a kernel's ratio of operations to bytes: its peak, or its bandwidth.",
    "scalar": "The pipe of the AI Core for addresses and branches. Where it is busiest, a kernel is too small.",
    "stream": "A queue of the device. Tasks of one stream run in order; those of several may run at once.",
    "task queue": "A thread of torch_npu that launches what Python has called, so that Python need not wait.",
    "thinking time": "The time in which no cell ran, in a run that was started by hand. It is left out of the report.",
    "waiting": "The part of a collective in which a rank waits for others that come later.",
}
"""A sentence or two on each word, by the word as reports write it."""

_PLAIN = {"allocator", "block", "collective", "launch", "rank", "stream"}  # which readers of reports know
_MARKED = sorted({*TERMS} - _PLAIN, key=len, reverse=True)
_WORD = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in _MARKED))
_STYLE = "text-decoration:underline dotted;text-underline-offset:2px"
_IN_TAG = re.compile(r"(<[^>]*>)")


def with_meanings(markup: str) -> str:
    """Return HTML in which the first use of each word of :data:`TERMS` has its meaning as a tooltip."""
    marked: set[str] = set()

    def first_marked(match: re.Match[str]) -> str:
        word = match[0]
        if word in marked:
            return word
        marked.add(word)
        return f'<abbr style="{_STYLE}" title="{html.escape(TERMS[word])}">{word}</abbr>'

    return "".join(part if part.startswith("<") else _WORD.sub(first_marked, part) for part in _IN_TAG.split(markup))
