"""Reference pages are those that the code makes, and explain every column."""

from __future__ import annotations

import pytest

from tests import reference_pages


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_is_current(name: str) -> None:
    page = (reference_pages.FOLDER / name).read_text(encoding="utf-8")
    assert page == reference_pages.PAGES[name](), "run `python -m tests.reference_pages`"
