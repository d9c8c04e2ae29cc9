"""Layouts: the arguments of each kind of slice, how to recognise the kind, and how to detect damaged arguments.

The category or the argument names determine the layout, never process number or position: versions renumber processes,
and at Level0 a process has no name.

Source: sources/RESULTS.md section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import compress, islice
from typing import NamedTuple

import msgspec
import numpy as np

from npuprof.arrays import Records
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import UNREADABLE, arguments_of

Whole = int | str | float | None
Text = str | int | float | None


class _OperatorArgs(msgspec.Struct, gc=False):
    sequence_number: Whole = msgspec.field(default=None, name="Sequence number")
    forward_thread_id: Whole = msgspec.field(default=None, name="Fwd thread id")
    input_shapes: Text = msgspec.field(default=None, name="Input Dims")
    input_dtypes: Text = msgspec.field(default=None, name="Input type")
    stack: Text = msgspec.field(default=None, name="Call stack")


class _QueueArgs(msgspec.Struct, gc=False):
    correlation_id: Whole = None


class _PythonArgs(msgspec.Struct, gc=False):
    id: Whole = msgspec.field(default=None, name="Python id")
    parent_id: Whole = msgspec.field(default=None, name="Python parent id")


class _ApiArgs(msgspec.Struct, gc=False):
    level: Text = None
    item: Text = msgspec.field(default=None, name="item_id")
    connection_id: Whole = None


class _TaskArgs(msgspec.Struct, gc=False):
    task_type: Text = msgspec.field(default=None, name="Task Type")
    physic_stream_id: Whole = msgspec.field(default=None, name="Physic Stream Id")
    stream_id: Whole = msgspec.field(default=None, name="Stream Id")
    task_id: Whole = msgspec.field(default=None, name="Task Id")
    batch_id: Whole = msgspec.field(default=None, name="Batch Id")
    context_id: Whole = msgspec.field(default=None, name="Subtask Id")
    connection_id: Whole = None
    copied_bytes: Whole = msgspec.field(default=None, name="size(B)")
    copy_direction: Text = msgspec.field(default=None, name="operation")


class _CommunicationArgs(msgspec.Struct, gc=False):
    connection_id: Whole = None
    data_type: Text = None
    algorithm: Text = msgspec.field(default=None, name="alg_type")
    count: Whole = None
    task_type: Text = msgspec.field(default=None, name="task type")
    stream_id: Whole = msgspec.field(default=None, name="stream id")
    task_id: Whole = msgspec.field(default=None, name="task id")
    context_id: Whole = msgspec.field(default=None, name="context id")
    src_rank: Whole = msgspec.field(default=None, name="src rank")
    dst_rank: Whole = msgspec.field(default=None, name="dst rank")
    transport: Text = msgspec.field(default=None, name="transport type")
    size_bytes: Whole = msgspec.field(default=None, name="size(Byte)")
    link: Text = msgspec.field(default=None, name="link type")
    bandwidth_gb_s: Whole = msgspec.field(default=None, name="bandwidth(GB/s)")
    rank_size: Whole = None
    relay: Text = None
    retry: Text = None
    step_data_type: Text = msgspec.field(default=None, name="data type")
    notify_id: Whole = None
    estimated_us: Whole = msgspec.field(default=None, name="duration estimated(us)")


class _MarkArgs(msgspec.Struct, gc=False):
    kind: Text = msgspec.field(default=None, name="event_type")
    domain: Text = None
    mark_category: Whole = msgspec.field(default=None, name="Category")


class _IterationArgs(msgspec.Struct, gc=False):
    step: Whole = msgspec.field(default=None, name="Iteration ID")


class _PlainArgs(msgspec.Struct, gc=False):
    """Ignore all arguments."""


@dataclass(frozen=True)
class SliceLayout:
    """A kind of slice: the struct of its arguments, and which fields are names or floats; other fields are integers.

    `raw` names are computed from the undecoded bytes of an argument.
    """

    name: str
    args: type[msgspec.Struct]
    names: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    raw: Mapping[str, Callable[[bytes], str | None]] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that come from the arguments."""
        return self.args.__struct_fields__


def _layout(name: str, args: type[msgspec.Struct], names: str = "", floats: str = "") -> SliceLayout:
    return SliceLayout(name, args, frozenset(names.split()), frozenset(floats.split()))


PLAIN = _layout("plain", _PlainArgs)
OPERATOR = _layout("operator", _OperatorArgs, "input_shapes input_dtypes stack")
QUEUE = _layout("queue", _QueueArgs)
PYTHON = _layout("python", _PythonArgs)
API = _layout("api", _ApiArgs, "level item")
TASK = _layout("task", _TaskArgs, "task_type copy_direction")
COMMUNICATION = _layout(
    "communication",
    _CommunicationArgs,
    "data_type algorithm task_type transport link relay retry step_data_type",
    "bandwidth_gb_s estimated_us",
)
MARK = _layout("mark", _MarkArgs, "kind domain")
PAUSE = _layout("pause", _PlainArgs)
ITERATION = _layout("iteration", _IterationArgs)

