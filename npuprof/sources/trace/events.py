"""Read a timeline of Chrome trace events (``trace_view.json``) in chunks, and recover the events of a damaged file.

Chunks end between events, so that memory grows with the chunk and not with the file. A chunk is decoded in one call
into typed structs whose ``args`` stay undecoded bytes. If that fails, the chunk is read event by event, and notes count
the losses.

Source: sources/RESULTS.md section 2 and section 7.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from npuprof.errors import SourceError
from npuprof.progress import report_progress
from npuprof.sources.files.encodings import NOT_UTF_8, UTF_8, ToUtf8
from npuprof.sources.files.gzip_file import is_implausible
from npuprof.sources.trace.content import KEY, content_of, is_archive
from npuprof.sources.trace.event import Documents, Event
from npuprof.sources.trace.mending import MENDED, decoded_mended, mended
from npuprof.tables.notes import ANY, Notes

CHUNK_BYTES = 1 << 20  # the events of a chunk stay in the CPU cache until they are in columns
_MAX_EVENT_BYTES = 32 << 20  # a longer event is damage
_MAX_EVENTLESS_BYTES = 1 << 30  # no timeline has as much text without an event
_MAX_FAILURES = 20_000  # a file with more damaged places is not read further
_MAX_UNZIPPED_BYTES = 64 << 30
_MAX_UNZIPPED_RATIO = 200  # a timeline shrinks to a tenth or a fortieth; a higher ratio is a decompression bomb
_UNZIPPED_ANYWAY_BYTES = 1 << 30
_MAX_OTHER_OBJECTS = 100_000  # one after the other that are no events
_BETWEEN_BYTES = 2  # events
_SPACE_BYTES = 64  # between the start of a list and its first event
_MAX_SPLITS = 16  # objects within an event that may look like events

# Within a JSON string every quote is escaped, so neither pattern matches there.
_BORDER = re.compile(rb"\}\s*,\s*(?=\{\s*" + KEY + rb")")
_EVENT = re.compile(rb"(:\s*)?\{\s*" + KEY)  # after a colon it is the value of a key, such as args
_HOLE = re.compile(rb"\0{32,}")
_OPENED = re.compile(rb"\[\s*\Z")  # text before the first event of a document
_PHASE = re.compile(rb'"ph"\s*:\s*"')
_LIST = re.compile(rb"\s*\[")
_WRAPPED = re.compile(rb'"traceEvents"\s*:\s*\[')
_ONCE = tuple(re.compile(rb'"' + key + rb'"\s*:') for key in (b"ph", b"pid", b"tid", b"ts"))
_HEAD = re.compile(rb'"(?:schemaVersion|deviceProperties|traceEvents)"\s*:')
_OWN_KEY = re.compile(rb'"(ph|pid|tid|ts|dur|cat|name|id)"\s*:')
_OF_EVENT = re.compile(rb'"args"\s*:?\s*\Z')  # an object that is the value of a key
_BEGUN = re.compile(rb"(?:\A|[,\[}])\s*\{\s*" + KEY)
_LAST = re.compile(rb"[\s,]*(?:\]|\Z)")
_CLOSING = re.compile(rb"\}[\s,]*\]")
_END_OF_LIST = re.compile(rb"\]\s*\Z")
_END_OF_OBJECT = re.compile(rb'(?:\}|\A)[\s,]*\]\s*(?:,\s*".*)?\}\s*\Z', re.DOTALL)
_JSON = json.JSONDecoder()
_LFS = b"version https://git-lfs"


class _ExactEvent(Event, gc=False):
    """An event whose time, if written as a number, is kept as text."""

    ts: Any = None


class _Wrapper(msgspec.Struct, gc=False):
    traceEvents: list[Event]  # noqa: N815 - the key's own name


class _ExactWrapper(msgspec.Struct, gc=False):
    traceEvents: list[_ExactEvent]  # noqa: N815 - the key's own name


class _Decoders(NamedTuple):
    """Decoders for a list of events, for a single event, and for the end of an object that holds events."""

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
    """Check by its first bytes whether a file is a timeline of Chrome trace events; False if it is unreadable."""
    try:
        with path.open("rb") as file:
            head = content_of(file).read(1 << 16)
    except (OSError, EOFError, zlib.error):
        return False
    return _first_event(head) is not None and (_PHASE.search(head) is not None or _WRAPPED.search(head) is not None)


def read_events(
    path: Path, notes: Notes, chunk_bytes: int = CHUNK_BYTES, *, exact: bool = False
) -> Iterator[list[Event]]:
    """Yield the events of a timeline in file order, one list per chunk of `chunk_bytes`.

    Parameters
    ----------
    path
        A JSON list of events, an object with ``traceEvents``, or one event per line; plain or gzipped.
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


