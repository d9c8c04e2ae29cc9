"""The widget of a :class:`npuprof.notebook.grid.page.Page`.

A widget of our own, because each of the known grids lacks something that the tables need. itables sends all rows to the
browser, or a sample of them. buckaroo makes itself the display of every DataFrame when it is imported and brings
fastparquet along. ipydatagrid, which can ask the kernel for rows, draws on a canvas, where neither a screen reader nor
a test can read a cell, depends on bqplot, and was last released in 2024. This one is an HTML table of at most one page,
and needs anywidget only, which plotly's live figures need as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from npuprof.notebook.grid.page import Message, Page

_HERE = Path(__file__).parent


class GridWidget(anywidget.AnyWidget):
    """Shows a page and passes on what is asked.

    Parameters
    ----------
    page
        What to show first.
    answer
        Called with each question of the browser; shows its answer with :meth:`show`. What the browser sends is
        checked by it.
    """

    _esm = (_HERE / "grid.js").read_text(encoding="utf-8")
    _css = (_HERE / "grid.css").read_text(encoding="utf-8")
    page = traitlets.Dict().tag(sync=True)

    def __init__(self, page: Page, answer: Callable[[Message], None]) -> None:
        super().__init__(page=page.to_dict())
        self._answer = answer
        self.on_msg(self._asked)

    def show(self, page: Page) -> None:
        """Show another page in the place of the present one."""
        self.page = page.to_dict()

    def _asked(self, _: Any, content: object, __: Any) -> None:
        if isinstance(content, dict):
            self._answer(content)
