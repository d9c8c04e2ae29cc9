"""``cluster_analysis.db``: an analysis in one database, with the table names of 2024 or later.

Source: sources/RESULTS.md sections 5.7 and 6.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from npuprof import tables
from npuprof.sources.cluster.text_files import (
    COLUMNS,
    NO_RANKS,
    PLACES,
    Frames,
    as_text,
    groups_table,
    rank_columns,
    rank_of,
    ranks_of,
    split_totals,
)
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.database.checks import note_renamed
from npuprof.sources.database.connection import Database
from npuprof.sources.database.format import STEP_TIMES, TABLES
from npuprof.tables.ledger import STATISTICS

_DURATIONS = {column.to: column.name for column in TABLES[STEP_TIMES].columns if column.kind == "us"}
_LIMIT = 5_000_000
_MAX_UNKNOWN = 200
_MAX_ROWS = 1_000_000  # of an unknown table
STEPS = "ClusterStepTraceTime"
"""The table of the vendor's breakdown of steps."""
_GROUPS = ("CommunicationGroupMapping", "CommunicationGroup")
_BASE, _HOSTS, _DEVICES = "ClusterBaseInfo", "HostInfo", "RankDeviceMap"
_WHERE = {"step": "step", "ranks": "rank_set", "name": "hccl_op_name", "group": "group_name", "rank": "rank_id"}
_PAIR = {"src_rank": "src_rank", "dst_rank": "dst_rank"}
_LINK = {
    "Transit Size(MB)": "transit_size",
    "Transit Time(ms)": "transit_time",
    "Bandwidth(GB/s)": "bandwidth",
}
_PACKETS = {"Package Size(MB)": "package_size", "Count": "count", "Total Duration(ms)": "total_duration"}
_ELAPSED = "Elapse Time(ms)"
_TIMES = {
    "Start Timestamp(us)": "start_timestamp",
    _ELAPSED: "elapsed_time",
    "Transit Time(ms)": "transit_time",
    "Wait Time(ms)": "wait_time",
    "Synchronization Time(ms)": "synchronization_time",
    "Idle Time(ms)": "idle_time",
    "Wait Time Ratio": "wait_time_ratio",
    "Synchronization Time Ratio": "synchronization_time_ratio",
}
_TIME_TABLES = ("ClusterCommunicationTime", "ClusterCommAnalyzerTime")
_BANDWIDTH_TABLES = ("ClusterCommunicationBandwidth", "ClusterCommAnalyzerBandwidth")
_MATRIX_TABLES = ("ClusterCommunicationMatrix", "ClusterCommAnalyzerMatrix")
_KNOWN = {STEPS, *_GROUPS, _BASE, _HOSTS, _DEVICES, *_TIME_TABLES, *_BANDWIDTH_TABLES, *_MATRIX_TABLES}


def read_steps(database: Database) -> pd.DataFrame | None:
    """Read the table ``step_times`` in the columns of the text result; times are microseconds, contrary to the docs."""
    known = database.tables.get(STEPS, {})
    note_renamed(database, STEPS, ["step", "type", "index", *_DURATIONS.values()], PLACES)
    durations = {ours: theirs for ours, theirs in _DURATIONS.items() if theirs in known}
    places = [name for name in PLACES if name in known]
    records = database.records(STEPS, ["step", "type", "index", *durations.values(), *places], _LIMIT)
    if not records:
        return None
    step, types, indexes, *values = zip(*records, strict=True)
    columns: dict[str, Any] = {"step": _whole([str(value).removeprefix("step") for value in step])}
    columns |= {name: _nanoseconds(column) for name, column in zip(durations, values[: len(durations)], strict=True)}
    columns |= rank_columns(types, [str(index) for index in indexes])
    columns |= {name: _whole(map(str, column)) for name, column in zip(places, values[len(durations) :], strict=True)}
    database.accounts.read(STEPS, len(records))
    database.accounts.keep(STEPS, "step_times", len(records))
    devices = {entry["rank"]: entry["device"] for entry in read_devices(database)}
    columns["device_id"] = pd.array([devices.get(rank) for rank in columns["rank"]], dtype="Int64")
    return tables.build("step_times", columns)


def read_groups(database: Database) -> pd.DataFrame | None:
    """Read the groups, in the columns of :func:`npuprof.sources.cluster.text_files.read_groups`."""
    table = next((name for name in _GROUPS if name in database.tables), None)
    if table is None:
        return None
    columns = ["type", "rank_set", "group_name", "group_id", "pg_name"]
    note_renamed(database, table, columns)
    records = database.records(table, columns, _LIMIT)
    database.accounts.read(table, len(records))
    frame = groups_table(records)
    database.accounts.keep(table, STATISTICS, len(frame))
    database.accounts.leave_out(table, NO_RANKS, len(records) - len(frame))
    return frame


