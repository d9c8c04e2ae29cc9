from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.intervals import Spans, breakdown, subtract, total, union

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
