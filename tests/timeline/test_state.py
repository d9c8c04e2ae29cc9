from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.timeline.keyboard import press
from npuprof.timeline.level_of_detail import MOST_BARS
from npuprof.timeline.state import Timeline
from npuprof.timeline.view import MOST_BYTES
from tests import factories


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(factories.profile(200), factories.info())


def _number(timeline: Timeline, table: str, row: int) -> int:
    return timeline.slices.first[table] + row


@pytest.mark.slow
def test_a_small_run_is_shown_slice_by_slice(timeline: Timeline) -> None:
    shown = timeline.view()

    run = timeline.tables
    busy = run["overlap"]["kind"].isin(["computing", "communication_not_overlapped"]).sum()
    drawn = ("steps", "marks", "python", "operators", "api", "kernels", "communication")
    assert len(shown.place) == sum(len(run[name]) for name in drawn) + busy
    titles = [row.title for row in timeline.rows]
    assert titles[:4] == ["steps", "marks", "Python", "operators · thread 100"]
    assert "CANN node · thread 101" in titles
    assert titles[-4:] == ["stream 2", "stream 3", "collectives", "busy"]


@pytest.mark.slow
def test_any_window_is_a_small_answer() -> None:
    timeline = Timeline(factories.profile(20_000), factories.info())

    for _ in range(20):
        shown = timeline.view()
        assert 0 < len(shown.place) <= MOST_BARS
        assert shown.size_bytes <= MOST_BYTES
        timeline.zoom(0.5)


@pytest.mark.slow
def test_hostile_names_stay_text_and_the_answer_small() -> None:
    name = "<img src=x onerror=alert(1)>$\\alpha$" * 30
    timeline = Timeline(factories.profile(5_000, kernel_names=[f"{name}{i}" for i in range(900)]), factories.info())

    for _ in range(8):
        shown = timeline.view()
        said = [*shown.hover, *shown.label]
        assert not any("<img" in text or "$" in text for text in said)
        assert shown.size_bytes <= MOST_BYTES
        timeline.zoom(0.5)
    assert any("&lt;img" in text for text in said)


def test_times_count_exactly_from_the_first_slice() -> None:
    api = tables.build(
        "api",
        {
            "start_ns": factories.START_NS + np.array([0, 1_501]),
            "duration_ns": np.array([1_500, 1]),
            "name": factories.names(["a"], np.zeros(2, np.int64)),
            "level": factories.names(["acl"], np.zeros(2, np.int64)),
            "thread_id": np.zeros(2, np.int64),
        },
    )
    shown = Timeline(factories.all_tables(api=api), factories.info()).view()

    assert (shown.base_s * 1e9).round(3).tolist() == [0, 1_501]
    assert (shown.width_s * 1e9).round(3).tolist() == [1_500, 1]
    assert "1.50 µs, at 0 ns" in shown.hover[0]


def test_keys_zoom_pan_and_return(timeline: Timeline) -> None:
    start, end = timeline.window

    press(timeline, "w")
    assert timeline.window[1] - timeline.window[0] == pytest.approx((end - start) / 2, abs=2)
    press(timeline, "d")
    assert timeline.window[0] > start + (end - start) // 4
    press(timeline, "a")
    press(timeline, "S")
    press(timeline, "0")
    assert timeline.window == (start, end)
    assert not press(timeline, "q")


def test_the_window_stays_within_the_run_and_above_what_can_be_shown(timeline: Timeline) -> None:
    whole = timeline.whole[1] - timeline.whole[0]
    for _ in range(60):
        timeline.zoom(0.5)
    assert 0 < timeline.window[1] - timeline.window[0] <= 100
    for _ in range(60):
        timeline.zoom(2)
    timeline.pan(50)
    assert timeline.window[1] <= timeline.whole[1] + whole
    timeline.pan(-500)
    assert timeline.window[0] >= timeline.whole[0] - whole


def test_a_selected_kernel_has_its_causes(timeline: Timeline) -> None:
    kernel = _number(timeline, "kernels", 10)

    timeline.select(kernel)
    drawn, found = timeline.arrows()

    chain = [timeline.slices.row(arrow.cause)[0] for arrow in found.arrows]
    assert chain == ["api", "operators", "python"]
    assert found.arrows[0].cause == _number(timeline, "api", 10)
    assert found.arrows[1].cause == _number(timeline, "operators", 10)
    assert len(drawn) == 3
    assert all(begin.time_ns <= end.time_ns and begin.place < end.place for begin, end in drawn)


def test_an_operator_has_its_effects(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "operators", 10))
    found = timeline.arrows()[1]

    pairs = {(timeline.slices.row(arrow.cause)[0], timeline.slices.row(arrow.effect)[0]) for arrow in found.arrows}
    assert pairs == {("python", "operators"), ("operators", "api"), ("api", "kernels")}
    assert not found.more


