"""Decode a run: read the tables of its source, derive the missing ones, check them, and cut them to the selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from npuprof import progress
from npuprof.analysis.device_clocks import clock_text, device_clocks, on_host_clock
from npuprof.analysis.examination import examine, lost_rows, mark_overruns, with_overruns
from npuprof.errors import SourceError
from npuprof.sources import afterwards, database, folder_of_files, forms, torch_npu
from npuprof.sources.base import Decoded
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.columns.builders import of_one_kind
from npuprof.sources.derived_tables import compare, complete, devices_of
from npuprof.sources.detect import DetectedResult
from npuprof.sources.far_times import are_far, leave_out_far_rows
from npuprof.sources.lazy_tables import LazyTables, completed
from npuprof.sources.lost_files import note_lost_results
from npuprof.sources.repeated_rows import note_repeated_rows
from npuprof.sources.selection import Selection
from npuprof.sources.slicing import cut
from npuprof.words.quantities import duration
from npuprof.words.texts import encodable

_RESULTS = {database.SOURCE, torch_npu.SOURCE, folder_of_files.SOURCE, *forms.SOURCES}


def decode_run(run: DetectedResult, selection: Selection | None = None, *, lazily: bool = False) -> Decoded:
    """Decode a detected run, or the selected part of it.

    Parameters
    ----------
    lazily
        Whether tables may be made when they are touched: :class:`npuprof.sources.lazy_tables.LazyTables`.
    """
    source = run.source
    with refusing_too_large(run.path):
        with progress.shown():
            if selection is not None and source.read_part is not None:
                decoded = source.read_part(run.path, selection)
            else:
                decoded = source.read(run.path)
            if decoded.recorded is None:
                decoded.recorded = _recorded(decoded)
            if isinstance(decoded.tables, LazyTables) and (
                not lazily
                or selection is not None
                or run.unpacked
                or (not source.is_complete and _are_far(decoded.tables))
            ):
                decoded.tables.make_all()
                decoded.tables = dict(decoded.tables)
        decoded.statistics = {encodable(name): of_one_kind(frame) for name, frame in decoded.statistics.items()}
        if not source.is_complete and not isinstance(decoded.tables, LazyTables):
            leave_out_far_rows(decoded)
        frames = decoded.tables
        if not source.is_complete:
            if isinstance(frames, LazyTables):
                frames.then("kernels", lambda kernels: with_overruns(kernels, frames.times("api")))
            else:
                mark_overruns(frames)
            complete(decoded)
        if isinstance(frames, LazyTables):
            frames.within(lambda: refusing_too_large(run.path))
            frames.at_last(lambda made: _check(decoded, made, run, is_part=False))
        else:
            _check(decoded, frames, run, is_part=selection is not None and source.read_part is not None)
        if not source.is_complete:
            afterwards.leave_out(decoded)
        if selection is not None:
            cut(decoded, selection)
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


def _are_far(frames: LazyTables) -> bool:
    """Return whether rows have to be left out for their time: then no table can be made before the others."""
    return are_far({name: times for name in frames if (times := frames.times(name)) is not None})


def _recorded(decoded: Decoded) -> tuple[int, int] | None:
    """Return when the collection began and ended, if files of the result say both."""
    begun, ended = decoded.info.recorded
    return (begun, ended) if begun is not None and ended is not None and begun < ended else None


@contextmanager
def refusing_too_large(path: Path) -> Iterator[None]:
    """Raise a SourceError with the next step where memory does not suffice."""
    try:
        yield
    except MemoryError as error:
        raise SourceError(
            f"{path} needs more memory than there is ({str(error) or 'none is left'}): free some, or load a part "
            "of it with steps= or start= and end=; if a file in it is far larger than the others, it may be damaged"
        ) from error


def _check(decoded: Decoded, frames: Mapping[str, pd.DataFrame], run: DetectedResult, *, is_part: bool) -> None:
    """Note what is doubtful about all tables of a run, before they are cut.

    At the edges of a part that was read alone, launched work lies outside.
    """
    decoded.settle(frames)
    if run.source.is_complete:
        return
    note_repeated_rows(frames, decoded.notes)
    every = completed(dict(frames))
    clocks = [] if decoded.info.source == CLUSTER_ANALYSIS else device_clocks(every)
    decoded.info.examination = examine(
        on_host_clock(every, clocks), decoded.notes, is_part=is_part, recorded=decoded.recorded
    )
    if run.source in _RESULTS:
        note_lost_results(run.path, decoded, frames)
    if decoded.info.source == CLUSTER_ANALYSIS:
        return
    compare(frames, decoded.notes, decoded.info.collector)
    decoded.info.examination += lost_rows(decoded.info.examination, decoded.notes, every)
    decoded.info.devices = devices_of(frames)
    decoded.info.clocks = clocks
    for clock in decoded.info.clocks:
        if text := clock_text(clock):
            (decoded.notes.warning if clock.joined else decoded.notes.error)("clock", text)


def called_as_given(decoded: Decoded, run: DetectedResult) -> None:
    """Replace the path of the unpacked folder in facts and notes by the path of the archive."""
    if run.unpacked is not None:
        decoded.info.recording = run.unpacked.archive
        decoded.notes.rewrite(run.named)
