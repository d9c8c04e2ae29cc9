"""Records are found, and found again behind damage."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.framework.tlv import PADDING_BYTES, PaddedBytes, scan
from npuprof.tables.notes import Notes
from tests.sources.framework.writer import record, text

KIND, FIXED = 3, 4


def content(raw: bytes) -> PaddedBytes:
    return PaddedBytes(np.frombuffer(bytearray(raw + bytes(PADDING_BYTES)), np.uint8))


def one(number: int, *fields: bytes) -> bytes:
    return record(KIND, struct.pack("<i", number) + b"".join(fields))


def numbers(raw: bytes, notes: Notes | None = None) -> list[int]:
    found: list[int] = (
        scan(content(raw), KIND, FIXED, Notes() if notes is None else notes, "file").column(0, "<i4").tolist()
    )
    return found


def test_every_record_is_found_at_any_alignment() -> None:
    notes = Notes()
    raw = b"".join(one(number, text(1, "x" * (number % 7))) for number in range(-50, 50))
    assert numbers(raw, notes) == list(range(-50, 50))
    assert not len(notes)


def test_nothing_is_found_in_an_empty_file() -> None:
    notes = Notes()
    assert numbers(b"", notes) == []
    assert not len(notes)


def test_a_cut_record_is_left_out_and_reported() -> None:
    notes = Notes()
    raw = one(1) + one(2)
    assert numbers(raw[:-1], notes) == [1]
    assert notes.to_frame()["message"].tolist() == ["9 of 19 bytes are damaged or cut off, and skipped"]


def test_reading_goes_on_behind_a_damaged_header() -> None:
    # GIVEN a record whose length points out of the file
    damaged = bytearray(one(2))
    damaged[2:6] = b"\xff\xff\xff\x7f"
    notes = Notes()
    assert numbers(one(1) + bytes(damaged) + one(3) + one(4), notes) == [1, 3, 4]
    assert "10 of 40 bytes" in notes.to_frame()["message"][0]


def test_reading_starts_behind_garbage() -> None:
    assert numbers(b"\xee" * 100_000 + one(3) + one(4)) == [3, 4]


def test_a_record_without_its_fixed_part_is_skipped() -> None:
    notes = Notes()
    assert numbers(one(1) + record(KIND, b"ab") + one(3), notes) == [1, 3]
    assert notes.to_frame()["message"].tolist() == ["a record is shorter than its kind, and skipped"]


def test_fields_are_found_in_any_order_and_number() -> None:
    raw = content(one(1, text(2, "b"), text(1, "aa")) + one(2) + one(3, text(9, "?"), text(1, "")))
    fields = scan(raw, KIND, FIXED, Notes(), "file").fields((1, 2), Notes(), "file")
    texts = [
        [bytes(raw.padded[at : at + length]) if length >= 0 else None for at, length in zip(*columns, strict=True)]
        for columns in fields.values()
    ]
    assert texts == [[b"aa", None, b""], [b"b", None, None]]


def test_a_damaged_field_leaves_those_before_it() -> None:
    notes = Notes()
    raw = content(one(1, text(1, "aa"), b"\x02\x00\xff\xff\x00\x00b"))
    fields = scan(raw, KIND, FIXED, notes, "file").fields((1, 2), notes, "file")
    assert [length.tolist() for _, length in fields.values()] == [[2], [-1]]
    assert len(notes) == 1


@given(st.binary(max_size=400), st.lists(st.integers(-9, 9), max_size=20), st.binary(max_size=40))
def test_no_bytes_lead_out_of_the_file(before: bytes, held: list[int], behind: bytes) -> None:
    raw = content(before + b"".join(map(one, held)) + behind)
    records = scan(raw, KIND, FIXED, Notes(), "file")
    assert (records.start >= 6).all()
    assert (records.start + records.length <= raw.size).all()
    assert (np.diff(records.start) >= 6).all()
    for start, length in records.fields((1, 2), Notes(), "file").values():
        assert (start[length >= 0] + length[length >= 0] <= raw.size).all()
