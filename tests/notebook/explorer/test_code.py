"""The code in the explorer: a line chooses its kernels, and a slice its line."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuprof.notebook.explorer.code import CodeWidget
from npuprof.notebook.explorer.explorer import Explorer
from npuprof.notebook.explorer.tabs import explorer_of
from npuprof.profiles.profile import Profile
from tests import factories
from tests.notebook.explorer.test_explorer import _all, _texts, _view
from tests.report.elements import HOSTILE
from tests.report.test_code import profile, recorded


def _opened(run: Profile) -> Explorer:
    explorer = explorer_of(run)
    explorer.open("Code")
    return explorer


def _row(explorer: Explorer, text: str) -> int:
    """Return the shown row of the line that has a text."""
    shown = explorer.run.code()._frame["text"].fillna("").tolist()
    return next(row for row, line in enumerate(shown) if text in line)


def _highlighted(explorer: Explorer) -> list[tuple[str, int]]:
    matches = explorer.timeline.matches
    return [] if matches is None else [explorer.timeline.slices.row(number) for number in matches.slices.tolist()]


def test_a_line_highlights_its_kernels_and_lists_them() -> None:
    explorer = _opened(recorded())
    widget = explorer.code.widget
    row = _row(explorer, "return npu(y)")
    explorer.code.code._receive(None, {"row": row}, [])
    assert _highlighted(explorer) == [("kernels", 1)]
    assert explorer.code.code.row == row
    assert "1 kernel of model.py:7" in _texts(widget)
    assert _view(widget, "table").setup["rows"] == [1]
    (button,) = [each for each in _all(widget) if getattr(each, "description", "") == "Open the timeline"]
    button.click()
    assert explorer._tabs.opened == "Timeline"


def test_listed_rows_equal_the_table() -> None:
    explorer = _opened(recorded())
    explorer.code.choose(_row(explorer, "return npu(y)"))
    table = _view(explorer.code.widget, "table")
    assert table.setup["explorer"] == explorer.identifier
    table._asked(None, {"kind": "show", "sort": [["start_ns", False]], "places": [0]}, None)
    assert _highlighted(explorer) == [("kernels", 1)]


def test_a_line_that_launches_nothing_says_so() -> None:
    explorer = _opened(recorded())
    explorer.code.choose(_row(explorer, "return npu(y)"))
    explorer.code.choose(_row(explorer, "time.sleep"))
    assert _highlighted(explorer) == []
    assert "launched nothing" in _texts(explorer.code.widget)
    for row in (-1, 10**9, _row(explorer, "%%npuprof")):
        explorer.code.choose(row)
        assert "launched nothing" in _texts(explorer.code.widget)


def test_from_a_slice_back_to_its_line() -> None:
    explorer = explorer_of(recorded())
    explorer.open("Timeline")
    (button,) = [each for each in _all(explorer.widget) if each.__class__.__name__ == "Button" and _is_line(each)]
    assert button.layout.display == "none"
    explorer.timeline.select(explorer.timeline.slices.first["kernels"] + 1)
    assert button.description == "model.py:7"
    assert button.layout.display == ""
    button.click()
    assert explorer._tabs.opened == "Code"
    assert explorer.code.code.row == _row(explorer, "return npu(y)")
    explorer.timeline.select(None)
    assert button.layout.display == "none"


def _is_line(button: Any) -> bool:
    return "line of the selected slice" in button.tooltip


def test_without_lines_there_is_no_tab() -> None:
    run = factories.profile(20)
    run["python"] = run["python"].iloc[:0]
    assert "Code" not in explorer_of(profile(run)).titles


def test_messages_that_the_page_did_not_send_are_ignored() -> None:
    received: list[int] = []
    widget = CodeWidget("", received.append)
    contents: list[Any] = [{}, [], {"row": "1"}, {"row": True}, {"row": np.nan}, None]
    for content in contents:
        widget._receive(None, content, [])
    assert received == []


def test_the_code_of_the_page_is_escaped() -> None:
    run = recorded()
    run.info.code["<cell [3]>"] = f"{HOSTILE}\n" * 4
    assert "<script" not in _opened(run).code.code.html