_BY_CATEGORY = {
    "Iteration Time": ITERATION,
    "GC": PAUSE,
    "cpu_op": OPERATOR,
    "user_annotation": OPERATOR,
    "enqueue": QUEUE,
    "dequeue": QUEUE,
    "python_function": PYTHON,
}
_BY_KEY = (
    ("Task Type", TASK),
    ("Sequence number", OPERATOR),  # MindSpore writes no category for operators
    ("level", API),
    ("alg_type", COMMUNICATION),
    ("data_type", COMMUNICATION),
    ("task type", COMMUNICATION),
    ("notify_id", COMMUNICATION),
    ("event_type", MARK),
    ("Physic Stream Id", TASK),  # the device side of a mark has no further argument
    ("Model Name", API),  # graph mode's own kind of call
)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])  # skips values without decoding them
_LISTED_KEYS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_DECODED_EVENTS = 8  # events inspected per kind, since the arguments of the first may be damaged


def known_layout(category: str | None) -> SliceLayout | None:
    """Return the layout that a category determines; None for others."""
    return _BY_CATEGORY.get(category or "")


def layout_of(category: str | None, events: Sequence[Event]) -> SliceLayout:
    """Return the layout of slices with the same process and category."""
    known = known_layout(category)
    if known is not None:
        return known
    decoded = islice((keys for event in events if (keys := keys_of(event))), _DECODED_EVENTS)
    return next((layout for keys in decoded for key, layout in _BY_KEY if key in keys), PLAIN)


def keys_of(event: Event) -> frozenset[str]:
    """Return the argument names of an event; empty if they cannot be read."""
    if bytes(event.args) == b"{}":
        return frozenset()
    with suppress(*UNREADABLE):
        return frozenset(_KEYS.decode(event.args))
    return frozenset(arguments_of(event))


class Layouts(NamedTuple):
    """Rules to recognise layouts: by category, or by category and arguments."""

    known: Callable[[str | None], SliceLayout | None]
    of: Callable[[str | None, Sequence[Event]], SliceLayout]


VENDOR = Layouts(known_layout, layout_of)
"""Timelines of CANN, torch_npu and MindSpore."""


_MAX_EXAMINED = 100  # rows per batch: damage is rare, and an argument that many rows lack is not damaged
_SIMILAR = 0.8


def lost_arguments(layout: SliceLayout, events: Sequence[Event], columns: Mapping[str, Records]) -> tuple[int, int]:
    """Count events of a layout that lack an argument which most have: with a misspelt name, and without arguments.

    A name that lost or changed a character leaves the JSON valid and the argument absent. `columns` are the arguments
    as they were read.
    """
    names = _argument_names(layout.args)
    absent = {names[name]: _absent(values) for name, values in columns.items()}
    usual = {name: rows for name, rows in absent.items() if 0 < np.count_nonzero(rows) <= len(events) // 2}
    if not usual:
        return 0, 0
    renamed = without = 0
    known_names, lacks = frozenset(names.values()), np.array(list(usual.values()))
    rows = np.flatnonzero(lacks.any(axis=0))[:_MAX_EXAMINED]
    for row, keys in zip(rows.tolist(), _keys_of_each([events[row] for row in rows.tolist()]), strict=True):
        without += not keys and layout is not COMMUNICATION  # operators of old results have no arguments
        if not known_names.issuperset(keys):
            lacking = tuple(compress(usual, lacks[:, row].tolist()))
            renamed += any(_is_nearly(key, lacking) for key in keys if key not in known_names)
    return renamed, without


def _keys_of_each(events: Sequence[Event]) -> Sequence[Collection[str]]:
    """Return the argument names of each event, decoded in one call if all are readable."""
    with suppress(*UNREADABLE):
        return _LISTED_KEYS.decode(b"[" + b",".join([event.args for event in events]) + b"]")
    return list(map(keys_of, events))


@cache
def _argument_names(args: type[msgspec.Struct]) -> dict[str, str]:
    """Return the argument name of each field; resolving the fields takes a millisecond."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(args)}


def _absent(values: Records) -> Records:
    none = ABSENT if values.dtype == np.int64 else -1
    return np.isnan(values) if values.dtype == np.float64 else values == none


@lru_cache(maxsize=4096)
def _is_nearly(key: str, names: tuple[str, ...]) -> bool:
    return bool(get_close_matches(key, names, 1, _SIMILAR))
