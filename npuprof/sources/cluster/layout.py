"""Find the files of an analysis of a cluster, and tell by their content what they hold.

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
# A rank's own files begin with a step, or with an operator.
_OF_KINDS = re.compile(rb'\s*\{\s*"(?:p2p|collective|\([\d,\s]*\))"\s*:\s*\{')
_OF_GROUPS = re.compile(rb'\s*\{\s*"(?:p2p|collective|comm_group_parallel_info)"\s*:\s*\[')
_TIMES = re.compile(rb'"Communication (?:Time|Bandwidth) Info"\s*:')
_LINKS = re.compile(rb'"Transport Type"\s*:')


@dataclass(frozen=True)
class Layout:
    """Where the parts of one analysis lie.

    Attributes
    ----------
    root
        What to call it: its directory, or the single file.
    files
        The file of each kind.
    beside
        Further files of these kinds, which are not read.
    recipes
        Tables of text that recipes left, each in a folder of its recipe.
    """

    root: Path
    files: dict[Kind, Path]
    beside: tuple[Path, ...] = ()
    recipes: tuple[Path, ...] = ()


def find(path: Path) -> Layout | None:
    """Recognise a file of the analysis, or a directory that holds some; one that may not be read holds none.

    A file by itself is known by its content. In a directory, one that has the vendor's name and is empty or damaged
    belongs to the analysis too: reading it tells what is wrong with it.
    """
    try:
        if path.is_file():
            kind = kind_of_file(path)
            return Layout(path, {kind: path}) if kind else None
        return _of_directory(path) if path.is_dir() else None
    except OSError:
        return None


def kind_of_file(path: Path) -> Kind | None:
    """Return by its content which file of an analysis this is; None for any other."""
    if is_database(path):
        found = table_names(path)
        kind = kind_of(found)
        # One that holds the tables of recipes alone is known by its name.
        recipes = bool(found) and not kind and _NAMES["database"].fullmatch(path.name) is not None
        return "database" if kind == "cluster" or recipes else None
    head = read_head(path, _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    if _OF_GROUPS.match(head):
        return "groups"
    if _OF_KINDS.match(head):
        # Which comes first: a matrix has no times, a list of times no links.
        return "communication" if _TIMES.search(head) else "matrix" if _LINKS.search(head) else None
    try:
        return "steps" if set(column_names(path)) >= _STEP_COLUMNS else None
    except SourceError:
        return None


def _of_directory(path: Path) -> Layout | None:
    files: dict[Kind, Path] = {}
    beside = []
    listed = sorted(islice(path.iterdir(), _MAX_LISTED), key=lambda entry: (len(entry.name), entry.name))
    for entry in listed:
        named = next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(entry.name)), None)
        if named is None or not entry.is_file():
            continue
        kind = kind_of_file(entry) or named
        if kind in files:
            beside.append(entry)
        else:
            files[kind] = entry
    return Layout(path, files, tuple(beside), _recipes(listed)) if files else None


def _recipes(listed: list[Path]) -> tuple[Path, ...]:
    """Find the tables in folders beside the files; folders of another kind, as of ranks, hold none right in them."""
    folders = sorted(entry for entry in listed if entry.is_dir() and not entry.is_symlink())[:_MAX_RECIPES]
    found = (table for folder in folders for table in islice(folder.iterdir(), _MAX_RECIPES))
    return tuple(sorted(table for table in found if table.suffix == ".csv" and table.is_file())[:_MAX_RECIPES])
