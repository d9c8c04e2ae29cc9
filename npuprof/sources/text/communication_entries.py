"""The entries of the vendor's JSON files of communication, checked by their types.

Numbers of the wrong type or out of range, invalid texts and parts of unknown kind are left out, with a note. Keys of
later versions are kept unconverted.

Source: sources/RESULTS.md sections 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeAlias, TypedDict, get_type_hints

import msgspec

from npuprof.files.small_files import read_fields
from npuprof.tables.notes import Notes

_MOST = 1e18
_Known: TypeAlias = Annotated[float, msgspec.Meta(ge=-_MOST, le=_MOST)]
_Number: TypeAlias = _Known | None
_Sizes: TypeAlias = dict[str, tuple[_Known, _Known]]
_Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]

Row: TypeAlias = dict[str, Any]
START = "Start Timestamp(us)"
SIZES = "Size Distribution"

Times = TypedDict(
    "Times",
    {
        "Start Timestamp(us)": Decimal | None,
        "Elapse Time(ms)": _Number,
        "Transit Time(ms)": _Number,
        "Wait Time(ms)": _Number,
        "Synchronization Time(ms)": _Number,
        "Idle Time(ms)": _Number,
        "Wait Time Ratio": _Number,
        "Synchronization Time Ratio": _Number,
    },
    total=False,
)
"""``Communication Time Info``; the start keeps each digit."""

Bandwidth = TypedDict(
    "Bandwidth",
    {
        "Transit Size(MB)": _Number,
        "Transit Time(ms)": _Number,
        "Bandwidth(GB/s)": _Number,
        "Large Packet Ratio": _Number,
        "Size Distribution": _Sizes,
    },
    total=False,
)
"""``Communication Bandwidth Info`` of one link type; sizes of packets have their count and time."""

Transfer = TypedDict(
    "Transfer",
    {
        "Transport Type": str | None,
        "Transit Size(MB)": _Number,
        "Transit Time(ms)": _Number,
        "Bandwidth(GB/s)": _Number,
        "Op Name": str | None,
    },
    total=False,
)
"""The transfers between two ranks."""


class GroupEntry(TypedDict, total=False):
    """A group of ``comm_group_parallel_info``."""

    type: str | None
    rank_set: list[_Rank] | str | None
    group_name: str | int | None
    group_id: str | int | None
    pg_name: str | None


Members: TypeAlias = list[_Rank]
"""The ranks of a group."""

Kind: TypeAlias = type[Times] | type[Bandwidth] | type[Transfer] | type[GroupEntry]
_TYPES: Mapping[Any, Mapping[str, Any]] = {
    kind: get_type_hints(kind, include_extras=True) for kind in (Times, Bandwidth, Transfer, GroupEntry)
}


def fields_of(plain: Any, kind: Kind, source: str, notes: Notes) -> Row:
    """Return the values of an entry, checked by type."""
    if not isinstance(plain, dict):
        if plain is not None:
            notes.warning(source, "the values of an entry are no JSON object, and are absent")
        return {}
    types = _TYPES[kind]
    values: Row
    try:
        values = dict(msgspec.convert(plain, kind))
        problems: list[str] = []
    except msgspec.ValidationError:
        values, problems = read_fields(kind, plain)
    else:
        if len(values) == len(plain) and START not in values:
            return values  # true for nearly every entry of a large file
    start = values.get(START)
    if start is not None and not (start.is_finite() and abs(start) < _MOST):
        problems.append(f"{START} is damaged (it is no time)")
        del values[START]
    for key in plain.keys() - types.keys():
        if isinstance(plain[key], (dict, list)):
            problems.append(f"{key} is unknown, and neither a number nor a text")
        else:
            values[key] = float(plain[key]) if isinstance(plain[key], Decimal) else plain[key]
    for problem in problems:
        notes.warning(source, f"{problem}; left out")
    return {key: values[key] for key in plain if key in values}
