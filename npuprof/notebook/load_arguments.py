"""The words after ``%npuprof load``: a path, and what of it to read."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError

from npuprof.errors import OptionsError
from npuprof.options.reading import add_reading_words, reading_arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%npuprof load: {message}; {self.format_usage().strip()}")


def load_words(line: str) -> tuple[str, dict[str, Any]]:
    """Split a line into the path and the arguments of :func:`npuprof.load`.

    Raises
    ------
    UsageError
        If there is no path, or a word is none that is understood.
    """
    parser = _Parser(prog="%npuprof load", add_help=False)
    parser.add_argument("path", nargs="?", metavar="PATH")
    add_reading_words(parser)
    try:
        parsed = parser.parse_args(shlex.split(line))
        if parsed.path is None:
            raise UsageError("%npuprof load needs the path of a recording, a result directory or a file")
        return parsed.path, reading_arguments(parsed)
    except (OptionsError, ValueError) as error:
        raise UsageError(str(error)) from None
