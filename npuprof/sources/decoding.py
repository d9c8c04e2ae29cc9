"""Decode a run: read the tables of its source, derive the missing ones, check them, and cut them to the selection."""

from __future__ import annotations

from npuprof import progress
from npuprof.errors import SourceError
from npuprof.quantities import duration
from npuprof.sources import saved
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import of_one_kind
from npuprof.sources.derived_tables import complete
from npuprof.sources.detect import Run
from npuprof.sources.repeated_rows import note_repeated_rows
from npuprof.sources.selection import Selection
from npuprof.sources.slicing import cut
from npuprof.texts import encodable


def decode_run(run: Run, selection: Selection | None = None) -> Decoded:
    """Decode a detected run, or the selected part of it.

    Raises
    ------
    SourceError
        If the run cannot be read, or it has no step of a selected number.
    """
    read_part = run.source.read_part
    try:
        with progress.shown():
            decoded = (
                run.source.read(run.path) if selection is None or read_part is None else read_part(run.path, selection)
            )
        decoded.settle()
        decoded.statistics = {encodable(name): of_one_kind(frame) for name, frame in decoded.statistics.items()}
        if run.source is not saved.SOURCE:
            note_repeated_rows(decoded.tables, decoded.notes)
        complete(decoded, compare=run.source is not saved.SOURCE)  # compared before the cut
        if selection is not None:
            cut(decoded, selection)
    except MemoryError as error:
        raise SourceError(
            f"{run.path} needs more memory than there is ({str(error) or 'none is left'}): free some, or load a part "
            "of it with steps= or start= and end=; if a file in it is far larger than the others, it may be damaged"
        ) from error
    started_ns, stopped_ns = decoded.info.started_ns, decoded.info.stopped_ns
    if started_ns is not None and stopped_ns is not None and stopped_ns < started_ns:
        message = f"the run ends {duration(started_ns - stopped_ns)} before it begins"
        decoded.notes.warning(
            "clock", f"{message}: the clock was set meanwhile, so that its length is that of its rows"
        )
        decoded.info.stopped_ns = None
    if run.choice:
        decoded.notes.info("source", run.choice)
    if decoded.info.recording is None:
        decoded.info.recording = run.path
    called_as_given(decoded, run)
    return decoded


def called_as_given(decoded: Decoded, run: Run) -> None:
    """Replace the path of the unpacked folder in facts and notes by the path of the archive."""
    if run.unpacked is not None:
        decoded.info.recording = run.unpacked.archive
        decoded.notes.rewrite(run.named)
