"""Find the files of an analysis of a cluster, and identify their content.

Source: sources/RESULTS.md sections 1.5 and 6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from npuprof.errors import SourceError
from npuprof.sources.database.connection import is_database, table_names
from npuprof.sources.database.layout import kind_of
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.text.csv_table import column_names

Kind: TypeAlias = Literal["steps", "communication", "matrix", "groups", "database"]

_HEAD_BYTES = 1 << 16
_MAX_LISTED = 10_000
_MAX_RECIPES = 200
_ENDING = r"(?:[._ (-].*)?\.(?:{})(?:\.gz)?"
_NAMES: dict[Kind, re.Pattern[str]] = {
    "steps": re.compile("cluster_step_trace_time" + _ENDING.format("csv")),
    "matrix": re.compile("cluster_communication_matrix" + _ENDING.format("json")),
    "communication": re.compile("cluster_communication" + _ENDING.format("json")),
    "groups": re.compile("communication_group(?:_old)?" + _ENDING.format("json")),
    "database": re.compile("cluster_analysis" + _ENDING.format("db")),
}
_STEP_COLUMNS = {"Type", "Index", "Computing"}
# Files of a single rank begin with a step or with an operator.
_OF_KINDS = re.compile(rb'\s*\{\s*"(?:p2p|collective|\([\d,\s]*\))"\s*:\s*\{')
_OF_GROUPS = re.compile(rb'\s*\{\s*"(?:p2p|collective|comm_group_parallel_info)"\s*:\s*\[')
_TIMES = re.compile(rb'"Communication (?:Time|Bandwidth) Info"\s*:')
_LINKS = re.compile(rb'"Transport Type"\s*:')


@dataclass(frozen=True)
class ClusterFiles:
    """The files of one analysis."""

    root: Path  # its directory, or the single file
    files: dict[Kind, Path]  # the file of each kind
    others: tuple[Path, ...] = ()  # further files of these kinds, which are not read
    recipes: tuple[Path, ...] = ()  # CSV files of recipes, in a folder for each recipe


def find(path: Path) -> ClusterFiles | None:
    """Return the layout of a file or directory of an analysis; None for other paths and unreadable directories.

    A single file is identified by its content. In a directory, an empty or damaged file with the vendor's name counts
    as part of the analysis, so that reading it reports the damage.
    """
    try:
        if path.is_file():
            kind = kind_of_file(path)
            return ClusterFiles(path, {kind: path}) if kind else None
        return _directory_layout(path) if path.is_dir() else None
    except OSError:
        return None


def kind_of_name(name: str) -> Kind | None:
    """Return the kind of file that a vendor's file name stands for; None for other names."""
    return next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(name)), None)


def kind_of_file(path: Path) -> Kind | None:
    """Return the kind of a file by its content; None if it is not part of an analysis."""
    if is_database(path):
        names = table_names(path)
        kind = kind_of(names)
        # A database that holds only tables of recipes is identified by its name.
        recipes = bool(names) and not kind and _NAMES["database"].fullmatch(path.name) is not None
        return "database" if kind == "cluster" or recipes else None
    head = read_head(path, _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    if _OF_GROUPS.match(head):
        return "groups"
    if _OF_KINDS.match(head):
        # A matrix has no times, and a file of times has no links.
        return "communication" if _TIMES.search(head) else "matrix" if _LINKS.search(head) else None
    try:
        return "steps" if set(column_names(path)) >= _STEP_COLUMNS else None
    except SourceError:
        return None


def _directory_layout(path: Path) -> ClusterFiles | None:
    files: dict[Kind, Path] = {}
    other_paths = []
    listed = sorted(islice(path.iterdir(), _MAX_LISTED), key=lambda entry: (len(entry.name), entry.name))
    for entry in listed:
        named = kind_of_name(entry.name)
        if named is None or not entry.is_file():
            continue
        kind = kind_of_file(entry) or named
        if kind in files:
            other_paths.append(entry)
        else:
            files[kind] = entry
    return ClusterFiles(path, files, tuple(other_paths), _recipes(listed)) if files else None


def _recipes(listed: list[Path]) -> tuple[Path, ...]:
    """Return the CSV files in the folders next to the files; folders of ranks contain none."""
    folders = sorted(entry for entry in listed if entry.is_dir() and not entry.is_symlink())[:_MAX_RECIPES]
    listed_tables = (table for folder in folders for table in islice(folder.iterdir(), _MAX_RECIPES))
    return tuple(sorted(table for table in listed_tables if table.suffix == ".csv" and table.is_file())[:_MAX_RECIPES])
