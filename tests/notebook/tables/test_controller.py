"""The plain side of a table: pages, and what the grid asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from npuprof.notebook.tables.cells import moment
from npuprof.notebook.tables.controller import KINDS, PAGE_ROWS, TableController
from tests.factories import START_NS, profile

TABLES = profile(1000, kernel_names=("MatMul<b>", "Add", "Softmax\n\x1b[31m"))
KERNELS = next(kind for kind in KINDS if kind.table == "kernels")


class Lit:
    """Takes the place of the timeline."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, list[int]]] = []

    def __call__(self, table: str, rows: npt.NDArray[np.int64]) -> None:
        self.shown.append((table, rows.tolist()))


@pytest.fixture
def lit() -> Lit:
    return Lit()


@pytest.fixture
def kernels(lit: Lit) -> TableController:
    return TableController(KERNELS, TABLES["kernels"], START_NS, lit)


def _ask(controller: TableController, **question: Any) -> None:
    controller.answer(question)


def test_the_first_view_is_grouped_with_the_most_time_first(kernels: TableController) -> None:
    page = kernels.page()
    assert page.group == 0
    assert page.groups[-1] == "single kernels"
    (total,) = (place for place, column in enumerate(page.columns) if column.name == "total_ns")
    assert page.columns[total].sort == "descending"
    assert kernels.rows()["total_ns"].is_monotonic_decreasing
    assert len(page.rows) == page.total


def test_only_a_page_of_single_rows_is_sent(kernels: TableController) -> None:
    _ask(kernels, kind="group", group=len(kernels.page().groups) - 1)
    assert (kernels.page().total, len(kernels.page().rows)) == (1000, PAGE_ROWS)
    _ask(kernels, kind="page", page=3)
    page = kernels.page()
    assert (page.offset, page.ids[0]) == (150, 150)
    _ask(kernels, kind="page", page=99)
    assert kernels.page().offset == 950
    _ask(kernels, kind="page", page=-1)
    assert kernels.page().offset == 0


def test_every_kind_of_table_has_pages() -> None:
    for kind in KINDS:
        controller = TableController(kind, TABLES[kind.table], START_NS)
        for group in range(len(controller.page().groups)):
            _ask(controller, kind="group", group=group)
            page = controller.page()
            assert page.to_dict()["total"] == len(controller.rows())
            assert all(len(row) == len(page.columns) for row in page.rows)


def test_sorting_by_two_columns(kernels: TableController) -> None:
    _ask(kernels, kind="group", group=len(kernels.page().groups) - 1)
    _ask(kernels, kind="sort", column="name", order="ascending")
    _ask(kernels, kind="sort", column="duration_ns", order="descending", add=True)
    assert kernels.view.sort == (("name", False), ("duration_ns", True))
    shown = kernels.rows()
    expected = shown.assign(name=shown["name"].astype(str)).sort_values(
        ["name", "duration_ns"], ascending=[True, False], kind="stable"
    )
    assert shown.index.tolist() == expected.index.tolist()


def test_a_filter_that_cannot_be_understood_is_told_and_changes_nothing(kernels: TableController) -> None:
    before = kernels.rows()
    _ask(kernels, kind="filter", column="total_ns", text="> 5 apples")
    page = kernels.page()
    assert [column.error for column in page.columns if column.name == "total_ns"] == [True]
    assert "not counted in apples" in page.note
    pd.testing.assert_frame_equal(kernels.rows(), before)
    _ask(kernels, kind="filter", column="total_ns", text="> 5 us")
    assert kernels.page().note == ""


def test_the_line_reproduces_what_is_shown(kernels: TableController) -> None:
    from types import SimpleNamespace

    _ask(kernels, kind="filter", column="name", text="matmul")
    _ask(kernels, kind="column", column="share", shown=False)
    _ask(kernels, kind="sort", column="count", order="ascending")
    made: dict[str, Any] = {"run": SimpleNamespace(**TABLES)}
    exec(f"frame = {kernels.page().code}", made)
    pd.testing.assert_frame_equal(made["frame"], kernels.rows())
    assert "share" not in made["frame"]


def test_the_rows_of_a_group_are_shown_in_the_timeline(kernels: TableController, lit: Lit) -> None:
    _ask(kernels, kind="filter", column="name", text="matmul")
    _ask(kernels, kind="action", action="timeline", rows=kernels.page().ids)
    ((table, rows),) = lit.shown
    assert table == "kernels"
    assert rows == TABLES["kernels"].index[TABLES["kernels"]["name"] == "MatMul<b>"].tolist()
    assert "shown in the timeline" in kernels.page().note


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"kind": "sort"},
        {"kind": "sort", "column": "__class__", "order": "ascending"},
        {"kind": "filter", "column": 3, "text": None},
        {"kind": "group", "group": -1},
        {"kind": "group", "group": "x"},
        {"kind": "page", "page": [1]},
        {"kind": "action", "action": "timeline", "rows": [10**9, -4]},
        {"kind": "action", "action": "timeline", "rows": None},
        {"kind": "column", "column": "nothing", "shown": True},
    ],
)
def test_a_question_of_another_form_changes_nothing(kernels: TableController, question: dict[str, Any]) -> None:
    before = kernels.page()
    kernels.answer(question)
    assert kernels.page().rows == before.rows
    assert kernels.page().columns == before.columns


def test_the_last_column_stays(kernels: TableController) -> None:
    for column in kernels.page().columns:
        _ask(kernels, kind="column", column=column.name, shown=False)
    assert len(kernels.page().columns) == 1
    assert kernels.page().note == "the last column stays"


def test_texts_are_on_one_line(kernels: TableController) -> None:
    texts = [text for row in kernels.page().rows for text in row]
    assert any(text.startswith("Softmax") for text in texts)
    assert not any(character < " " for text in texts for character in text)


def test_moments_keep_every_nanosecond() -> None:
    assert moment(1_234_567_890) == "1.234 567 890 s"
    assert moment(-1) == "-0.000 000 001 s"
