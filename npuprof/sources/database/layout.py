"""Find the databases of a result, identify them by their tables, and read the facts of the run.

Source: sources/RESULTS.md sections 1, 5.1, 5.4 and 5.7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuprof.sources.database.connection import is_database, table_names
from npuprof.sources.database.format import OF_RUN, SUMS
from npuprof.sources.database.reader import Reader
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import OUTPUT, ResultFiles
from npuprof.tables.info import Info
from npuprof.words.texts import json_or_text

ANALYSIS = "analysis.db"
"""The database of torch_npu's sums over steps and communication."""

_ANALYZED = "analyze"  # where msprof puts communication_analyzer.db
_MAX_LISTED = 10_000
_MAX_FILES = 64  # databases opened per directory


@dataclass(frozen=True)
class DatabaseFiles:
    """Files of a result."""

    root: Path  # the result's directory, or the single file
    profile: tuple[Path, ...]  # databases of tasks and calls, the newest first
    analysis: tuple[Path, ...]  # those of sums over steps and communication
    profiler_info: Path | None = None
    metadata: Path | None = None


def kind_of(tables: Collection[str]) -> str:
    """Return the kind of a database by its tables: ``profile``, ``analysis``, ``cluster``, or empty."""
    names = set(tables)
    if names & OF_RUN:
        return "profile"
    if names & SUMS:
        return "analysis"
    return "cluster" if any(name.startswith(("Cluster", "CommunicationGroup")) for name in names) else ""


def kind_of_file(path: Path) -> str:
    """Return the kind of a file by its tables, as :func:`kind_of`; empty for a file that is no database."""
    return kind_of(table_names(path)) if is_database(path) else ""


def find(path: Path) -> DatabaseFiles | None:
    """Return the layout of a database or of a result directory with a database; None for other paths."""
    try:
        return _find(path)
    except OSError:
        return None


def _find(path: Path) -> DatabaseFiles | None:
    if path.is_file():
        return _file_layout(path) if is_database(path) else None
    output = path / OUTPUT
    if path.name != OUTPUT and not output.is_dir():
        return _export_layout(path)
    output = path if path.name == OUTPUT else output
    kinds = _sorted_out(_listed(output))
    if not kinds["profile"] and not kinds["analysis"]:
        return None
    root = output.parent
    info = next((entry for entry in _listed(root) if entry.match("profiler_info*.json")), None)
    metadata = root / "profiler_metadata.json"
    return DatabaseFiles(root, kinds["profile"], kinds["analysis"], info, metadata if metadata.is_file() else None)


def _file_layout(path: Path) -> DatabaseFiles:
    """Return the layout of a single file; reading it reports a file that is not a profile."""
    if kind_of_file(path) == "analysis":
        return DatabaseFiles(path, (), (path,))
    return DatabaseFiles(path, (path,), ())


def _export_layout(path: Path) -> DatabaseFiles | None:
    """Return the layout of a directory with ``msprof_*.db``, such as a ``PROF_*`` with its raw data."""
    kinds = _sorted_out(_listed(path))
    analyzed = _sorted_out(_listed(path / _ANALYZED))["analysis"]
    return DatabaseFiles(path, kinds["profile"], (*kinds["analysis"], *analyzed)) if kinds["profile"] else None


def _sorted_out(entries: list[Path]) -> dict[str, tuple[Path, ...]]:
    databases = [entry for entry in entries if entry.suffix == ".db" and is_database(entry)][:_MAX_FILES]
    kinds = {entry: kind_of_file(entry) for entry in databases}
    newest = sorted(databases, key=lambda entry: (entry.stat().st_mtime_ns, entry.name), reverse=True)
    return {kind: tuple(entry for entry in newest if kinds[entry] == kind) for kind in ("profile", "analysis")}


def _listed(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(entry for _, entry in zip(range(_MAX_LISTED), directory.iterdir(), strict=False) if entry.is_file())


_LIMIT = 10_000
_ENVIRONMENT = "ENV_VARIABLES"


def describe_directory(layout: DatabaseFiles, notes: Any) -> Info:
    """Return the facts of ``profiler_info*.json`` in the directory of the databases."""
    torch_layout = ResultFiles(layout.root, None, None, layout.profiler_info, layout.metadata)
    info = describe(torch_layout, notes)
    if layout.profiler_info is None:
        info.collector = ""
    info.source = f"{info.collector or 'analysis'} database"
    return info


def add_facts(info: Info, reader: Reader) -> None:
    """Add the facts of the database to the known ones."""
    info.collector = info.collector or _collector(reader)
    info.source = f"{info.collector or 'msprof'} database"
    npus = reader.facts("NPU_INFO", ["id", "name"], _LIMIT)
    info.chip = info.chip or next((str(name) for _, name in npus if name), "")
    ranks = reader.facts("RANK_DEVICE_MAP", ["rankId", "deviceId"], _LIMIT)
    devices = {number for number, _ in npus} | {device for _, device in ranks}
    info.devices = sorted(number for number in devices if isinstance(number, int) and number >= 0)
    known_ranks = [rank for rank, _ in ranks if isinstance(rank, int) and rank >= 0]
    if info.rank is None and len(known_ranks) == 1:
        info.rank = known_ranks[0]
    for start, end in reader.facts("SESSION_TIME_INFO", ["startTimeNs", "endTimeNs"], 1):
        info.started_ns = start if isinstance(start, int) and start > 0 else info.started_ns
        info.stopped_ns = end if isinstance(end, int) and end > 0 else info.stopped_ns
    for _, host in reader.facts("HOST_INFO", ["hostUid", "hostName"], 1):
        if host:
            info.environment.setdefault("host", str(host))
    _add_metadata(info, reader)


def _collector(reader: Reader) -> str:
    """Return the front end by the tables, or by the file's name, since MindSpore adds no table."""
    if reader.has("PYTORCH_API"):
        return "torch_npu"
    return "mindspore" if "mindspore" in reader.database.path.name else "msprof"


def _add_metadata(info: Info, reader: Reader) -> None:
    for name, text in reader.facts("META_DATA", ["name", "value"], _LIMIT):
        if name == "SCHEMA_VERSION":
            info.versions.setdefault("database schema", str(text))
        elif isinstance(name, str) and not name.startswith("SCHEMA_VERSION"):
            value = json_or_text(text)
            if name != _ENVIRONMENT:
                info.metadata.setdefault(name, value)
            elif isinstance(value, dict):
                environment = {str(key): str(entry) for key, entry in value.items() if entry not in ("", None)}
                info.environment = {**environment, **info.environment}
