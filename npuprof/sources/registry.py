"""Every source, in the order in which a path is offered to them.

A recording of ours holds a ``PROF_*`` directory, and a result of torch_npu may; of a result in several forms, each form
by itself would hide the others.
"""

from __future__ import annotations

from npuprof.sources import (
    cluster,
    database,
    forms,
    kineto,
    loose_folder,
    msprof,
    raw,
    recording,
    saved,
    single_file,
    torch_npu,
)
from npuprof.sources.base import Preference, Source
from npuprof.sources.forms import loose, parsed
from npuprof.sources.torch_npu import unparsed

SOURCES = (
    saved.SOURCE,
    recording.SOURCE,
    cluster.SOURCE,
    forms.SOURCE,
    parsed.SOURCE,
    loose.SOURCE,
    database.SOURCE,
    kineto.SOURCE,
    single_file.SOURCE,
    torch_npu.SOURCE,
    unparsed.SOURCE,
    msprof.SOURCE,
    raw.SOURCE,
    loose_folder.SOURCE,
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
