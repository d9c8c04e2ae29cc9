from __future__ import annotations

import pytest

from npuprof.words import quantities


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (23_456, "23.5 µs"),
        (2_400_000, "2.40 ms"),
        (456_000_000, "456 ms"),
        (61_500_000_000, "61.5 s"),
        (-1_500, "-1.50 µs"),
        (None, "–"),
    ],
)
def test_a_duration_has_three_digits_and_a_unit(nanoseconds: int | None, text: str) -> None:
    assert quantities.duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (2**36, "64.0 GiB"), (None, "–")]
)
def test_a_size_is_in_binary_units(size_bytes: int | None, text: str) -> None:
    assert quantities.size(size_bytes) == text


def test_counts_have_their_thousands_apart_and_absent_ones_are_dashes() -> None:
    assert quantities.count(62_847) == "62,847"
    assert quantities.count(None) == "–"


def test_a_share_of_nothing_is_absent_not_zero() -> None:
    assert quantities.share(1, 4) == "25.0 %"
    assert quantities.share(0, 0) == "–"
    assert quantities.share(None, 4) == "–"


def test_a_long_name_keeps_both_ends() -> None:
    assert quantities.shortened("abcdefghij", 5) == "ab…ij"
    assert quantities.shortened("abcde", 5) == "abcde"
    assert quantities.shortened("abcdefghij", 1) == "…"


def test_a_name_cannot_move_the_cursor_nor_turn_the_text() -> None:
    assert quantities.printable("a\x1b[31mb\nc\u202ed\ud800e", 50) == r"a [31mb c d\ud800e"


def test_ranks_are_written_as_stretches() -> None:
    assert quantities.formatted_ranks([7, 0, 1, 2, 9]) == "0-2, 7, 9"
    assert quantities.formatted_ranks([]) == ""
    assert quantities.formatted_ranks([3, 2, 8]) == "2, 3, 8"
    assert quantities.formatted_ranks(range(0, 200, 2), limit=3) == "0, 2, 4, ..."
    assert quantities.formatted_ranks(range(10_000)) == "0-9999"


def test_a_number_of_things_has_its_plural() -> None:
    texts = [quantities.counted(number, "damaged line") for number in (0, 1, 2, 62_847)]
    assert texts == ["0 damaged lines", "1 damaged line", "2 damaged lines", "62,847 damaged lines"]
    assert [quantities.counted(number, "copy", "copies") for number in (1, 2)] == ["1 copy", "2 copies"]
