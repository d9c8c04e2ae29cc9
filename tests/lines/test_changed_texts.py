"""Lines of two versions of a text, matched."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.lines.changed_texts import changed_lines, matched_lines
from tests.budget import examples

_LINES = st.lists(st.sampled_from(["", "a", "b", "c", *"defghijkl"]), max_size=30)


@settings(max_examples=examples(200))
@given(_LINES, _LINES)
def test_other_lines_are_equal_and_in_order(before: list[str], now: list[str]) -> None:
    pairs = list(matched_lines(now, before))
    assert [new for new, _ in pairs if new is not None] == list(range(1, len(now) + 1))
    assert [old for _, old in pairs if old is not None] == list(range(1, len(before) + 1))
    changed = set(changed_lines(now, before))
    for new, old in set(pairs) - changed:
        first, second = ("" if new is None else now[new - 1]), ("" if old is None else before[old - 1])
        assert first == second or not (first + second).strip()


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (["a", "b"], ["a", "b"], []),
        (["a", "b", "c"], ["a", "x", "c"], [(2, 2)]),
        (["a", "c"], ["a", "b", "c"], [(2, None)]),
        (["a", "b", "c"], ["a", "c"], [(None, 2)]),
        (["", "a"], ["a"], []),
        ([], ["a"], [(1, None)]),
    ],
)
def test_names_what_changed(before: list[str], now: list[str], changed: list[tuple[int | None, int | None]]) -> None:
    assert changed_lines(now, before) == changed


def test_one_line_added_to_many() -> None:
    before = [f"x{line} = {line}" if line % 3 else "step()" for line in range(9_000)]
    assert changed_lines([*before[:4_000], "new()", *before[4_000:]], before) == [(4_001, None)]


def test_repeated_lines_take_no_cubic_time() -> None:
    began = time.process_time()
    changed = changed_lines(["step()", "x = 1"] * 2_000, ["step()"] * 4_000)
    assert [new for new, _ in changed] == list(range(2, 4_001, 2))
    assert time.process_time() - began < 2  # difflib takes minutes
