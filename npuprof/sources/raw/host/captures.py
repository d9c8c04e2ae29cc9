"""Captured graphs: the streams of their tasks, and the operators of these tasks.

A captured graph is launched once and runs many times on its streams, outside any launch call.

Source: raw/FORMAT.md sections 4 (runtime types 803, 805 and 809), 4.1 and 4.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64, Records, Uint8
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.host.tensors import describe_tensors, operand_lists
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts

_STREAMS, _STREAMS_V2, _V2 = "compact.capture_stream_info", "compact.capture_stream_info_v2", 809
_OPERATORS, _LONG_OPERATORS = "additional.capture_op_info", "variable.capture_op_info"
_DESTROYED = 1
_HEADER = struct.Struct("<HHIII")
_HEADER_BYTES = 24
_MOST_BYTES = 50_000  # tensors per operator, which has only a few
_TENSOR_BYTES = layouts.TENSOR.itemsize


@dataclass(frozen=True)
class CaptureStreams:
    """Streams of captured graphs; parallel arrays, a row per stream of a graph."""

    # device, stream, original, model: the device, the stream that runs the graph, the captured stream, and the graph's
    # number.
    device: Int64
    stream: Int64
    original: Int64
    model: Int64
    # start_ns, end_ns: lifetime of the stream in UTC epoch nanoseconds; it ends at the largest int64 if never
    # destroyed.
    start_ns: Int64
    end_ns: Int64

    def model_of(self, device: Int64, stream: Int64, start_ns: Int64) -> Int64:
        """Return the graph of tasks by their stream and time; -1 for none."""
        at = self._at(device, stream, start_ns)
        return np.where(at >= 0, np.append(self.model, -1)[at], -1)

    def original_of(self, device: Int64, stream: Int64, start_ns: Int64) -> Int64:
        """Return the captured stream of tasks; the task's stream outside of graphs."""
        at = self._at(device, stream, start_ns)
        return np.where(at >= 0, np.append(self.original, -1)[at], stream)

    def _at(self, device: Int64, stream: Int64, start_ns: Int64) -> Int64:
        at = joins.latest(_stream_keys(device, stream), start_ns, _stream_keys(self.device, self.stream), self.start_ns)
        return np.where((at >= 0) & (start_ns <= np.append(self.end_ns, 0)[at]), at, -1)


@dataclass(frozen=True)
class CapturedOperators:
    """Operators of captured graphs, a row per operator, by task ids."""

    # device, stream, task: the ids of the task.
    device: Int64
    stream: Int64
    task: Int64
    stamp_ns: Int64  # time of the capture, UTC epoch nanoseconds
    # op_name, op_type, core, blocks, ratio, hf32, dynamic, attributes, tensors: as in `Operators`.
    op_name: NameColumn
    op_type: NameColumn
    core: NameColumn
    blocks: Int64
    ratio: Int64
    hf32: Bools
    dynamic: Bools
    attributes: NameColumn
    tensors: dict[str, NameColumn]

    def __len__(self) -> int:
        return len(self.stamp_ns)

    def find(self, device: Int64, stream: Int64, task: Int64, start_ns: Int64) -> Int64:
        """Return the operator of tasks: the last captured before them with their ids; -1 for none."""
        captured, wanted = _codes((self.device, self.stream, self.task), (device, stream, task))
        return joins.latest(wanted, start_ns, captured, self.stamp_ns)


def read_streams(host: RawHost) -> CaptureStreams:
    """Read both versions of capture_stream_info. The end record of a graph ends all its streams."""
    parts = [_columns(host, name) for name in (_STREAMS, _STREAMS_V2)]
    device, stream, original, model, status, stamp = (np.concatenate(part) for part in zip(*parts, strict=True))
    is_end = status == _DESTROYED
    keys = device << 32 | model
    stamp_ns = host.clock.to_ns(stamp.view(np.uint64))
    starts, ends = np.flatnonzero(~is_end), np.flatnonzero(is_end)
    # Searched backwards in time: the last match is the first that follows.
    at = joins.latest(keys[starts], -stamp_ns[starts], keys[ends], -stamp_ns[ends])
    never = np.iinfo(np.int64).max
    end_ns = np.where(at >= 0, np.append(stamp_ns[ends], never)[at], never)
    return CaptureStreams(device[starts], stream[starts], original[starts], model[starts], stamp_ns[starts], end_ns)


def read_statistics(streams: CaptureStreams) -> dict[str, pd.DataFrame]:
    """Build ``capture_stream``, a row per stream of a captured graph; `Destroyed(ns)` may be absent."""
    if not len(streams.model):
        return {}
    alive = streams.end_ns == np.iinfo(np.int64).max
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Device_id": streams.device,
            "Model ID": streams.model,
            "Stream ID": streams.stream,
            "Original Stream ID": streams.original,
            "Captured(ns)": streams.start_ns,
            "Destroyed(ns)": pd.arrays.IntegerArray(np.where(alive, 0, streams.end_ns), alive),
        }
    )
    return {"capture_stream": frame}


