"""The panel's options: what is chosen, what cannot be chosen now and why, and what is wrong with the choice."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from npuprof.collectors import capabilities
from npuprof.collectors.capabilities import check, lacks
from npuprof.collectors.registry import choose
from npuprof.errors import OptionsError
from npuprof.options import ACTIVITIES, AIC_METRICS, COLLECTORS, LEVELS, Options, default_output


@dataclass(frozen=True)
class Switch:
    """An option that is on or off: its name, and what it does in a few words."""

    name: str
    what: str


SWITCHES: tuple[Switch, ...] = (
    Switch("memory", "sample the device's memory"),
    Switch("stacks", "Python stack of each framework operator"),
    Switch("shapes", "shapes of operators' tensors"),
    Switch("l2", "hits and victims of the L2 cache"),
    Switch("marks", "markers and ranges"),
    Switch("modules", "module hierarchy of framework operators"),
    Switch("flops", "floating-point operations of framework operators"),
    Switch("record_op_args", "arguments of framework operators"),
    Switch("op_attr", "attributes of CANN's operators"),
    Switch("sys_io", "NIC and RoCE"),
    Switch("sys_interconnection", "links between chips: HCCS and PCIe"),
    Switch("dvpp", "image units"),
    Switch("hccl", "communication below level 1"),
    Switch("aicpu", "AI CPU operators below level 2"),
    Switch("runtime_api", "runtime calls below level 2"),
    Switch("training_trace", "iteration trace"),
    Switch("data_process", "MindSpore's data pipeline"),
    Switch("parallel_strategy", "MindSpore's parallel strategy"),
)
"""The switches of the panel; options with values of another kind are typed, as for ``%%npuprof``."""

_CHOSEN_ALONE = ("collector", "level", "aic_metrics", "activities", "name", "output")
_ASKED = {"aic_metrics": "PipeUtilization"}  # what is tried to learn whether an option can be chosen
_FORMER = {field.name: field.default for field in fields(Options)} | {"output": default_output()}


class OptionsForm:
    """What is chosen in the panel; always answers, whatever is chosen."""

    def __init__(self) -> None:
        self._chosen: dict[str, Any] = {
            **{switch.name: _FORMER[switch.name] for switch in SWITCHES},
            "collector": "auto",
            "level": _FORMER["level"],
            "aic_metrics": "default",
            "activities": ("cpu", "npu"),
            "name": "",
            "output": str(_FORMER["output"]),
        }
        self._more = ""

    @property
    def choices(self) -> Mapping[str, tuple[Any, ...]]:
        """What can be chosen where there are several."""
        return {
            "collector": COLLECTORS,
            "level": LEVELS,
            "aic_metrics": ("default", *AIC_METRICS, "none"),
            "activities": ACTIVITIES,
        }

    @property
    def collector(self) -> str:
        """The front end that would be used."""
        name = str(self._chosen["collector"])
        return choose(name).collector.name if name == "auto" else name

    @property
    def collector_reason(self) -> str:
        """Which front end would be used, and why, in words for the user."""
        if self._chosen["collector"] != "auto":
            return ""
        choice = choose("auto")
        return f"{choice.collector.name}: {choice.reason}"

    def choose(self, name: str, value: Any) -> None:
        """Choose the value of an option of this form.

        Raises
        ------
        KeyError
            If the form has no such option.
        """
        if name == "more":
            self._more = str(value)
            return
        if name not in self._chosen:
            raise KeyError(name)
        self._chosen[name] = value

    def chosen(self, name: str) -> Any:
        """Give what is in force: an option that cannot be chosen now has its default, and its choice is kept."""
        if name == "more":
            return self._more
        if name == "activities":
            return tuple(word for word in self._chosen[name] if not self.why_not_activity(word))
        if self.why_not(name):
            return "default" if name == "aic_metrics" else _FORMER[name]
        return self._chosen[name]

    def why_not(self, name: str) -> str:
        """Say why an option cannot be chosen now; empty when it can."""
        if name == "more" or name in ("collector", "activities", "name", "output"):
            return ""
        if reason := lacks(self.collector, name):
            return f"{self.collector} does not have it: {reason}"
        if name == "level":
            return ""
        # The rules are those of Options, which is asked instead of repeated here.
        core = self._core()
        plain = _failure(core)
        refused = _failure({**core, name: _ASKED.get(name, True)})
        return "" if plain or not refused else refused

    def why_not_activity(self, word: str) -> str:
        """Say why an activity cannot be chosen now; empty when it can."""
        if word in capabilities.ACTIVITIES[self.collector]:
            return ""
        return f"{self.collector} has no {word} activity"

    @property
    def problem(self) -> str:
        """Say why a run cannot be started with this choice; empty when it can."""
        try:
            self.options()
        except OptionsError as error:
            return str(error)
        return ""

    def options(self) -> Options:
        """Make the options.

        Raises
        ------
        OptionsError
            If the choice is refused, by Options or by the front end; the message says what to change.
        """
        options = Options.from_dict({**self._plain(), **self._typed()})
        check(self.collector, options)
        return options

    def magic(self) -> str:
        """Write the line that asks for the same: ``%%npuprof --level 1 --memory``."""
        plain = self._plain()
        words = []
        for name, value in plain.items():
            if value == _FORMER[name] or (name == "activities" and set(value) == {"cpu", "npu"}):
                continue
            flag = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words.append(flag if value else f"--no-{flag[2:]}")
            else:
                words += [flag, shlex.quote(",".join(value) if isinstance(value, tuple) else str(value))]
        return " ".join(["%%npuprof", *words, *([self._more.strip()] if self._more.strip() else [])])

    def _core(self) -> dict[str, Any]:
        return {
            "collector": self._chosen["collector"],
            "activities": self.chosen("activities"),
            **({} if lacks(self.collector, "level") else {"level": self._chosen["level"]}),
        }

    def _plain(self) -> dict[str, Any]:
        plain = {
            name: self.chosen(name)
            for name in self._chosen
            if name in _CHOSEN_ALONE or self.chosen(name) != _FORMER[name]
        }
        if plain["aic_metrics"] == "default":
            plain["aic_metrics"] = None
        if not str(plain["output"]).strip():
            plain["output"] = _FORMER["output"]
        plain["output"] = Path(str(plain["output"]))
        return plain

    def _typed(self) -> dict[str, Any]:
        if not self._more.strip():
            return {}
        from IPython.core.error import UsageError

        from npuprof.notebook.arguments import typed_options

        try:
            return typed_options(self._more)
        except UsageError as error:
            raise OptionsError(f"more options: {error}") from None


def _failure(plain: Mapping[str, Any]) -> str:
    try:
        Options(**plain)
    except OptionsError as error:
        return str(error)
    return ""
