from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.advice.finding import Finding
from npuprof.errors import NpuprofError
from npuprof.flame.tree import merged_calls
from npuprof.notebook.explorer import explorer as lazy
from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.explorer import Explorer, Tab
from npuprof.notebook.explorer.tabs import _TABS, explorer_of, register
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_HOSTILE = "<img src=x onerror=alert(1)>"
_RATIOS = ("aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio")


def _run(launches: int = 50, **how: Any) -> Profile:
    return Profile(Decoded(tables=factories.profile(launches, **how), info=factories.info(), notes=Notes()))


def _texts(widget: Any) -> str:
    """Everything that a widget and those in it say as HTML."""
    own = [str(widget.value)] if widget.__class__.__name__ == "HTML" else []
    return "\n".join(own + [_texts(child) for child in getattr(widget, "children", ())])


def _all(widget: Any) -> list[Any]:
    """A widget and all within it."""
    return [widget, *(one for child in getattr(widget, "children", ()) for one in _all(child))]


def _counted_run() -> Profile:
    """A run whose kernels have counters and shapes: of every second one the vector core's."""
    run = _run()
    kernels = run.tables["kernels"]
    odd = np.arange(len(kernels)) % 2 == 1
    counted = kernels.assign(
        aic_mac_ratio=np.where(odd, np.nan, 0.25), aic_mte2_ratio=np.where(odd, np.nan, 0.5), aiv_vec_ratio=0.75
    )
    run.tables["kernels"] = counted.assign(**{name: counted[name].where(counted.index != 4) for name in _RATIOS})
    return run


def _counted(explorer: Explorer) -> int:
    """Count what stands out in the timeline."""
    return len(explorer.timeline.matches) if explorer.timeline.matches is not None else 0


def _allocations() -> pd.DataFrame:
    """Three blocks: of the calls 2 and 5, and one of an operator that was not recorded."""
    operators = _run().operators
    begun = operators["start_ns"].to_numpy(np.int64)[[2, 5, 5]] + 1
    names = [*operators["name"].astype(str).iloc[[2, 5]], "cann::TransData"]
    columns = {
        "name": names,
        "size_bytes": np.array([1 << 20, 1 << 21, 512]),
        "allocated_ns": begun,
        "released_ns": pd.array([begun[0] + 900_000, None, None], "Int64"),
        "device_id": np.zeros(3, np.int64),
    }
    return tables.build("allocations", columns)


@pytest.mark.slow
def test_absent_data_hides_its_tab() -> None:
    assert explorer_of(_run()).titles == [
        *("Overview", "Timeline", "Flame graph", "Code", "Operators", "Kernels", "API"),
        *("Memory", "Communication", "Steps", "Marks"),
    ]
    empty = Profile(Decoded(tables=factories.all_tables(), info=factories.info(), notes=Notes()))
    assert explorer_of(empty).titles == ["Overview"]


@pytest.mark.slow
def test_a_tab_is_built_when_it_is_first_opened_and_once() -> None:
    built: list[Explorer] = []
    before = list(_TABS)

    def build(explorer: Explorer) -> Any:
        import ipywidgets

        built.append(explorer)
        return ipywidgets.HTML("made")

    try:
        register(Tab("Extra", lambda _: True, build))
        explorer = explorer_of(_run())
        assert explorer.titles[-1] == "Extra"
        assert not built
        for title in ("Extra", "Overview", "Extra"):
            explorer.open(title)
        assert built == [explorer]
        assert "made" in _texts(explorer.widget)
    finally:
        _TABS[:] = before


def test_a_failed_view_shows_its_error_in_its_tab() -> None:
    before = list(_TABS)

    def fail(_: Explorer) -> Any:
        raise RuntimeError("<b>no</b>")

    try:
        register(Tab("Overview", lambda _: True, fail))
        explorer = explorer_of(_run())
        explorer.open("Overview")
        assert "could not be made: RuntimeError: &lt;b&gt;no&lt;/b&gt;" in _texts(explorer.widget)
    finally:
        _TABS[:] = before


@pytest.mark.slow
def test_every_tab_can_be_built() -> None:
    explorer = explorer_of(_run())

    for title in explorer.titles:
        explorer.open(title)

    texts = _texts(explorer.widget)
    assert "could not be made" not in texts
    assert texts.count("<summary>As text</summary><pre") == len(
        [one for one in _all(explorer.widget) if one.__class__.__name__ == "Output"]
    )
    assert "step 0: 350.5 µs" in texts


