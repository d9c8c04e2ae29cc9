"""Which forms of a run lie at a path.

Source: sources/RESULTS.md sections 1 and 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources import database, folder_of_files, msprof
from npuprof.sources import raw as raw_data
from npuprof.sources.base import Decoded
from npuprof.sources.database import layout as databases
from npuprof.sources.msprof import layout as exports
from npuprof.sources.result_folder import layout as results
from npuprof.sources.result_folder.description import describe as describe_torch
from npuprof.sources.torch_npu import read_parsed
from npuprof.sources.torch_npu.raw_files import read_layout

_MAX_LISTED = 10_000
_OF_FRONT_END = ("profiler_info", "profiler_metadata")


@dataclass(frozen=True)
class Forms:
    """The forms of one run: how each is read, None for one that is not there.

    Attributes
    ----------
    text, raw
        Read the text result, and the raw data.
    database
        Where the databases lie.
    describe
        Tells what the small files of the run know.
    """

    text: Callable[[], Decoded] | None
    database: databases.Layout | None
    raw: Callable[[], Decoded] | None
    describe: Callable[[], Info]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(form is not None for form in (self.text, self.database, self.raw))


def find(path: Path, *, raw: bool = False) -> Forms | None:
    """Find a result in several forms; None where there is none, or one form alone.

    Parameters
    ----------
    path
        A result of torch_npu or MindSpore, its output folder, or a ``PROF_*`` directory.
    raw
        Whether raw data counts as a form.
    """
    try:
        if not path.is_dir():
            return None
        forms = _of_framework(path, raw=raw) or _of_export(path, raw=raw)
    except OSError:
        return None
    has_result = forms is not None and (forms.text is not None or forms.database is not None)
    return forms if forms is not None and has_result and forms.count > 1 else None


def find_loose(folder: Path) -> Forms | None:
    """Find a folder with exported text files and a database right in it; None where one kind is missing."""
    if not folder_of_files.recognises(folder) or (found := databases.find(folder)) is None:
        return None
    return Forms(partial(folder_of_files.read, folder), found, None, partial(database.describe, folder))


def describe(path: Path, forms: Forms | None) -> Info:
    """Return what the small files of a run tell; nothing where its forms are gone."""
    return Info(name=path.name, recording=path) if forms is None else forms.describe()


def _of_framework(path: Path, *, raw: bool) -> Forms | None:
    layout = results.of_directory(path)
    if layout is None or layout.output is None:
        return None
    return Forms(
        partial(read_parsed, layout, alone=False) if _is_shown(layout) else None,
        databases.find(path),
        partial(read_layout, layout) if raw and layout.is_raw else None,
        partial(describe_torch, layout, Notes()),
    )


def _of_export(path: Path, *, raw: bool) -> Forms | None:
    layout = exports.find(path)
    found = databases.find(path)
    if layout is None and found is None:
        return None
    return Forms(
        None if layout is None else partial(msprof.read_layout, layout),
        found,
        partial(raw_data.read, path) if raw and raw_data.recognises(path) else None,
        partial(_describe_export, path, layout),
    )


def _describe_export(path: Path, layout: exports.Layout | None) -> Info:
    return database.describe(path) if layout is None else msprof.describe_path(path)


def _is_shown(layout: results.Layout) -> bool:
    """Check whether there is text to be read: not where the raw files beside it tell more, as of MindSpore on a CPU."""
    return (layout.is_parsed or not layout.is_raw) and layout.output is not None and _holds_text(layout.output)


def _holds_text(folder: Path) -> bool:
    names = (entry.name.removesuffix(".gz") for entry in islice(folder.iterdir(), _MAX_LISTED))
    return any(name.endswith((".csv", ".json")) and not name.startswith(_OF_FRONT_END) for name in names)
