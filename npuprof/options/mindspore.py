"""Options from MindSpore's ``MS_PROFILER_OPTIONS``.

As in MindSpore, invalid values are replaced by defaults, and each is reported. Names of older releases are accepted.
Source: collectors/FRONTENDS.md section 1; MindSpore's tutorial "Preparing the Training Script" (method 2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import AIC_METRICS, FRAMEWORK_NAMES, HOST_SYS, SPECIFICATION, Options, has_value, lacks
from npuprof.options.metric_names import NUMBERED
from npuprof.options.values import listed

_LEVELS: Mapping[str, str | int] = {"LevelNone": "none", "Level0": 0, "Level1": 1, "Level2": 2}
_NO_METRICS = ("None", "AiCoreNone", "AicoreNone")  # the value, its name, and how the pages spell it
_OLDER_METRICS: Mapping[int, str] = {-1: "none", **NUMBERED}
_HOST = {kind: kind for kind in HOST_SYS if has_value("mindspore", "host_sys", kind)}
_ACTIVITIES: Mapping[str, str] = {"CPU": "cpu", "NPU": "npu", "GPU": "gpu"}
SWITCHES: Mapping[str, str] = {
    **{
        framework_name: option
        for framework_name, option in FRAMEWORK_NAMES.items()
        if SPECIFICATION[option].is_switch and not lacks("mindspore", option)
    },
    # Names of older releases.
    "host_stack": "stacks",
    "hbm_ddr": "memory",
    "pcie": "sys_interconnection",
}
"""The switches of the variable, with the options that they set."""
_USUAL: Mapping[str, Any] = {"sync_enable": True, "data_simplification": True}
_NOT_HERE = ("schedule", "on_trace_ready")
_WITHOUT_EFFECT = {
    "start_profile": "it starts with the process",
    "op_time": "operators are the activities",
    "profile_framework": "the framework is the activity CPU",
    "timeline_limit": "the timeline has no limit",
}
_OUTPUT = "./data"


def read(text: str) -> tuple[Options | None, list[str]]:
    """Parse the JSON text of the variable.

    Returns
    -------
    options
        The options; None if ``start`` is not true, or no data can be collected.
    messages
        Messages about values that were changed, left out or not understood.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, [f"it is not valid JSON ({error}), so nothing is collected"]
    if not isinstance(plain, dict):
        return None, [f"it must be a JSON object, not {type(plain).__name__}, so nothing is collected"]
    if plain.get("start") is not True:
        wrong = "start" in plain and plain["start"] is not False
        return None, [f"start must be true or false, not {plain['start']!r}, and counts as false"] if wrong else []
    reading = _Reading(plain)
    try:
        return reading.options(), reading.messages
    except OptionsError as error:
        return None, [*reading.messages, f"{error}; nothing is collected"]


