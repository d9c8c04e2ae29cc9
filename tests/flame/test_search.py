from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.errors import OptionsError
from npuprof.flame.fold import Root, fold
from npuprof.flame.search import matches_in, path_called, paths_with
from tests.budget import examples
from tests.flame.trees import NAMES, Row, below, callers, rows, tree


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(rows, st.integers(2, 12), st.integers(-1, 39))
def test_the_share_is_that_of_the_union(given_rows: list[Row], most: int, path: int) -> None:
    calls, sums = tree(given_rows)
    root = Root(min(path, len(calls) - 1))
    frames = fold(calls, sums, root, most)
    matches = paths_with(calls, "A")

    found = matches_in(calls, sums, root, frames, matches)

    itself = [root.path] if root.path >= 0 else []
    looked_at = {*below(calls, root), *itself}
    lit = [one for one in looked_at if "a" in NAMES[calls.label[one]] and sums.total[one] > 0]
    assert found.frames == len(lit)
    counted = [one for one in looked_at if any(above in lit for above in callers(calls, one))]
    assert found.total == sum(int(sums.exclusive[one]) for one in counted)
    drawn = set(frames.path[frames.folded == 0].tolist())
    for frame in range(len(frames)):
        if frames.folded[frame]:
            caller = int(frames.path[frame])
            hidden = [one for one in below(calls, root) if calls.parent[one] == caller and one not in drawn]
            assert found.lit[frame] == any(set(callers(calls, one)) & set(hidden) for one in lit)
        else:
            shown = int(frames.path[frame])
            assert found.lit[frame] == (shown in lit and (frame > 0 or bool(itself)))


def test_nested_matches_count_once() -> None:
    calls, sums = tree([(0, 2, 1), (1, 3, 0), (2, 4, 0), (0, 1, 2)])

    found = matches_in(calls, sums, Root(), fold(calls, sums, Root(), 10), paths_with(calls, "a"))

    assert (found.frames, found.total) == (2, 7)


def test_a_search_is_for_text_or_for_a_pattern() -> None:
    calls, _ = tree([(0, 1, 0), (0, 1, 1), (0, 1, 3)])

    assert paths_with(calls, "B").tolist() == [False, True, True]
    assert paths_with(calls, "^B", regex=True).tolist() == [False, True, False]
    assert not paths_with(calls, "^b").any()
    assert not paths_with(calls, "").any()
    with pytest.raises(OptionsError, match=re.escape("the regular expression '(' cannot be read")):
        paths_with(calls, "(", regex=True)
    with pytest.raises(OptionsError, match="at most 1,000"):
        paths_with(calls, "x" * 1_001)


def test_a_path_is_found_by_its_names() -> None:
    calls, sums = tree([(0, 1, 0), (1, 2, 1), (0, 1, 1), (1, 9, 2)])

    assert path_called(calls, sums, ()) == -1
    assert path_called(calls, sums, ["a", "b"]) == 1
    assert path_called(calls, sums, "b") == 2  # the wider one of two
    with pytest.raises(OptionsError, match="there is no frame 'c' below 'a'; the widest are b"):
        path_called(calls, sums, ["a", "c"])
    with pytest.raises(OptionsError, match="there is no frame 'x' in this run"):
        path_called(calls, sums, "x")
