"""A notebook in JupyterLab, run cell by cell as a user does."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import nbformat

from tests.browser.conftest import Lab

_TIMEOUT_MS = 45_000
_NUMBERED = re.compile(r"\[\d+\]")


def wait_until_enabled(control: Any, *, enabled: bool = True) -> None:
    """Wait until a control can be used; or cannot."""
    from playwright.sync_api import expect

    expect(control).to_be_enabled(enabled=enabled, timeout=_TIMEOUT_MS)


def wait_for_text(place: Any, text: str) -> None:
    """Wait until a text is in a place."""
    from playwright.sync_api import expect

    expect(place).to_contain_text(text, timeout=_TIMEOUT_MS)


class NotebookPage:
    """An open notebook; `page` is Playwright's."""

    def __init__(
        self, lab: Lab, browser: Any, name: str, cells: Sequence[str], width: int, *, dark: bool = False
    ) -> None:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, lab.folder / name)
        # Tall, so that JupyterLab, which draws only the cells in view, draws them all.
        self.page = browser.new_page(viewport={"width": width, "height": 2600})
        self.page.set_default_timeout(_TIMEOUT_MS)
        theme = lab.folder.parent / "settings" / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
        theme.write_text(json.dumps({"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}))
        self.page.goto(lab.notebook_url(name))
        self.page.wait_for_selector(f"body[data-jp-theme-light={str(not dark).lower()}] .jp-Notebook .jp-Cell")
        self.wait_until_idle()

    def start(self, number: int) -> Any:
        """Run a cell without waiting for its end; gives its locator."""
        cell = self.cell(number)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        return cell

    def run(self, number: int) -> Any:
        """Run a cell to its end; gives its locator."""
        for _ in range(3):
            cell = self.start(number)
            try:
                cell.locator(".jp-InputPrompt", has_text=_NUMBERED).wait_for(timeout=20_000)
            except Exception:  # noqa: BLE001 - what is asked of a kernel that has only just connected may get lost
                if (accept := self.page.locator(".jp-Dialog .jp-mod-accept")).is_visible():
                    accept.click()
            else:
                return cell
        raise AssertionError(f"cell {number} has not been run")

    def cell(self, number: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def wait_until_idle(self) -> None:
        # Where the page is narrow, the toolbar may have no room for it.
        self.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached")
