"""Names from a recording as text that plotly shows as it is: cut to a length and free of markup."""

from __future__ import annotations

import html

import numpy as np

from npuprof.quantities import printable

UNNAMED = "(unnamed)"
"""What stands for a name that the recording does not hold."""


def label(name: object, longest: int) -> str:
    """Return a name for a figure: at most `longest` characters, control characters as spaces, markup escaped.

    Plotly reads a subset of HTML in every text, and formulas between dollar signs where MathJax is loaded.
    """
    if not isinstance(name, str):
        return UNNAMED
    return html.escape(printable(name, longest), quote=False).replace("$", "&#36;")


def moment(epoch_ns: int) -> str:
    """Write a moment of UTC to the nanosecond; integer arithmetic only."""
    return f"{np.datetime64(epoch_ns, 'ns')}".replace("T", " ") + " UTC"
