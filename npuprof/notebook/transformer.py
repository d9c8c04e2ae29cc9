"""The input transformer: a cell that begins with ``%%npuprof`` stays an ordinary cell.

A cell magic would get the cell's text and run it by itself, which loses its value, its ``await`` and its
error status. Here only the first line is rewritten, into one call that starts the session; the rest of
the cell, with its line numbers, is IPython's to run.
"""

from __future__ import annotations

import re

from IPython.core.inputtransformer2 import cell_magic

PRIVATE_WORD = "__cell__"
"""What the rewritten line passes to ``%npuprof`` before the user's arguments."""

# `%%npuprof?` asks for help and is left to IPython.
_FIRST_LINE = re.compile(r"%%npuprof(?:[ \t]+(?P<arguments>.*))?\s*$")


class CellTransformer:
    """Rewrites the first line of a profiled cell; a member of ``input_transformers_cleanup``.

    It runs after IPython has removed leading blank lines, common indentation and prompts, and before
    IPython's own treatment of cell magics.
    """

    # IPython leaves such a transformer out when it asks whether a cell is complete. The terminal then
    # still sees a cell magic, which ends at a blank line, not after its first statement.
    has_side_effects = True

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines to run for the lines of a cell."""
        match = _FIRST_LINE.match(lines[0]) if lines else None
        if match is None:
            return lines
        body = next((number for number, line in enumerate(lines[1:], 1) if line.strip()), None)
        if body is None:
            return lines  # nothing to profile: the registered cell magic says so
        start = start_line((match["arguments"] or "").strip())
        if lines[body].startswith("%%"):
            # The magic of the next line gets its own text, as if it stood alone.
            return [start, *lines[1:body], *cell_magic(lines[body:])]
        return [start, *lines[1:]]


def start_line(arguments: str) -> str:
    """Return the line of Python that starts the session of a cell."""
    words = f"{PRIVATE_WORD} {arguments}".rstrip()
    return f"get_ipython().run_line_magic('npuprof', {words!r})\n"
