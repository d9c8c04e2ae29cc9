"""Find the forms of a run at a path.

Source: sources/RESULTS.md sections 1 and 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from npuprof.sources import database, msprof
from npuprof.sources import folder_of_files as folder_of_files
from npuprof.sources import raw as raw_data
from npuprof.sources.base import Decoded
from npuprof.sources.database import layout as databases
from npuprof.sources.msprof import layout as exports
from npuprof.sources.msprof.export import MsprofReading
from npuprof.sources.result_folder import layout as results
from npuprof.sources.result_folder.description import describe as describe_torch
from npuprof.sources.torch_npu.raw_files import read_layout
from npuprof.sources.torch_npu.result import TextResultReading
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_MAX_LISTED = 10_000
_OF_FRONT_END = ("profiler_info", "profiler_metadata")


@dataclass(frozen=True)
class Forms:
    """The forms of one run; None for a missing form."""

    # text, raw: functions that read the text result and the raw data.
    text: Callable[[], Decoded] | None
    database: databases.DatabaseFiles | None  # the databases
    raw: Callable[[], Decoded] | None
    describe: Callable[[], Info]  # A function that returns the facts in the small files of the run

    @property
    def count(self) -> int:
        """The number of forms."""
        return sum(form is not None for form in (self.text, self.database, self.raw))


def find(path: Path, *, raw: bool = False) -> Forms | None:
    """Return the forms of a result or a ``PROF_*`` directory; None unless there are two, at least one of them a result.

    `raw` says whether raw data counts as a form.
    """
    try:
        if not path.is_dir():
            return None
        forms = _framework_forms(path, raw=raw) or _export_forms(path, raw=raw)
    except OSError:
        return None
    has_result = forms is not None and (forms.text is not None or forms.database is not None)
    return forms if forms is not None and has_result and forms.count > 1 else None


def find_loose(folder: Path) -> Forms | None:
    """Return the forms of a folder of exported text files and a database; None if either is missing."""
    if not folder_of_files.recognises(folder) or (layout := databases.find(folder)) is None:
        return None
    return Forms(partial(folder_of_files.read, folder), layout, None, partial(database.describe, folder))


def _framework_forms(path: Path, *, raw: bool) -> Forms | None:
    layout = results.of_directory(path)
    if layout is None or layout.output is None:
        return None
    return Forms(
        TextResultReading(layout).run if _is_shown(layout) else None,
        databases.find(path),
        partial(read_layout, layout) if raw and layout.is_raw else None,
        partial(describe_torch, layout, Notes()),
    )


def _export_forms(path: Path, *, raw: bool) -> Forms | None:
    layout = exports.find(path)
    database_layout = databases.find(path)
    if layout is None and database_layout is None:
        return None
    return Forms(
        None if layout is None else MsprofReading(layout).run,
        database_layout,
        partial(raw_data.read, path) if raw and raw_data.recognises(path) else None,
        partial(database.describe if layout is None else msprof.describe_path, path),
    )


def _is_shown(layout: results.ResultFiles) -> bool:
    """Check whether there is text to read; MindSpore's raw files of a run on a CPU have more data than its text."""
    return (layout.is_parsed or not layout.is_raw) and layout.output is not None and _holds_text(layout.output)


def _holds_text(folder: Path) -> bool:
    names = (entry.name.removesuffix(".gz") for entry in islice(folder.iterdir(), _MAX_LISTED))
    return any(name.endswith((".csv", ".json")) and not name.startswith(_OF_FRONT_END) for name in names)
