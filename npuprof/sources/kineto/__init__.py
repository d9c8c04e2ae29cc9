"""Traces of torch's own profiler (Kineto): operators, Python calls and GPU activities; NPU activities are not included.

Times are microseconds, whole or with three decimals, of the epoch or relative to a base time in the file; they become
exact nanoseconds.

Source: sources/RESULTS.md section 8.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.global_ranks import MATRIX, add_global_ranks
from npuprof.sources.kineto.communication import groups_in
from npuprof.sources.kineto.conversion import build_tables, recorded
from npuprof.sources.kineto.facts import SOURCE_NAME, TraceFacts, describe, info_of, read_facts
from npuprof.sources.kineto.host_collectives import name_group
from npuprof.sources.kineto.layouts import KINETO
from npuprof.sources.kineto.links import build_links
from npuprof.sources.kineto.merged import MergedRanks, SeveralRanksError, merged_ranks
from npuprof.sources.kineto.transfers import sent_bytes
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.events import is_trace, read_events
from npuprof.sources.trace.producer import kind_of_trace
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_OF_HANDLER = (".pt.trace.json", ".pt.trace.json.gz")
_HEADER = re.compile(rb'"(?:schemaVersion|baseTimeNanoseconds|deviceProperties)"\s*:')
_HEAD_BYTES = 1 << 16


def recognises(path: Path) -> bool:
    """Check by its events whether `path` is a file of torch's profiler.

    Of a file that torch's trace handler named, of which there may be thousands, the keys before the events suffice.
    """
    try:
        if not path.is_file() or not is_trace(path):
            return False
        by_name = path.name.endswith(_OF_HANDLER) and _HEADER.search(read_head(path, _HEAD_BYTES)) is not None
        return by_name or kind_of_trace(path) == "kineto"
    except OSError:
        return False


def read(path: Path) -> Decoded:
    """Read one trace, plain or gzipped."""
    decoded = Decoded()
    notes = decoded.notes
    try:
        facts = read_facts(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    trace = gather(read_events(path, notes, exact=True), notes, path.name, KINETO, facts.base_ns)
    if (merged := merged_ranks(trace, path)) is not None:
        raise SeveralRanksError(path, merged)
    built = build_tables(trace, notes, path.name, facts.options)
    built.tables["links"] = build_links(trace, built, notes, path.name)
    decoded.tables = built.tables
    decoded.info = _info(path, facts, decoded)
    decoded.recorded = recorded(trace)
    name_group(decoded, {key: group["global_ranks"] for key, group in facts.groups.items() if group["global_ranks"]})
    named = groups_in(trace.slices["task"])  # which may list ranks where the file's head has too many to list
    _add_groups(decoded, {**named, **{key: group for key, group in facts.groups.items() if group["global_ranks"]}})
    return decoded


def ranks_in(path: Path) -> MergedRanks | None:
    """Return the ranks of a file into which those of several were merged; None for the trace of one."""
    notes = Notes()
    return merged_ranks(gather(read_events(path, notes, exact=True), notes, path.name, KINETO), path)


def _add_groups(decoded: Decoded, groups: dict[str, dict[str, Any]]) -> None:
    """Add the process groups, and what the members of those with known ranks sent to each other."""
    communication = decoded.tables.get("communication")
    if groups:
        decoded.info.metadata["parallel_group_info"] = groups
    if communication is None:
        return
    without = int(communication["group"].isna().sum())
    if without:
        decoded.notes.info(
            decoded.info.name,
            "a collective names no process group, so it is joined with those of no other rank",
            without,
        )
    add_transfers(decoded)


def add_transfers(decoded: Decoded) -> None:
    """Add what a rank sent to others to its trace, if its rank and the members of its groups are known."""
    communication, groups = decoded.tables.get("communication"), decoded.info.metadata.get("parallel_group_info")
    if decoded.info.source != SOURCE_NAME or communication is None or MATRIX in decoded.statistics:
        return
    if "size_bytes" not in communication:  # the host's own
        return
    matrix = sent_bytes(communication, groups if isinstance(groups, dict) else {}, decoded.info.rank)
    if matrix is not None:
        decoded.statistics[MATRIX] = matrix
        add_global_ranks(decoded, decoded.notes)


def _info(path: Path, facts: TraceFacts, decoded: Decoded) -> Info:
    info = info_of(path, facts)
    devices = {int(device) for device in decoded.tables["tasks"]["device_id"]} if "tasks" in decoded.tables else set()
    info.devices = sorted(devices)
    frames = [frame for frame in decoded.tables.values() if "start_ns" in frame and len(frame)]
    if frames:
        info.started_ns = min(int(frame["start_ns"].min()) for frame in frames)
        info.stopped_ns = max(int((frame["start_ns"] + frame["duration_ns"]).max()) for frame in frames)
    return info


SOURCE = Source("kineto", (None, "parsed", "text"), recognises, read, describe=describe)
