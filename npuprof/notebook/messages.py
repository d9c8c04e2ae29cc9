"""Messages to the user of a cell, which must arrive whatever the cell did to Python's streams."""

from __future__ import annotations

import sys
from contextlib import suppress

from npuprof.words.texts import plain_lines


def tell(message: str) -> None:
    """Write a message to standard error, or where a cell has closed or replaced that, to the process's own."""
    line = f"npuprof: {plain_lines(message)}\n"
    for stream in (sys.stderr, sys.__stderr__):
        with suppress(Exception):
            stream.write(line)  # type: ignore[union-attr]  # None where the process has none
            stream.flush()  # type: ignore[union-attr]
            return
