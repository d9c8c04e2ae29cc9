"""Every source, in the order in which a path is offered to them.

A recording of ours holds a ``PROF_*`` directory, and a result of torch_npu may; of a result in several forms, each form
by itself would hide the others.
"""

from __future__ import annotations

from npuprof.sources import (
    cluster,
    database,
    folder_of_files,
    forms,
    kineto,
    memory_snapshot,
    msprof,
    raw,
    recording,
    saved,
    single_file,
    torch_npu,
)
from npuprof.sources.base import Preference, Source
from npuprof.sources.torch_npu import raw_files

SOURCES = (
    saved.SOURCE,
    recording.SOURCE,
    cluster.SOURCE,
    *forms.SOURCES,
    database.SOURCE,
    kineto.SOURCE,
    memory_snapshot.SOURCE,
    single_file.SOURCE,
    torch_npu.SOURCE,
    raw_files.SOURCE,
    msprof.SOURCE,
    raw.SOURCE,
    folder_of_files.SOURCE,
)


def sources_for(preferred: Preference) -> list[Source]:
    """Return the sources that serve a preference, in order."""
    return [source for source in SOURCES if preferred in source.serves]


def source_named(name: str) -> Source:
    """Return the source of a name.

    Raises
    ------
    KeyError
        If there is none.
    """
    return {source.name: source for source in SOURCES}[name]
