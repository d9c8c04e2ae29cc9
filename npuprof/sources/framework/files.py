"""Read files of a FRAMEWORK folder: raw content, arrays of records, and texts as codes of distinct texts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int32, Int64, Uint64
from npuprof.progress import report_progress
from npuprof.sources.files.memory_limit import too_large, written_parts
from npuprof.sources.framework.tlv import PADDING_BYTES, TABLES, PaddedBytes
from npuprof.tables.notes import Notes

MINDSPORE_RANGES = "mindspore.op_range"
"""MindSpore's file of a run on an NPU."""

_MAX_BYTES = 16 << 30
_BYTES_AT_ONCE = 16 << 20  # bytes between two progress reports
_MAX_NAMED = 50  # further files share a note


def read_content(folder: Path, name: str, notes: Notes) -> PaddedBytes | None:
    """Read a file of the folder; None if it is missing, or, with a note, if it cannot be read."""
    path = folder / name
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        if size > _MAX_BYTES:
            notes.error(name, f"has {size} bytes, more than the limit of {_MAX_BYTES}; record fewer steps")
            return None
        with path.open("rb") as file:
            parts = written_parts(file)
            written = sum(end - start for start, end in parts)
            if problem := too_large(written):
                notes.error(name, f"is not read: {problem}; record fewer steps, or load it on a larger machine")
                return None
            padded = np.zeros(written + PADDING_BYTES, np.uint8)
            got = 0
            for start, end in parts:
                file.seek(start)
                for at in range(start, end, _BYTES_AT_ONCE):
                    report_progress(name, at, size)
                    got += file.readinto(padded.data[got : got + min(end - at, _BYTES_AT_ONCE)])
        if written < size:
            notes.warning(name, "bytes that were set up and never written, left out", size - written)
        report_progress(name, size, size)
        if not size:
            notes.warning(name, "the file is empty: its records are missing", lacks=TABLES)
        return PaddedBytes(padded[: got + PADDING_BYTES])
    except OSError as error:
        notes.error(name, f"cannot be read ({error.strerror or error})", lacks=TABLES)
        return None


def read_rows(folder: Path, name: str, layout: list[tuple[str, str]], notes: Notes) -> npt.NDArray[np.void]:
    """Read a file of fixed-size records without gaps; a note counts a truncated last record."""
    dtype = np.dtype(layout)
    content = read_content(folder, name, notes)
    if content is None:
        return np.zeros(0, dtype)
    count, remainder = divmod(content.size, dtype.itemsize)
    if remainder:
        notes.warning(name, f"the last record is cut off: {remainder} of {dtype.itemsize} bytes", lacks=TABLES)
    notes.ledger.read(name, count)
    return content.padded[: count * dtype.itemsize].view(dtype)


def note_unread(folder: Path, taken_names: Collection[str], notes: Notes) -> None:
    """Note the files of a folder that no reader reads."""
    try:
        unknown = [path.name for path in sorted(folder.iterdir()) if path.name not in taken_names]
    except OSError as error:
        notes.warning(folder.name, f"cannot be listed, so that other files in it are unknown ({error.strerror})")
        return
    for name in unknown[:_MAX_NAMED]:
        notes.info(name, "this file of the framework is not read")
    if len(unknown) > _MAX_NAMED:
        notes.info(folder.name, "more files of the framework are not read", len(unknown) - _MAX_NAMED)


_MAX_TEXT_BYTES = 1 << 20  # a longer name, shape list or stack is damage
_FEW = 64  # number of texts up to which a loop is faster
_BLOCK_BYTES = 32 << 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def read_texts(
    content: PaddedBytes, start: Int64, length: Int64, notes: Notes, source: str
) -> tuple[Int32, list[str | None]]:
    """Return the texts at given offsets as codes (-1 for none), and the distinct texts.

    `start` and `length` are the first byte and the size of each text in bytes; length -1 means no text. Invalid UTF-8
    becomes U+FFFD, with a note; texts that are too long are omitted, with a note. Different bytes may decode to equal
    texts.
    """
    book: dict[bytes, int] = {}
    codes = np.full(len(start), -1, np.int32)
    too_long = length > _MAX_TEXT_BYTES
    if too_long.any():
        notes.warning(source, f"a text is longer than {_MAX_TEXT_BYTES} bytes, and left out", int(too_long.sum()))
    order = np.argsort(length, kind="stable")
    sizes, firsts = np.unique(length[order], return_index=True)
    borders = np.append(firsts, len(order))
    for size, first, last in zip(sizes.tolist(), borders[:-1], borders[1:], strict=True):
        rows = order[first:last]
        if 0 <= size <= _MAX_TEXT_BYTES:
            block = max(1, _BLOCK_BYTES // max(size, 1))
            for low in range(0, len(rows), block):
                part = rows[low : low + block]
                codes[part] = _codes(content, start[part], size, book)
    return codes, _decode(book, notes, source)


def _codes(content: PaddedBytes, start: Int64, size: int, book: dict[bytes, int]) -> Int32:
    """Return the codes of texts of equal length; new texts are added to the book."""
    if len(start) >= _FEW and size:
        words = _words(content, start, size)
        digest = np.zeros(len(start), np.uint64)
        for word in words:
            digest = (digest ^ word) * _FACTOR
            digest ^= digest >> np.uint64(29)
        same, distinct = pd.factorize(digest)
        first = np.zeros(len(distinct), np.int64)
        first[same[::-1]] = np.arange(len(start) - 1, -1, -1)
        # If hashes collide, texts are compared one by one.
        if all(bool((word == word[first][same]).all()) for word in words):
            return _one_by_one(content, start[first], size, book)[same]
    return _one_by_one(content, start, size, book)


def _one_by_one(content: PaddedBytes, start: Int64, size: int, book: dict[bytes, int]) -> Int32:
    buffer = content.padded.data
    texts = (bytes(buffer[at : at + size]) for at in start.tolist())
    return np.fromiter((book.setdefault(text, len(book)) for text in texts), np.int32, len(start))


def _words(content: PaddedBytes, start: Int64, size: int) -> list[Uint64]:
    """Return the texts as columns of eight bytes, the last column padded with zeros."""
    view = content.words("<u8")
    words = [view[start + at].astype(np.uint64) for at in range(0, size, 8)]
    if remainder := size % 8:
        words[-1] &= np.uint64((1 << 8 * remainder) - 1)
    return words


def _decode(book: dict[bytes, int], notes: Notes, source: str) -> list[str | None]:
    texts: list[str | None] = []
    damaged = 0
    for raw in book:
        try:
            texts.append(raw.decode())
        except UnicodeDecodeError:
            texts.append(raw.decode(errors="replace"))
            damaged += 1
    if damaged:
        notes.warning(
            source, "a text is not valid UTF-8; its bad bytes are shown as \N{REPLACEMENT CHARACTER}", damaged
        )
    return texts
