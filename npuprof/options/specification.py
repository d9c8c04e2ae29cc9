"""The specification of an option, from which its check, argument, control, type and reference are generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from npuprof.options import values

FRONT_ENDS = ("acl", "torch_npu", "mindspore", "tensorflow", "msprof", "kineto", "simulator")


@dataclass(frozen=True)
class Option:
    help: str  # what it collects; the panel shows the first sentence
    default: Any  # the default value, or a function that returns it
    # Returns a value in its final form, or raises `OptionsError` with the allowed values.
    check: Callable[[str, Any], Any]
    values: str = ""  # the allowed values in words; empty for a switch
    choices: tuple[Any, ...] = ()  # the allowed values, if they can be listed
    # The conversion of a number from text, and its unit; None if it is not a number.
    number: tuple[Callable[[str], float], str] | None = None
    activity: str = ""  # the activity that collects it
    needs: str = ""  # the option without which it has no effect
    # The default sampling frequency in Hz of `needs`; 0 if it is not a frequency, or the front end has its own.
    rate: int = 0
    lacks: Mapping[str, str] = field(default_factory=dict)  # the front ends that do not have it, with the reasons
    # Values that only some front ends have, with these front ends.
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    framework: str = ""  # its name in the profilers of torch_npu and MindSpore, if it differs
    of_cell: bool = False  # whether it is about the profiled cell: npuprof does it itself, with every front end
    panel: str | None = None  # the label of its control in the panel; empty for its name, None if it has no control

    @property
    def usual(self) -> Any:
        """The default value."""
        return self.default() if callable(self.default) else self.default

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)

    @property
    def brief(self) -> str:
        """The first sentence of the help, for a tooltip."""
        sentence = self.help.partition(". ")[0].rstrip(".")
        return sentence[0].lower() + sentence[1:]

    @property
    def shown_default(self) -> str:
        """The default as typed on a command line; empty if there is none, or the help describes it."""
        if self.is_switch:
            return "on" if self.default else "off"
        if isinstance(self.default, tuple):
            return ",".join(self.default)
        default = self.rate or self.default
        return "" if default is None or callable(default) else str(default)

    @property
    def described(self) -> str:
        """The help with the allowed values, the option it goes with, and the default."""
        described = f"{self.help} {self.values[:1].upper()}{self.values[1:]}{'.' if self.values else ''}"
        described += f" Goes with {self.needs}." if self.needs else ""
        described += f" Default: {self.shown_default}." if self.shown_default not in ("", "off") else ""
        return described.replace("  ", " ").strip()

    def field(self) -> Any:
        """Return the dataclass field of the option."""
        if callable(self.default):
            return field(default_factory=self.default, metadata={"option": self})
        return field(default=self.default, metadata={"option": self})


def switch(description: str, default: bool = False, **facts: Any) -> Any:
    """Return the field of an option that is on or off."""
    return Option(description, default, values.flag, **{"panel": "", **facts}).field()


def choice(
    description: str, allowed: tuple[Any, ...], default: Any, check: Callable[..., Any] = values.one_of, **facts: Any
) -> Any:
    """Return the field of an option with one of several values, or None if that is the default."""

    def checked(name: str, value: Any) -> Any:
        return None if value is default is None else check(name, value, allowed)

    return Option(description, default, checked, f"one of {values.listed(allowed)}", allowed, **facts).field()


def several(description: str, allowed: tuple[str, ...], default: tuple[str, ...] = (), **facts: Any) -> Any:
    """Return the field of an option with any of several words."""
    check = partial(values.subset, allowed=allowed)
    allowed_text = f"any of {values.listed(allowed)}, joined by commas"
    return Option(description, default, check, allowed_text, **{"choices": allowed, **facts}).field()


def whole_number(description: str, unit: str, least: int, limit: int, **facts: Any) -> Any:
    """Return the field of an integer option with a unit, whose value may be None."""
    check = partial(values.whole_number, least=least, limit=limit, unit=unit)
    return Option(description, None, check, f"{unit} from {least} to {limit}", number=(int, unit), **facts).field()


def other(description: str, default: Any, check: Callable[[str, Any], Any], allowed_text: str, **facts: Any) -> Any:
    """Return the field of an option with a custom check."""
    return Option(description, default, check, allowed_text, **facts).field()


def because(reason: str, *front_ends: str) -> dict[str, str]:
    """Return a mapping from the front ends that lack an option to the common reason."""
    return dict.fromkeys(front_ends, reason)


def but(front_end: str, reason: str) -> dict[str, str]:
    """Return a mapping like :func:`because` for every front end except one."""
    return because(reason, *(name for name in FRONT_ENDS if name != front_end))
