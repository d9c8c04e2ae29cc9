"""The arguments of the magics and of ``npuprof run``: one table for parsing and documentation."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser, argument, magic_arguments

from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options
from npuprof.options.load_arguments import add_load_arguments, load_arguments
from npuprof.options.specification import Option
from npuprof.words.texts import did_you_mean

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Arguments:
    """The parsed arguments of ``%%npuprof``."""

    options: Options
    report: bool  # whether to show the report at the end of the run
    run_anyway: bool  # whether the cell runs unprofiled if the profiler cannot be started
    overhead: bool = False  # whether the cell runs a second time, unprofiled, to measure the cost of profiling
    saved_bytes: int | None = None  # the size of the report in a saved notebook; None for the default


# Quoted text, escaped characters, words, blanks, and quotes that are not closed.
_UP_TO_COMMENT = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\#]|(?<=\S)\#|\s|["'\\])*""", re.DOTALL)


def _argument(name: str, option: Option) -> argument:
    """Return the argument of an option; it is absent unless given, so that Options sets the default."""
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
    argument(
        "--saved-bytes",
        help="How large the report may be in a saved notebook (default: 1000000). The explorer in it merges the "
        "shortest slices until it fits, and says how many; where nothing fits, pictures remain.",
        type=int,
        metavar="BYTES",
        default=argparse.SUPPRESS,
    ),
    argument(
        "--overhead",
        help="Run the cell a second time, unprofiled and without its output, and show the cost of profiling "
        "in the report. For cells that may run twice.",
        action="store_true",
        default=argparse.SUPPRESS,
    ),
)


def profiling_arguments(function: _Function) -> _Function:
    """Decorate a magic with the table of options; placed below ``@magic_arguments``."""
    for entry in reversed(_TABLE):
        function = entry(function)
    return function


def parse(parser: MagicArgumentParser, line: str) -> dict[str, Any]:
    """Split a line like a shell, without its comment, and parse its arguments."""
    try:
        words = shlex.split(without_comment(line))
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read ({error}): {line}") from None
    known, unknown = parser.parse_known_args(words)
    if unknown:
        flags = sorted(flag for action in parser._actions for flag in action.option_strings)
        raise UsageError(
            f"unknown argument {' '.join(unknown)}{did_you_mean(unknown, flags)}: the options are {', '.join(flags)}; "
            "%%npuprof? explains them"
        )
    return vars(known)


def without_comment(line: str) -> str:
    """Return a line without the comment at its end: from a ``#`` on that begins a word and is not quoted."""
    return _UP_TO_COMMENT.match(line)[0].rstrip()  # type: ignore[index]  # it matches any line


def interpret(words: Mapping[str, Any]) -> Arguments:
    """Return the validated options of parsed arguments."""
    chosen = dict(words)
    report, policy = chosen.pop("report", True), chosen.pop("if_unavailable", "error")
    overhead, saved_bytes = chosen.pop("overhead", False), chosen.pop("saved_bytes", None)
    if saved_bytes is not None and saved_bytes < 0:
        raise UsageError(f"--saved-bytes must be at least 0, not {saved_bytes}")
    try:
        return Arguments(Options.from_dict(chosen), report, policy == "run", overhead, saved_bytes)
    except OptionsError as error:
        raise UsageError(str(error)) from None


@magic_arguments("options")
@profiling_arguments
def _options_only() -> None:
    """Carry the argument table for lines that consist of options only."""


def typed_options(line: str) -> dict[str, Any]:
    """Return the options of a line by name, as :class:`npuprof.options.Options` takes them."""
    words = parse(_options_only.parser, line)
    if other_names := sorted({"report", "if_unavailable", "overhead", "saved_bytes"} & words.keys()):
        raise UsageError(f"{', '.join(other_names)} of %%npuprof does not apply here: leave it out")
    return words


__all__ = ["RunArguments", "UsageError", "parse_run", "usage"]


@dataclass(frozen=True)
class RunArguments:
    """The arguments of ``%npuprof run``: the program and its arguments, options, report, its size and time limit."""

    program: tuple[str, ...]
    options: Options
    report: bool
    saved_bytes: int | None
    timeout_s: float | None


_OF_CELLS = ("if_unavailable", "overhead", "engines")
"""The arguments of ``%%npuprof`` that a program has no use for."""


@magic_arguments("%npuprof run")
@argument("--timeout", type=float, metavar="SECONDS", help="End the program after so many seconds. Default: never.")
@argument("program", nargs=argparse.REMAINDER, help="A script or an executable, and its arguments.")
@profiling_arguments
def _form() -> None:
    """Run a script under msprof, or profile it from within with the front end of --collector, from its start."""


def parse_run(given: str | Sequence[str]) -> RunArguments:
    """Parse the arguments of ``run``."""
    words = _shell_words(given) if isinstance(given, str) else list(given)
    options, program = _split_words(words)
    known, unknown = _form.parser.parse_known_args(options)
    if unknown:
        flags = [flag for action in _form.parser._actions for flag in action.option_strings]
        raise UsageError(
            f"unknown argument {' '.join(unknown)}{did_you_mean(unknown, flags)}: "
            "`npuprof run --help` lists the options"
        )
    if not program:
        raise UsageError("there is no program to run: npuprof run [options] script.py [its arguments]")
    chosen: dict[str, Any] = vars(known)
    timeout_s = chosen.pop("timeout")
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"--timeout must be more than 0 seconds, not {timeout_s:g}")
    del chosen["program"]
    if of_cells := sorted(set(_OF_CELLS) & chosen.keys()):
        named = ", ".join(f"--{name.replace('_', '-')}" for name in of_cells)
        raise UsageError(f"{named}: that is for cells, so leave it out")
    arguments = interpret(chosen)
    return RunArguments(tuple(program), arguments.options, arguments.report, arguments.saved_bytes, timeout_s)


def usage() -> str:
    """Return the help text of ``npuprof run``, without options for notebooks."""
    hidden = {action: action.help for action in _form.parser._actions if action.dest in (*_OF_CELLS, "saved_bytes")}
    try:
        for action in hidden:
            action.help = argparse.SUPPRESS
        text: str = _form.parser.format_help()
    finally:
        for action, words in hidden.items():
            action.help = words
    return text.replace("::\n", "", 1).replace("%%npuprof", "npuprof", 1).strip()


def _shell_words(line: str) -> list[str]:
    try:
        return shlex.split(without_comment(line))
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read ({error}): {line}") from None


def _split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words into options with their values, and the program with its arguments."""
    takes_value = {flag: action.nargs != 0 for action in _form.parser._actions for flag in action.option_strings}
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "--":
            return words[:place], words[place + 1 :]
        place += 2 if takes_value.get(words[place], False) else 1
    return words[:place], words[place:]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%npuprof load: {message}; {self.format_usage().strip()}")


def parse_load(line: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the :func:`npuprof.load` arguments of a line."""
    parser = _Parser(prog="%npuprof load", add_help=False)
    parser.add_argument("path", nargs="?", metavar="PATH")
    add_load_arguments(parser)
    try:
        parsed = parser.parse_args(shlex.split(without_comment(line)))
        if parsed.path is None:
            raise UsageError("%npuprof load needs the path of a recording, a result directory or a file")
        return parsed.path, load_arguments(parsed)
    except (OptionsError, ValueError) as error:
        raise UsageError(str(error)) from None
