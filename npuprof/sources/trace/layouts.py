"""What the events of a timeline carry in ``args``, by the kind of event, and how to know the kind.

An event is known by its category or by the keys of its arguments, never by its process number or its
place: processes are renumbered between versions, and at Level0 one of them has no name.

Source: sources/RESULTS.md section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import arguments_of

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
    """Nothing of the arguments is read."""


@dataclass(frozen=True)
class Layout:
    """One kind of slice: the struct of its arguments, and which of its fields are names or floats.

    The other fields are whole numbers. Names may be made of the undecoded bytes of an argument, by a function.
    """

    name: str
    args: type[msgspec.Struct]
    names: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    raw: Mapping[str, Callable[[bytes], str | None]] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the arguments give."""
        return self.args.__struct_fields__


def _layout(name: str, args: type[msgspec.Struct], names: str = "", floats: str = "") -> Layout:
    return Layout(name, args, frozenset(names.split()), frozenset(floats.split()))


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
    ("Sequence number", OPERATOR),  # MindSpore gives its operators no category
    ("level", API),
    ("alg_type", COMMUNICATION),
    ("data_type", COMMUNICATION),
    ("task type", COMMUNICATION),
    ("notify_id", COMMUNICATION),
    ("event_type", MARK),
    ("Physic Stream Id", TASK),  # the device side of a mark has no more
    ("Model Name", API),  # graph mode's own call
)
_LOOKED_AT = 8  # events of a kind that have arguments, since those of the first may be damaged


def known_layout(category: str | None) -> Layout | None:
    """Return the layout of slices whose category alone tells it."""
    return _BY_CATEGORY.get(category or "")


def layout_of(category: str | None, events: Sequence[Event]) -> Layout:
    """Return the layout of slices of one process and category."""
    known = known_layout(category)
    if known is not None:
        return known
    told = islice((keys for event in events if (keys := keys_of(event))), _LOOKED_AT)
    return next((layout for keys in told for key, layout in _BY_KEY if key in keys), PLAIN)


def keys_of(event: Event) -> frozenset[str]:
    """Return the names of an event's arguments; none where they cannot be read."""
    return frozenset(arguments_of(event))


class Layouts(NamedTuple):
    """How the layout of slices is told: by the category alone, or by the category and their arguments."""

    known: Callable[[str | None], Layout | None]
    of: Callable[[str | None, Sequence[Event]], Layout]


VENDOR = Layouts(known_layout, layout_of)
"""Timelines of CANN, torch_npu and MindSpore."""
