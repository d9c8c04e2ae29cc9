"""What a reader types into a filter or a search cannot be made to run for ever."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis import filters, patterns
from npuprof.analysis.patterns import contains_pattern
from npuprof.errors import OptionsError
from npuprof.flame.search import paths_with
from npuprof.flame.tree import merged_calls
from npuprof.timeline.slices import Slices, search
from tests import factories

NAME = "a" * 400 + "!"
EXPLODING = ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*a){12}x$", "^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.fixture(autouse=True)
def ended_when_it_hangs() -> Iterator[None]:
    """End the process where a test runs for ever: an expression that goes back cannot be interrupted otherwise."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def in_table(pattern: str) -> None:
    frame = pd.DataFrame({"name": pd.Categorical([NAME, "MatMul"])})
    condition = filters.understand(frame, "name", f"/{pattern}/")
    assert not condition.mask(frame)[1]


def in_text_column(pattern: str) -> None:
    frame = pd.DataFrame({"name": pd.Series([NAME, None, "MatMul"], dtype=object)})
    assert not filters.understand(frame, "name", f"/{pattern}/i").mask(frame)[1]


def in_timeline(pattern: str) -> None:
    search(Slices(factories.profile(6, kernel_names=(NAME,))), pattern, regex=True)


def in_flame_graph(pattern: str) -> None:
    paths_with(merged_calls(factories.profile(6, kernel_names=(NAME,))), pattern, regex=True)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", EXPLODING)
@pytest.mark.parametrize("place", [in_table, in_text_column, in_timeline, in_flame_graph])
def test_an_expression_that_would_explode_is_answered(place: Callable[[str], None], pattern: str) -> None:
    place(pattern)


def test_an_expression_matches_as_it_says() -> None:
    names = ["MatMulV3", "matmul", None, 5, "Add_12", "中文", "\udcff"]
    assert contains_pattern(names, r"^matmul").tolist() == [True, True, False, False, False, False, False]
    assert contains_pattern(names, r"^matmul", ignore_case=False).sum() == 1
    assert contains_pattern(names, r"_\d+$").nonzero()[0].tolist() == [4]
    assert contains_pattern([], "x").tolist() == []
    assert contains_pattern(["x"] * 1000 + ["y"], "y").nonzero()[0].tolist() == [1000]


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1", "a{2000}", "\ud800", "x" * 1001])
def test_what_cannot_be_read_is_reported(pattern: str) -> None:
    with pytest.raises(OptionsError, match="the regular expression"):
        contains_pattern(["a"], pattern)


def test_what_takes_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_MOST_SECONDS", -1.0)
    with pytest.raises(OptionsError, match="takes too long"):
        contains_pattern(np.array(["a"] * 100).tolist(), "a")
