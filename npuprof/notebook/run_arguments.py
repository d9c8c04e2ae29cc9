"""The words of ``%npuprof run`` and ``npuprof run``: options, then a script, then what belongs to the script."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments

from npuprof.notebook.arguments import interpret, profiling_arguments
from npuprof.options import Options

__all__ = ["RunWords", "UsageError", "run_words", "usage"]


@dataclass(frozen=True)
class RunWords:
    """What is to be run, and how.

    Attributes
    ----------
    program
        The script and its arguments.
    options
        What to collect.
    report
        Whether to show the report.
    timeout_s
        Seconds after which the program is ended; None for never.
    """

    program: tuple[str, ...]
    options: Options
    report: bool
    timeout_s: float | None


@magic_arguments("%npuprof run")
@argument("--timeout", type=float, metavar="SECONDS", help="End the program after so many seconds. Default: never.")
@argument("program", nargs=argparse.REMAINDER, help="A script or an executable, and its arguments.")
@profiling_arguments
def _form() -> None:
    """Run a script under msprof, which profiles it from its beginning."""


def run_words(given: str | Sequence[str]) -> RunWords:
    """Read the words after ``run``.

    Raises
    ------
    UsageError
        If an option is unknown or has a wrong value, or the script is missing.
    """
    words = _split(given) if isinstance(given, str) else list(given)
    options, program = _cut(words)
    known, unknown = _form.parser.parse_known_args(options)
    if unknown:
        raise UsageError(f"unknown argument {' '.join(unknown)}: `npuprof run --help` lists the options")
    if not program:
        raise UsageError("there is no program to run: npuprof run [options] script.py [its arguments]")
    chosen: dict[str, Any] = vars(known)
    timeout_s = chosen.pop("timeout")
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"--timeout must be more than 0 seconds, not {timeout_s:g}")
    del chosen["program"]
    arguments = interpret(chosen)
    return RunWords(tuple(program), arguments.options, arguments.report, timeout_s)


def usage() -> str:
    """Return the help text."""
    text: str = _form.parser.format_help()
    return text.replace("::\n", "", 1).replace("%%npuprof", "npuprof", 1).strip()


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read ({error}): {line}") from None


def _cut(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut before the first word that is neither an option nor its value: all that follows is the program's."""
    takes_value = {flag: action.nargs != 0 for action in _form.parser._actions for flag in action.option_strings}
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if takes_value.get(words[place], False) else 1
    return words[:place], words[place:]