@pytest.mark.slow
def test_the_profile_makes_its_explorer() -> None:
    assert "npuprof-explorer" in _run().explore().children[0]._dom_classes


def test_the_timeline_comes_first_and_no_other_tab_is_built() -> None:
    explorer = explorer_of(_run())
    start, end = explorer.timeline.whole
    explorer.timeline.show(start + 1_000, end - 5_000)

    canvas = next(one for one in _all(explorer.widget) if isinstance(one, CanvasWidget))

    assert explorer._tabs._built == {"Timeline"}
    assert canvas.setup["window"] == [1_000, end - 5_000 - start]  # the first picture is there already


@pytest.mark.slow
def test_rows_of_a_table_light_up_in_the_timeline() -> None:
    explorer = explorer_of(_run())

    explorer.light_up("kernels", np.array([7]))

    assert explorer.timeline.selected == explorer.timeline.slices.first["kernels"] + 7


@pytest.mark.slow
@pytest.mark.parametrize("table", ["operators", "kernels", "api", "communication", "marks"])
def test_rows_of_every_table_of_slices_light_up_from_their_tab(table: str) -> None:
    explorer = explorer_of(_run())
    rows = np.array([1])

    explorer.light_up(table, rows)

    timeline = explorer.timeline
    assert timeline.matches is not None
    assert timeline.matches.slices.tolist() == [timeline.slices.first[table] + 1]
    assert timeline.selected == timeline.slices.first[table] + 1
    assert explorer._tabs._tab.selected_index == explorer.titles.index("Timeline")


@pytest.mark.slow
def test_blocks_light_up_their_operators() -> None:
    run = _run()
    run.tables["allocations"] = run.allocations = _allocations()
    explorer = explorer_of(run)
    timeline = explorer.timeline
    begun = run.allocations["allocated_ns"].to_numpy(np.int64)

    explorer.light_up("allocations", np.array([0]))
    assert _counted(explorer) == 1
    assert timeline.selected == timeline.slices.first["operators"] + 2
    assert timeline.marked == (begun[0], begun[0] + 900_000)

    explorer.light_up("allocations", np.array([2]))  # nobody's: its life all the same, to the end
    assert _counted(explorer) == 0
    assert timeline.marked == (begun[2], timeline.whole[1])


@pytest.mark.slow
def test_a_selected_kernel_is_described_in_detail_by_one_figure() -> None:
    explorer = explorer_of(_counted_run())
    explorer.open("Timeline")
    select = lambda row: explorer.timeline.select(explorer.timeline.slices.first["kernels"] + row)  # noqa: E731
    select(2)
    figure: Any = explorer.kernel.figure
    assert figure in _all(explorer.widget)
    assert [list(trace.x) for trace in figure.data if trace.type == "bar"] == [[25.0, 50.0], [75.0]]

    select(3)  # fewer bars: other traces, the same figure
    assert id(explorer.kernel.figure) == id(figure)
    assert [list(trace.x) for trace in figure.data if trace.type == "bar"] == [[75.0]]
    assert "LayerNormV4" in figure.layout.title.text

    select(4)  # without counters
    assert figure not in _all(explorer.widget)
    select(2)
    assert figure in _all(explorer.widget)
    explorer.timeline.select(explorer.timeline.slices.first["operators"])
    assert figure not in _all(explorer.widget)


@pytest.mark.slow
def test_detail_is_in_the_open_tab() -> None:
    explorer = explorer_of(_counted_run())
    for title in ("Timeline", "Kernels"):
        explorer.open(title)
    explorer.show_longest(np.array([1, 2, 7]), "Kernels")
    kernels, timeline = (explorer._tabs._places[explorer.titles.index(title)] for title in ("Kernels", "Timeline"))
    figure = explorer.kernel.figure
    assert figure in _all(kernels)
    assert figure not in _all(timeline)
    explorer.open("Timeline")
    assert figure in _all(timeline)
    assert figure not in _all(kernels)
    explorer.open("Kernels")
    explorer.show_longest(np.zeros(0, np.int64), "Kernels")
    assert figure not in _all(kernels)


@pytest.mark.slow
def test_a_run_without_counters_has_no_detail() -> None:
    explorer = explorer_of(_run())
    explorer.open("Timeline")
    explorer.timeline.select(explorer.timeline.slices.first["kernels"])
    assert explorer.kernel.figure is None


