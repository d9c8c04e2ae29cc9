"""Reference pages are those that the code makes, and explain every column."""

from __future__ import annotations

import pytest

from npuprof import tables
from tests import reference_pages


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_is_current(name: str) -> None:
    page = (reference_pages.FOLDER / name).read_text(encoding="utf-8")
    assert page == reference_pages.PAGES[name](), "run `python -m tests.reference_pages`"


def test_every_column_is_explained_and_no_other() -> None:
    columns = {column.name for table in tables.SCHEMA.values() for column in table.columns}
    assert columns == set(reference_pages.MEANINGS)
