"""Memory snapshots of torch and torch_npu: the blocks of the caching allocator, and the history of its actions.

Source: the pickle itself, as ``torch.cuda.memory._dump_snapshot`` and ``torch_npu.npu.memory._dump_snapshot`` write it.
"""

from __future__ import annotations

from pathlib import Path

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
    """Read one snapshot.

    Raises
    ------
    SourceError
        If the file cannot be read, is too large, is not a snapshot, or holds anything but plain values.
    """
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
    return decoded


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
