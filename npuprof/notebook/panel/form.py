"""The options of the panel: selected values, unavailable options with reasons, and invalid combinations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.collectors.capabilities import check
from npuprof.collectors.registry import choose
from npuprof.commands import magic_word
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks

CONTROLS = {name: option for name, option in SPECIFICATION.items() if option.panel is not None}
"""The options with a control in the panel; the others are typed, as for ``%%npuprof``."""
SWITCHES = {name: option for name, option in CONTROLS.items() if option.is_switch}
LISTS = {
    name: ("default", *option.choices) if option.default is None else option.choices
    for name, option in CONTROLS.items()
    if option.choices
}
"""The choices of options with several values; ``default`` stands for none."""


class OptionsForm:
    """The options chosen in the panel."""

    def __init__(self) -> None:
        self._usual = {name: option.usual for name, option in CONTROLS.items()}
        self._chosen: dict[str, Any] = self._usual | {
            "activities": ("cpu", "npu"),
            "output": str(self._usual["output"]),
        }
        self._more = ""

    @property
    def collector(self) -> str:
        """The front end that a run would use."""
        name = str(self._chosen["collector"])
        return choose(name).collector.name if name == "auto" else name

    @property
    def collector_reason(self) -> str:
        """The front end that ``auto`` would use, with the reason; empty if one is selected explicitly."""
        if self._chosen["collector"] != "auto":
            return ""
        choice = choose("auto")
        return f"{choice.collector.name}: {choice.reason}"

    def choose(self, name: str, value: Any) -> None:
        """Set an option of this form; raise a KeyError if the form does not have it."""
        if name == "more":
            self._more = str(value)
            return
        if name not in self._chosen:
            raise KeyError(name)
        self._chosen[name] = None if name in LISTS and value == "default" else value

    def chosen(self, name: str) -> Any:
        """Return the value for a control; an unavailable option shows its default and keeps its selected value."""
        if name == "more":
            return self._more
        value = self._value(name)
        return "default" if value is None else value

    def _value(self, name: str) -> Any:
        if name == "activities":
            return tuple(word for word in self._chosen[name] if not self.why_not_activity(word))
        return self._usual[name] if self.why_not(name) else self._chosen[name]

    def why_not(self, name: str) -> str:
        """Return why an option is unavailable; empty if it is available."""
        if name == "more":
            return ""
        if reason := lacks(self.collector, name):
            return f"{self.collector} does not have it: {reason}"
        option = CONTROLS[name]
        if not option.is_switch and option.default is not None:
            return ""
        # Options decides, so that its rules are not duplicated here.
        core = self._core()
        refused = _failure({**core, name: True if option.is_switch else option.choices[0]})
        return "" if _failure(core) or not refused else refused

    def why_not_activity(self, word: str) -> str:
        """Return why an activity is unavailable; empty if it is available."""
        return "" if has_value(self.collector, "activities", word) else f"{self.collector} has no {word} activity"

    @property
    def problem(self) -> str:
        """The reason why a run cannot be started with these options; empty if it can."""
        try:
            self.options()
        except OptionsError as error:
            return str(error)
        return ""

    def options(self) -> Options:
        """Return the validated options.

        Raises
        ------
        OptionsError
            If Options or the front end refuses them.
        """
        options = Options.from_dict({**self._plain(), **self._typed_values()})
        check(self.collector, options)
        return options

    def magic(self) -> str:
        """Return the equivalent line: ``%%npuprof --level 1 --memory``."""
        words = []
        for name, value in self._plain().items():
            if value == self._usual[name] or (name == "activities" and set(value) == {"cpu", "npu"}):
                continue
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                text = ",".join(value) if isinstance(value, tuple) else str(value)
                words.append(f"--{flag}{'=' if text.startswith('-') else ' '}{magic_word(text)}")
        return " ".join(["%%npuprof", *words, *([self._more.strip()] if self._more.strip() else [])])

    def _core(self) -> dict[str, Any]:
        return {
            "collector": self._chosen["collector"],
            "activities": self.chosen("activities"),
            **({} if lacks(self.collector, "level") else {"level": self._chosen["level"]}),
        }

    def _plain(self) -> dict[str, Any]:
        plain = {name: self._value(name) for name in CONTROLS}
        plain["output"] = Path(str(plain["output"])) if str(plain["output"]).strip() else self._usual["output"]
        return plain

    def _typed_values(self) -> dict[str, Any]:
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
