"""What an automatic report costs: it grows with the rows of a run, and keeps to its budget."""

from __future__ import annotations

import gc
import io
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout

import pytest

from npuprof.notebook.budget import ALWAYS_KERNELS, BUDGET_BYTES, BUDGET_NS, PARTS, left_out, left_out_text
from npuprof.notebook.report import show_run
from npuprof.profiles.profile import Profile
from tests import rising

_SIZES = 1_250, ALWAYS_KERNELS - 1  # of reports that lack nothing
_LARGE = 6_250, 100_000
_TIMES = 16  # a size is so many times the one before
_MOST_GROWTH = 34  # of what rows cost from size to size: 16 for N, at most 23 for N log N, 37 for N to the 1.3
_LEAST_S, _LEAST_BYTES = 0.4, 8_000_000  # growth to less says nothing
_TRIES = 3

Shows = Callable[[Profile], object]


def _report_s(quantity: str, count: int, show: Shows = show_run) -> float:
    run = rising.run_of(quantity, count)
    gc.collect()
    began = time.process_time()
    with redirect_stdout(io.StringIO()):
        show(run)
    return time.process_time() - began


def _report_bytes(quantity: str, count: int) -> float:
    run = rising.run_of(quantity, count)
    gc.collect()
    tracemalloc.start()
    try:
        with redirect_stdout(io.StringIO()):
            show_run(run)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _assert_grows_with_rows(costs: Sequence[float], least: float) -> None:
    """Assert that cost grows at most like N log N; `costs` are those of no rows, of few, and of many times that."""
    few, many = costs[1] - costs[0], costs[2] - costs[0]
    if many > least:
        assert many < _MOST_GROWTH * max(few, least / _TIMES), costs


def _assert_time_grows_with_rows(quantity: str, sizes: Sequence[int], show: Shows = show_run) -> None:
    least = [min(_report_s(quantity, count, show) for _ in range(_TRIES)) for count in (1, sizes[0])]
    _assert_grows_with_rows([*least, _report_s(quantity, sizes[1], show)], _LEAST_S)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Leave imports and caches out of what is measured."""
    _report_s("kernels", 10)


def test_growth_beyond_rows_is_seen() -> None:
    for power, is_seen in ((1.0, False), (1.1, False), (1.3, True), (2.0, True)):
        costs = [0.3, *(0.3 + 1e-5 * count**power for count in _LARGE)]
        with pytest.raises(AssertionError) if is_seen else nullcontext():
            _assert_grows_with_rows(costs, _LEAST_S)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_time_grows_with_rows(quantity: str) -> None:
    _assert_time_grows_with_rows(quantity, _SIZES)


@pytest.mark.long
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_time_of_the_rest_grows_with_rows(quantity: str) -> None:
    """What is never left out: headline, findings and code."""
    assert _report_s(quantity, 1) < 2
    _assert_time_grows_with_rows(quantity, _LARGE, str)


@pytest.mark.long
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_memory_grows_with_rows(quantity: str) -> None:
    _assert_grows_with_rows([_report_bytes(quantity, count) for count in (1, 1_000, 16_000)], _LEAST_BYTES)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_small_runs_lack_nothing(quantity: str) -> None:
    most = ALWAYS_KERNELS - 1
    assert left_out(rising.QUANTITIES[quantity](most)) == {}


@pytest.mark.slow
def test_small_report_has_every_part() -> None:
    shown = io.StringIO()
    with redirect_stdout(shown):
        show_run(rising.run_of("kernels", ALWAYS_KERNELS - 1))
    assert "Left out" not in shown.getvalue()
    for word in ("timeline: ", "flame graph"):
        assert word in shown.getvalue()


@pytest.mark.slow
def test_large_report_names_the_calls() -> None:
    count = 2 * ALWAYS_KERNELS
    run = rising.run_of("names", count)
    left = left_out(run.tables)
    assert "explore" in left
    shown = io.StringIO()
    with redirect_stdout(shown):
        show_run(run)
    text = shown.getvalue()
    assert "a step" in text  # the headline
    assert run.advice().fired[0].title[:20] in text  # the findings
    assert "train.py" in text or "model.py" in text  # the code
    assert left_out_text(left, "run") in text
    for method in left:
        assert f"run.{method}()" in text
        assert callable(getattr(run, method))


def test_parts_fit_or_are_left_out() -> None:
    few, many = (left_out(rising.launches(count)) for count in (ALWAYS_KERNELS, 40 * ALWAYS_KERNELS))
    assert few == {}
    assert {part.method for part in PARTS} == set(many)
    assert any(needed.ns > BUDGET_NS / 10 or needed.bytes > BUDGET_BYTES / 10 for needed in many.values())
    assert left_out_text({}, "run") == ""
