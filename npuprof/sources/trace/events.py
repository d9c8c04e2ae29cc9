"""Read a timeline of Chrome events (``trace_view.json``) in pieces, and what is left of a damaged one.

The text is cut into chunks at the borders between events, so memory grows with a chunk and not with the
file; a chunk is decoded in one call into typed structs whose ``args`` stay undecoded bytes. A chunk that
does not decode is read event by event: what is whole is kept, what is not is counted in the notes.

Source: sources/RESULTS.md section 2 and section 7.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.progress import tell
from npuprof.sources.trace.documents import Documents
from npuprof.sources.trace.event import Event
from npuprof.texts import repaired_json

CHUNK_BYTES = 1 << 20  # what is decoded of it stays in the processor's cache until it is in columns
_MAX_EVENT_BYTES = 64 << 20  # an event that is longer is no event
_MAX_EVENTLESS_BYTES = 1 << 30  # nor is a file with as much text without any event
_MAX_FAILURES = 20_000  # a file with more damage than this is not read on
_MAX_UNZIPPED_BYTES = 64 << 30
_MAX_UNZIPPED_RATIO = 200  # a timeline shrinks to a tenth or a fortieth; what shrinks more was made to fill memory
_UNZIPPED_ANYWAY_BYTES = 1 << 30
_SPACE_BYTES = 64  # between the beginning of a list and its first event
_MAX_SPLITS = 16  # objects inside one event that may look like events themselves

_KEY = rb'"(?:ph|name|pid|tid|ts|dur|cat|id|args|bp)"\s*:'
# Inside a JSON string every quote is escaped, so neither pattern can match there.
_BORDER = re.compile(rb"\}\s*,\s*(?=\{\s*" + _KEY + rb")")
_EVENT = re.compile(rb"\{\s*" + _KEY)
_OPENED = re.compile(rb"\[\s*\Z")  # before the first event of a document
_PHASE = re.compile(rb'"ph"\s*:\s*"')
_LIST = re.compile(rb"\s*\[")
_WRAPPED = re.compile(rb'"traceEvents"\s*:\s*\[')
_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)(?:NaN|-?Infinity)\b")
_JSON = json.JSONDecoder()
_LFS = b"version https://git-lfs"
_GZIP = b"\x1f\x8b"


class _ExactEvent(Event, gc=False):
    """An event whose time, written as a number, stays the text that it is."""

    ts: Any = None


class _Wrapper(msgspec.Struct, gc=False):
    traceEvents: list[Event]  # noqa: N815 - the key's own name


class _ExactWrapper(msgspec.Struct, gc=False):
    traceEvents: list[_ExactEvent]  # noqa: N815 - the key's own name


class _Decoders(NamedTuple):
    """How events are decoded: many, one, and those at the end of an object with them."""

    list: msgspec.json.Decoder[Any]
    event: msgspec.json.Decoder[Any]
    wrapper: msgspec.json.Decoder[Any]


_PLAIN = _Decoders(*map(msgspec.json.Decoder, (list[Event], Event, _Wrapper)))
_EXACT = _Decoders(
    *(msgspec.json.Decoder(kind, float_hook=str) for kind in (list[_ExactEvent], _ExactEvent, _ExactWrapper))
)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_HEAD_BYTES = 1 << 20


def is_trace(path: Path) -> bool:
    """Tell, from its first bytes, whether a file is a timeline of Chrome events; unreadable is no."""
    try:
        with path.open("rb") as file:
            head = _unzipped(file).read(1 << 16)
    except (OSError, EOFError, zlib.error):
        return False
    return _first_event(head) is not None and (_PHASE.search(head) is not None or _WRAPPED.search(head) is not None)


def read_events(
    path: Path, notes: Notes, chunk_bytes: int = CHUNK_BYTES, *, exact: bool = False
) -> Iterator[list[Event]]:
    """Yield the events of a timeline in file order, a list for each chunk of the text.

    Parameters
    ----------
    path
        A JSON list of events or an object with ``traceEvents``, plain or gzipped.
    notes
        Where repairs and losses are counted, under the file's name.
    chunk_bytes
        How much text to decode at a time.
    exact
        Whether times that are written as numbers come as texts, and not through a float.

    Raises
    ------
    SourceError
        If the file cannot be read or is no timeline at all.
    """

    def reader(file: io.BufferedReader, notes: Notes) -> _Reader:
        return _Reader(path, file, notes, chunk_bytes, _EXACT if exact else _PLAIN)

    def again() -> Iterator[list[Event]]:
        with path.open("rb") as file:
            yield from reader(file, Notes()).batches()

    try:
        with path.open("rb") as file:
            documents, read = Documents(again, notes, path.name), reader(file, notes)
            for batch in read.batches():
                yield documents.once(batch, read.take_begins())
            documents.note()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error


def _unzipped(file: io.BufferedReader) -> io.BufferedIOBase:
    """Return what an archive holds; of any other file, what is in it."""
    zipped = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    return cast("io.BufferedIOBase", gzip.GzipFile(fileobj=file)) if zipped else file


def _first_event(head: bytes) -> tuple[int, bool] | None:
    """Find where the events begin, and whether they lie in an object; None where the text is no timeline."""
    text_start = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    if match := _LIST.match(head, text_start):
        return match.end(), False
    if head[text_start:].lstrip().startswith(b"{") and (match := _WRAPPED.search(head)):
        return match.end(), True
    return None


class _Reader:
    """The state of one reading: the text not yet decoded, and what was lost so far."""

    def __init__(
        self, path: Path, file: io.BufferedReader, notes: Notes, chunk_bytes: int, decoders: _Decoders
    ) -> None:
        self._decoders = decoders
        self._path, self._file, self._notes, self._chunk_bytes = path, file, notes, chunk_bytes
        self._stream = _unzipped(file)
        self._size = path.stat().st_size
        self._lost = 0  # runs of text between whole events
        self._failures = 0  # beginnings of events that did not decode
        self._eventless_bytes = 0  # since the last event
        self._damaged = False
        self._begins: list[int] = []
        self._read_bytes = 0
        self._max_bytes = self._limit()

    def _limit(self) -> int:
        if self._stream is self._file:
            return sys.maxsize
        return min(_MAX_UNZIPPED_BYTES, max(_UNZIPPED_ANYWAY_BYTES, self._size * _MAX_UNZIPPED_RATIO))

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events, a bounded piece of the file at a time."""
        left, text, wrapped = b"", *self._begin()
        # A block is only decoded when there is another: the last one, with whatever follows the events, is the end.
        while self._is_worth_reading() and (block := self._read(max(self._chunk_bytes, len(left)))):
            events, left = self._decode_whole_events(left, text)
            self._eventless_bytes = 0 if events else self._eventless_bytes + len(text)
            if events:
                yield events
            text = block
        yield self._decode_end(left + text, wrapped)
        self._note_losses()

    def take_begins(self) -> list[int]:
        """Return the places in the last batch at which another document begins."""
        begins, self._begins = self._begins, []
        return begins

    def _is_worth_reading(self) -> bool:
        return self._failures <= _MAX_FAILURES and self._eventless_bytes <= _MAX_EVENTLESS_BYTES

    def _begin(self) -> tuple[bytes, bool]:
        head = self._read(self._chunk_bytes)
        if not head.strip():
            raise SourceError(f"{self._path} is empty: the export was stopped or the disk was full; export it again")
        if head.startswith(_LFS):
            raise SourceError(f"{self._path} is a git-LFS pointer, not the data; run `git lfs pull` beside it")
        while (found := _first_event(head)) is None and len(head) < _HEAD_BYTES and (block := self._read(_HEAD_BYTES)):
            head += block
        if found is None:
            raise SourceError(f"{self._path} is no timeline: neither a JSON list of events nor an object with them")
        start, wrapped = found
        return head[start:], wrapped

    def _read(self, size: int) -> bytes:
        """Read a block; less at the end of the file, or where an archive is damaged or holds too much."""
        parts: list[bytes] = []
        left = min(size, self._max_bytes - self._read_bytes)
        try:
            while left > 0 and (part := self._stream.read1(left)):
                parts.append(part)
                left -= len(part)
            if not left and self._read_bytes + size >= self._max_bytes and self._stream.read1(1):
                self._notes.error(
                    self._path.name,
                    f"the archive unpacks to more than {self._max_bytes >> 20} MiB; the rest is not read: if it is a "
                    "timeline, unpack it and load that",
                )
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._notes.warning(self._path.name, f"the gzip archive is damaged, its rest is lost: {error}")
        block = b"".join(parts)
        self._read_bytes += len(block)
        tell(self._path.name, self._file.tell(), self._size)
        return block

    def _decode_whole_events(self, left: bytes, text: bytes) -> tuple[list[Event], bytes]:
        """Decode the events that `left` and then `text` hold whole; give them and what is left of the text."""
        border = _last_border(text)
        if border is None:
            text = left + text
            if (border := _last_border(text)) is None:
                if len(text) <= _MAX_EVENT_BYTES:
                    return [], text
                self._lost += 1
                return [], b""
            left = b""
        end, following = border
        try:
            whole: list[Event] = self._decoders.list.decode(b"".join((b"[", left, memoryview(text)[:end], b"]")))
            return whole, text[following:]
        except UNREADABLE:
            text, following = left + text, len(left) + following
            events, kept = self._recover(text[:following])
            return events, text[kept:]

    def _decode_end(self, text: bytes, wrapped: bool) -> list[Event]:
        try:
            if wrapped:
                wrapper: _Wrapper = self._decoders.wrapper.decode(b'{"traceEvents":[' + text)
                return wrapper.traceEvents
            whole: list[Event] = self._decoders.list.decode(b"[" + text)
            return whole
        except UNREADABLE:
            events, kept = self._recover(text)
        begun = bool(text[kept:].strip())  # the last event has a beginning that did not decode
        self._lost += begun
        if begun or not text.rstrip().endswith((b"]", b"}") if wrapped else b"]"):
            self._notes.warning(self._path.name, "its end is incomplete: the export was stopped, or the file was cut")
        return events

    def _recover(self, text: bytes) -> tuple[list[Event], int]:
        """Decode event by event; give the events and where the text begins that may still become one."""
        lost_before = self._lost
        starts = [match.start() for match in _EVENT.finditer(text)]
        ends = [*starts[1:], len(text)]
        events: list[Event] = []
        row, failed = 0, 0
        while row < len(starts) and self._failures <= _MAX_FAILURES:
            event, used = _decode_one(self._decoders.event, text, starts[row], ends[row : row + _MAX_SPLITS])
            if event is None:
                failed += 1
                self._failures += 1
            else:
                if _opened(text, starts[row]) is not None:
                    self._begins.append(len(events))
                events.append(event)
                self._lost += bool(failed)  # whatever lay between two whole events is one loss
                failed = 0
            row += used
        self._damaged |= not self._begins or self._lost > lost_before
        kept = len(text)
        if failed:  # it may become whole with the next chunk, and may be the first of a document
            kept = starts[row - failed] if (opened := _opened(text, starts[row - failed])) is None else opened
        if len(text) - kept <= _MAX_EVENT_BYTES:
            return events, kept
        self._lost += 1
        return events, len(text)

    def _note_losses(self) -> None:
        name = self._path.name
        if self._damaged:
            self._notes.warning(name, "the JSON is damaged; it was read event by event")
        self._notes.ledger.read(name, self._lost)
        self._notes.leave_out(
            name,
            "a piece of the timeline is damaged and its events are lost",
            self._lost,
            affects="the timeline's tables",
        )
        if self._eventless_bytes > _MAX_EVENTLESS_BYTES:
            size = _MAX_EVENTLESS_BYTES >> 20
            self._notes.error(
                name, f"{size} MiB of it hold no event; the rest of the file is not read: export it again"
            )
        if self._failures > _MAX_FAILURES:
            self._notes.error(name, f"more than {_MAX_FAILURES} events are damaged; the rest of the file is not read")