@pytest.mark.slow
def test_the_detail_is_as_wide_as_its_place() -> None:
    explorer = explorer_of(_counted_run())
    explorer.open("Kernels")
    explorer.show_longest(np.array([2]), "Kernels")
    assert explorer.kernel.figure is not None
    explorer.kernel._measures["Kernels"].width = 431
    assert explorer.kernel.figure.layout.width == 431
    explorer.show_longest(np.array([6]), "Kernels")
    assert explorer.kernel.figure.layout.width == 431


@pytest.mark.slow
def test_messages_of_every_tab_arrive_while_a_cell_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(lazy, "answer_at_once", lambda widget: told.extend(_all(widget)))
    explorer = explorer_of(_run())
    whole = explorer._tabs.widget
    assert whole in told
    for title in explorer.titles:
        explorer.open(title)
    assert len(_all(whole)) > 30
    assert {id(one) for one in _all(whole)} <= {id(one) for one in told}


@pytest.mark.slow
def test_names_are_escaped_wherever_they_are_shown() -> None:
    explorer = explorer_of(_run(kernel_names=[_HOSTILE]))

    for title in explorer.titles:
        explorer.open(title)

    said = _texts(explorer.widget)
    assert "&lt;img" in said
    assert "<img src=x" not in said


def _found(table: str, rows: pd.DataFrame, run: Profile) -> Finding:
    return Finding("mine", "fires", "Mine", table=table, rows=rows, explore=run.explore)


@pytest.mark.slow
def test_a_finding_opens_the_explorer_at_its_costliest_evidence() -> None:
    run = _run()
    rows = run.kernels.iloc[[3, 7, 9]].assign(exposed_ns=[1, 5, 2])
    explorer = explorer_of(run)

    explorer.open_at(_found("kernels", rows, run))

    timeline = explorer.timeline
    start, end = timeline.slices.span(timeline.slices.first["kernels"] + 7)
    assert timeline.selected == timeline.slices.first["kernels"] + 7
    assert timeline.window[0] < start < end < timeline.window[1]
    assert timeline.window[1] - timeline.window[0] < (timeline.whole[1] - timeline.whole[0]) / 2
    assert _counted(explorer) == 3
    assert explorer._tabs._tab.selected_index == explorer.titles.index("Timeline")


@pytest.mark.slow
def test_finding_opens_its_tab() -> None:
    run = _run()
    explorer = explorer_of(run)
    explorer.open_at(_found("memory", run.memory.iloc[:2], run))
    assert explorer._tabs._tab.selected_index == explorer.titles.index("Memory")


@pytest.mark.slow
def test_overview_has_a_button_per_finding() -> None:
    run = _run()
    first = next(iter(run.advice()))
    widget = first.show()
    assert "npuprof-explorer" in widget.children[0]._dom_classes
    tab = next(one for one in _all(widget) if one.__class__.__name__ == "Tab")
    assert tab.titles[tab.selected_index] == "Timeline"

    explorer = explorer_of(run)
    explorer.open("Overview")
    buttons = {one.description: one for one in _all(explorer.widget) if one.__class__.__name__ == "Button"}
    links = [name for name in buttons if name.startswith(tuple("123456789"))]
    assert links == [f"{number} {one.rule.replace('_', ' ')}" for number, one in enumerate(run.advice(), 1)]
    buttons[links[0]].click()
    assert explorer._tabs._tab.selected_index == explorer.titles.index("Timeline")
    assert _counted(explorer) == len(first.rows)


def test_a_finding_without_evidence_says_so() -> None:
    with pytest.raises(NpuprofError, match="mine has no evidence to show, since it is clean"):
        Finding("mine", "clean", explore=_run().explore).show()


def test_one_selection_is_shown_in_all_views_and_is_a_run() -> None:
    run = _run(200)
    first, second = explorer_of(run), explorer_of(run)
    for explorer in (first, second):
        explorer.open("Timeline")
    first.timeline.search("MatMul")
    wanted = np.flatnonzero(run.kernels["name"].astype(str).str.contains("MatMul"))
    assert run.selection.kernels["start_ns"].tolist() == run.kernels["start_ns"].iloc[wanted].tolist()
    matches = second.timeline.matches
    assert matches is not None
    assert matches.slices.tolist() == (wanted + second.timeline.slices.first["kernels"]).tolist()

    low = factories.START_NS + 100_000
    run.select(start=low, end=low + 50_000)
    assert first.timeline.marked == second.timeline.marked == (low, low + 50_000)
    assert first.timeline.matches is None
    second.timeline.mark(low, low + 60_000)
    assert first.timeline.marked == (low, low + 60_000)
    assert run.selection.info.selection["end_ns"] == low + 60_000
    first.timeline.clear()
    assert run.selection is run
    assert second.timeline.marked is None


