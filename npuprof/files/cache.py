"""A cache of data read from the files of many ranks, as Parquet in the user's cache directory.

An entry is a copy of data from files, under a key that changes with the files. Entries are private, replaced as a
whole, and not trusted: an entry that is damaged, of another user or of another version counts as missing and is
written again. The least recently used entries are removed when the cache exceeds :data:`MOST_BYTES`.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.errors import NpuprofError
from npuprof.files import atomic

MOST_BYTES = 2 << 30
_VERSION = 1  # version of the entries: raised with every change of a reader or of the format
_META = b"npuprof"
_SUFFIX = ".parquet"


def directory() -> Path:
    """Return the cache directory: ``$XDG_CACHE_HOME/npuprof``, else ``~/.cache/npuprof``.

    A user without a home has one among the system's temporary files.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "npuprof"
    try:
        return Path.home() / ".cache" / "npuprof"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"npuprof-cache-{os.getuid()}"


def size_bytes() -> int:
    """Return the total size of the cache."""
    return sum(size for _, size, _ in _entries())


def clear() -> int:
    """Remove all entries; return the number of bytes freed."""
    freed = 0
    for _, size, path in _entries():
        with suppress(OSError):
            path.unlink()
            freed += size
    return freed


def load(name: str) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Return the table and facts of an entry; None if there is no valid entry."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = _path(name)
    try:
        with _open(path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            kept = json.loads((parquet.schema_arrow.metadata or {})[_META])
            if not isinstance(kept, dict) or kept.get("version") != _VERSION or kept.get("name") != name:
                return None
            frame = parquet.read().to_pandas()
        pa.default_memory_pool().release_unused()  # else the pool would keep twice the size of a large table
    except Exception:  # noqa: BLE001 - whatever is wrong with a copy, the original is there
        return None
    with suppress(OSError):
        os.utime(path)  # marks the entry as used
    facts = kept.get("facts")
    return (frame, facts) if isinstance(facts, dict) else None


def save(name: str, frame: pd.DataFrame, facts: Mapping[str, Any]) -> None:
    """Save a table, and facts that JSON can represent; does nothing if the directory cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(OSError, NpuprofError, pa.ArrowException):
        place = directory()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(place.lstat()):
            return
        table = pa.Table.from_pandas(frame, preserve_index=False)
        kept = {"version": _VERSION, "name": name, "facts": facts}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _META: json.dumps(kept).encode()})
        path = _path(name)
        if path.is_symlink():  # would be written through
            path.unlink()
        with atomic.replacing(path) as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        del table
        pa.default_memory_pool().release_unused()
        _evict()


def _path(name: str) -> Path:
    return directory() / f"{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}{_SUFFIX}"


def _open(path: Path) -> Any:
    """Open an entry if it is a regular file that only this user can write."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    state = os.fstat(file.fileno())
    if stat.S_ISREG(state.st_mode) and _is_ours(state) and _is_ours(path.parent.lstat()):
        return file
    file.close()
    raise PermissionError(f"{path} is not a private file of this user")


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.getuid() and not state.st_mode & 0o022 and not stat.S_ISLNK(state.st_mode)


def _entries() -> list[tuple[float, int, Path]]:
    """Return the time of last use, size and path of each entry, oldest first."""
    entries = []
    with suppress(OSError):
        for path in directory().iterdir():
            with suppress(OSError):
                if path.suffix == _SUFFIX and stat.S_ISREG((state := path.lstat()).st_mode):
                    entries.append((state.st_mtime, state.st_size, path))
    return sorted(entries)


def _evict() -> None:
    entries = _entries()
    remaining = sum(size for _, size, _ in entries)
    for _, size, path in entries[:-1]:  # the newest entry stays
        if remaining <= MOST_BYTES:
            break
        path.unlink(missing_ok=True)
        remaining -= size