def _first_event(head: bytes) -> tuple[int, bool] | None:
    """Return the offset of the events and whether an object wraps them; None if the text is not a timeline."""
    text_start = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    if match := _LIST.match(head, text_start):
        return match.end(), False
    if head[text_start:].lstrip().startswith(b"{") and (match := _WRAPPED.search(head)):
        return match.end(), True
    return None


class _Reader:
    """The state of reading a file: undecoded text, and counts of losses."""

    def __init__(
        self, path: Path, file: io.BufferedReader, notes: Notes, chunk_bytes: int, decoders: _Decoders
    ) -> None:
        self._decoders = decoders
        self._path, self._file, self._notes, self._chunk_bytes = path, file, notes, chunk_bytes
        self._is_archive = is_archive(file)
        self._to_utf8 = ToUtf8()
        self._stream = content_of(file, self._to_utf8)
        self._size = path.stat().st_size
        self._lost = 0  # events
        self._blanks: list[tuple[int, int, int]] = []  # bytes of text, of zeros in it, and events that are seen in it
        self._whole_bytes, self._whole = 0, 0  # of events that could be read
        self._failures = 0  # starts of events that could not be decoded
        self._eventless_bytes = 0  # bytes since the last event
        self._is_cut = False  # whether the text begins within an event
        self._is_other = False  # whether what follows the last event is objects of another kind
        self._mended: Counter[str] = Counter()  # events by what was repaired in them
        self._damaged = False
        self._begins: list[int] = []
        self._read_bytes = 0
        self._max_bytes = self._limit()

    def _limit(self) -> int:
        if not self._is_archive:
            return sys.maxsize
        return min(_MAX_UNZIPPED_BYTES, max(_UNZIPPED_ANYWAY_BYTES, self._size * _MAX_UNZIPPED_RATIO))

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events of a bounded part of the file at a time."""
        left, text, wrapped = b"", *self._begin()
        # A block is decoded after the next one is read: the last block holds the text after the events.
        while self._is_worth_reading() and (block := self._read(max(self._chunk_bytes, len(left)))):
            events, left = self._decode_whole_events(left, text)
            self._eventless_bytes = 0 if events else self._eventless_bytes + len(text)
            if events:
                yield events
            text = block
        yield self._decode_end(left + text, wrapped)
        self._note_losses()

    def take_begins(self) -> list[int]:
        """Return the positions in the last batch at which another document begins."""
        begins, self._begins = self._begins, []
        return begins

    def _is_worth_reading(self) -> bool:
        return self._failures <= _MAX_FAILURES and self._eventless_bytes <= _MAX_EVENTLESS_BYTES and not self._is_other

    def _begin(self) -> tuple[bytes, bool]:
        head = self._read(self._chunk_bytes)
        if not head.strip():
            raise SourceError(f"{self._path} is empty: the export was stopped or the disk was full; export it again")
        if head.startswith(_LFS):
            raise SourceError(f"{self._path} is a git-LFS pointer, not the data; run `git lfs pull` in its folder")
        while (place := _first_event(head)) is None and len(head) < _HEAD_BYTES and (block := self._read(_HEAD_BYTES)):
            head += block
        if place is None:
            raise SourceError(f"{self._path} is no timeline: neither a JSON list of events nor an object with them")
        start, wrapped = place
        return head[start:], wrapped

    def _read(self, size: int) -> bytes:
        """Read a block; shorter at the end of the file, or of a damaged or oversized archive."""
        parts: list[bytes] = []
        remaining = min(size, self._max_bytes - self._read_bytes)
        try:
            while remaining > 0 and (part := self._stream.read1(remaining)):
                parts.append(part)
                remaining -= len(part)
            unpacked = self._read_bytes + size - remaining
            if self._is_archive and is_implausible(unpacked, self._file.tell()):
                raise SourceError(
                    f"{self._path} unpacks to more than {unpacked >> 20} MiB: no timeline shrinks that much; if it is "
                    "one, unpack it and load that"
                )
            if not remaining and self._read_bytes + size >= self._max_bytes and self._stream.read1(1):
                self._notes.error(
                    self._path.name,
                    f"the archive unpacks to more than {self._max_bytes >> 20} MiB; the rest is not read: if it is a "
                    "timeline, unpack it and load that",
                )
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._notes.warning(self._path.name, f"the gzip archive is damaged, its rest is lost: {error}", lacks=ANY)
        block = b"".join(parts)
        self._read_bytes += len(block)
        report_progress(self._path.name, self._file.tell(), self._size)
        return block

    def _decode_whole_events(self, left: bytes, text: bytes) -> tuple[list[Event], bytes]:
        """Decode the complete events in `left` and `text`; return them and the remaining text."""
        border = _last_border(text)
        if border is None:
            text = left + text
            if (border := _last_border(text)) is None:
                self._check_objects(text)
                if len(text) <= _MAX_EVENT_BYTES:
                    return [], text
                self._lost += 1
                self._is_cut = True
                return [], b""
            left = b""
            self._is_cut = False
        end, following = border
        try:
            whole: list[Event] = self._decoders.list.decode(b"".join((b"[", left, memoryview(text)[:end], b"]")))
            self._whole_bytes += len(left) + following
            self._whole += len(whole)
            return whole, text[following:]
        except UNREADABLE:
            text, following = left + text, len(left) + following
            events, kept = self._recover(text[:following])
            return events, text[kept:]

    def _check_objects(self, text: bytes) -> None:
        """Check that text without the border of two events is not a list of other objects."""
        if text.count(b"},") <= _MAX_OTHER_OBJECTS or self._is_cut:
            return
        last = 0
        for match in _EVENT.finditer(text):
            last = match.start()
        if last or _EVENT.match(text):
            try:
                last += _JSON.raw_decode(text[last : last + _HEAD_BYTES].decode("latin-1").lstrip(": "))[1]
            except (ValueError, RecursionError):  # the objects may be its arguments
                return
        if text.count(b"},", last) > _MAX_OTHER_OBJECTS:
            if not self._whole and not last:
                raise SourceError(
                    f"{self._path} is no timeline: its first {_MAX_OTHER_OBJECTS:,} objects are no events; "
                    "give a file of the profiler"
                )
            self._is_other = True

    def _decode_end(self, text: bytes, wrapped: bool) -> list[Event]:
        try:
            if wrapped:
                wrapper: _Wrapper = self._decoders.wrapper.decode(b'{"traceEvents":[' + text)
                return wrapper.traceEvents
            return self._decoders.list.decode(b"[" + text)
        except UNREADABLE:
            events, kept = self._recover(text)
        rest = text[kept:]
        self._damaged |= self._lose(rest) > 0
        if not (_END_OF_OBJECT if wrapped else _END_OF_LIST).search(rest):
            cut = "its end is incomplete: a stopped export or a cut file; the number of missing events is unknown"
            self._notes.warning(self._path.name, cut, lacks=ANY)
        return events

    def _recover(self, text: bytes) -> tuple[list[Event], int]:
        """Decode event by event; return the events, and the offset of text that is not yet accounted for.

        The next chunk may complete an event there.
        """
        starts = [match.start() for match in _EVENT.finditer(text) if not match[1]]
        ends = [*starts[1:], len(text)]
        events: list[Event] = []
        row, at = 0, 0  # everything before `at` is an event, or counted as lost
        lost_before, mended_before = self._lost, self._mended.total()
        while row < len(starts) and self._failures <= _MAX_FAILURES:
            start = starts[row]
            decoded = _decode_one(self._decoders.event, text, start, ends[row : row + _MAX_SPLITS])
            if decoded is None:
                self._failures += 1
                row += 1
                continue
            if _OPENED.search(text, max(0, start - _SPACE_BYTES), start):
                self._begins.append(len(events))
            gap = _own_keys(text[at:start]) if b"}" not in text[at:start] else set()
            if gap and not gap & _own_keys(text[start : decoded.end]):  # its first part stands before it
                row += decoded.used
                continue
            self._lose(text[at:start])
            self._whole_bytes += decoded.end - start + _BETWEEN_BYTES
            self._whole += 1
            self._mended.update(decoded.mended)
            events.append(decoded.event)
            at = decoded.end
            row += decoded.used
        is_explained = bool(self._begins) or self._mended.total() > mended_before
        self._damaged |= not is_explained or self._lost > lost_before
        if not text[at:].strip(b", \t\r\n"):
            return events, len(text)
        if row < len(starts) or len(text) - at <= _MAX_EVENT_BYTES:
            return events, at
        self._lose(text[at:])
        return events, len(text)

    def _lose(self, text: bytes) -> int:
        """Count the events in text that could not be read, and return how many of them are seen in it."""
        seen = _lost_in(text)
        self._lost += seen
        if zeros := sum(len(hole) for hole in _HOLE.findall(text)):
            self._blanks.append((len(text), zeros, seen))
        return seen

    def _lost_in_holes(self) -> int:
        """Return about how many events more holes of zeros had, by the usual length of an event."""
        if not self._whole:
            return 0
        usual = self._whole_bytes / self._whole
        return sum(max(0, round(size / usual) - seen) for size, zeros, seen in self._blanks if zeros > usual)

    def _note_losses(self) -> None:
        name = self._path.name
        if self._to_utf8.encoding != UTF_8:
            self._notes.info(name, NOT_UTF_8)
        if self._damaged:
            self._notes.warning(name, "the JSON is damaged; it was read event by event")
        for repair in MENDED:
            if self._mended[repair]:
                self._notes.info(name, repair, self._mended[repair])
        in_holes = self._lost_in_holes()
        self._notes.ledger.read(name, self._lost + in_holes)
        lost = "a piece of the timeline is damaged and its events are lost"
        self._notes.leave_out(name, lost, self._lost, affects=ANY)
        overwritten = "a piece of the timeline is overwritten with zeros; the lost events are estimated by its length"
        self._notes.leave_out(name, overwritten, in_holes, affects=ANY)
        if self._eventless_bytes > _MAX_EVENTLESS_BYTES:
            size = _MAX_EVENTLESS_BYTES >> 20
            self._notes.error(
                name, f"{size} MiB of it hold no event; the rest of the file is not read: export it again", lacks=ANY
            )
        if self._is_other:
            self._notes.error(
                name,
                f"{_MAX_OTHER_OBJECTS:,} objects one after the other are no events; the rest of the file is not read: "
                "export it again",
                lacks=ANY,
            )
        if self._failures > _MAX_FAILURES:
            self._notes.error(
                name, f"more than {_MAX_FAILURES} events are damaged; the rest of the file is not read", lacks=ANY
            )


def _last_border(text: bytes) -> tuple[int, int] | None:
    """Return the end of the last event that is followed by another, and the start of that one."""
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


def _lost_in(text: bytes) -> int:
    """Count the events in text between intact ones, or beside them.

    Every event has each of some keys once, and damage rarely hits them all. What looks like the start of an event but
    only adds missing keys belongs to the event before it.
    """
    text = _HEAD.split(text, 1)[0]  # another document may begin
    starts = [match.start() for match in _BEGUN.finditer(text)]
    begins = [start for start in starts if not _OF_EVENT.search(text, max(0, start - _SPACE_BYTES), start)]
    begun, known = 0, set[bytes]()
    for begin, end in zip(begins, [*begins, len(text)][1:], strict=True):
        keys = _own_keys(text[begin:end])
        if not known or not keys or keys & known or b"}" not in text[begin:end]:
            begun, known = begun + 1, set()
        known |= keys
    found = max(begun, *(len(key.findall(text)) for key in _ONCE))
    is_closed = text.lstrip(b", \t\r\n}").startswith(b"]")
    return found if is_closed or b'"' not in text else max(1, found)


def _own_keys(text: bytes) -> set[bytes]:
    """Return the top-level keys in the text of an event or of a part of one."""
    before, arguments, _ = text.partition(b'"args"')
    return {*_OWN_KEY.findall(before), *([arguments] if arguments else ())}


class _Decoded(NamedTuple):
    """An event of damaged text, its end there, how many ends it used, and what was mended."""

    event: Event
    end: int
    used: int
    mended: tuple[str, ...]


def _decode_one(decoder: msgspec.json.Decoder[Any], text: bytes, start: int, ends: list[int]) -> _Decoded | None:
    """Decode the event at `start`, which ends at one of `ends`; None if it is lost."""
    for used, end in enumerate(ends, start=1):
        closes = [text.rfind(b"}", start, end) + 1]
        with suppress(*UNREADABLE):
            return _Decoded(decoder.decode(text[start : closes[0]]), closes[0], used, ())
        if _CLOSING.search(text, start, end):  # the event may be the last of its list
            closes += [match.start() + 1 for match in _CLOSING.finditer(text, start, end)][:_MAX_SPLITS]
        for close in closes:
            for attempt in mended(text[start:close]):
                with suppress(*UNREADABLE):
                    return _Decoded(decoder.decode(attempt.text), close, used, attempt.repairs)
    with suppress(*UNREADABLE, ValueError):  # the event may be complete and followed by garbage
        decoded = text[start : ends[-1]].decode("latin-1")  # one character per byte
        end = start + _JSON.raw_decode(decoded)[1]
        before, after = _own_keys(text[start:end]), _own_keys(text[end : ends[0]])
        is_last = _LAST.match(text, end) is not None
        if is_last or not after or before & after:  # keys that are all new are its own: it was cut in two
            event: Event = decoder.decode(text[start:end])
            return _Decoded(event, end, 1 + sum(following < end for following in ends), ())
    return None


def arguments_of(event: Event) -> dict[str, Any]:
    """Return the arguments of an event; an empty dict if it has none or they cannot be read."""
    if (raw := bytes(event.args)) in (b"{}", b"null"):
        return {}
    with suppress(*UNREADABLE):
        args = decoded_mended(raw, msgspec.json.decode)
        return args if isinstance(args, dict) else {}
    return {}
