"""What to collect, or to load, so that a rule can tell, and that idle time has a cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE
from npuprof.analysis.device_words import NPU, DeviceName, device_of
from npuprof.analysis.idle_causes import UNEXPLAINED, UNKNOWN
from npuprof.lines.frames import cell_name, cell_text
from npuprof.options import NO_OPERATORS, SPECIFICATION
from npuprof.tables.info import Info
from npuprof.words.commands import magic_word, shell_word

NOT_RECORDED = (UNKNOWN, UNEXPLAINED)
"""The causes of idle time that say that its cause was not recorded."""


class Recorded(NamedTuple):
    """The tables and facts of a run, the name of its devices, and whether they share the host's clock."""

    tables: Mapping[str, pd.DataFrame]
    info: Info
    device: DeviceName
    joined: bool


_OF_TORCH = {  # options of npuprof, for its front end of torch's profiler, and that profiler's own arguments
    "--activities cpu,npu": ("--activities cpu,gpu", "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"),
    "--memory": ("--memory", "profile_memory=True"),
    "--shapes": ("--shapes", "record_shapes=True"),
    "--stacks": ("--stacks", "with_stack=True"),
}
_OF_MINDSPORE = {  # the arguments of MindSpore's profiler
    "--level 1": "profiler_level=ProfilerLevel.Level1",
    "--activities cpu,npu": "activities=[ProfilerActivity.CPU, ProfilerActivity.NPU]",
    "--aic-metrics PipeUtilization": "aic_metrics=AicoreMetrics.PipeUtilization",
    "--aic-metrics ArithmeticUtilization": "aic_metrics=AicoreMetrics.ArithmeticUtilization",
    "--host-sys cpu,mem": "host_sys=[HostSystem.CPU, HostSystem.MEM]",
    "--sys-io": "sys_io=True",
    "--sys-interconnection": "sys_interconnection=True",
    "--memory": "profile_memory=True",
    "--shapes": "record_shapes=True",
    "--stacks": "with_stack=True",
}
_COUNTER = re.compile(r"(_ratio|_cycles)$|^(aic|aiv|mac|vec|cube|scalar|mte\d?)_.*time")
_OF_PROGRAMS = "msprof"
"""The front end that runs programs."""
_OF_TENSORFLOW = "tensorflow"
"""The front end of a framework whose operators nobody records."""
_MOST_LOOPS = 5
_NOT_REPEATED = ("name", "output", "step_line")


def of_cell(info: Info) -> bool:
    """Return whether a run is of a cell of a notebook, which has no schedule."""
    return bool(cell_text(cell_name(next(iter(info.code), "")) or next(iter(info.code), "")))


def more_steps(run: Recorded) -> str:
    """Return what to do so that a run has more steps than it has.

    In a cell marks or loops make them, elsewhere a schedule: of its active steps the first one and the last one, which
    is open, are in no mean, and four are needed to tell one from the others. Loops are seen with ``%%npuprof`` only.
    """
    info, tables, steps = run.info, run.tables, len(run.tables["steps"])
    if not of_cell(info):
        how = " with npuprof.step() in the loop, or a schedule" if "npuprof" in info.versions else ""
        return f"record more steps{how}, such as warmup=2, active=6"
    if steps:
        return f"let the loop run for more iterations than {steps}: at least 6"
    if not info.options.get("steps", True):
        return "leave out --no-steps, or mark steps with npuprof.step()"
    loops = ", ".join(map(str, sorted(set(tables["iterations"]["loop"].tolist()))[:_MOST_LOOPS]))
    if loops:
        return f"mark steps with npuprof.step(), or choose a loop with --step-line ({loops})"
    how = "let it loop" if len(tables["statements"]) else "profile the cell that loops with %%npuprof"
    return f"mark steps with npuprof.step(), or {how}"


def needed(run: Recorded, options: Sequence[str], level: str = "", instead: str = "") -> str:
    """Return what to collect or to load; see :meth:`npuprof.advice.facts.Facts.needs`."""
    if run.device != NPU:  # whose traces have no levels
        return _needed_of_torch(run, options) or instead or (f"load a trace that has {level}" if level else "")
    whole = bool(level) and str(run.info.options.get("level")) in ("1", "2")
    lacking = [option for option in options if not _is_recorded(run.info, option)]
    options = ["--level 1"] * bool(level and not whole) + lacking
    of_mindspore = _of_mindspore(run.info, options)
    wanted = ", ".join(map(_OF_MINDSPORE.__getitem__, options)) if of_mindspore else " ".join(options)
    if not wanted:
        return instead or f"load the whole result{f', this one has no {level}' * bool(level)}"
    return f"collect with {wanted}{f', or {instead}' if instead else ''}"


def _of_mindspore(info: Info, options: Sequence[str]) -> bool:
    """Return whether a run was recorded by MindSpore's profiler alone, which has arguments for these options."""
    return (
        info.collector == "mindspore"
        and not info.source.startswith("recording")
        and "npuprof" not in info.versions
        and all(option in _OF_MINDSPORE for option in options)
    )


def missing(tables: Mapping[str, pd.DataFrame], info: Info, options: Sequence[str], level: str = "") -> str:
    """Return what to collect or to load so that a figure of a device has data; see :func:`needed`."""
    run = Recorded(tables, info, device_of(info, tables), joined=True)
    of_host = run.device == NPU and info.options.get("activities") == ["cpu"]
    more = ["--activities cpu,npu"] if of_host and "--activities cpu,npu" not in options else []
    return needed(run, [*more, *options], level)


