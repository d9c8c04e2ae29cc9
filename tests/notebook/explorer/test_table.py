"""What a page is told of a table: rows of any view, the line of Python for them, and what it selects."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from npuprof import tables
from npuprof.browser.tables import KINDS, described, kind_of
from npuprof.notebook.explorer.table import TableView
from npuprof.profiles.profile import Profile
from npuprof.profiles.selection import SelectedRows
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from tests import factories
from tests.factories import START_NS, profile

TABLES = profile(1000, kernel_names=("MatMul<b>", "Add", "Softmax\n\x1b[31m"))
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
FIVE = ("operators", "kernels", "api", "communication", "allocations")
_RUN = Profile(Decoded(TABLES, factories.info(), Notes()))


class Asked:
    """A table, and what its page is told."""

    def __init__(self, table: str = "kernels", *, chooses: bool = False, **how: Any) -> None:
        kind = kind_of(table)
        assert kind is not None
        self.kind, self.frame = kind, TABLES[table]
        self.shown: list[tuple[str, list[int]]] = []
        self.chosen: list[list[int]] = []
        self.said: list[dict[str, Any]] = []
        choose = (lambda rows: self.chosen.append(rows.tolist())) if chooses else None
        self.view = TableView(_RUN, kind, origin_ns=START_NS, show=self._show, choose=choose, **how)
        self.view.canvas.send = lambda content, buffers=(): self.said.append(content)
        self.columns = [column["name"] for column in self.view.canvas.setup["table"]["columns"]]
        self.sums = ["count", *(f"{what}_{self.unit}" for what in ("total", "mean", "min", "max")), "share"]

    @property
    def unit(self) -> str:
        return "bytes" if self.kind.table == "allocations" else "ns"

    def _show(self, table: str, rows: npt.NDArray[np.int64]) -> None:
        self.shown.append((table, rows.tolist()))

    def ask(self, kind: str, **asked: Any) -> dict[str, Any]:
        self.view.canvas._asked(None, {"kind": kind, "id": 7, "page": "p", **asked}, None)
        return self.said.pop() if self.said else {}

    def rows(self, columns: list[str] | None = None, **asked: Any) -> pd.DataFrame:
        """All rows of a view as the page has them."""
        columns = columns or (self.sums if asked.get("group") else self.columns)
        told = self.ask("rows", **{**asked, "columns": columns, "first": 0, "count": 1_000})
        assert (told["kind"], told["id"], told["page"], told["total"]) == ("rows", 7, "p", len(told["rows"]))
        shown: pd.DataFrame = pd.DataFrame(told["rows"], columns=columns)
        return shown

    def made(self, **asked: Any) -> pd.DataFrame:
        """Run the line that is copied."""
        run: dict[str, Any] = {"run": SimpleNamespace(**TABLES)}
        exec(f"frame = {self.ask('code', **asked)['text']}", run)
        frame: pd.DataFrame = run["frame"]
        return frame


@pytest.fixture(params=FIVE)
def asked(request: pytest.FixtureRequest) -> Asked:
    return Asked(request.param)


def _same(told: pd.DataFrame, made: pd.DataFrame) -> None:
    """The numbers of both are the same; times count from the start."""
    for column in told:
        if pd.api.types.is_numeric_dtype(made[column]):
            origin = START_NS if column in ("start_ns", "allocated_ns", "released_ns") else 0
            assert told[column].astype("Float64").tolist() == (made[column] - origin).astype("Float64").tolist()


def test_headings_explain_their_columns() -> None:
    asked = Asked()
    columns = asked.view.canvas.setup["table"]["columns"]
    meanings = {column["name"]: column["meaning"] for column in columns}
    assert meanings["op_type"] == "the kind of operator, such as MatMulV3"
    assert meanings == {name: SCHEMA["kernels"].meaning_of(name) for name in meanings}
    assert [column["name"] for column in columns][:2] == ["name", "op_type"]
    kinds = {column["name"]: (column["kind"], column["exact"]) for column in columns}
    assert [kinds[name] for name in ("name", "op_type", "duration_ns")] == [
        ("text", False),  # a page shows a name with control characters otherwise than it was recorded
        ("text", True),
        ("int", True),
    ]


def test_only_a_page_of_rows_is_sent() -> None:
    asked = Asked()
    told = asked.ask("rows", columns=["start_ns"], sort=[["start_ns", False]], first=150, count=50)
    starts = (TABLES["kernels"]["start_ns"].sort_values() - START_NS).tolist()
    assert (told["total"], told["rows"]) == (1000, [[start] for start in starts[150:200]])
    assert asked.ask("rows", columns=["start_ns"], first=10**9, count=50)["rows"] == []
    assert asked.ask("rows", columns=["start_ns"], first=-5, count=-1)["rows"] == []
    assert len(asked.ask("rows", columns=["start_ns"], first=0, count=10**9)["rows"]) == 1000


@pytest.mark.slow
def test_every_kind_of_table_has_pages() -> None:
    for kind in KINDS:
        asked = Asked(kind.table)
        for group in [*(group for group in kind.groups if set(group) <= set(asked.columns)), ()]:
            told = asked.rows(group=list(group))
            assert len(told) <= len(asked.frame)
            assert len(told) or not len(asked.frame)


def test_sorting_by_two_columns() -> None:
    asked = Asked()
    told = asked.rows(sort=[["name", False], ["duration_ns", True]])
    expected = TABLES["kernels"].assign(name=TABLES["kernels"]["name"].astype(str))
    expected = expected.sort_values(["name", "duration_ns"], ascending=[True, False], kind="stable")
    assert told["start_ns"].tolist() == (expected["start_ns"] - START_NS).tolist()


def test_a_filter_that_cannot_be_understood_is_reported_and_changes_nothing() -> None:
    asked = Asked()
    group = ["name", "op_type"]
    before = asked.rows(group=group)
    told = asked.ask("rows", group=group, where=[["total_ns", "> 5 apples"]], columns=asked.sums, first=0, count=50)
    assert list(told["errors"]) == ["total_ns"]
    assert "not measured in apples" in told["errors"]["total_ns"]
    assert told["rows"] == before.to_numpy(object).tolist()
    where = [["duration_ns", "> 5 apples"], ["op_type", "/(/"], ["name", "add"]]
    two = asked.ask("rows", where=where, columns=["name"])
    assert set(two["errors"]) == {"duration_ns", "op_type"}
    assert two["total"] == (TABLES["kernels"]["name"] == "Add").sum()


@pytest.mark.slow
def test_every_table_sorts_by_every_column(asked: Asked) -> None:
    for group, names in (([], asked.columns), (list(asked.kind.groups[0]), asked.sums)):
        assert len(names) > 4
        for name in names:
            for descends in (False, True):
                how: dict[str, Any] = {"group": group, "sort": [[name, descends]]}
                told = asked.rows(names, **how)
                shown = told[name].dropna().tolist()
                assert shown == sorted(shown, reverse=descends)
                assert told[name].isna().is_monotonic_increasing
                _same(told, asked.made(columns=names, **how))


@pytest.mark.slow
def test_every_table_filters_by_quantity_text_and_regular_expression(asked: Asked) -> None:
    weight, typed, least = ("duration_ns", "> 100 us", 100_000)
    if asked.kind.table == "allocations":
        weight, typed, least = ("size_bytes", "> 1 MB", 10**6)
    every = asked.frame
    heavy = (every[weight] > least).to_numpy(bool)
    assert 0 < heavy.sum() < len(every)
    assert asked.rows([weight], where=[[weight, typed]])[weight].tolist() == every[heavy][weight].tolist()

    name = str(every["name"].iloc[int(np.flatnonzero(heavy)[0])])
    assert every["name"].nunique() > 1
    part, whole = re.escape(name[:4]), (every["name"] == name).to_numpy(bool)
    for text, matching in (
        (name[:4].upper(), every["name"].str.contains(part, case=False).to_numpy(bool)),
        (f"/^{part}/", every["name"].str.contains(f"^{part}").to_numpy(bool)),
        (f"= {name}", whole),
        (f"!= {name}", ~whole),
    ):
        where = [[weight, typed], ["name", text]]
        told = asked.rows([weight], where=where)
        assert told[weight].tolist() == every[heavy & matching][weight].tolist()
        _same(told, asked.made(where=where, columns=[weight]))


@pytest.mark.slow
def test_groups_of_every_table_are_filtered_by_their_sums(asked: Asked) -> None:
    group, total = list(asked.kind.groups[0]), f"total_{asked.unit}"
    groups = asked.rows(group=group)
    middle = int(groups[total].sort_values().iloc[len(groups) // 2])
    how: dict[str, Any] = {"group": group, "where": [[total, f">= {middle} {'B' if asked.unit == 'bytes' else 'ns'}"]]}
    assert asked.rows(**how)[total].tolist() == [one for one in groups[total].tolist() if one >= middle]
    _same(asked.rows(**how), asked.made(columns=asked.sums, **how))


def test_rows_of_every_table_are_shown_in_the_timeline(asked: Asked) -> None:
    group = list(asked.kind.groups[0])
    first = asked.rows([*group, "count"], group=group, sort=[[f"total_{asked.unit}", True]]).iloc[0]
    said = asked.ask("show", group=group, sort=[[f"total_{asked.unit}", True]], places=[0])
    ((table, rows),) = asked.shown
    assert table == asked.kind.table
    same = (
        np.logical_and.reduce(
            [
                asked.frame[name].astype(str).str.split("\n").str[0] == str(first[name]).split(" \x1b")[0]
                for name in group
            ]
        )
        if asked.kind.table != "kernels"
        else None
    )
    if same is not None:
        assert rows == np.flatnonzero(same).tolist()
    assert len(rows) == first["count"]
    assert said["text"] == f"{len(rows):,} {asked.kind.noun} shown in the timeline"
    by_size = np.argsort(asked.frame["name"].astype(str).to_numpy(), kind="stable")
    asked.ask("show", sort=[["name", False]], places=[3, 1, 10**9, -4])
    assert asked.shown[1] == (asked.kind.table, sorted(by_size[[3, 1]].tolist()))
    asked.ask("show", numbers=[5, 2, -1, 10**9, "x"])
    assert asked.shown[2] == (asked.kind.table, [2, 5])


def test_observers_are_notified_of_the_chosen_rows() -> None:
    asked = Asked(chooses=True)
    assert asked.view.canvas.setup["tells"]
    assert not Asked().view.canvas.setup["tells"]
    longest = np.argsort(-TABLES["kernels"]["duration_ns"].to_numpy(), kind="stable")
    assert asked.ask("choice", sort=[["duration_ns", True]], places=[2]) == {}
    asked.ask("choice", places=[])
    asked.ask("choice", numbers=[4])
    assert asked.chosen == [[int(longest[2])], [], [4]]


def test_some_rows_are_listed_by_their_numbers_in_the_whole_table() -> None:
    asked = Asked(listed=np.array([900, 905, 910]))
    assert asked.view.canvas.setup["rows"] == [900, 905, 910]
    told = asked.rows(["start_ns"])
    assert told["start_ns"].tolist() == (TABLES["kernels"]["start_ns"].iloc[[900, 905, 910]] - START_NS).tolist()
    asked.ask("show", places=[1])
    assert asked.shown == [("kernels", [905])]


def test_selection_is_listed_and_described() -> None:
    selected = SelectedRows()
    asked = Asked(selected=lambda: selected)
    assert len(asked.rows()) == 1000
    selected = SelectedRows(rows={"kernels": np.array([3, 7])}, text="two")
    asked.view.follow(selected)
    assert asked.said.pop() == {"kind": "selected", "selected": True}
    assert asked.rows(["duration_ns"])["duration_ns"].tolist() == TABLES["kernels"]["duration_ns"].iloc[[3, 7]].tolist()
    assert asked.ask("code", columns=["name"])["text"] == "run.selection.kernels[['name']]"
    selected = SelectedRows(rows={"api": np.array([3])})
    assert len(asked.rows()) == 0
    selected = SelectedRows(START_NS, START_NS + 1)
    assert len(asked.rows()) == 1000


def test_the_line_reproduces_what_is_shown() -> None:
    asked = Asked()
    columns = ["name", "op_type", "count", "total_ns"]
    how: dict[str, Any] = {
        "group": ["name", "op_type"],
        "where": [["name", "matmul"]],
        "sort": [["count", False]],
        "columns": columns,
    }
    made = asked.made(**how)
    told = asked.rows(**how)
    assert list(made) == columns
    assert told.to_numpy(object).tolist() == made.astype({"name": object, "op_type": object}).to_numpy(object).tolist()
    assert asked.made(**{**how, "where": [["name", "matmul"], ["count", "> five"]]}).equals(made)


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        {},
        {"columns": 5, "sort": 3, "where": None, "group": "x"},
        {"sort": [["__class__", True], [["start_ns"], True], ["start_ns", "up"], 3]},
        {"where": [["name", 3], ["nothing", "x"], [], "ab"]},
        {"group": ["nothing"], "columns": ["name", "__class__", 7]},
        {"group": ["duration_ns"]},
        {"first": [1], "count": "x"},
        {"places": None, "numbers": None},
        {"places": [[1], "x", None, 10**30], "numbers": "all"},
        {"numbers": [None, True, 2**70, -(2**70), float("nan")]},
    ],
)
def test_malformed_question_is_answered_in_part(question: dict[str, Any]) -> None:
    asked = Asked(chooses=True)
    told = asked.ask("rows", **{"first": 0, "count": 5, **question})
    assert told["total"] == 1000
    assert all(set(row) <= {"MatMul<b>", "Add", "Softmax [31m"} for row in told["rows"])
    assert asked.ask("code", **question)["text"].startswith("run.kernels")
    assert asked.ask("show", **question)["text"] == ""
    asked.ask("choice", **question)
    assert asked.ask("__class__") == {}


def test_texts_are_on_one_line() -> None:
    texts = Asked().rows(["name"])["name"].tolist()
    assert any(text.startswith("Softmax") for text in texts)
    assert not any(character < " " for text in texts for character in text)


def test_unholdable_values_are_texts() -> None:
    frame = (
        TABLES["kernels"]
        .iloc[:4]
        .assign(
            connection_id=pd.array([1, None, 2**60, 2**53 - 1], "Int64"),
            mac_ratio=[0.5, np.nan, np.inf, -np.inf],
            hf32=pd.array([True, False, None, True], "boolean"),
        )
    )
    kind = kind_of("kernels")
    assert kind is not None
    run = Profile(Decoded({**TABLES, "kernels": frame}, factories.info(), Notes()))
    view, said = TableView(run, kind, origin_ns=START_NS), []
    view.canvas.send = lambda content, buffers=(): said.append(content)
    columns = ["connection_id", "mac_ratio", "hf32"]
    view.canvas._asked(None, {"kind": "rows", "columns": columns, "first": 0, "count": 9}, None)
    assert said[0]["rows"] == [
        [1, 0.5, True],
        [None, None, False],
        [str(2**60), "inf", None],
        [2**53 - 1, "-inf", True],
    ]
    kinds = {column["name"]: column["kind"] for column in described(kind, frame)["columns"]}
    assert [kinds[name] for name in columns] == ["int", "float", "flag"]
