"""What an automatic report costs: it grows with the rows of a run, and keeps to its budget."""

from __future__ import annotations

import gc
import io
import time
import tracemalloc
from contextlib import redirect_stdout

import pytest

from npuprof.notebook.budget import ALWAYS_KERNELS, BUDGET_BYTES, BUDGET_NS, PARTS, left_out, left_out_text
from npuprof.notebook.report import show_run
from tests import rising

_TIMES = 4  # a size is so many times the one before
_MOST_GROWTH = 8  # of what comes on top from size to size: about 5 for N log N, and 16 for N squared
_LEAST_S, _LEAST_BYTES = 0.4, 8_000_000  # growth by less says nothing


def _report_s(quantity: str, count: int) -> float:
    run = rising.run_of(quantity, count)
    gc.collect()
    began = time.process_time()
    with redirect_stdout(io.StringIO()):
        show_run(run)
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


def _assert_grows_with_rows(costs: list[float], least: float) -> None:
    first, second = costs[1] - costs[0], costs[2] - costs[1]
    if second > least:
        assert second < _MOST_GROWTH * max(first, least / _TIMES), costs


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Leave imports and caches out of what is measured."""
    _report_s("kernels", 10)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_time_grows_with_rows(quantity: str) -> None:
    _assert_grows_with_rows([_report_s(quantity, count) for count in (500, 2_000, 8_000)], _LEAST_S)


@pytest.mark.long
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_time_grows_with_many_rows(quantity: str) -> None:
    assert _report_s(quantity, 1) < 2
    _assert_grows_with_rows([_report_s(quantity, count) for count in (6_250, 25_000, 100_000)], _LEAST_S)


@pytest.mark.long
@pytest.mark.parametrize("quantity", rising.QUANTITIES)
def test_memory_grows_with_rows(quantity: str) -> None:
    _assert_grows_with_rows([_report_bytes(quantity, count) for count in (1_000, 4_000, 16_000)], _LEAST_BYTES)


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
