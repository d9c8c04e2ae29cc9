"""Every source, in the order in which paths are tried.

Order matters: a recording holds a ``PROF_*`` directory, a result of torch_npu may hold one, and of a result in several
forms a single form would hide the others.
"""

from __future__ import annotations

from npuprof.sources import (
    cluster,
    database,
    exported_trace,
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
    exported_trace.SOURCE,
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
    return {source.name: source for source in SOURCES}[name]