def read_operators(host: RawHost) -> CapturedOperators:
    """Read capture_op_info: records of fixed length with three tensors, and records of variable length."""
    records, aging = host.read(_OPERATORS, layouts.CAPTURE_OP_RECORD)
    long, long_tensors, owner = _read_long(host)
    held = np.minimum(records["count"], records["tensors"].shape[1])
    cut = int((records["count"] > held).sum())
    if cut:
        host.notes.warning(
            "capture_op_info", "records that claim more tensors than they hold; those held are kept", cut
        )
    rows, columns = np.nonzero(np.arange(records["tensors"].shape[1]) < held[:, None])
    every = np.concatenate((records["tensors"][rows, columns], long_tensors))
    fixed = np.concatenate((records["fixed"], long))
    count = len(fixed)
    infos, operator = _as_tensor_infos(every, np.concatenate((rows, owner + len(records))))
    return CapturedOperators(
        device=fixed["device"].astype(np.int64),
        stream=fixed["stream"].astype(np.int64),
        task=fixed["task"].astype(np.int64),
        stamp_ns=host.clock.to_ns(fixed["stamp"]),
        op_name=host.names.names_of(fixed["op_name"]),
        op_type=host.names.names_of(fixed["op_type"]),
        core=NameColumn.lookup(fixed["task_type"], lambda value: enums.GE_TASK_TYPES.get(value) or str(value)),
        blocks=fixed["blocks"].astype(np.int64),
        ratio=fixed["ratio"].astype(np.int64),
        hf32=(fixed["flags"] & 1).astype(bool),
        dynamic=np.concatenate((aging, np.zeros(len(long), bool))),
        attributes=host.names.names_of(fixed["attributes"]).where(fixed["attributes"] != 0),
        tensors=describe_tensors(operand_lists(infos), operator, count, host.notes, host.names.formats),
    )


def _columns(host: RawHost, name: str) -> list[Int64]:
    plain, _ = host.read(name, layouts.CAPTURE_STREAM)
    is_v2 = (plain["type"] == _V2) | (name == _STREAMS_V2)
    longer = np.ascontiguousarray(plain).view(layouts.CAPTURE_STREAM_V2)[is_v2]
    fields = ("device", "model_stream", "original_stream", "model", "status", "stamp")
    return [np.concatenate([part[field].astype(np.int64) for part in (plain[~is_v2], longer)]) for field in fields]


def _read_long(host: RawHost) -> tuple[Records, Records, Int64]:
    """Read records of variable length: the fixed part, all tensors, and the record of each tensor."""
    parts = [host.streams.read_bytes(f"{age}.{_LONG_OPERATORS}") for age in ("unaging", "aging")]
    content = np.concatenate(parts)
    starts, lengths = _walk(host, content.tobytes())
    fixed = _slice_records(content, starts, layouts.CAPTURE_OP)
    if len(starts):
        host.notes.ledger.read(host.streams.account(_LONG_OPERATORS), len(starts))
    room = (lengths - (layouts.CAPTURE_OP.itemsize - _HEADER_BYTES)) // _TENSOR_BYTES
    held = np.minimum(fixed["count"].astype(np.int64), room)
    sound = host.are_sound(_LONG_OPERATORS, fixed)
    starts, held, fixed = starts[sound], held[sound], fixed[sound]
    if len(starts):
        host.notes.ledger.use(host.streams.account(_LONG_OPERATORS), len(starts))
    owner = np.repeat(np.arange(len(starts)), held)
    turn = np.arange(len(owner)) - np.repeat(np.cumsum(held) - held, held)
    return (
        fixed,
        _slice_records(content, starts[owner] + layouts.CAPTURE_OP.itemsize + turn * _TENSOR_BYTES, layouts.TENSOR),
        owner,
    )


def _walk(host: RawHost, content: bytes) -> tuple[Int64, Int64]:
    """Return consecutive records, resuming at the next magic word after damage."""
    starts, lengths = [], []
    at = lost_count = 0
    while at + layouts.CAPTURE_OP.itemsize <= len(content):
        magic, _, _, _, length = _HEADER.unpack_from(content, at)
        end = at + _HEADER_BYTES + length
        smallest = layouts.CAPTURE_OP.itemsize - _HEADER_BYTES
        if magic == layouts.MAGIC and smallest <= length <= _MOST_BYTES and end <= len(content):
            starts.append(at)
            lengths.append(length)
            at = end
            continue
        following = content.find(layouts.MAGIC.to_bytes(2, "little"), at + 1)
        following = len(content) if following < 0 else following
        lost_count += following - at
        at = following
    lost_count += max(len(content) - at, 0)
    if lost_count:
        host.notes.warning(_LONG_OPERATORS, "damaged or cut bytes skipped", lost_count)
    return np.array(starts, np.int64), np.array(lengths, np.int64)


def _slice_records(content: Uint8, starts: Int64, record: np.dtype[Any]) -> Records:
    rows: Uint8 = content[starts[:, None] + np.arange(record.itemsize)]
    return np.ascontiguousarray(rows).view(record).reshape(len(starts))


def _as_tensor_infos(every: Records, owner: Int64) -> tuple[Records, Int64]:
    """Return tensors as tensor_info records, and each record's operator."""
    turn = joins.turns(owner)
    width = layouts.TENSORS_A_RECORD
    first = turn % width == 0
    record = np.cumsum(first) - 1
    infos = np.zeros(int(first.sum()), layouts.TENSOR_INFO)
    infos["tensors"][record, turn % width] = every
    infos["count"] = np.bincount(record, minlength=len(infos))
    return infos, owner[first]


def _stream_keys(device: Int64, stream: Int64) -> Int64:
    return device << 32 | stream


def _codes(first: tuple[Int64, ...], second: tuple[Int64, ...]) -> tuple[Int64, Int64]:
    """Return codes that are equal for equal rows of ids."""
    codes = np.zeros(len(first[0]) + len(second[0]), np.int64)
    for left, right in zip(first, second, strict=True):
        values, distinct = pd.factorize(np.concatenate((left, right)))
        codes, _ = pd.factorize(codes * len(distinct) + values)
    return codes[: len(first[0])].astype(np.int64), codes[len(first[0]) :].astype(np.int64)
