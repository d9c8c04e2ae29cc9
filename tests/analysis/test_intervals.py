from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis import intervals
from npuprof.analysis.intervals import Spans, breakdown, pieces, subtract, total, union

_rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25)


def _spans(rows: list[tuple[int, int]]) -> Spans:
    starts = np.array([start for start, _ in rows], np.int64)
    return starts, starts + np.array([length for _, length in rows], np.int64)


def _ticks(spans: Spans) -> npt.NDArray[np.bool_]:
    covered = np.zeros(100, bool)
    for start, end in zip(spans[0].tolist(), spans[1].tolist(), strict=True):
        covered[start:end] = True
    return covered


def _assert_disjoint(spans: Spans) -> None:
    assert (spans[1] > spans[0]).all()
    assert (spans[0][1:] > spans[1][:-1]).all()


@settings(deadline=None)
@given(_rows)
def test_a_union_covers_the_same_ticks_once(rows: list[tuple[int, int]]) -> None:
    merged = union(*_spans(rows))
    _assert_disjoint(merged)
    assert (_ticks(merged) == _ticks(_spans(rows))).all()


@settings(deadline=None)
@given(_rows, _rows)
def test_a_difference_covers_what_only_the_first_does(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left = subtract(union(*_spans(one)), union(*_spans(other)))
    _assert_disjoint(left)
    assert (_ticks(left) == (_ticks(_spans(one)) & ~_ticks(_spans(other)))).all()


@pytest.mark.parametrize("few", [0, 64], ids=["a row at a time", "slices"])
@settings(deadline=None)
@given(rows=_rows, edges=st.lists(st.integers(0, 70), min_size=1, max_size=9).map(sorted))
def test_pieces_are_what_lies_in_each_window(few: int, rows: list[tuple[int, int]], edges: list[int]) -> None:
    spans, windows = union(*_spans(rows)), (np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64))
    with pytest.MonkeyPatch.context() as patch:  # windows touch, and some have no length
        patch.setattr(intervals, "_FEW", few)
        starts, ends, window = pieces(spans, windows)
    for number, (begin, end) in enumerate(pairwise(edges)):
        inside = np.zeros(100, bool)
        inside[begin:end] = True
        mine = starts[window == number], ends[window == number]
        _assert_disjoint(mine)
        assert (_ticks(mine) == (_ticks(spans) & inside)).all()


@pytest.mark.slow
@settings(deadline=None)
@given(_rows, _rows, st.none() | _rows)
def test_computing_exposed_communication_and_free_sum_to_the_span(
    computing: list[tuple[int, int]], communication: list[tuple[int, int]], others: list[tuple[int, int]] | None
) -> None:
    parts = breakdown(_spans(computing), _spans(communication), None if others is None else _spans(others))
    busy = _ticks(_spans(computing)) | _ticks(_spans(communication)) | _ticks(_spans(others or []))
    span = int(np.flatnonzero(busy)[-1] - np.flatnonzero(busy)[0] + 1) if busy.any() else 0
    assert sum(total(parts[kind]) for kind in ("computing", "communication_not_overlapped", "free")) == span
    assert total(parts["communication"]) == int(_ticks(_spans(communication)).sum())


def test_touching_intervals_are_one() -> None:
    starts, ends = union(np.array([5, 1]), np.array([9, 5]))
    assert starts.tolist() == [1]
    assert ends.tolist() == [9]
