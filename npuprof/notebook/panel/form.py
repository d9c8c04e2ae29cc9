"""The panel's options: what is chosen, what cannot be chosen now and why, and what is wrong with the choice."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.collectors.capabilities import check
from npuprof.collectors.registry import choose
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks

CONTROLS = {name: option for name, option in SPECIFICATION.items() if option.panel is not None}
"""The options that have a control in the panel; the others are typed, as for ``%%npuprof``."""
SWITCHES = {name: option for name, option in CONTROLS.items() if option.is_switch}
LISTS = {
    name: ("default", *option.choices) if option.default is None else option.choices
    for name, option in CONTROLS.items()
    if option.choices
}
"""What can be chosen where there are several values; ``default`` stands for none."""


class OptionsForm:
    """What is chosen in the panel; always answers, whatever is chosen."""

    def __init__(self) -> None:
        self._usual = {name: option.usual for name, option in CONTROLS.items()}
        self._chosen: dict[str, Any] = self._usual | {
            "activities": ("cpu", "npu"),
            "output": str(self._usual["output"]),
        }
        self._more = ""

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
        self._chosen[name] = None if name in LISTS and value == "default" else value

    def chosen(self, name: str) -> Any:
        """Return what a control shows: an option that cannot be chosen now has its default, and its choice is kept."""
        if name == "more":
            return self._more
        value = self._value(name)
        return "default" if value is None else value

    def _value(self, name: str) -> Any:
        if name == "activities":
            return tuple(word for word in self._chosen[name] if not self.why_not_activity(word))
        return self._usual[name] if self.why_not(name) else self._chosen[name]

    def why_not(self, name: str) -> str:
        """Return why an option cannot be chosen now; empty when it can."""
        if name == "more":
            return ""
        if reason := lacks(self.collector, name):
            return f"{self.collector} does not have it: {reason}"
        option = CONTROLS[name]
        if not option.is_switch and option.default is not None:
            return ""
        # The rules are those of Options, which is asked instead of repeated here.
        core = self._core()
        refused = _failure({**core, name: True if option.is_switch else option.choices[0]})
        return "" if _failure(core) or not refused else refused

    def why_not_activity(self, word: str) -> str:
        """Return why an activity cannot be chosen now; empty when it can."""
        return "" if has_value(self.collector, "activities", word) else f"{self.collector} has no {word} activity"

    @property
    def problem(self) -> str:
        """Return why a run cannot be started with this choice; empty when it can."""
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
        """Return the line that asks for the same: ``%%npuprof --level 1 --memory``."""
        words = []
        for name, value in self._plain().items():
            if value == self._usual[name] or (name == "activities" and set(value) == {"cpu", "npu"}):
                continue
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words += [f"--{flag}", shlex.quote(",".join(value) if isinstance(value, tuple) else str(value))]
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
