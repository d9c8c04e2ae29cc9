"""Memory snapshots of torch and torch_npu: the blocks of the caching allocator, and the history of its actions.

Source: the pickle itself, as ``torch.cuda.memory._dump_snapshot`` and ``torch_npu.npu.memory._dump_snapshot`` write it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source
from npuprof.sources.memory_snapshot.history import History, read_history
from npuprof.sources.memory_snapshot.plain_pickle import MAX_BYTES, load_plain, looks_like_pickle
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_HEAD_BYTES = 4096
_SUFFIXES = (".pickle", ".pkl")
_KEYS = (b"segments", b"device_traces")


def recognises(path: Path) -> bool:
    """Check whether `path` is a pickle that holds a snapshot, or has the file name of a pickle."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    is_named = path.suffix.lower() in _SUFFIXES
    return looks_like_pickle(head) and (is_named or any(key in head for key in _KEYS))


def read(path: Path) -> Decoded:
    """Read one snapshot."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SourceError(
                f"{path} has {size:,} bytes, of at most {MAX_BYTES:,}: record fewer entries of the history"
            )
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    snapshot = load_plain(data, path)
    del data
    if not isinstance(snapshot, dict) or not all(isinstance(snapshot.get(key), list) for key in _NAMES):
        raise SourceError(
            f"{path} is a pickle without the lists 'segments' and 'device_traces', so it is no memory snapshot; "
            "is it another file?"
        )
    decoded = Decoded()
    history = read_history(snapshot["segments"], snapshot["device_traces"], decoded.notes, path.name)
    decoded.tables = history.tables
    decoded.info = _describe(path, history, decoded.notes)
    if kept := _entries_of_a_full_ring(snapshot):
        decoded.notes.warning(
            path.name,
            f"its history ran over its ring of {kept:,} entries, and older ones were overwritten: the memory peak is "
            "at least what is shown; record with a larger max_entries",
            lacks=("memory", "allocations"),
        )
    return decoded


def _entries_of_a_full_ring(snapshot: dict[Any, Any]) -> int:
    """Return the length of a history that ran over its ring; 0 for a history that is whole."""
    settings = snapshot.get("allocator_settings")
    stated = {**(settings if isinstance(settings, dict) else {}), **snapshot}  # versions differ in the place
    lengths = [len(trace) if isinstance(trace, list) else 0 for trace in snapshot["device_traces"]] or [0]
    flags, most = stated.get("trace_alloc_overflowed"), stated.get("trace_alloc_max_entries")
    of_devices = flags if isinstance(flags, list) else [flags] * len(lengths)
    limits = most if isinstance(most, list) else [most] * len(lengths)
    if flags is None:  # a ring that is full to the last entry has most likely run over
        of_devices = [
            isinstance(limit, int) and 1 < limit <= length for limit, length in zip(limits, lengths, strict=False)
        ]
    return max([length or 1 for flag, length in zip(of_devices, lengths, strict=False) if flag], default=0)


_NAMES = tuple(key.decode() for key in _KEYS)


def _describe(path: Path, history: History, notes: Notes) -> Info:
    info = Info(name=path.name, collector="torch", source="memory snapshot", recording=path)
    info.devices = history.devices
    info.started_ns, info.stopped_ns = history.started_ns, history.stopped_ns
    if not history.has_history:
        notes.warning(
            path.name,
            "the snapshot has no history: it lists the blocks without their times; record one with "
            "_record_memory_history()",
        )
    return info


SOURCE = Source("memory_snapshot", (None, "parsed"), recognises, read)