def _opened(text: bytes, start: int) -> int | None:
    """Return where the list begins of which the event at `start` is the first; None where it is none's."""
    match = _OPENED.search(text, max(0, start - _SPACE_BYTES), start)
    return match.start() if match else None


def _last_border(text: bytes) -> tuple[int, int] | None:
    """Find the last place between two events: the end of the one, the start of the next."""
    window = 1 << 16
    while True:
        start = max(0, len(text) - window)
        last = None
        for match in _BORDER.finditer(text, start):
            last = match
        if last is not None:
            return last.start() + 1, last.end()
        if start == 0:
            return None
        window *= 8


def _decode_one(
    decoder: msgspec.json.Decoder[Any], text: bytes, start: int, ends: list[int]
) -> tuple[Event | None, int]:
    """Decode the event at `start`, which ends at one of `ends`; tell how many beginnings it took up."""
    for used, end in enumerate(ends, start=1):
        piece = text[start : text.rfind(b"}", start, end) + 1]  # whatever follows is not of the event
        for attempt in (piece, readable(piece)):
            with suppress(*UNREADABLE):
                event: Event = decoder.decode(attempt)
                return event, used
    with suppress(*UNREADABLE, ValueError):  # the event may be whole, and what follows it in the text none
        text_of = text[start : ends[-1]].decode("latin-1")  # a character for each byte
        end = start + _JSON.raw_decode(text_of)[1]
        alone: Event = decoder.decode(text[start:end])
        return alone, 1 + sum(following < end for following in ends)
    return None, 1  # the caller counts it as lost


def readable(piece: bytes) -> bytes:
    """Return JSON text without what others write but JSON does not allow: NaN, and text that is no UTF-8."""
    return repaired_json(_NOT_A_NUMBER.sub(rb"\1null", piece))


def arguments_of(event: Event) -> dict[str, Any]:
    """Return the arguments of an event; empty where there are none or they cannot be read."""
    if (raw := bytes(event.args)) in (b"{}", b"null"):
        return {}
    with suppress(*UNREADABLE):
        args = msgspec.json.decode(readable(raw))
        return args if isinstance(args, dict) else {}
    return {}
