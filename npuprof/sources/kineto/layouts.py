"""Layouts of the arguments of torch's traces, by category."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from npuprof.sources.trace.event import Event
from npuprof.sources.trace.layouts import Layout, Layouts, Text, Whole

_NOTHING = msgspec.Raw(b"")


class _OperatorArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    sequence_number: Whole = msgspec.field(default=None, name="Sequence number")
    forward_thread_id: Whole = msgspec.field(default=None, name="Fwd thread id")
    input_shapes: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    input_dtypes: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    stack: Text = msgspec.field(default=None, name="Call stack")
    module: Text = msgspec.field(default=None, name="Module Hierarchy")


class _AnnotationArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")


class _PythonArgs(msgspec.Struct, gc=False):
    id: Whole = msgspec.field(default=None, name="Python id")
    parent_id: Whole = msgspec.field(default=None, name="Python parent id")


class _CallArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
    correlation: Whole = None


class _TaskArgs(msgspec.Struct, gc=False):
    external_id: Whole = msgspec.field(default=None, name="External id")
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
    rank_size: Whole = msgspec.field(default=None, name="Group size")


class _MemoryArgs(msgspec.Struct, gc=False):
    size_bytes: Whole = msgspec.field(default=None, name="Bytes")
    allocated_bytes: Whole = msgspec.field(default=None, name="Total Allocated")
    reserved_bytes: Whole = msgspec.field(default=None, name="Total Reserved")
    device: Whole = msgspec.field(default=None, name="Device Id")
    device_type: Whole = msgspec.field(default=None, name="Device Type")
    address: Whole = msgspec.field(default=None, name="Addr")


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


def _layout(name: str, args: type[msgspec.Struct], names: str = "", raw: str = "", floats: str = "") -> Layout:
    return Layout(name, args, frozenset(names.split()), frozenset(floats.split()), dict.fromkeys(raw.split(), joined))


_PLAIN = _layout("plain", _NoArgs)
_CALL = _layout("call", _CallArgs)
_TASK = _layout("task", _TaskArgs, "collective data_type group", "grid block", "occupancy_percent")
_ANNOTATION = _layout("annotation", _AnnotationArgs)
_BY_CATEGORY = {
    "cpu_op": _layout("operator", _OperatorArgs, "stack module", "input_shapes input_dtypes"),
    "user_annotation": _ANNOTATION,
    "gpu_user_annotation": _layout("device_annotation", _AnnotationArgs),
    "python_function": _layout("python", _PythonArgs),
    "cuda_runtime": _CALL,
    "cuda_driver": _CALL,
    "kernel": _TASK,
    "gpu_memcpy": _TASK,
    "gpu_memset": _TASK,
    "cpu_instant_event": _layout("memory", _MemoryArgs),
    "Trace": _layout("span", _NoArgs),  # the whole recording as one slice
    "overhead": _layout("overhead", _NoArgs),  # slices of the profiler itself
}


def _known_layout(category: str | None) -> Layout | None:
    return _BY_CATEGORY.get(category or "")


def _of(category: str | None, _: Sequence[Event]) -> Layout:
    return _known_layout(category) or _PLAIN


KINETO = Layouts(_known_layout, _of)