@pytest.mark.slow
def test_a_call_around_the_whole_run_tells_that_it_has_more_effects(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "python", 0))
    found = timeline.arrows()[1]

    assert found.more
    assert 20 < len(found.arrows) <= 60


def test_the_arrow_keys_follow_causes_and_neighbours(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "kernels", 10))

    for key, expected in (
        ("ArrowUp", ("api", 10)),
        ("ArrowUp", ("operators", 10)),
        ("ArrowDown", ("api", 10)),
        ("ArrowDown", ("kernels", 10)),
        ("ArrowRight", ("kernels", 12)),
        ("ArrowLeft", ("kernels", 10)),
    ):
        press(timeline, key)
        assert timeline.selected is not None
        assert timeline.slices.row(timeline.selected) == expected
    press(timeline, "Escape")
    assert timeline.arrows()[1].arrows == ()


@pytest.mark.slow
def test_selecting_a_bar_selects_its_slice_or_marks_its_stretch() -> None:
    timeline = Timeline(factories.profile(20_000), factories.info())
    shown = timeline.view()
    several = next(at for at, text in enumerate(shown.hover) if " slices</b>" in text)
    single = next(at for at, text in enumerate(shown.hover) if " slices</b>" not in text)

    timeline.select_bar(several)
    assert not timeline.arrows()[1].arrows
    assert timeline.marked is not None
    press(timeline, "f")
    assert timeline.window == timeline.marked
    timeline.select_bar(single)
    assert timeline.selected is not None
    timeline.select_bar(10**6)
    timeline.select_bar(-1)


@pytest.mark.slow
def test_search_finds_counts_and_walks_through_matches(timeline: Timeline) -> None:
    found = timeline.search("matmul")

    assert found == (timeline.tables["kernels"]["op_type"] == "MatMulV3").sum()  # and not once more for each task
    assert timeline.next_match() == 0
    assert timeline.next_match() == 1
    assert timeline.next_match(-1) == 0
    assert timeline.next_match(-1) == found - 1
    assert timeline.selected is not None
    assert timeline.slices.name(timeline.selected) == "MatMulV3_ND_FP16"
    start, end = timeline.slices.span(timeline.selected)
    assert timeline.window[0] <= start <= end <= timeline.window[1]
    assert timeline.search("^aten::(add|softmax)$", regex=True) == 80
    assert timeline.search("nothing is called so") == 0
    assert timeline.next_match() is None


@pytest.mark.slow
def test_matches_stand_out(timeline: Timeline) -> None:
    timeline.search("MatMul")
    shown = timeline.view()

    bright = [text for text, opacity in zip(shown.hover, shown.opacity, strict=True) if opacity == 1]
    assert len(bright) == 40
    assert all("MatMul" in text for text in bright)
    timeline.search("")
    assert (timeline.view().opacity == 1).all()


@pytest.mark.slow
def test_rows_of_a_table_light_up(timeline: Timeline) -> None:
    timeline.light_up("kernels", np.array([9, 3]), "two kernels")

    shown = timeline.view()
    assert (shown.opacity == 1).sum() == 2
    assert timeline.next_match() == 0
    assert timeline.selected == _number(timeline, "kernels", 3)


def test_a_wrong_expression_is_told(timeline: Timeline) -> None:
    with pytest.raises(OptionsError, match="cannot be read"):
        timeline.search("(", regex=True)


@pytest.mark.slow
def test_the_readout_sums_the_range_up(timeline: Timeline) -> None:
    kernels = timeline.tables["kernels"]
    first, last = int(kernels["start_ns"].iloc[20]), int((kernels["start_ns"] + kernels["duration_ns"]).iloc[29])
    timeline.mark(last, first)

    told = timeline.readout()

    inside = kernels.iloc[20:30]
    assert told.span_ns == last - first
    assert told.kernels == 10
    assert sum(one.total_ns for one in told.top) == inside["duration_ns"].sum()
    assert told.top[0].name == "MatMulV3_ND_FP16"
    assert inside["duration_ns"].sum() < told.busy_ns[0] <= told.span_ns  # collectives too


def test_only_what_lies_in_the_range_counts(timeline: Timeline) -> None:
    start, end = timeline.slices.span(_number(timeline, "kernels", 0))
    timeline.mark(start + 5, end - 5)

    assert timeline.readout().top[0].total_ns == end - start - 10


