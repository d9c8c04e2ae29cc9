"""The plain side of a table: pages, and what the grid asks."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from npuprof import tables
from npuprof.notebook.tables.controller import KINDS, PAGE_ROWS, TableController, moment
from npuprof.schema import SCHEMA
from tests.factories import START_NS, profile

TABLES = profile(1000, kernel_names=("MatMul<b>", "Add", "Softmax\n\x1b[31m"))
KERNELS = next(kind for kind in KINDS if kind.table == "kernels")


_NAMES = ("aten::mm", "aten::add", "cann::TransData_1", "a <b>block</b>")
TABLES["allocations"] = tables.build(
    "allocations",
    {
        "name": [_NAMES[at % 4] for at in range(200)],
        "size_bytes": np.arange(200) * 20_000,
        "allocated_ns": START_NS + np.arange(200) * 1_000,
        "released_ns": pd.array([START_NS + at * 3_000 if at % 3 else None for at in range(200)], "Int64"),
        "device_id": np.arange(200) % 2,
    },
)
for _table, _calls in (
    *(("operators", ("aten::mm", "aten::add")), ("kernels", ("MatMul<b>", "Add", "Softmax\n\x1b[31m"))),
    *(("api", ("launch", "aclnnMm")), ("communication", ("hcom_allReduce_", "hcom_send_"))),
):
    _places = np.arange(len(TABLES[_table]))
    TABLES[_table] = TABLES[_table].assign(
        duration_ns=_places * 7 % 250 * 1_000,
        name=pd.Categorical([_calls[place * 13 % 7 % len(_calls)] for place in _places.tolist()]),
    )
FIVE = [kind for kind in KINDS if kind.table in ("operators", "kernels", "api", "communication", "allocations")]


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


def test_headings_explain_their_columns(kernels: TableController) -> None:
    kernels.answer({"kind": "group", "group": len(KERNELS.groups)})
    meanings = {heading.name: heading.meaning for heading in kernels.page().columns}
    assert meanings["op_type"] == "the kind of operator, such as MatMulV3"
    assert meanings == {name: SCHEMA["kernels"].meaning_of(name) for name in meanings}


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


@pytest.mark.slow
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


def test_a_filter_that_cannot_be_understood_is_reported_and_changes_nothing(kernels: TableController) -> None:
    before = kernels.rows()
    _ask(kernels, kind="filter", column="total_ns", text="> 5 apples")
    page = kernels.page()
    assert [column.error for column in page.columns if column.name == "total_ns"] == [True]
    assert "not measured in apples" in page.note
    pd.testing.assert_frame_equal(kernels.rows(), before)
    _ask(kernels, kind="filter", column="total_ns", text="> 5 us")
    assert kernels.page().note == ""


@pytest.fixture(params=FIVE, ids=lambda kind: kind.table)
def any_table(request: pytest.FixtureRequest, lit: Lit) -> TableController:
    kind = request.param
    return TableController(kind, TABLES[kind.table], START_NS, lit)


def _single(controller: TableController) -> pd.DataFrame:
    """Show single rows; gives them all."""
    _ask(controller, kind="group", group=len(controller.page().groups) - 1)
    return controller.rows()


def _made(controller: TableController) -> pd.DataFrame:
    """Run the line that is copied."""
    run: dict[str, Any] = {"run": SimpleNamespace(**TABLES)}
    exec(f"frame = {controller.page().code}", run)
    frame: pd.DataFrame = run["frame"]
    return frame


@pytest.mark.slow
def test_every_table_sorts_by_every_column(any_table: TableController) -> None:
    names = [column.name for column in any_table.page().columns]
    assert len(names) > 4
    for name in names:
        for order in ("ascending", "descending"):
            _ask(any_table, kind="sort", column=name, order=order)
            shown = any_table.rows()[name].astype(object).tolist()
            assert shown == sorted(shown, reverse=order == "descending")
            pd.testing.assert_frame_equal(_made(any_table), any_table.rows())


@pytest.mark.slow
def test_every_table_filters_by_quantity_text_and_regular_expression(any_table: TableController) -> None:
    table = any_table.kind.table
    weight, typed, least = ("duration_ns", "> 100 us", 100_000)
    if table == "allocations":
        weight, typed, least = ("size_bytes", "> 1 MB", 10**6)
    every = _single(any_table)
    heavy = (every[weight] > least).to_numpy(bool)
    assert 0 < heavy.sum() < len(every)
    _ask(any_table, kind="filter", column=weight, text=typed)
    pd.testing.assert_frame_equal(any_table.rows(), every[heavy])

    name = str(every["name"].iloc[int(np.flatnonzero(heavy)[0])])
    assert every["name"].nunique() > 1
    part, whole = re.escape(name[:4]), (every["name"] == name).to_numpy(bool)
    for text, matching in (
        (name[:4].upper(), every["name"].str.contains(part, case=False).to_numpy(bool)),
        (f"/^{part}/", every["name"].str.contains(f"^{part}").to_numpy(bool)),
        (f"= {name}", whole),
        (f"!= {name}", ~whole),
    ):
        _ask(any_table, kind="filter", column="name", text=text)
        assert any_table.page().note == ""
        pd.testing.assert_frame_equal(any_table.rows(), every[heavy & matching])
        pd.testing.assert_frame_equal(_made(any_table), any_table.rows())


@pytest.mark.slow
def test_groups_of_every_table_are_filtered_by_their_sums(any_table: TableController) -> None:
    groups = any_table.rows()
    total = any_table.view.sums[0]
    unit = "B" if total.endswith("_bytes") else "ns"
    middle = int(groups[total].sort_values().iloc[len(groups) // 2])
    _ask(any_table, kind="filter", column=total, text=f">= {middle} {unit}")
    pd.testing.assert_frame_equal(any_table.rows(), groups[groups[total] >= middle])
    pd.testing.assert_frame_equal(_made(any_table), any_table.rows())


@pytest.mark.slow
def test_columns_of_every_table_are_chosen(any_table: TableController) -> None:
    _single(any_table)
    names = [column.name for column in any_table.page().columns]
    for name in names[1::2]:
        _ask(any_table, kind="column", column=name, shown=False)
    page = any_table.page()
    assert [column.name for column in page.columns] == names[::2]
    assert [choice["name"] for choice in page.choices if not choice["shown"]] == names[1::2]
    pd.testing.assert_frame_equal(_made(any_table), any_table.rows())
    _ask(any_table, kind="column", column=names[1], shown=True)
    assert [column.name for column in any_table.page().columns][:2] == names[:2]


def test_chosen_rows_of_every_table_are_shown_in_the_timeline(any_table: TableController, lit: Lit) -> None:
    frame = TABLES[any_table.kind.table]
    group = any_table.rows().iloc[0]
    _ask(any_table, kind="action", action="timeline", rows=[0])
    same = np.logical_and.reduce([(frame[name] == group[name]).to_numpy(bool) for name in any_table.view.group])
    assert lit.shown == [(any_table.kind.table, np.flatnonzero(same).tolist())]
    shown = _single(any_table)
    _ask(any_table, kind="action", action="timeline", rows=[3, 1])
    assert lit.shown[1] == (any_table.kind.table, sorted(shown.index[[3, 1]].tolist()))


def test_observers_are_notified_of_the_chosen_rows() -> None:
    told: list[list[int]] = []
    kernels = TableController(KERNELS, TABLES["kernels"], START_NS, None, lambda rows: told.append(rows.tolist()))
    assert kernels.page().tells_choice
    assert not TableController(KERNELS, TABLES["kernels"], START_NS).page().tells_choice
    _single(kernels)
    _ask(kernels, kind="sort", column="duration_ns", order="descending")
    _ask(kernels, kind="choice", rows=[2])
    _ask(kernels, kind="choice", rows=[])
    assert told == [[kernels.rows().index[2]], []]


def test_a_choice_leaves_the_page_as_it_is(kernels: TableController) -> None:
    _ask(kernels, kind="action", action="timeline", rows=[0])
    before = kernels.page()
    _ask(kernels, kind="choice", rows=[0])
    assert kernels.page() == before
    assert before.note


def test_the_line_reproduces_what_is_shown(kernels: TableController) -> None:
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


@pytest.mark.slow
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
