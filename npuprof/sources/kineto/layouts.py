"""Layouts of the arguments of torch's traces, by category."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from npuprof.sources.trace.event import Event
from npuprof.sources.trace.layouts import Layouts, SliceLayout, Text, Whole, keys_of
from npuprof.sources.trace.torch_categories import kind_of_category

_NOTHING = msgspec.Raw(b"")
_EXAMINED = 8  # events of a kind, since the arguments of the first may be damaged


class _OperatorArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    sequence_number: Whole = msgspec.field(default=None, name="Sequence number")
    forward_thread_id: Whole = msgspec.field(default=None, name="Fwd thread id")
    input_shapes: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    old_shapes: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input dims")
    input_dtypes: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    stack: Text = msgspec.field(default=None, name="Call stack")
    module: Text = msgspec.field(default=None, name="Module Hierarchy")
    event: Whole = msgspec.field(default=None, name="Ev Idx")


class _AnnotationArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    event: Whole = msgspec.field(default=None, name="Ev Idx")


class _PythonArgs(msgspec.Struct, gc=False):
    id: Whole = msgspec.field(default=None, name="Python id")
    parent_id: Whole = msgspec.field(default=None, name="Python parent id")
    event: Whole = msgspec.field(default=None, name="Ev Idx")


class _CallArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    old_external_id: Whole = msgspec.field(default=None, name="external id")
    correlation: Whole = None


class _TaskArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    old_external_id: Whole = msgspec.field(default=None, name="external id")
    correlation: Whole = None
    device: Whole = None
    context: Whole = None
    stream: Whole = None
    copied_bytes: Whole = msgspec.field(default=None, name="bytes")
    registers_per_thread: Whole = msgspec.field(default=None, name="registers per thread")
    shared_memory_bytes: Whole = msgspec.field(default=None, name="shared memory")
    occupancy_percent: Whole = msgspec.field(default=None, name="est. achieved occupancy %")
    grid: msgspec.Raw = _NOTHING
    block: msgspec.Raw = _NOTHING
    collective: Text = msgspec.field(default=None, name="Collective name")
    data_type: Text = msgspec.field(default=None, name="dtype")
    count: Whole = msgspec.field(default=None, name="In msg nelems")
    group: Text = msgspec.field(default=None, name="Process Group Name")
    group_use: Text = msgspec.field(default=None, name="Process Group Description")
    group_ranks: msgspec.Raw = msgspec.field(default=_NOTHING, name="Process Group Ranks")
    rank_size: Whole = msgspec.field(default=None, name="Group size")
    src_rank: Whole = msgspec.field(default=None, name="Src Rank")
    dst_rank: Whole = msgspec.field(default=None, name="Dst Rank")
    splits: msgspec.Raw = msgspec.field(default=_NOTHING, name="In split size")


class _MemoryArgs(msgspec.Struct, gc=False):
    size_bytes: Whole = msgspec.field(default=None, name="Bytes")
    allocated_bytes: Whole = msgspec.field(default=None, name="Total Allocated")
    reserved_bytes: Whole = msgspec.field(default=None, name="Total Reserved")
    device: Whole = msgspec.field(default=None, name="Device Id")
    device_type: Whole = msgspec.field(default=None, name="Device Type")
    address: Whole = msgspec.field(default=None, name="Addr")
    event: Whole = msgspec.field(default=None, name="Ev Idx")


class _NoArgs(msgspec.Struct, gc=False):
    """Ignore all arguments."""


@lru_cache(maxsize=4096)
def joined(raw: bytes) -> str | None:
    """Convert a JSON list to shapes or dtypes as in tables: ``4,8;8,16`` or ``float;Scalar``; None for an empty list.

    Text that is not a list is kept unchanged.
    """
    if not raw:
        return None
    try:
        values = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(values, list):
        return None if values is None else str(values)
    return ";".join(",".join(map(str, value)) if isinstance(value, list) else str(value) for value in values) or None


def _layout(name: str, args: type[msgspec.Struct], names: str = "", raw: str = "", floats: str = "") -> SliceLayout:
    return SliceLayout(
        name, args, frozenset(names.split()), frozenset(floats.split()), dict.fromkeys(raw.split(), joined)
    )


_PLAIN = _layout("plain", _NoArgs)
_CALL = _layout("call", _CallArgs)
_TASK = _layout(
    "task",
    _TaskArgs,
    "collective data_type group group_use",
    "grid block group_ranks splits",
    "occupancy_percent",
)
_OPERATOR = _layout("operator", _OperatorArgs, "stack module", "input_shapes old_shapes input_dtypes")
_BY_KIND = {
    "operator": _OPERATOR,
    "annotation": _layout("annotation", _AnnotationArgs),
    "device_annotation": _layout("device_annotation", _AnnotationArgs),
    "python": _layout("python", _PythonArgs),
    "call": _CALL,
    "task": _TASK,
    "memory": _layout("memory", _MemoryArgs),
    "span": _layout("span", _NoArgs),
    "overhead": _layout("overhead", _NoArgs),
}
# Of categories of other devices and years: those of tasks have all of these.
_BY_ARGUMENTS = (
    (frozenset(["device", "stream", "correlation"]), _TASK),
    (frozenset(["cbid", "correlation"]), _CALL),
    (frozenset(["External id", "Ev Idx"]), _OPERATOR),
    (frozenset(["External id", "Record function id"]), _OPERATOR),
    (frozenset(["Bytes", "Device Type"]), _BY_KIND["memory"]),  # without a category until 2021
)


def _known_layout(category: str | None) -> SliceLayout | None:
    kind = kind_of_category(category)
    return None if kind is None else _BY_KIND[kind]


def _of(category: str | None, events: Sequence[Event]) -> SliceLayout:
    if (known := _known_layout(category)) is not None:
        return known
    seen = [keys_of(event) for event in events[:_EXAMINED]]
    return next((layout for keys in seen for needed, layout in _BY_ARGUMENTS if needed <= keys), _PLAIN)


KINETO = Layouts(_known_layout, _of)
