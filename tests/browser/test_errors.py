"""An error that no script of a page catches fails a browser test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser import conftest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("script", ["throw Error('lost')", "Promise.reject(Error('lost'))"])
def test_an_error_that_nothing_catches_is_noted(browser: Any, script: str) -> None:
    page = browser.new_page()
    page.set_content(f"<script>setTimeout(() => {{ {script} }})</script>")
    page.wait_for_timeout(200)
    page.close()
    (noted,) = conftest._uncaught
    conftest._uncaught.clear()
    assert "lost" in noted