def needed_operators(run: Recorded, options: Sequence[str]) -> str:
    """Return what to collect or to load so that the run has a framework's operators."""
    collector = run.info.collector
    if collector not in (*NO_OPERATORS, _OF_TENSORFLOW) or not _is_recorded(run.info, "--activities cpu,npu"):
        return needed(run, ["--activities cpu,npu", *options])
    others = "" if collector == _OF_TENSORFLOW else "collect with torch_npu or MindSpore: "
    return f"{others}{collector} records no operators of a framework"


def needed_for_limits(run: Recorded, *, known: bool) -> str:
    """Return what to collect so that the limits of the chip are known; with counters, what else is missing."""
    if not known and _has_counters(run):
        named = f"the recording names only {run.info.chip!r}" if run.info.chip else "the chip has no name here"
        return f'the chip\'s limits are missing: {named}; load it with chip="910A" (--chip 910A), or whichever it is'
    return needed(run, ["--aic-metrics PipeUtilization"], "counters")


def needed_counters(run: Recorded, what: str) -> str:
    """Return what to collect so that kernels have counters; if they have some, that these lack `what`."""
    if _has_counters(run):
        return f"the counters of this result have no {what}"
    return needed(run, ["--aic-metrics PipeUtilization"], "counters")


def _has_counters(run: Recorded) -> bool:
    kernels = run.tables["kernels"]
    return any(_COUNTER.search(str(name)) and kernels[name].notna().any() for name in kernels)


def _needed_of_torch(run: Recorded, options: Sequence[str]) -> str:
    """Return the advice for a trace of torch's profiler: its arguments, or the options of npuprof's recording."""
    info, tables = run.info, run.tables
    recorded = {
        "--shapes": info.options.get("shapes"),
        "--memory": info.options.get("memory"),
        "--stacks": len(tables["python"]),
        "--activities cpu,npu": len(tables["operators"]) and len(tables["tasks"]),
    }
    lacking = [option for option in options if option in _OF_TORCH and not recorded[option]]
    if info.source.startswith("recording") or "npuprof" in info.versions:
        return f"collect with {' '.join(_OF_TORCH[option][0] for option in lacking)}" if lacking else ""
    return f"collect with {', '.join(_OF_TORCH[option][1] for option in lacking)}" if lacking else ""


def _is_recorded(info: Info, option: str) -> bool:
    """Return whether the run was recorded with an option of the command line."""
    name, _, value = option.removeprefix("--").partition(" ")
    recorded = info.options.get(name.replace("-", "_"))
    if not value:
        return bool(recorded)
    return set(value.split(",")) <= set(recorded) if isinstance(recorded, list) else recorded == value


def what_tells(run: Recorded, cause: str) -> str:
    """Return what to do so that idle time of :data:`NOT_RECORDED` has a cause.

    For a recording of npuprof it is the whole command, with the options that the run was recorded with.
    """
    if not run.joined:
        return "device and host times cannot be joined, see run.notes"
    tables, collector = run.tables, run.info.collector
    if not len(tables["kernels"]) and not len(tables["tasks"]):
        return needed(run, ["--activities cpu,npu"], "kernels")
    if cause == UNKNOWN:
        return more_steps(run)
    calls = "" if len(tables["api"]) else "calls of the host"
    if calls and run.device == NPU and str(run.info.options.get("level")) in ("1", "2"):
        return needed(run, [], calls)
    wanted = []
    if not len(tables["operators"]) and not len(tables["python"]):
        wanted.append("--activities cpu,npu")
    if not len(tables["python"]) and collector not in NO_OPERATORS:
        wanted.append("--stacks")
    if not calls:
        wanted = [option for option in wanted if not _is_recorded(run.info, option)]
    if not calls and not wanted:
        return "name parts of the code with npuprof.range(...)"
    advice = needed(run, wanted, calls)
    options = advice.removeprefix("collect with ")
    return advice if options == advice else f"collect with {_command(run.info, options)}"


def _command(info: Info, wanted: str) -> str:
    """Return the command that repeats a recording of npuprof with some more options; for others, these options."""
    if not info.source.startswith("recording"):
        return wanted
    names = {word.removeprefix("--").replace("-", "_") for word in wanted.split() if word.startswith("--")}
    script = next((file for file in list(info.code)[:1] if file.endswith(".py")), "")
    is_program = not of_cell(info) and bool(script or info.collector == _OF_PROGRAMS)
    quote = shell_word if is_program else magic_word
    changed = ({"collector": info.collector} if is_program else {}) | _changed(info.options)
    words = [_word(name, value, quote) for name, value in changed.items() if name not in names]
    if not is_program:
        return " ".join(["%%npuprof", *words, wanted])
    return " ".join(["npuprof run", *words, wanted, shell_word(script) if script else "SCRIPT.py"])


def _changed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recording that are not the defaults."""
    changed = {}
    for name, option in SPECIFICATION.items():
        value = options.get(name)
        usual = list(option.usual) if isinstance(option.usual, tuple) else option.usual
        of_auto = name == "activities" and value in (["cpu", "npu"], ["cpu", "gpu"])
        of_level = name == "aic_metrics" and value in ("PipeUtilization", "none")
        if not (value is None or value == usual or of_auto or of_level or name in _NOT_REPEATED):
            changed[name] = value
    return changed


def _word(name: str, value: Any, quote: Callable[[str], str]) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"--{flag}{'=' if text.startswith('-') else ' '}{quote(text)}"


def is_unknown(part: str, cause: str) -> bool:
    """Return whether the time of a part of a step and a cause is idle time whose cause was not recorded."""
    return part in (*IDLE, BETWEEN_STEPS) and cause in NOT_RECORDED
