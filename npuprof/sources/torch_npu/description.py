"""What a result of torch_npu or MindSpore tells of its run: ``profiler_info*.json`` and ``profiler_metadata.json``.

Source: formats/results.md sections 1.1 and 1.2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.options.metric_names import NATIVE
from npuprof.sources.files.zipped import read_head
from npuprof.sources.torch_npu.layout import Layout
from npuprof.texts import repaired_json

_MAX_BYTES = 64 << 20
_LEVELS: dict[str, str | int] = {"Level_none": "none", "LevelNone": "none", "Level0": 0, "Level1": 1, "Level2": 2}
_SWITCHES = {"memory": "profile_memory", "stacks": "with_stack", "shapes": "record_shapes", "modules": "with_modules"}
_MINDSPORE_KEYS = ("profiler_parameters", "ms_profiler_info", "ms_version")  # it writes the same tree of files
_MINDSPORE_SWITCHES = {
    "memory": "profile_memory",
    "stacks": "with_stack",
    "shapes": "record_shapes",
    "l2": "l2_cache",
    "marks": "mstx",
    "host_sys": "host_sys",
}
_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json")


def describe(layout: Layout, notes: Notes) -> Info:
    """Gather what the two files tell; a missing or damaged one is noted and leaves its part empty."""
    info = Info(name=layout.root.name, collector="torch_npu", source="torch_npu text result", recording=layout.root)
    told = load(layout.profiler_info, notes)
    if any(key in told for key in _MINDSPORE_KEYS):
        info.collector, info.source = "mindspore", "mindspore text result"
    metadata = load(layout.metadata, notes)
    info.versions = {
        name: str(told[key])
        for name, key in (("torch_npu", "torch_npu_version"), ("mindspore", "ms_version"), ("cann", "cann_version"))
        if told.get(key)
    }
    parameters = _part(told, "profiler_parameters")
    info.options = _mindspore_options(parameters) if parameters else _options(_part(told, "config"))
    if told.get("jit_level"):
        info.options["jit_level"] = told["jit_level"]
    info.started_ns, info.stopped_ns = _interval(_part(told, "start_info"), _part(told, "end_info"))
    info.rank = _rank(layout.profiler_info, told, metadata)
    variables = metadata.pop("ENV_VARIABLES", None)
    if isinstance(variables, dict):
        info.environment = {str(key): str(value) for key, value in variables.items() if value not in ("", None)}
    info.metadata = metadata
    return info


def _options(config: dict[str, Any]) -> dict[str, Any]:
    """Say the vendor's configuration in our words where we have one; the rest follows under its own name."""
    if not config:
        return {}
    common, special = _part(config, "common_config"), _part(config, "experimental_config")
    activities = [str(name).rpartition(".")[2].lower() for name in common.pop("activities", None) or []]
    options: dict[str, Any] = {"activities": activities}
    level, metrics = special.pop("_profiler_level", None), special.pop("_aic_metrics", None)
    options["level"] = _LEVELS.get(str(level), level)
    options["aic_metrics"] = NATIVE.get(str(metrics), metrics)
    options.update({ours: common.pop(theirs) for ours, theirs in _SWITCHES.items() if theirs in common})
    options["l2"] = special.pop("_l2_cache", None)
    options["marks"] = bool(special.pop("_msprof_tx", False)) | bool(special.pop("_mstx", False))
    options["host_sys"] = special.pop("_host_sys", None) or []
    rest = {**common, **special}
    options.update({key.lstrip("_"): value for key, value in rest.items() if key.lstrip("_") not in options})
    return options


def _mindspore_options(parameters: dict[str, Any]) -> dict[str, Any]:
    """Say MindSpore's parameters in our words where we have one; the rest follows under its own name."""
    rest = dict(parameters)
    level, metrics = rest.pop("profiler_level", None), rest.pop("aic_metrics", None)
    options: dict[str, Any] = {
        "activities": [str(name).lower() for name in rest.pop("activities", None) or []],
        "level": _LEVELS.get(str(level), level),
        "aic_metrics": "none" if metrics in ("None", None) else metrics,
    }
    options.update({ours: rest.pop(theirs) for ours, theirs in _MINDSPORE_SWITCHES.items() if theirs in rest})
    options.update(rest)
    return options


def _interval(start: dict[str, Any], end: dict[str, Any]) -> tuple[int | None, int | None]:
    """Give when collection began and ended: the end is epoch time, the begin so much monotonic time before it."""
    stopped = end.get("collectionTimeEnd")
    begun, ended = start.get("start_monotonic"), end.get("MonotonicTimeEnd")
    if not isinstance(stopped, int):
        return None, None
    if not isinstance(begun, int) or not isinstance(ended, int) or ended < begun:
        return None, stopped
    return stopped - (ended - begun), stopped


def _rank(path: Path | None, told: dict[str, Any], metadata: dict[str, Any]) -> int | None:
    """Give the global rank: in the file's name, in it as a number or as text, or in the metadata; -1 is none."""
    named = _RANK_IN_NAME.fullmatch(path.name) if path else None
    for value in (named[1] if named else None, told.get("rank_id"), _part(metadata, "distributed_args").get("rank")):
        if isinstance(value, int | str) and re.fullmatch(r"\d{1,9}", str(value)):
            return int(value)
    return None


def _part(parent: dict[str, Any], key: str) -> dict[str, Any]:
    part = parent.get(key)
    return dict(part) if isinstance(part, dict) else {}


def load(path: Path | None, notes: Notes) -> dict[str, Any]:
    """Read a JSON object; empty where there is no such file, and, with a note, where it is damaged."""
    if path is None:
        return {}
    try:
        plain = msgspec.json.decode(repaired_json(read_head(path, _MAX_BYTES).removeprefix(b"\xef\xbb\xbf")))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        notes.warning(path.name, f"cannot be read: {error}")
        return {}
    if not isinstance(plain, dict):
        notes.warning(path.name, "holds no JSON object")
        return {}
    return plain
