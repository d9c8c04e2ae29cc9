"""Texts of many records as codes into a list of distinct ones, without a Python string for each record."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Int32, Int64, Uint64
from npuprof.notes import Notes
from npuprof.sources.framework.tlv import Content

_MAX_TEXT_BYTES = 1 << 20  # a name, shape list or stack that is longer is damage
_FEW = 64  # so few texts are faster one by one
_BLOCK_BYTES = 32 << 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def read_texts(
    content: Content, start: Int64, length: Int64, notes: Notes, source: str
) -> tuple[Int32, list[str | None]]:
    """Return the texts that lie at some places.

    Parameters
    ----------
    content
        The file.
    start, length
        Shape (records,): the first byte and the bytes of each text; a length of -1 is no text.
    notes, source
        Take how many distinct texts are no UTF-8 (their bytes that are not become U+FFFD), or too long.

    Returns
    -------
    codes
        Shape (records,): an index into the texts; -1 for no text.
    texts
        The texts, as :func:`npuprof.sources.columns.nullable.recoded` takes them; different bytes may read the same.
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


def _codes(content: Content, start: Int64, size: int, book: dict[bytes, int]) -> Int32:
    """Return the codes of texts of one length, adding new ones to the book."""
    if len(start) >= _FEW and size:
        words = _words(content, start, size)
        digest = np.zeros(len(start), np.uint64)
        for word in words:
            digest = (digest ^ word) * _FACTOR
            digest ^= digest >> np.uint64(29)
        same, distinct = pd.factorize(digest)
        first = np.zeros(len(distinct), np.int64)
        first[same[::-1]] = np.arange(len(start) - 1, -1, -1)
        # Two texts of one digest would be taken for the same: then, they are told apart one by one.
        if all(bool((word == word[first][same]).all()) for word in words):
            return _one_by_one(content, start[first], size, book)[same]
    return _one_by_one(content, start, size, book)


def _one_by_one(content: Content, start: Int64, size: int, book: dict[bytes, int]) -> Int32:
    buffer = content.padded.data
    texts = (bytes(buffer[at : at + size]) for at in start.tolist())
    return np.fromiter((book.setdefault(text, len(book)) for text in texts), np.int32, len(start))


def _words(content: Content, start: Int64, size: int) -> list[Uint64]:
    """Return the texts as columns of eight bytes; the last is filled up with zeros."""
    view = content.words("<u8")
    words = [view[start + at].astype(np.uint64) for at in range(0, size, 8)]
    if rest := size % 8:
        words[-1] &= np.uint64((1 << 8 * rest) - 1)
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
        notes.warning(source, "a text is not UTF-8; what of it is not is shown as \N{REPLACEMENT CHARACTER}", damaged)
    return texts
