from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuprof
from npuprof.errors import OptionsError
from npuprof.profiles.profile import Profile
from npuprof.profiles.selection import SelectedRows
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


def _run(launches: int = 200) -> Profile:
    return Profile(Decoded(factories.profile(launches), factories.info(), Notes()))


def test_a_range_is_cut_as_load_cuts_it() -> None:
    run = _run()
    start, end = factories.START_NS + 1_000_000, factories.START_NS + 2_000_000
    part = run.select(start=start, end=end)
    kernels = run.kernels
    inside = (kernels["start_ns"] < end) & (kernels["start_ns"] + kernels["duration_ns"] > start)
    assert part.kernels["start_ns"].tolist() == kernels["start_ns"][inside].tolist()
    assert part.info.selection == {"start_ns": start, "end_ns": end}
    assert int(part.breakdown()["duration_ns"].sum()) == end - start
    assert part is run.selection
    assert run.selection is run.selection


def test_nothing_selected_is_the_run() -> None:
    run = _run()
    assert run.selection is run
    run.select(name="Softmax")
    assert run.selection is not run
    assert run.select() is run


def test_rows_are_selected_by_a_condition_with_the_calls_above_them() -> None:
    run = _run()
    part = run.select(where="duration_ns > 15us and stream_id = 2")
    kernels = run.kernels
    wanted = (kernels["duration_ns"] > 15_000) & (kernels["stream_id"] == 2)
    assert part.kernels["start_ns"].tolist() == kernels["start_ns"][wanted].tolist()
    assert len(part.operators) == len(part.api) == len(part.kernels)
    assert part.by("op")["total_ns"].sum() == kernels["duration_ns"][wanted].sum()
    assert part.by("op")["op"].notna().all()


def test_a_selection_answers_as_a_run_does(tmp_path: Path) -> None:
    run = _run()
    part = run.select(where='op_type = "MatMulV3"', start=factories.START_NS, end=factories.START_NS + 4_000_000)
    assert 0 < len(part.kernels) < len(run.kernels)
    assert int(part.sql("select count(*) as n from kernels")["n"].iloc[0]) == len(part.kernels)
    assert {trace.type for trace in part.flamegraph().data} == {trace.type for trace in run.flamegraph().data}
    text = part.to_html(tmp_path / "part.html").read_text()
    assert "npuprof-saved-data" in text
    again = npuprof.load(part.save(tmp_path / "part"))
    assert isinstance(again, Profile)
    assert again.kernels["start_ns"].tolist() == part.kernels["start_ns"].tolist()


def test_breakdown_rows_add_up_to_steps() -> None:
    run = _run()
    part = run.select(where='op_type = "MatMulV3"')
    shown, whole = part.breakdown(), run.breakdown()
    columns = ["rank", "device_id", "step"]
    assert (
        shown.groupby(columns, dropna=False)["duration_ns"].sum().tolist()
        == whole.groupby(columns, dropna=False)["duration_ns"].sum().tolist()
    )
    covered = int(shown["duration_ns"][shown["part"] == "computing"].sum())
    assert covered == int(run.kernels["duration_ns"][run.kernels["op_type"] == "MatMulV3"].sum())
    assert set(shown["part"]) == {"computing", "not selected"}


def test_calls_bring_the_kernels_that_they_launched() -> None:
    run = _run()
    part = run.select(name="LINEAR")
    operators = run.operators["name"].astype(str).str.contains("linear")
    assert len(part.operators) == len(part.kernels) == int(operators.sum())
    assert part.launches["op"].astype(str).str.contains("linear").all()


def test_conditions_hold_together_and_lanes_are_named() -> None:
    run = _run()
    kernels = run.kernels
    part = run.select(lanes=["stream 3"], where="duration_ns >= 14us")
    wanted = (kernels["stream_id"] == 3) & (kernels["duration_ns"] >= 14_000)
    assert part.kernels["start_ns"].tolist() == kernels["start_ns"][wanted].tolist()
    with pytest.raises(OptionsError, match="no lane 'stream 99'"):
        run.select(lanes=["stream 99"])


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("duration_ns >", "cannot be read from 'duration_ns >' on"),
        ("duration_ns > 1 and ", "ends where a comparison should follow"),
        ("", "ends where a comparison should follow"),
        ("duration_ns > 1 or 2", "is not a number"),
        ("__import__('os').system('x') = 1", "cannot be read from"),
        ("no_such = 1", "no table of slices has the columns no_such"),
        ("duration_ns > 3 parsecs", "not measured in parsecs"),
        ("op_type < 3", "op_type is a text"),
        ("duration_ns ~ 3", "duration_ns is a number"),
        ("x" * 2_000, "at most 1,000 characters"),
    ],
)
def test_malformed_condition_is_refused(where: str, reason: str) -> None:
    run = _run(20)
    with pytest.raises(OptionsError, match=reason):
        run.select(where=where)
    assert run.selection is run


def test_quoted_texts_may_hold_anything() -> None:
    name = 'a "b" and c = 1'
    run = Profile(Decoded(factories.profile(20, kernel_names=(name, "Add")), factories.info(), Notes()))
    part = run.select(where=f"name = '{name}'")
    assert set(part.kernels["name"].astype(str)) == {name}
    assert len(run.select(where="name != Add and name ~ 'B\" AND'").kernels) == len(part.kernels)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("name ~ add", {"Add"}),
        ("name ~ /^(mat|a)/i and name != Add", {"MatMulV3"}),
        ('name ~ "/^mat/"', set()),
        ("name = 'MatMulV3' and duration_ns = 0..1 s", {"MatMulV3"}),
        ("duration_ns ≥ 1 min", set()),
        ("stream_id ≠ -1 and name = Add", {"Add"}),
    ],
)
def test_conditions_have_patterns_ranges_and_units(where: str, names: set[str]) -> None:
    run = Profile(Decoded(factories.profile(20, kernel_names=("MatMulV3", "Add")), factories.info(), Notes()))
    assert set(run.select(where=where).kernels["name"].astype(str)) == names


def test_two_selections_have_a_difference() -> None:
    a, b = _run(200), _run(200)
    b.tables["kernels"] = b.tables["kernels"].assign(duration_ns=b.tables["kernels"]["duration_ns"] + 1_000)
    a.select(where="op_type = Add")
    b.select(where="op_type = Add")
    difference = a.selection - b.selection
    assert difference.a_ns < difference.b_ns


def test_those_who_follow_hear_of_each_change_once() -> None:
    run, heard = _run(), list[SelectedRows]()
    run._selection.followers.append(heard.append)
    run.select(where="op_type = Add")
    run.select(where="op_type = Add")
    run.select()
    assert [selected.is_all for selected in heard] == [False, True]
    rows = heard[0].rows
    assert rows is not None
    assert rows["kernels"].tolist() == np.flatnonzero(run.kernels["op_type"] == "Add").tolist()


def test_a_line_that_nothing_knows_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"nothing ran in line 99"):
        _run().select(line=99)


def test_a_line_selects_its_calls_and_kernels() -> None:
    run = _run()
    lines = run.advice().facts.code_lines
    of_kernels = lines.of_rows("kernels", np.arange(len(run.kernels), dtype=np.int64))
    for row in range(len(lines.table()) - 1):
        file, number = lines.place(row)
        part = run.select(line=f"{file}:{number}")
        assert len(part.kernels) == int((of_kernels == row).sum())
    assert (of_kernels >= 0).any()
