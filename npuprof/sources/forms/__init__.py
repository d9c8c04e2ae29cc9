"""A run in several forms: the vendor's text result, its database, and the raw data of both.

No form is complete: a text result of level 0 lacks CANN calls and tasks of collectives, which its database has; a
database lacks the sums in CSV files; and files of either may be missing. Each table is taken from the form that has it,
and a note says which: the text result first, then the database, then raw data that is too incomplete to be read instead
(see :mod:`npuprof.sources.raw_or_parsed`).

:mod:`.discovery` finds the forms, :mod:`.database_preview` counts the rows of a database before it is read,
:mod:`.combination` reads the forms, :mod:`.merge` combines the tables.

Source: sources/RESULTS.md sections 1 and 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from npuprof.sources.base import Decoded, PartReader, Preference, Source, whole_alone
from npuprof.sources.forms.combination import read_forms
from npuprof.sources.forms.discovery import Forms, find, find_loose
from npuprof.sources.torch_npu.result import parts
from npuprof.tables.info import Info


def _source(
    name: str,
    serves: tuple[Preference, ...],
    forms_of: Callable[[Path], Forms | None],
    *,
    parts: Callable[[Path], Mapping[str, PartReader]] = whole_alone,
    is_result_of_raw: bool = False,
    only_given: bool = False,
) -> Source:
    """Make the source for runs whose forms are found by `forms_of`."""

    def recognises(path: Path) -> bool:
        return forms_of(path) is not None

    def read(path: Path) -> Decoded:
        return read_forms(path, forms_of(path))

    def describe(path: Path) -> Info:
        forms = forms_of(path)
        return Info(name=path.name, recording=path) if forms is None else forms.describe()

    return Source(
        name,
        serves,
        recognises,
        read,
        parts=parts,
        has_small_files=parts is not whole_alone,
        describe=describe,
        is_result_of_raw=is_result_of_raw,
        only_given=only_given,
    )


SOURCES = (
    _source("forms", (None,), partial(find, raw=True), parts=parts, is_result_of_raw=True),
    _source("forms.parsed_only", ("parsed",), find, parts=parts),
    _source("forms.copied_files", (None, "parsed"), find_loose, only_given=True),
)
"""Forms including raw data, without raw data (``source="parsed"``), and files copied out of their result."""
