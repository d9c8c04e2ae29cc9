"""Traces of torch's own profiler (Kineto): operators, Python calls, and what ran on a GPU.

None of this is of an NPU. Times in the file count, in microseconds with three decimals, from a moment that the file
tells; they become exact nanoseconds.

Source: the file itself, as ``torch.profiler.profile.export_chrome_trace`` of torch 2.13 writes it.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.kineto.conversion import build_tables
from npuprof.sources.kineto.layouts import KINETO
from npuprof.sources.kineto.links import build_links
from npuprof.sources.kineto.metadata import Facts, read_facts
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.events import is_trace, read_events
from npuprof.sources.trace.producer import kind_of_trace

COLLECTOR = "kineto"


def recognises(path: Path) -> bool:
    """Check, by its events, whether `path` is a file of torch's profiler."""
    try:
        return path.is_file() and is_trace(path) and kind_of_trace(path) == "kineto"
    except OSError:
        return False


def read(path: Path) -> Decoded:
    """Read one trace, plain or gzipped.

    Raises
    ------
    SourceError
        If it cannot be read or is no such trace.
    """
    decoded = Decoded()
    notes = decoded.notes
    try:
        facts = read_facts(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    trace = gather(read_events(path, notes, exact=True), notes, path.name, KINETO, facts.base_ns)
    built = build_tables(trace, notes, path.name)
    built.tables["links"] = build_links(trace, built, notes, path.name)
    decoded.tables = built.tables
    decoded.info = _describe(path, facts, decoded)
    return decoded


def _describe(path: Path, facts: Facts, decoded: Decoded) -> Info:
    info = Info(name=path.name, collector=COLLECTOR, source="torch profiler trace", recording=path)
    info.options = facts.options
    info.rank = facts.rank
    info.chip = facts.gpu
    if facts.host:
        info.environment["hostname"] = facts.host
    devices = {int(device) for device in decoded.tables["tasks"]["device_id"]} if "tasks" in decoded.tables else set()
    info.devices = sorted(devices)
    frames = [frame for frame in decoded.tables.values() if "start_ns" in frame and len(frame)]
    if frames:
        info.started_ns = min(int(frame["start_ns"].min()) for frame in frames)
        info.stopped_ns = max(int((frame["start_ns"] + frame["duration_ns"]).max()) for frame in frames)
    return info


SOURCE = Source("kineto", (None, "parsed", "text"), recognises, read)
