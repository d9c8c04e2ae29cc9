"""The options of the panel: selected values, unavailable options with reasons, and invalid combinations."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.collectors import capabilities
from npuprof.collectors.registry import choose, why_absent
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks
from npuprof.options.specification import FRONT_ENDS
from npuprof.words.commands import magic_word

CONTROLS = {name: option for name, option in SPECIFICATION.items() if option.panel is not None}
"""The options with a control in the panel; the others are typed, as for ``%%npuprof``."""
SWITCHES = {name: option for name, option in CONTROLS.items() if option.is_switch}
LISTS = {
    name: ("default", *option.choices) if option.default is None else option.choices
    for name, option in CONTROLS.items()
    if option.choices
}
"""The choices of options with several values; ``default`` stands for none."""
TYPED = "it is typed in More"
"""Why a control cannot be used whose option is typed."""


class OptionsForm:
    """The options chosen in the panel: one set, whether by a control or typed as ``more``, which goes first."""

    def __init__(self) -> None:
        self._usual = {name: option.usual for name, option in CONTROLS.items()}
        self._chosen: dict[str, Any] = self._usual | {
            "activities": ("cpu", "npu"),
            "output": str(self._usual["output"]),
        }
        self._more = ""
        self._typed: dict[str, Any] = {}
        self._refused = ""  # why what is typed cannot be read

    @property
    def collector(self) -> str:
        """The front end that a run would use."""
        name = self._asked_collector
        return choose(name).collector.name if name == "auto" else name

    @property
    def _asked_collector(self) -> str:
        return str(self._typed.get("collector", self._chosen["collector"]))

    @property
    def collector_reason(self) -> str:
        """The front end that ``auto`` would use, with the reason; empty if one is selected explicitly."""
        if self._asked_collector != "auto":
            return ""
        choice = choose("auto")
        return f"{choice.collector.name}: {choice.reason}"

    def choose(self, name: str, value: Any) -> None:
        """Set an option of this form; raise a KeyError if the form does not have it."""
        if name == "more":
            self._more = str(value)
            self._typed, self._refused = _typed(self._more)
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
        if name in self._typed:
            return self._typed[name]
        if name == "activities":
            return tuple(word for word in self._chosen[name] if not self.why_not_activity(word))
        return self._usual[name] if self.why_not(name) else self._chosen[name]

    def why_not(self, name: str) -> str:
        """Return why the control of an option cannot be used; empty if it can."""
        if name == "more":
            return ""
        if name in self._typed:
            return TYPED
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
        """Return why the control of an activity cannot be used; empty if it can."""
        if "activities" in self._typed:
            return TYPED
        return "" if has_value(self.collector, "activities", word) else f"{self.collector} has no {word} activity"

    @property
    def elsewhere(self) -> set[str]:
        """The options that no front end has that is installed here."""
        here = {name for name in FRONT_ENDS if not why_absent(name)} | {self.collector}
        return {name for name in CONTROLS if all(lacks(front_end, name) for front_end in here)}

    @property
    def problem(self) -> str:
        """The reason why a run cannot be started with these options; empty if it can."""
        try:
            options = self.options()
        except OptionsError as error:
            return str(error)
        if reason := why_absent(self.collector):
            return f"{self.collector} cannot be used: {reason}; choose another collector, or install it"
        return why_not_writable(options.output)

    def options(self) -> Options:
        """Return the validated options."""
        if self._refused:
            raise OptionsError(f"more options: {self._refused}")
        options = Options.from_dict(self._plain() | self._typed)
        capabilities.check(self.collector, options)
        return options

    def magic(self) -> str:
        """Return the equivalent line: ``%%npuprof --level 1 --memory``."""
        words = []
        for name, value in self._plain().items():
            is_usual = value == self._usual[name] or (name == "activities" and set(value) == {"cpu", "npu"})
            if is_usual or name in self._typed:
                continue
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                text = ",".join(value) if isinstance(value, tuple) else str(value)
                words.append(f"--{flag}{'=' if text.startswith('-') else ' '}{magic_word(text)}")
        typed = [self._more] if self._refused else map(magic_word, shlex.split(self._more))
        return " ".join(["%%npuprof", *words, *filter(None, typed)])

    def _core(self) -> dict[str, Any]:
        return {
            "collector": self._asked_collector,
            "activities": self.chosen("activities"),
            **({} if lacks(self.collector, "level") else {"level": self._value("level")}),
        }

    def _plain(self) -> dict[str, Any]:
        plain = {name: self._value(name) for name in CONTROLS}
        plain["output"] = Path(str(plain["output"])) if str(plain["output"]).strip() else self._usual["output"]
        return plain


def _typed(line: str) -> tuple[dict[str, Any], str]:
    """Return the options that a line names, checked one by one, and why it cannot be read."""
    from IPython.core.error import UsageError

    from npuprof.notebook.arguments import typed_options

    if not line.strip():
        return {}, ""
    try:
        return {name: SPECIFICATION[name].check(name, value) for name, value in typed_options(line).items()}, ""
    except (UsageError, OptionsError) as error:
        return {}, str(error)


def why_not_writable(output: Path) -> str:
    """Return why no recording could be made in a directory, which may have to be made too; empty if one could."""
    try:
        place = output.expanduser().absolute()
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        if not place.is_dir():
            return f"no recording can be made in {output}: {place} is not a directory"
        is_usable = os.access(place, os.W_OK | os.X_OK)
    except (OSError, RuntimeError, ValueError) as error:
        return f"no recording can be made in {output}: {error}"
    return "" if is_usable else f"no recording can be made in {output}: {place} cannot be written to"


def _failure(plain: Mapping[str, Any]) -> str:
    try:
        Options(**plain)
    except OptionsError as error:
        return str(error)
    return ""
