"""The arguments of the magics, in one table that parses them and documents them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser, argument

from npuprof.errors import OptionsError
from npuprof.options import ACTIVITIES, AIC_METRICS, COLLECTORS, DEFAULT_OUTPUT, HOST_SYS, LEVELS, Options

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


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


def _option(flag: str, what: str, **settings: Any) -> argument:
    """Describe one option; one that is not given is absent, so that Options knows its default."""
    return argument(flag, **{"default": argparse.SUPPRESS, "help": what, **settings})


_TABLE: tuple[argument, ...] = (
    _option("--level", f"How much to collect: one of {_listed(LEVELS)}. Default: 1."),
    _option(
        "--aic-metrics",
        f"AI Core metrics: one of {_listed(AIC_METRICS)}, none. "
        "Default: PipeUtilization at levels 1 and 2, none below.",
        metavar="GROUP",
    ),
    _option("--activities", f"What to watch: any of {_listed(ACTIVITIES)}, joined by commas. Default: both."),
    _option("--memory", "Sample the device's memory.", action="store_true"),
    _option("--stacks", "Record the Python stack of each framework operator.", action="store_true"),
    _option("--shapes", "Record the shapes of operators' tensors.", action="store_true"),
    _option("--l2", "Record the L2 cache's hits and victims.", action="store_true"),
    _option("--marks", "Record markers and ranges. Default: on.", action=argparse.BooleanOptionalAction),
    _option("--host-sys", f"Host samples to take: any of {_listed(HOST_SYS)}, joined by commas.", metavar="KINDS"),
    _option("--output", f"Directory in which recordings are kept. Default: {DEFAULT_OUTPUT}.", metavar="DIRECTORY"),
    _option("--name", "What to call the run."),
    _option("--collector", f"The front end to use: one of {_listed(COLLECTORS)}. Default: auto.", metavar="FRONT_END"),
    _option(
        "--if-unavailable",
        "What to do when the profiler cannot be started: refuse with an error (error, the default), "
        "or run without it and say so (run).",
        choices=("error", "run"),
    ),
    _option("--no-report", "Collect without showing the report.", dest="report", action="store_false"),
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
