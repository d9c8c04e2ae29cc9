"""Reference pages are those that the code makes, and explain every column."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories, reference_pages


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_is_current(name: str) -> None:
    page = (reference_pages.FOLDER / name).read_text(encoding="utf-8")
    assert page == reference_pages.PAGES[name](), "run `python -m tests.reference_pages`"


def test_columns_that_a_data_frame_hides_are_named_with_brackets() -> None:
    hidden = reference_pages.hidden_columns()
    assert {"operators": ["stack"], "communication": ["count"]}.items() <= hidden.items()
    assert {"rank", "count"} <= set(hidden["by"])
    run = Profile(Decoded(factories.profile(10), factories.info(rank=3)))
    page = reference_pages.tables_page()
    ways = re.findall(r"`(run\.[^`]*\[\"[a-z_]+\"\])`", page)
    assert len(ways) > sum(map(len, hidden.values()))  # and run.tables["kernels"]
    for way in ways:
        value = eval(way, {"run": run})
        assert isinstance(value, pd.Series | pd.DataFrame), way
    assert not isinstance(run.by("rank").count, pd.Series)
    assert run.by("rank")["count"].tolist() == [10]
