"""Host-side memory: blocks and state of the allocator (task_memory_info), and graph compilation.

Frames of graph compilation (planned memory, fused operators) have the names and columns of the vendor's files, sizes
in KB of 1024 bytes.

Source: raw/FORMAT.md section 4.2 and sources/RESULTS.md section 4.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, Records
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.records import enums, layouts

_STREAM = "additional.task_memory_info"
_COMPONENT = "GE"  # for any allocator: the vendor uses no other name
_MOST = 1 << 62  # a larger value is damage, neither a size nor an address


@dataclass(frozen=True)
class Events:
    """Allocations and releases in order of time, and their valid records."""

    host: RawHost
    records: Records
    time_ns: Int64
    size: Int64


def add_tables(host: RawHost, frames: MutableMapping[str, pd.DataFrame]) -> None:
    """Read task_memory_info: add `allocations`, and the rows of the allocator to `memory`."""
    events = read_events(host)
    frames["allocations"] = allocations_table(events)
    if len(events.records):
        frames["memory"] = tables.sort_by_time(stacked([frames["memory"], memory_rows(events)]))
        host.keep(_STREAM, "memory", len(events.records))
        host.notes.ledger.make(host.streams.account(_STREAM), "allocations", len(frames["allocations"]))


def read_events(host: RawHost) -> Events:
    """Read task_memory_info. Records of zero or impossible sizes are noted and skipped."""
    records, _ = host.read(_STREAM, layouts.TASK_MEMORY, used=False)
    sound = (records["allocated"] < _MOST) & (records["reserved"] < _MOST) & (records["address"] < _MOST)
    size = records["size"].astype(np.int64)
    sound &= (size > -_MOST) & (size < _MOST) & (size != 0)
    if not bool(sound.all()):
        host.skip(_STREAM, "records of impossible sizes skipped", int((~sound).sum()), label="task_memory_info")
        records = records[sound]
    stamps = records["stamp"]
    if bool((stamps[1:] < stamps[:-1]).any()):
        records = records[np.argsort(stamps, kind="stable")]
    return Events(host, records, host.clock.to_ns(records["stamp"]), records["size"].astype(np.int64))


def memory_rows(events: Events) -> pd.DataFrame:
    """Build rows of `memory`: allocated and reserved bytes after each event, the vendor's ``GE``."""
    records = events.records
    columns = {
        "time_ns": events.time_ns,
        "device_id": records["device"].astype(np.int64),
        "component": tables.categorical(np.zeros(len(records), np.int64), [_COMPONENT]),
        "allocated_bytes": records["allocated"].astype(np.int64),
        "reserved_bytes": records["reserved"].astype(np.int64),
    }
    return tables.build("memory", columns)


def allocations_table(events: Events) -> pd.DataFrame:
    """Build `allocations`: each allocation with the next release of its address.

    A block that was never released has no `released_ns`. A release of a block from before the collection is a row with
    a negative size and no `allocated_ns`. The allocator's state at both ends is added after the columns of the schema.
    """
    records, size = events.records, events.size
    taken_rows, freed = np.flatnonzero(size > 0), np.flatnonzero(size < 0)
    key = _blocks(records)
    begin, end = joins.pair(key[taken_rows], taken_rows, key[freed], freed)  # the order of events is sufficient
    release = np.full(len(records), -1, np.int64)
    release[taken_rows[begin]] = freed[end]
    unmatched = np.setdiff1d(freed, freed[end], assume_unique=True)
    release[unmatched] = unmatched
    rows = np.sort(np.concatenate((taken_rows, unmatched)))
    release, was_taken = release[rows], size[rows] > 0
    columns = {
        "name": events.host.names.names_of(records["name"][rows]).where(records["name"][rows] != 0).categorical(),
        "size_bytes": size[rows],
        "allocated_ns": pd.arrays.IntegerArray(events.time_ns[rows], ~was_taken),
        "released_ns": _at(events.time_ns, release),
        "device_id": pd.arrays.IntegerArray(records["device"][rows].astype(np.int64), np.zeros(len(rows), bool)),
        "address": records["address"][rows].astype(np.int64),
    }
    for moment, at in (("allocation", np.where(was_taken, rows, -1)), ("release", release)):
        for field, name in (("allocated", "total_allocated"), ("reserved", "total_reserved")):
            columns[f"{moment}_{name}_bytes"] = _at(records[field].astype(np.int64), at)
    return tables.build("allocations", columns)