@pytest.mark.slow
def test_hidden_groups_leave_no_gaps(timeline: Timeline) -> None:
    height, bars = timeline.height, len(timeline.view().place)
    kernel = _number(timeline, "kernels", 3)
    timeline.select(kernel)

    timeline.hide({"Device", "Python"})

    assert timeline.height < height - 6
    assert len(timeline.view().place) < bars
    assert timeline.place_of(kernel) is None
    assert timeline.arrows()[0] == [] or all(begin.place < timeline.height for begin, _ in timeline.arrows()[0])
    timeline.hide(set())
    assert len(timeline.view().place) == bars


def test_a_slice_folded_with_others_has_a_place() -> None:
    count = 12  # all at once on one stream of three lanes
    kernels = factories.profile(count)["kernels"]
    kernels["start_ns"] = factories.START_NS + np.arange(count)
    kernels["duration_ns"] = 1_000
    kernels["stream_id"] = pd.array([2] * count, dtype="Int64")
    timeline = Timeline(factories.all_tables(kernels=kernels), factories.info())

    assert int(timeline.height) > 1
    assert all(timeline.place_of(number) is not None for number in timeline.slices.of_table("kernels").tolist())


def test_the_queue_levels_and_planes_have_groups_of_their_own() -> None:
    run = factories.profile(100)
    index = np.arange(100)
    run["operators"]["kind"] = factories.names(["op", "enqueue", "dequeue"], index % 3)
    run["api"]["level"] = factories.names(["acl", "model", "node", "runtime"], index % 4)
    run["communication"]["group"] = factories.names(["tp", "dp"], np.arange(len(run["communication"])) % 2)
    run["communication_tasks"] = tables.build(
        "communication_tasks",
        {
            "start_ns": factories.START_NS + index * 50,
            "duration_ns": index * 0 + 20,
            "device_id": index * 0,
            "plane_id": index % 2,
            "task_type": factories.names(["Memcpy", "Notify_Wait"], index % 2),
        },
    )
    timeline = Timeline(run, factories.info())

    assert [group.title for group in timeline.groups] == [
        *["Steps", "Marks", "Python", "Operators", "Queues", "CANN", "Device", "Communication", "Overlap"],
    ]
    titles = " ".join(row.title for row in timeline.rows)
    for wanted in ("queue", "CANN acl", "CANN model", "CANN runtime", "· dp", "· tp", "plane 0", "plane 1"):
        assert wanted in titles
    counted = sum(len(rows.slices) for group in timeline.groups for rows in group.layers)
    assert counted == 3 + 2 + 4 + 10 + 100 + 100 + 100 + 20 + 100 + 200


@pytest.mark.slow
def test_counters_are_lines_below() -> None:
    run = factories.profile(50)
    index = np.arange(5_000)
    run["counters"] = tables.build(
        "counters",
        {
            "time_ns": factories.START_NS + index * 400,
            "device_id": index * 0,
            "counter": factories.names(["AI Core frequency"], index * 0),
            "value": np.where(index == 2_500, 1_850.0, 800.0 + index % 2),
            "unit": factories.names(["MHz"], index * 0),
        },
    )
    timeline = Timeline(run, factories.info())

    time_ns, place, value = timeline.line(1)

    assert timeline.line_rows[1].title == "AI Core frequency NPU 0"
    assert len(time_ns) <= 400
    assert value.max() == 1_850
    assert place.min() == timeline.line_rows[1].place
    assert place.max() < timeline.height


def test_an_empty_run_is_an_empty_timeline() -> None:
    timeline = Timeline(factories.all_tables(), factories.info())

    assert timeline.empty
    assert len(timeline.view().place) == 0
    assert timeline.readout().kernels == 0
    for key in "wasdf0np":
        press(timeline, key)
    press(timeline, "ArrowLeft")


def test_listeners_hear_of_changes(timeline: Timeline) -> None:
    heard = []
    timeline.listen(lambda: heard.append(timeline.window))

    timeline.zoom(0.5)
    timeline.select(3)

    assert len(heard) == 2


def test_details_tell_all_that_is_known(timeline: Timeline) -> None:
    told = dict(timeline.slices.details(_number(timeline, "kernels", 0)))

    assert told["table"] == "kernels, row 0"
    assert told["duration_ns"] == "21.0 µs"
    assert told["start_ns"].endswith("UTC")
    assert "hf32" not in told


@pytest.mark.slow
def test_hover_has_shapes_stack_and_units() -> None:
    run = factories.profile(10)
    run["kernels"]["aic_mac_ratio"] = 0.43
    run["kernels"]["aiv_vec_ratio"] = np.nan
    run["operators"]["stack"] = factories.names(["a.py(3): f;b.py(4): g"], np.zeros(10, np.int64))
    shown = "\n".join(Timeline(run, factories.info()).view().hover)

    assert "aic mac 43 %" in shown
    assert "aiv vec" not in shown
    assert "input 256,1024;1024,1024" in shown
    assert "<br>a.py(3): f<br>b.py(4): g" in shown
