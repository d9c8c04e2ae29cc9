"""All columns of a slice, in groups."""

from __future__ import annotations

from dataclasses import dataclass

from npuprof.analysis.summary import COUNTED
from npuprof.timeline.slices import Slices

_TITLES = ("identity", "time", "shapes", "pipes", "other")
_IDENTITY = ("table", "name", "op_name", "op_type", "task_type", "kind", "level", "core", "step", "message", "group")
_SHAPES = ("input_", "output_", "size_bytes", "count", "data_type")
_ZEROS = ("0", "0 ns", "0 B", "0.0 %", "–")


@dataclass(frozen=True)
class DetailGroup:
    """Columns of one kind, not escaped."""

    title: str  # the kind
    # Label, value as reports write it, name of the column, and value as recorded.
    facts: tuple[tuple[str, str, str, str], ...]
    zeros: int  # the number of zero values left out


def details(slices: Slices, number: int) -> list[DetailGroup]:
    """Return the columns of a slice in groups, without pipe metrics that are zero."""
    grouped: dict[str, list[tuple[str, str, str, str]]] = {title: [] for title in _TITLES}
    zeros = dict.fromkeys(_TITLES, 0)
    for column, value, recorded in slices.details(number):
        title = _title(column)
        if title == "pipes" and value in _ZEROS:
            zeros[title] += 1
        else:
            grouped[title].append((_label(column), value, column, recorded))
    return [DetailGroup(title, tuple(grouped[title]), zeros[title]) for title in _TITLES if grouped[title]]


def _label(column: str) -> str:
    """Return the name of a column without its unit, which stands beside the value."""
    return column.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")


def _title(column: str) -> str:
    if column in _IDENTITY or column.endswith("_id"):
        return "identity"
    if column.startswith(COUNTED):
        return "pipes"
    if column.startswith(_SHAPES):
        return "shapes"
    return "time" if column.endswith("_ns") else "other"