def read_devices(database: Database) -> list[dict[str, Any]]:
    """Read rank, device and host of each rank; None where unknown."""
    hosts = dict(database.facts(_HOSTS, ["hostUid", "hostName"], _LIMIT))
    rows = database.facts(_DEVICES, ["rankId", "deviceId", "hostUid"], _LIMIT)
    return [
        {"rank": rank_of(rank), "device": rank_of(device), "host": str(hosts.get(host) or host or "") or None}
        for rank, device, host in rows
        if rank_of(rank) is not None
    ]


def read_base(database: Database) -> dict[str, str]:
    """Read facts of the whole cluster: names and texts."""
    return {str(key): str(value) for key, value in database.facts(_BASE, ["key", "value"], _MAX_UNKNOWN)}


def read_communication(database: Database, groups: pd.DataFrame | None) -> Frames:
    """Read the frames of the text result; kind and ranks are taken from the groups."""
    ranks_by_group = {} if groups is None else dict(zip(groups["group"], groups["ranks"], strict=True))
    link = {"link": "band_type", **_LINK, "Large Packet Ratio": "large_packet_ratio"}
    between = {key: column for key, column in _WHERE.items() if key != "rank"} | _PAIR
    plans = (
        ("communication", _TIME_TABLES, {**_WHERE, **_TIMES}),
        ("communication_bandwidth", _BANDWIDTH_TABLES, {**_WHERE, **link}),
        ("communication_packets", _BANDWIDTH_TABLES, {**_WHERE, "link": "band_type", **_PACKETS}),
        (
            "communication_matrix",
            _MATRIX_TABLES,
            {**between, "Transport Type": "transport_type", **_LINK, "Op Name": "op_name"},
        ),
    )
    frames: Frames = {}
    for name, candidates, columns in plans:
        table = next((candidate for candidate in candidates if candidate in database.tables), None)
        if table is None:
            continue
        wanted = {**columns}
        if name == "communication":
            names = (columns[_ELAPSED], "elapse_time")
            wanted[_ELAPSED] = next((column for column in names if column in database.tables[table]), names[0])
        always = set(wanted.values()) - {_WHERE["ranks"]}  # only files of 2024 have ranks here
        note_renamed(database, table, always, {*_WHERE.values(), *_PACKETS.values(), *link.values()})
        listed = database.records(table, list(wanted.values()), _LIMIT)
        records = dict.fromkeys(listed)  # a link is repeated for each packet size
        if name == "communication" and len(records) < len(listed):
            database.notes.warning(table, "a row occurs twice, and is counted once", len(listed) - len(records))
        if database.accounts.read(table, len(listed)):
            database.accounts.keep(table, STATISTICS, len(listed))
        rows = [_in_text_order(dict(zip(wanted, record, strict=True)), ranks_by_group) for record in records]
        if name == "communication_packets":
            rows = [row for row in rows if row["Count"]]
        frames |= split_totals(name, rows)
    return frames


def read_unknown(database: Database) -> Frames:
    """Read every other table, such as the totals of a recipe, under its own name and columns."""
    unknown = [name for name in database.tables if name not in _KNOWN]
    frames = {}
    for name in unknown[:_MAX_UNKNOWN]:
        columns = list(database.tables[name])
        records = database.records(name, columns, _MAX_ROWS)
        database.accounts.read(name, len(records))
        database.accounts.keep(name, STATISTICS, len(records))
        frames[name] = pd.DataFrame.from_records(records, columns=columns)
    if len(unknown) > _MAX_UNKNOWN:
        database.notes.warning(database.path.name, "too many tables: this one is not read", len(unknown) - _MAX_UNKNOWN)
    return frames


def empty_groups() -> pd.DataFrame:
    """Return an empty frame of groups."""
    return pd.DataFrame(columns=list(COLUMNS))


def _in_text_order(row: dict[str, Any], ranks_by_group: dict[str, str]) -> dict[str, Any]:
    """Return a row with the columns of the text result in order: step, kind, ranks, name, group, then the others."""
    name = str(row.pop("name") or "")
    group = str(row.pop("group") or "")
    first = {
        "step": str(row.pop("step") or "").removeprefix("step"),
        "kind": _kind(name),
        "ranks": as_text(ranks_of(row.pop("ranks"))) or ranks_by_group.get(group),
        "name": name,
        "group": group,
    }
    row_ranks: dict[str, Any] = {key: rank_of(row.pop(key)) for key in ("rank", "src_rank", "dst_rank") if key in row}
    return {**first, **row_ranks, **row}


def _kind(name: str) -> str | None:
    """Return the kind of an operator from its name, by the vendor's rule; None for totals."""
    lower = name.lower()
    if lower.startswith("total"):
        return None
    return "p2p" if any(word in lower for word in ("send", "recv", "receive")) else "collective"


def _whole(texts: Any) -> Any:
    values = [scaled_one(text, 1) for text in texts]
    return pd.array([pd.NA if value is None or value < 0 else value for value in values], dtype="Int64")


def _nanoseconds(values: Any) -> Any:
    """Convert microseconds to nanoseconds from the shortest text of each number, the form in the text result."""
    known = [scaled_one(repr(value), US_TO_NS) if isinstance(value, int | float) else None for value in values]
    return pd.array([pd.NA if value is None else value for value in known], dtype="Int64")
