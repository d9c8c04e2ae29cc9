"""Texts become codes: the same bytes the same code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.framework import files
from npuprof.sources.framework.files import read_texts
from npuprof.tables.notes import Notes
from tests.sources.framework.test_tlv import content


def read(values: list[bytes | None], notes: Notes | None = None) -> list[str | None]:
    """Lay texts behind each other and read them back."""
    start, length, raw = [], [], b""
    for value in values:
        start.append(len(raw))
        length.append(-1 if value is None else len(value))
        raw += value or b""
    codes, names = read_texts(
        content(raw), np.array(start, np.int64), np.array(length, np.int64), Notes() if notes is None else notes, "file"
    )
    assert len(set(names)) <= len(names)
    return [names[code] if code >= 0 else None for code in codes.tolist()]


@given(
    st.lists(st.none() | st.sampled_from([b"", b"aten::mm", b"aten::add", b"a" * 40, b"a" * 39 + b"b"]), max_size=300)
)
def test_every_text_comes_back(values: list[bytes | None]) -> None:
    assert read(values) == [None if value is None else value.decode() for value in values]


def test_many_texts_of_one_length_are_distinguished() -> None:
    values: list[bytes | None] = [f"operator number {number % 700:>9}".encode() for number in range(3000)]
    assert read(values) == [str(value, "ascii") for value in values if value is not None]


def test_texts_of_one_digest_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a factor that makes every digest 0
    monkeypatch.setattr(files, "_FACTOR", np.uint64(0))
    values: list[bytes | None] = [b"one" if number % 3 else b"two" for number in range(200)]
    assert read(values) == [str(value, "ascii") for value in values if value is not None]


def test_broken_utf8_is_reported() -> None:
    notes = Notes()
    assert read([b"caf\xe9"], notes) == ["caf\N{REPLACEMENT CHARACTER}"]
    assert "not valid UTF-8" in notes.to_frame()["message"][0]


def test_overlong_text_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_TEXT_BYTES", 3)
    notes = Notes()
    assert read([b"abcd", b"abc"], notes) == [None, "abc"]
    assert len(notes) == 1