class _Reading:
    """The values of a JSON object, each taken once."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self._plain = plain
        self._known = {"start"}
        self.messages: list[str] = []

    def options(self) -> Options:
        """Return the options; `messages` then lists the changes."""
        asked = self._switches()
        asked["activities"] = self._list("activities", _ACTIVITIES.get, ["CPU", "NPU"])
        asked["export_type"] = self._list("export_type", {"text": "text", "db": "db"}.get, ["text"])
        asked["host_sys"] = self._list("host_sys", _HOST.get, [])
        for name in ("mstx_domain_include", "mstx_domain_exclude"):
            asked[name] = self._list(name, _word, [])
        asked["output"] = self._assign("output_path", _word, _OUTPUT)
        self._levels(asked)
        self._combine(asked)
        self._report_others()
        return Options.from_dict(asked)

    def _assign(self, name: str, form: Callable[[Any], Any], usual: Any, shown: str = "") -> Any:
        self._known.add(name)
        if (value := self._plain.get(name)) is None:
            return usual
        try:
            taken = form(value)
        except TypeError:  # a list or an object in place of a word
            taken = None
        if taken is None:
            self.messages.append(f"{name} cannot be {value!r}, and is taken as {shown or repr(usual)}")
        return usual if taken is None else taken

    def _list(self, name: str, form: Callable[[Any], str | None], usual: list[str]) -> list[str]:
        def every(values: Any) -> list[str] | None:
            items = [form(value) for value in values] if isinstance(values, list) else [None]
            return None if None in items else [item for item in items if item is not None]

        taken: list[str] | None = self._assign(name, every, None, repr(usual))
        return [form(value) or "" for value in usual] if taken is None else taken

    def _switches(self) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        for name, option in SWITCHES.items():
            usual = _USUAL.get(option, False)
            asked[option] = self._assign(name, _flag, usual) or asked.get(option, False)
        return asked

    def _levels(self, asked: dict[str, Any]) -> None:
        level = self._assign("profiler_level", _LEVELS.get, None, "Level0")
        metrics = self._assign("aic_metrics", _metrics_by_value, None, "None")
        older = self._assign("aicore_metrics", _metrics_by_number, None, "None")
        communication = self._assign(
            "profile_communication", lambda value: value if isinstance(value, bool) else None, False
        )
        if metrics is None:
            metrics = older
            if level is None and type(self._plain.get("aicore_metrics")) is int and older not in (None, "none"):
                level = 1
                self.messages.append("aicore_metrics by its number is of older releases: level 1 counts it here")
        level = 0 if level is None else level
        if communication:
            level = 1 if level in ("none", 0) else level
            self.messages.append("profile_communication is of older releases: level 1 records it here")
        if level == "none" and not asked["marks"]:
            level = 0
            self.messages.append("LevelNone records markers only, and without mstx is taken as Level0")
        on_device = "npu" in asked["activities"]
        if level == 2 and not on_device:
            level = 1
            self.messages.append("Level2 adds calls of the NPU, and without it is taken as Level1")
        if metrics not in (None, "none") and (level in ("none", 0) or not on_device):
            metrics = "none"
            self.messages.append("metrics are counted by the NPU from Level1 on, and left out")
        if metrics == "none" and level in (1, 2) and on_device:
            metrics = None
            self.messages.append(f"Level{level} counts PipeUtilization where no metrics are asked for")
        asked |= {"level": level, "aic_metrics": metrics}

    def _combine(self, asked: dict[str, Any]) -> None:
        if "npu" not in asked["activities"]:
            of_device = [name for name in asked if SPECIFICATION[name].activity == "npu" and name != "aic_metrics"]
            self._leave_out(asked, of_device, "are collected by the NPU")
        if "cpu" not in asked["activities"]:
            self._leave_out(asked, ("shapes", "stacks"), "are recorded on the CPU")
        domains = ("mstx_domain_include", "mstx_domain_exclude")
        if not asked["marks"]:
            self._leave_out(asked, domains, "choose among the markers of mstx")
        if all(asked[name] for name in domains):
            self._leave_out(asked, domains[1:], "are not looked at beside mstx_domain_include")

    def _leave_out(self, asked: dict[str, Any], names: Sequence[str], reason: str) -> None:
        if dropped := [name for name in names if asked[name]]:
            self.messages.append(f"{listed(dropped)} {reason}, and left out")
            asked |= {name: type(asked[name])() for name in dropped}

    def _report_others(self) -> None:
        for name in self._plain:
            if name in _WITHOUT_EFFECT:
                self.messages.append(f"{name} has no effect: {_WITHOUT_EFFECT[name]}")
            elif name in _NOT_HERE:
                self.messages.append(f"{name} cannot be given by the environment, and is left out")
            elif name not in self._known:
                self.messages.append(f"{name} is unknown, and left out")


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _metrics_by_value(value: Any) -> str | None:
    if value in _NO_METRICS:
        return "none"
    return str(value) if value in AIC_METRICS else None


def _metrics_by_number(value: Any) -> str | None:
    return _OLDER_METRICS.get(value) if type(value) is int else _metrics_by_value(value)
