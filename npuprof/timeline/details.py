"""All columns of a slice, in groups."""

from __future__ import annotations

from dataclasses import dataclass

from npuprof.timeline.slices import Slices

_TITLES = ("identity", "time", "shapes", "pipes", "other")
_IDENTITY = ("table", "name", "op_name", "op_type", "task_type", "kind", "level", "core", "step", "message", "group")
_SHAPES = ("input_", "output_", "size_bytes", "count", "data_type")
_PIPES = ("aic_", "aiv_")
_ZEROS = ("0", "0 ns", "0 B", "0.0 %", "–")


@dataclass(frozen=True)
class DetailGroup:
    """Columns of one kind with their values as text, not escaped; `zeros` is the number of zero values left out."""

    title: str
    facts: tuple[tuple[str, str], ...]
    zeros: int


def details(slices: Slices, number: int) -> list[DetailGroup]:
    """Return the columns of a slice in groups, without pipe metrics that are zero."""
    grouped: dict[str, list[tuple[str, str]]] = {title: [] for title in _TITLES}
    zeros = dict.fromkeys(_TITLES, 0)
    for column, value in slices.details(number):
        title = _title(column)
        if title == "pipes" and value in _ZEROS:
            zeros[title] += 1
        else:
            grouped[title].append((column, value))
    return [DetailGroup(title, tuple(grouped[title]), zeros[title]) for title in _TITLES if grouped[title]]


def _title(column: str) -> str:
    if column in _IDENTITY or column.endswith("_id"):
        return "identity"
    if column.startswith(_PIPES):
        return "pipes"
    if column.startswith(_SHAPES):
        return "shapes"
    return "time" if column.endswith("_ns") else "other"
