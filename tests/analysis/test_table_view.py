"""Views of a table, and the lines that make the same frames."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.analysis.table_view import View, code, members, rows
from npuprof.errors import OptionsError
from tests.factories import START_NS, profile

TABLES = profile(200)
RUN = SimpleNamespace(**TABLES)

VIEWS = [
    View("kernels"),
    View(
        "kernels",
        ("name",),
        (("duration_ns", "> 12 us"), ("name", "/Mat|Add/"), ("count", "> 3")),
        (("total_ns", True),),
    ),
    View("kernels", (), (("name", "add"), ("start_ns", "> 1 ms")), (("name", True), ("duration_ns", False))),
    View("kernels", ("op_type", "step"), sort=(("op_type", False),), columns=("op_type", "share")),
    View("operators", ("name", "input_shapes"), sort=(("count", False), ("name", True))),
    View("api", (), (("duration_ns", "10..20 us and != 13 us"), ("name", "!= launch")), (("start_ns", True),)),
    View("communication", ("group",), (("share", "> 50 %"),)),
    View("allocations", ("name",), (("total_bytes", "> 1 MiB"),)),
]


@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_the_line_makes_the_same_frame(view: View) -> None:
    frame = TABLES[view.table]
    made = eval(code(view, frame, START_NS), {"run": RUN})
    pd.testing.assert_frame_equal(made, rows(view, frame, START_NS))


@pytest.mark.slow
@given(
    group=st.sampled_from([(), ("name",), ("op_type",), ("stream_id", "name")]),
    where=st.lists(
        st.sampled_from(
            [
                ("name", "a"),
                ("name", "/Soft|Trans/"),
                ("duration_ns", "> 14 us"),
                ("stream_id", "2"),
                ("wait_ns", "> 0"),
            ]
        ),
        max_size=3,
    ),
    descending=st.booleans(),
)
def test_any_line_makes_the_same_frame(group: tuple[str, ...], where: list[tuple[str, str]], descending: bool) -> None:
    view = View("kernels", group, tuple(where), ((group[-1] if group else "name", descending),))
    found = rows(view, RUN.kernels, START_NS)
    pd.testing.assert_frame_equal(eval(code(view, RUN.kernels, START_NS), {"run": RUN}), found)
    if group:
        chosen = rows(View("kernels", (), tuple(where)), RUN.kernels, START_NS)
        assert found["count"].sum() == len(chosen)


def test_sums_are_exact_and_shares_add_up() -> None:
    found = rows(View("kernels", ("name",)), RUN.kernels)
    for row in found.itertuples(index=False):
        durations = RUN.kernels.loc[RUN.kernels["name"] == row.name, "duration_ns"].tolist()
        assert (row.total_ns, row.mean_ns) == (sum(durations), sum(durations) // len(durations))
        assert (row.min_ns, row.max_ns) == (min(durations), max(durations))
    assert found["share"].sum() == pytest.approx(1)


def test_names_sort_with_absent_ones_last() -> None:
    frame = RUN.kernels.assign(name=pd.Categorical(["b", "a", None, "c"] * 50, categories=["c", "b", "a"]))
    for descending, expected in ((False, ["a", "b", "c"]), (True, ["c", "b", "a"])):
        ordered = rows(View("kernels", sort=(("name", descending),)), frame)["name"]
        assert ordered.dropna().drop_duplicates().tolist() == expected
        assert ordered.iloc[-50:].isna().all()


def test_a_group_knows_its_rows() -> None:
    view = View("kernels", ("name", "step"), (("duration_ns", "> 12 us"),))
    found = rows(view, RUN.kernels)
    parts = [members(view, RUN.kernels, row) for _, row in found.iterrows()]
    assert [len(part) for part in parts] == found["count"].tolist()
    chosen = RUN.kernels.index[RUN.kernels["duration_ns"] > 12_000].tolist()
    assert sorted(np.concatenate(parts).tolist()) == chosen


def test_a_single_row_is_its_own() -> None:
    view = View("kernels", sort=(("duration_ns", True),))
    first = rows(view, RUN.kernels).iloc[0]
    (number,) = members(view, RUN.kernels, first)
    assert RUN.kernels["duration_ns"].iloc[number] == RUN.kernels["duration_ns"].max()


@pytest.mark.parametrize("view", [View("kernels", ("nothing",)), View("kernels", sort=(("nothing", True),))])
def test_an_unknown_column_is_refused(view: View) -> None:
    with pytest.raises(OptionsError, match="there is no column nothing"):
        rows(view, RUN.kernels)
