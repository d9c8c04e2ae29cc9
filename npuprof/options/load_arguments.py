"""Arguments of ``npuprof open`` and ``%npuprof load`` for a part of a result: steps, time range, source."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, cast

from npuprof.errors import OptionsError

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np

FORMS = ("text", "db", "raw", "parsed")
"""The forms of a run that can be read: one of the three, or both of the vendor's results."""

_UNITS_NS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}
_SINCE = re.compile(r"([+-])\s*(\d{1,18})(?:\.(\d{1,18}))?\s*(ns|us|ms|s|min)", re.ASCII)
_STEPS = re.compile(r"(\d{1,18})(?:\s*-\s*(\d{1,18}))?", re.ASCII)
_NANOSECONDS = re.compile(r"\d{1,19}", re.ASCII)
_MAX_STEPS = 1_000_000


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--steps``, ``--start``, ``--end``, ``--source``, ``--code-root`` and ``--chip`` to a parser."""
    parser.add_argument("--steps", metavar="N,...", help="read only these steps, such as 3,4 or 3-7")
    parser.add_argument(
        "--start",
        metavar="TIME",
        help="read from here: nanoseconds of the epoch as in the tables, +1.5s (ns, us, ms, s, min) since the run's "
        "beginning, or a date and time (UTC where it names no zone)",
    )
    parser.add_argument("--end", metavar="TIME", help="read to before this time, in the forms of --start")
    parser.add_argument(
        "--source",
        choices=FORMS,
        help="what to read of a run in several forms: raw data, the vendor's text files or databases, or "
        "both of these (parsed); default: raw data if complete, else each table from the form that has it",
    )
    parser.add_argument(
        "--code-root",
        metavar="FOLDER",
        help="the folder with the code that ran, to show it with the costs of its lines",
    )
    parser.add_argument(
        "--chip",
        metavar="NAME",
        help="the chip that ran it, such as 910B3, where the result names only its family or none",
    )


def load_arguments(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return parsed arguments as keyword arguments of :func:`npuprof.load`."""
    arguments: dict[str, Any] = {"source": parsed.source}
    if parsed.chip is not None:
        arguments["chip"] = parsed.chip
    if parsed.code_root is not None:
        arguments["code_root"] = parsed.code_root
    if parsed.steps is not None:
        arguments["steps"] = step_numbers(parsed.steps)
    arguments |= {name: moment(name, text) for name in ("start", "end") if (text := getattr(parsed, name)) is not None}
    return arguments


def step_numbers(text: str) -> list[int]:
    """Parse ``3,4`` or ``3-7,9``."""
    numbers: list[int] = []
    for word in text.split(","):
        match = _STEPS.fullmatch(word.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise OptionsError(f"--steps is {text[:60]!r}; give numbers or ranges of steps, such as 3,4 or 3-7")
        if last - first + len(numbers) >= _MAX_STEPS:
            raise OptionsError(f"--steps names more than {_MAX_STEPS:,} steps; give --start and --end instead")
        numbers.extend(range(first, last + 1))
    return numbers


def moment(name: str, text: str) -> int | np.timedelta64 | datetime:
    """Parse a time: epoch nanoseconds, a time since the start of the run with a unit, or a date and time."""
    import numpy as np
    import pandas as pd

    text = text.strip()
    if _NANOSECONDS.fullmatch(text):
        return int(text)
    if since := _SINCE.fullmatch(text):
        fraction = since[3] or ""
        amount_ns, remainder = divmod(int(since[2] + fraction) * _UNITS_NS[since[4]], 10 ** len(fraction))
        if remainder or amount_ns > np.iinfo(np.int64).max:
            raise OptionsError(f"--{name} is {text!r}; give whole nanoseconds, at most those of 292 years")
        return np.timedelta64(-amount_ns if since[1] == "-" else amount_ns, "ns")
    try:
        stamp: pd.Timestamp | None = pd.Timestamp(text) if text[:1].isdigit() and "-" in text else None
    except (ValueError, OverflowError):
        stamp = None
    if stamp is not None:
        return cast("datetime", stamp)
    raise OptionsError(
        f"--{name} is {text[:60]!r}; give nanoseconds of the epoch, a time since the run's beginning such as +1.5s, "
        "or a date and time such as 2026-01-31T12:30:00.5"
    )
