"""Find the databases of a result, and tell by their tables what they hold.

Source: sources/RESULTS.md sections 1, 5.4 and 5.7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from npuprof.sources.database.analyzer import READ as ANALYSES
from npuprof.sources.database.connection import is_database, table_names
from npuprof.sources.database.counters import READ as SAMPLES
from npuprof.sources.result_folder.layout import OUTPUT

_PROFILE = frozenset(
    [
        "TASK",
        "CANN_API",
        "PYTORCH_API",
        "COMPUTE_TASK_INFO",
        "COMMUNICATION_OP",
        "MSTX_EVENTS",
        "MEMORY_RECORD",
        "OP_MEMORY",
        "NPU_MEM",
        "NPU_MODULE_MEM",
        "NPU_OP_MEM",
        "NPU_INFO",
        "SESSION_TIME_INFO",
        "META_DATA",
        "HOST_INFO",
        *("TARGET_INFO_NPU", "TARGET_INFO_SESSION_TIME", "ENUM_API_LEVEL"),  # of the form of early 2024
    ]
)
_ANALYZED = "analyze"  # where msprof puts communication_analyzer.db
_MAX_LISTED = 10_000
_MAX_FILES = 64  # databases looked into in one directory


@dataclass(frozen=True)
class Layout:
    """Where the parts of one result lie.

    Attributes
    ----------
    root
        What to call the result: its directory, or the single file.
    profile
        Databases of tasks and calls, the newest first.
    analysis
        Databases of sums over steps and communication.
    profiler_info, metadata
        ``profiler_info*.json`` and ``profiler_metadata.json``, if they are there.
    """

    root: Path
    profile: tuple[Path, ...]
    analysis: tuple[Path, ...]
    profiler_info: Path | None = None
    metadata: Path | None = None


def kind_of(tables: Collection[str]) -> str:
    """Return what a database is by its tables: ``profile``, ``analysis``, ``cluster``, or empty: no profile."""
    names = set(tables)
    if names & _PROFILE or names & SAMPLES:
        return "profile"
    if names & ANALYSES:
        return "analysis"
    return "cluster" if any(name.startswith(("Cluster", "CommunicationGroup")) for name in names) else ""


def find(path: Path) -> Layout | None:
    """Recognise a database by itself, or a directory of results that holds one, whatever lies beside it."""
    try:
        return _find(path)
    except OSError:
        return None


def _find(path: Path) -> Layout | None:
    if path.is_file():
        return _of_file(path) if is_database(path) else None
    output = path / OUTPUT
    if path.name != OUTPUT and not output.is_dir():
        return _of_export(path)
    output = path if path.name == OUTPUT else output
    found = _sorted_out(_listed(output))
    if not found["profile"] and not found["analysis"]:
        return None
    root = output.parent
    info = next((entry for entry in _listed(root) if entry.match("profiler_info*.json")), None)
    metadata = root / "profiler_metadata.json"
    return Layout(root, found["profile"], found["analysis"], info, metadata if metadata.is_file() else None)


def _of_file(path: Path) -> Layout:
    """Take a file by itself; what is no profile is told when it is read."""
    if kind_of(table_names(path)) == "analysis":
        return Layout(path, (), (path,))
    return Layout(path, (path,), ())


def _of_export(path: Path) -> Layout | None:
    """Take a directory of ``msprof_*.db``; raw data may lie there too, as in a ``PROF_*``."""
    found = _sorted_out(_listed(path))
    analyzed = _sorted_out(_listed(path / _ANALYZED))["analysis"]
    return Layout(path, found["profile"], (*found["analysis"], *analyzed)) if found["profile"] else None


def _sorted_out(entries: list[Path]) -> dict[str, tuple[Path, ...]]:
    databases = [entry for entry in entries if entry.suffix == ".db" and is_database(entry)][:_MAX_FILES]
    kinds = {entry: kind_of(table_names(entry)) for entry in databases}
    newest = sorted(databases, key=lambda entry: (entry.stat().st_mtime_ns, entry.name), reverse=True)
    return {kind: tuple(entry for entry in newest if kinds[entry] == kind) for kind in ("profile", "analysis")}


def _listed(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(entry for _, entry in zip(range(_MAX_LISTED), directory.iterdir(), strict=False) if entry.is_file())