def test_tables_and_the_flame_graph_follow_the_selection() -> None:
    run = _run(200)
    explorer = explorer_of(run)
    explorer.open("Kernels")
    explorer.open("Flame graph")
    flame, grid = _view(explorer.widget, "flame"), _view(explorer.widget, "table")
    assert grid.setup["explorer"] == explorer.identifier
    said: list[Any] = []
    flame.send = lambda content, buffers=(): said.append((content, buffers))
    run.select(where="op_type = MatMulV3")
    assert _groups(grid) == [["MatMulV3_ND_FP16", "MatMulV3", 40]]
    assert said.pop()[0] == {"kind": "selected", "selected": True}
    flame._asked(None, {"kind": "sums", "id": 3, "page": "p", "step": None, "thread": None}, None)
    content, (_, device, count) = said.pop()
    assert content == {"kind": "sums", "id": 3, "page": "p", "range": None, "isChosen": True}
    assert np.frombuffer(device, "f8").sum() == run.selection.kernels["duration_ns"].sum()
    selected = run.selection
    assert len(selected.kernels) == 40
    merged = (selected.python, selected.operators, selected.api, selected.kernels)
    assert np.frombuffer(count, "f8").sum() == sum(map(len, merged))
    assert "Only what is selected: " in _texts(explorer.widget)
    next(one for one in _all(explorer.widget) if getattr(one, "description", "") == "Show all").click()
    assert run.selection is run
    assert said.pop()[0] == {"kind": "selected", "selected": False}
    assert len(_groups(grid)) == 5


@pytest.mark.parametrize("started_ns", [factories.START_NS, None])
def test_table_times_count_from_the_start(started_ns: int | None) -> None:
    empty = {name: table.iloc[:0] for name, table in factories.profile(5).items()}
    info = dataclasses.replace(factories.info(), started_ns=started_ns)
    explorer = explorer_of(Profile(Decoded({**empty, "allocations": _allocations()}, info, Notes())))
    explorer.open("Memory")
    table, said = _view(explorer.widget, "table"), []
    table.send = lambda content, buffers=(): said.append(content)
    table._asked(None, {"kind": "rows", "columns": ["allocated_ns"], "first": 0, "count": 5}, None)
    times = explorer.run.allocations["allocated_ns"]
    origin = started_ns or times.min()
    assert said[0]["rows"] == [[None if pd.isna(time) else time - origin] for time in times.tolist()]


def test_a_frame_selects_its_slices() -> None:
    run = _run(200)
    explorer = explorer_of(run)
    explorer.open("Flame graph")
    calls = merged_calls(run.tables)
    path = next(path for path in range(len(calls)) if calls.name(path) == "aten::linear")
    flame = _view(explorer.widget, "flame")
    assert flame.setup["explorer"] == explorer.identifier
    flame._asked(None, {"kind": "choose", "paths": [path], "name": "aten::linear"}, None)
    selected = run._selection.selected
    assert selected.text == "aten::linear"
    assert selected.rows is not None
    assert len(run.selection.kernels) == len(selected.rows["kernels"]) == len(selected.rows["operators"]) > 0
    assert set(run.operators["name"].iloc[selected.rows["operators"]]) == {"aten::linear"}


def _view(widget: Any, view: str) -> CanvasWidget:
    return next(one for one in _all(widget) if isinstance(one, CanvasWidget) and one.setup["view"] == view)


def _groups(table: CanvasWidget) -> list[list[Any]]:
    """Ask a table for its groups as a page does."""
    said: list[Any] = []
    table.send = lambda content, buffers=(): said.append(content)
    group = table.setup["table"]["groups"][0]
    table._asked(None, {"kind": "rows", "group": group, "columns": [*group, "count"], "first": 0, "count": 50}, None)
    rows: list[list[Any]] = said[0]["rows"]
    return rows
