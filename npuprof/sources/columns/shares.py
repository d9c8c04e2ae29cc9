"""Shares of a whole that a file writes as fractions or as percent, whatever its column is called.

The same counter is a fraction in timelines and percent in databases, under one name. What a form usually writes is
known from results of devices; the values decide where they contradict it. A measured fraction may lie a little above 1,
since its two counters are not read at the same moment, and a damaged value may lie anywhere: therefore all values of a
file decide together, not the largest.

Source: sources/RESULTS.md section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np

from npuprof.arrays import Float64
from npuprof.tables.notes import Notes

Unit: TypeAlias = Literal["fraction", "percent"]

MOST_OF_A_FRACTION = 2.0
"""No fraction is measured above it, and hardly a device has all its shares below 2 percent."""

HIT_RATE = "Hit Rate"
PORT_SHARES = ("Bandwidth Efficiency", "Error Rate", "Dropped Rate")
SHARES = (HIT_RATE, *PORT_SHARES)
"""Ends of the names of counters that are shares, and that a file may write in either unit."""

_LEAST = 0.1  # if all shares lie below it, they may be small in either unit
_FEW = 0.05  # of the values: fewer that contradict a unit are damage
_WORDS: dict[Unit, str] = {"fraction": "fractions of 1", "percent": "percent"}
AS_PERCENT = f"are taken for {_WORDS['percent']}"
"""Words of the note that tells that a file's shares are in percent against what is usual."""

_FACTORS = {("fraction", "percent"): 100.0, ("percent", "fraction"): 0.01}
_RATIOS = ("_ratio", "_rate")


def unit_of_shares(columns: Iterable[Float64], usual: Unit) -> tuple[Unit, str]:
    """Return the unit of shares, and the reason if it rests on the values alone; empty if it is the usual one."""
    count = beyond = 0
    largest = 0.0
    for values in columns:
        sizes = np.abs(values[np.isfinite(values) & (values != 0)])
        count, beyond = count + len(sizes), beyond + int(np.count_nonzero(sizes > MOST_OF_A_FRACTION))
        largest = max(largest, float(sizes.max(initial=0.0)))
    above = f"{beyond} of {count} are above {MOST_OF_A_FRACTION:g}"
    if beyond >= _FEW * max(count, 1) and beyond:
        return "percent", "" if usual == "percent" else above
    if usual == "fraction" or beyond or not count:
        return usual, above if usual == "fraction" and beyond else ""
    reason = f"the largest of {count} is {largest:.4g}"
    return ("fraction", reason) if largest >= _LEAST else (usual, f"{reason}, as it could be in either unit")


def converted(values: Float64, usual: Unit, wanted: Unit, notes: Notes, source: str, what: str) -> Float64:
    """Return shares in the wanted unit; a note says so where their unit is not the usual one, or is in doubt.

    Parameters
    ----------
    notes, source, what
        Receives the note, the file, and the name of the shares, such as ``values of Hit Rate``.
    """
    unit, reason = unit_of_shares([values], usual)
    _note(unit, reason, usual, notes, source, what)
    factor = _FACTORS.get((unit, wanted))
    return values if factor is None else values * factor


def as_fractions(columns: dict[str, Any], notes: Notes, source: str) -> None:
    """Convert the ratios and rates among the counters of kernels to fractions, in place; all have one unit."""
    names = [name for name, values in columns.items() if name.endswith(_RATIOS) and values.dtype == np.float64]
    unit, reason = unit_of_shares([columns[name] for name in names], "fraction")
    _note(unit, reason, "fraction", notes, source, "ratios of kernels")
    if unit == "percent":
        columns |= {name: columns[name] * _FACTORS[unit, "fraction"] for name in names}


def _note(unit: Unit, reason: str, usual: Unit, notes: Notes, source: str, what: str) -> None:
    if reason:
        instead = f", unlike usually, when they are {_WORDS[usual]}" if unit != usual else ""
        notes.warning(source, f"{what} are taken for {_WORDS[unit]}{instead}: {reason}; compare with another result")
