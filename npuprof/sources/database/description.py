"""What a database tells of its run besides its tables of rows.

Source: sources/RESULTS.md section 5.1.
"""

from __future__ import annotations

from typing import Any

from npuprof.info import Info
from npuprof.sources.database.connection import Database
from npuprof.sources.database.layout import Layout
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import Layout as TorchLayout
from npuprof.texts import json_or_text

_LIMIT = 10_000
_ENVIRONMENT = "ENV_VARIABLES"


def describe_directory(layout: Layout, notes: Any) -> Info:
    """Start from ``profiler_info*.json`` beside the databases, where there is one."""
    torch_layout = TorchLayout(layout.root, None, None, layout.profiler_info, layout.metadata)
    info = describe(torch_layout, notes)
    if layout.profiler_info is None:
        info.collector = ""
    info.source = f"{info.collector or 'analysis'} database"
    return info


def add_facts(info: Info, database: Database) -> None:
    """Add what the database knows; what is known already stays."""
    info.collector = info.collector or _collector(database)
    info.source = f"{info.collector or 'msprof'} database"
    npus = database.facts("NPU_INFO", ["id", "name"], _LIMIT)
    info.chip = info.chip or next((str(name) for _, name in npus if name), "")
    ranks = database.facts("RANK_DEVICE_MAP", ["rankId", "deviceId"], _LIMIT)
    devices = {number for number, _ in npus} | {device for _, device in ranks}
    info.devices = sorted(number for number in devices if isinstance(number, int) and number >= 0)
    known = [rank for rank, _ in ranks if isinstance(rank, int) and rank >= 0]
    if info.rank is None and len(known) == 1:
        info.rank = known[0]
    for start, end in database.facts("SESSION_TIME_INFO", ["startTimeNs", "endTimeNs"], 1):
        info.started_ns = start if isinstance(start, int) and start > 0 else info.started_ns
        info.stopped_ns = end if isinstance(end, int) and end > 0 else info.stopped_ns
    for _, host in database.facts("HOST_INFO", ["hostUid", "hostName"], 1):
        if host:
            info.environment.setdefault("host", str(host))
    _add_metadata(info, database)


def _collector(database: Database) -> str:
    """Return the front end by the tables that only it writes, or by the file's name: MindSpore adds no table."""
    if database.has("PYTORCH_API"):
        return "torch_npu"
    return "mindspore" if "mindspore" in database.path.name else "msprof"


def _add_metadata(info: Info, database: Database) -> None:
    for name, text in database.facts("META_DATA", ["name", "value"], _LIMIT):
        if name == "SCHEMA_VERSION":
            info.versions.setdefault("database schema", str(text))
        elif isinstance(name, str) and not name.startswith("SCHEMA_VERSION"):
            value = json_or_text(text)
            if name != _ENVIRONMENT:
                info.metadata.setdefault(name, value)
            elif isinstance(value, dict):
                told = {str(key): str(one) for key, one in value.items() if one not in ("", None)}
                info.environment = {**told, **info.environment}
