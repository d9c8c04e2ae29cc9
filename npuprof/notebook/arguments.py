"""The arguments of the magics, in one table that parses them and documents them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser, argument, magic_arguments

from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options
from npuprof.options.specification import Option

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Arguments:
    """What the words after ``%%npuprof`` ask for.

    Attributes
    ----------
    options
        What to collect.
    report
        Whether to show the report when the run ends.
    run_anyway
        Whether the cell is run unprofiled when the profiler cannot be started.
    """

    options: Options
    report: bool
    run_anyway: bool


def _argument(name: str, option: Option) -> argument:
    """Return the argument of an option; one that is not given is absent, so that Options knows its default."""
    settings: dict[str, Any] = {"default": argparse.SUPPRESS, "help": option.described.replace("%", "%%")}
    if option.is_switch:
        settings["action"] = argparse.BooleanOptionalAction if option.default else "store_true"
    elif option.number is not None:
        settings["type"], unit = option.number
        settings["metavar"] = unit.upper()
    return argument(f"--{name.replace('_', '-')}", **settings)


_TABLE: tuple[argument, ...] = (
    *(_argument(name, option) for name, option in SPECIFICATION.items()),
    argument(
        "--if-unavailable",
        help="What to do when the profiler cannot be started: refuse with an error (error, the default), "
        "or run without it and say so (run).",
        choices=("error", "run"),
        default=argparse.SUPPRESS,
    ),
    argument(
        "--no-report",
        help="Collect without showing the report.",
        dest="report",
        action="store_false",
        default=argparse.SUPPRESS,
    ),
)


def profiling_arguments(function: _Function) -> _Function:
    """Decorate a magic with the options of the table; stands below ``@magic_arguments``."""
    for entry in reversed(_TABLE):
        function = entry(function)
    return function


def parse(parser: MagicArgumentParser, line: str) -> dict[str, Any]:
    """Split a line as a shell does and parse its words.

    Raises
    ------
    UsageError
        If a word is no argument of the magic, or its value is none that the argument takes.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read ({error}): {line}") from None
    known, unknown = parser.parse_known_args(words)
    if unknown:
        flags = sorted(flag for action in parser._actions for flag in action.option_strings)
        raise UsageError(
            f"unknown argument {' '.join(unknown)}: the options are {', '.join(flags)}; %%npuprof? explains them"
        )
    return vars(known)


def interpret(words: Mapping[str, Any]) -> Arguments:
    """Make the options of the run from parsed words.

    Raises
    ------
    UsageError
        If a value is not allowed or two exclude each other; the message says what is allowed.
    """
    chosen = dict(words)
    report, policy = chosen.pop("report", True), chosen.pop("if_unavailable", "error")
    try:
        return Arguments(Options.from_dict(chosen), report, policy == "run")
    except OptionsError as error:
        raise UsageError(str(error)) from None


@magic_arguments("options")
@profiling_arguments
def _options_only() -> None:
    """Hold the table of options for a line that has nothing else."""


def typed_options(line: str) -> dict[str, Any]:
    """Return the options of a line by name, as :class:`npuprof.options.Options` takes them.

    Raises
    ------
    UsageError
        If a word is no option, or its value is none that the option takes.
    """
    words = parse(_options_only.parser, line)
    if others := sorted({"report", "if_unavailable"} & words.keys()):
        raise UsageError(f"{', '.join(others)} of %%npuprof is no option of what to collect: leave it out")
    return words