def _blocks(records: Records) -> Int64:
    """Return numbers of distinct (device, address) pairs."""
    devices, _ = pd.factorize(records["device"])
    addresses, distinct = pd.factorize(records["address"])
    return devices.astype(np.int64) * len(distinct) + addresses


def _at(values: Int64, rows: Int64) -> pd.arrays.IntegerArray:
    if not len(values):
        return pd.arrays.IntegerArray(np.zeros(len(rows), np.int64), np.ones(len(rows), bool))
    return pd.arrays.IntegerArray(values[rows], rows < 0)


_KB = 1024.0
_END_OF_GRAPH = 0xFFFFFFFF
_MEMORY = ("Input", "Output", "Weight", "Workspace", "Total")


def read_statistics(host: RawHost, api: Api) -> dict[str, pd.DataFrame]:
    """Read the non-empty frames of both kinds, by the name of the vendor's file."""
    frames = {"static_op_mem": read_static_memory(host), "fusion_op": read_fused_operators(host, api)}
    return {name: frame for name, frame in frames.items() if len(frame)}


def read_static_memory(host: RawHost) -> pd.DataFrame:
    """Read static_op_mem as the vendor's ``static_op_mem`` file; a block without a last node lives until the end."""
    records, _ = host.read("additional.static_op_mem", layouts.STATIC_MEMORY)
    nodes = {name: records[name].astype(np.int64) for name in ("first_node", "last_node")}
    return pd.DataFrame(
        {
            "Device_id": _constant("host", len(records)),
            "Op Name": host.names.names_of(records["op_name"]).categorical(),
            "Model Name": host.names.names_of(records["model"]).where(records["model"] != 0).categorical(),
            "Graph ID": records["graph"].astype(np.int64),
            "Node Index Start": nodes["first_node"],
            "Node Index End": pd.arrays.IntegerArray(nodes["last_node"], nodes["last_node"] == _END_OF_GRAPH),
            "Size(KB)": records["size"].astype(np.int64) / _KB,
        }
    )


def read_fused_operators(host: RawHost, api: Api) -> pd.DataFrame:
    """Read fusion_op_info as the vendor's ``fusion_op`` file; graph_id_map names the models."""
    records, _ = host.read("additional.fusion_op_info", layouts.FUSION_OP)
    graphs, _ = host.read("additional.graph_id_map", layouts.GRAPH_ID)
    models = {model: host.names.name_of(name) for model, name in zip(*_lists(graphs, "model", "name"), strict=True)}
    call = take(api.nearest(enums.MODEL), api.at(records["thread"], records["stamp"])) if len(records) else None
    model = np.zeros(0, np.int64) if call is None else take(api.model[api.rows].astype(np.int64), call)
    counts = np.minimum(records["count"], records["parts"].shape[1]).tolist()
    parts = zip(records["parts"].tolist(), counts, strict=True)
    columns: dict[str, Any] = {
        "Device_id": _constant("host", len(records)),
        "Model Name": pd.Categorical([models.get(number) for number in model.tolist()]),
        "Model ID": pd.arrays.IntegerArray(model, model < 0),
        "Fusion Op": host.names.names_of(records["op_name"]).categorical(),
        "Original Ops": pd.Categorical([";".join(map(host.names.name_of, names[:count])) for names, count in parts]),
    }
    for number, kind in enumerate(_MEMORY):
        columns[f"Memory {kind}(KB)"] = records["memory"][:, number].astype(np.float64) / _KB
    return pd.DataFrame(columns)


def _lists(records: Any, *fields: str) -> list[list[int]]:
    return [records[field].tolist() for field in fields]


def _constant(name: str, count: int) -> pd.Categorical:
    return pd.Categorical.from_codes(np.zeros(count, np.int8), categories=pd.Index([name], dtype="object"))
