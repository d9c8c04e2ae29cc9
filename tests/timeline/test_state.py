from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.timeline.columns import Columns
from npuprof.timeline.labels import FAMILY_KEYS
from npuprof.timeline.state import Timeline
from tests import factories


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(factories.profile(200), factories.info())


def _columns(timeline: Timeline, pixels: int = 100_000) -> Columns:
    """The bars of the window."""
    return timeline.answer(*timeline.window, pixels).columns


def _number(timeline: Timeline, table: str, row: int) -> int:
    return timeline.slices.first[table] + row


@pytest.mark.slow
def test_a_small_run_is_shown_slice_by_slice(timeline: Timeline) -> None:
    shown = _columns(timeline)

    run = timeline.tables
    busy = run["overlap"]["kind"].isin(["computing", "communication_not_overlapped"]).sum()
    drawn = ("steps", "marks", "python", "operators", "api", "kernels", "communication")
    assert len(shown) == sum(len(run[name]) for name in drawn) + busy
    assert (shown.count == 1).all()
    titles = [row.title for rows in timeline.rows for row in rows if row.title]
    assert titles[:6] == ["steps", "marks", "stream 2", "stream 3", "busy", "collectives"]  # the device before the host
    assert titles[6:8] == ["Python", "operators · thread 100"]
    assert "CANN node · thread 101" in titles


@pytest.mark.slow
@given(st.integers(0, 2_000_000), st.integers(1, 3_000_000), st.integers(100, 5_000))
def test_the_columns_of_a_window_are_its_slices(start: int, length: int, pixels: int) -> None:
    timeline = _shared()
    first = timeline.whole[0]

    answer = timeline.answer(first + start, first + start + length, pixels)

    shown, slices = answer.columns, timeline.slices
    begin = shown.start.astype(np.int64)
    for at in np.flatnonzero(shown.count == 1).tolist():
        assert slices.span(int(shown.slice[at])) == (first + begin[at], first + begin[at] + int(shown.length[at]))
        assert timeline.labels.texts([int(shown.label[at])]) == [slices.name(int(shown.slice[at]))]
        assert FAMILY_KEYS[shown.family[at]] == slices.families(np.array([shown.slice[at]]))[0]
    touching = 0
    for group in timeline.groups:
        for layer in group.layers:
            touching += len(layer.within(first + start, first + start + length).slices)
    assert int(shown.count.sum()) == touching  # no slice is lost or in two bars
    assert answer.exact == (shown.count == 1).all()


@functools.cache
def _shared() -> Timeline:
    return Timeline(factories.profile(60), factories.info())


@pytest.mark.slow
def test_any_window_is_a_small_answer() -> None:
    timeline = Timeline(factories.profile(20_000), factories.info())
    start, end = timeline.whole

    for _ in range(20):
        answer = timeline.answer(start, end, 7_000)
        assert 0 < len(answer.columns) <= 24_000
        end = start + max((end - start) // 2, 20)
    assert answer.exact


@pytest.mark.slow
def test_requested_lanes_alone_are_answered(timeline: Timeline) -> None:
    lanes = [timeline.rows[0][0].lane, timeline.rows[2][1].lane]

    shown = timeline.answer(*timeline.whole, 5_000, [*lanes, 10_000, -7]).columns

    assert sorted(set(shown.lane.tolist())) == lanes


def test_times_count_exactly_from_the_first_slice() -> None:
    late = 2**52  # 52 days
    api = tables.build(
        "api",
        {
            "start_ns": factories.START_NS + np.array([0, late + 1]),
            "duration_ns": np.array([1_500, 1]),
            "name": factories.names(["a"], np.zeros(2, np.int64)),
            "level": factories.names(["acl"], np.zeros(2, np.int64)),
            "thread_id": np.zeros(2, np.int64),
        },
    )
    shown = _columns(Timeline(factories.all_tables(api=api), factories.info()))

    assert shown.start.tolist() == [0, late + 1]
    assert shown.length.tolist() == [1_500, 1]


def test_a_selected_kernel_has_its_causes(timeline: Timeline) -> None:
    kernel = _number(timeline, "kernels", 10)

    timeline.select(kernel)
    found = timeline.arrows()

    chain = [timeline.slices.row(arrow.cause)[0] for arrow in found.arrows]
    assert chain == ["api", "operators", "python"]
    assert found.arrows[0].cause == _number(timeline, "api", 10)
    assert found.arrows[1].cause == _number(timeline, "operators", 10)
    lanes = [timeline.lane_of(arrow.cause) for arrow in found.arrows]
    assert None not in lanes
    assert timeline.lane_of(kernel) not in lanes


def test_steps_of_the_keyboard_follow_causes_and_neighbours(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "kernels", 10))

    for go, expected in (
        (timeline.step_to_cause, ("api", 10)),
        (timeline.step_to_cause, ("operators", 10)),
        (timeline.step_to_effect, ("api", 10)),
        (timeline.step_to_effect, ("kernels", 10)),
        (lambda: timeline.step(1), ("kernels", 12)),
        (lambda: timeline.step(-1), ("kernels", 10)),
    ):
        go()
        assert timeline.selected is not None
        assert timeline.slices.row(timeline.selected) == expected
    timeline.clear()
    assert timeline.arrows().arrows == ()


def test_an_operator_has_its_effects(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "operators", 10))
    found = timeline.arrows()

    pairs = {(timeline.slices.row(arrow.cause)[0], timeline.slices.row(arrow.effect)[0]) for arrow in found.arrows}
    assert pairs == {("python", "operators"), ("operators", "api"), ("api", "kernels")}
    assert not found.more


@pytest.mark.slow
def test_a_call_around_the_whole_run_reports_further_effects(timeline: Timeline) -> None:
    timeline.select(_number(timeline, "python", 0))
    found = timeline.arrows()

    assert found.more
    assert 20 < len(found.arrows) <= 60


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
def test_matches_stand_out_and_are_shown_where_they_can_be_seen() -> None:
    timeline = Timeline(factories.profile(5_000), factories.info())
    timeline.search("SoftmaxV2")

    assert timeline.next_match() == 0
    start, end = timeline.slices.span(timeline.selected or 0)
    assert (timeline.window[1] - timeline.window[0]) <= 100 * (end - start)
    assert timeline.window[0] <= start <= end <= timeline.window[1]
    shown = _columns(timeline)
    assert set(timeline.labels.texts(shown.label[shown.lit == 1].tolist())) == {"SoftmaxV2"}
    assert (shown.lit == 0).any()
    timeline.search("")
    assert (_columns(timeline).lit == 1).all()


@pytest.mark.slow
def test_rows_of_a_table_light_up(timeline: Timeline) -> None:
    timeline.light_up({"kernels": np.array([9, 3])}, "two kernels")

    assert _columns(timeline).lit.sum() == 2
    assert timeline.next_match() == 0
    assert timeline.selected == _number(timeline, "kernels", 3)


def test_a_wrong_expression_is_reported(timeline: Timeline) -> None:
    with pytest.raises(OptionsError, match="cannot be read"):
        timeline.search("(", regex=True)


def test_a_slice_folded_with_others_has_a_place() -> None:
    count = 12  # all at once on one stream of three lanes
    kernels = factories.profile(count)["kernels"]
    kernels["start_ns"] = factories.START_NS + np.arange(count)
    kernels["duration_ns"] = 1_000
    kernels["stream_id"] = pd.array([2] * count, dtype="Int64")
    timeline = Timeline(factories.all_tables(kernels=kernels), factories.info())

    assert len(timeline.rows[0]) > 1
    assert all(timeline.lane_of(number) is not None for number in timeline.slices.of_table("kernels").tolist())


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
        *["Steps", "Marks", "Device", "Overlap", "Communication", "Python", "Operators", "Queues", "CANN"],
    ]
    titles = " ".join(row.title for rows in timeline.rows for row in rows)
    for wanted in ("queue", "CANN acl", "CANN model", "CANN runtime", "· dp", "· tp", "plane 0", "plane 1"):
        assert wanted in titles
    counted = sum(len(rows.slices) for group in timeline.groups for rows in group.layers)
    assert counted == 3 + 2 + 4 + 10 + 100 + 100 + 100 + 20 + 100 + 200


def test_details_have_every_known_value(timeline: Timeline) -> None:
    facts = timeline.slices.details(_number(timeline, "kernels", 0))
    told = {column: text for column, text, _ in facts}
    recorded = {column: raw for column, _, raw in facts}

    assert told["table"] == "kernels, row 0"
    assert told["duration_ns"] == "21.0 µs"
    assert recorded["duration_ns"] == "21000"
    assert told["start_ns"].endswith("UTC")
    assert "hf32" not in told


def test_window_stays_within_the_run(timeline: Timeline) -> None:
    whole = timeline.whole[1] - timeline.whole[0]
    timeline.show(timeline.whole[0] + 5, timeline.whole[0] + 5)
    assert 0 < timeline.window[1] - timeline.window[0] <= 100
    timeline.show(timeline.whole[1] + 50 * whole, timeline.whole[1] + 99 * whole)
    assert timeline.window[1] <= timeline.whole[1] + whole
    timeline.show(-(2**62), -(2**61))
    assert timeline.window[0] >= timeline.whole[0] - whole


def test_jumps_go_to_the_longest_and_to_steps_and_names(timeline: Timeline) -> None:
    kernels = timeline.tables["kernels"]
    longest = kernels["duration_ns"].to_numpy()

    assert timeline.jump("kernel") == ""
    first = timeline.selected
    assert first is not None
    assert timeline.slices.span(first)[1] - timeline.slices.span(first)[0] == longest.max()
    timeline.jump("kernel")
    assert timeline.selected != first  # asked again: the next shorter one
    assert timeline.jump("same") == ""
    assert timeline.slices.name(timeline.selected or 0) == timeline.slices.name(first)
    assert timeline.jump("gap") == ""
    assert timeline.marked is not None
    assert timeline.selected is None
    assert timeline.jump("same") == "select a slice first"
    timeline.show(*timeline.whole)
    timeline.jump("step before")
    step = timeline.tables["steps"].iloc[0]
    assert timeline.window == (step["start_ns"], step["start_ns"] + step["duration_ns"])
    assert timeline.jump("step before") == "there is no further step"


def test_an_empty_run_is_an_empty_timeline() -> None:
    timeline = Timeline(factories.all_tables(), factories.info())

    assert timeline.empty
    assert len(_columns(timeline)) == 0
    assert timeline.overview(*timeline.whole).devices == 0
    assert timeline.summary(*timeline.whole).by_name == ()
    for to in ("kernel", "gap", "step", "same"):
        assert timeline.jump(to)
    timeline.step(1)
    timeline.step_to_cause()


def test_listeners_hear_of_changes(timeline: Timeline) -> None:
    heard = []
    timeline.listen(lambda: heard.append(timeline.window))

    timeline.show(timeline.whole[0], timeline.whole[0] + 100)
    timeline.select(3)

    assert len(heard) == 2


def test_counters_and_memory_are_on_the_axis_of_the_slices() -> None:
    run = factories.profile(50)
    first = int(run["python"]["start_ns"].min())
    index = np.arange(5_000)
    run["counters"] = tables.build(
        "counters",
        {
            "time_ns": first - 1_000_000 + index * 400,
            "device_id": index * 0,
            "counter": factories.names(["AI Core frequency"], index * 0),
            "value": np.where(index == 2_500, 1_850.0, 800.0 + index % 2),
            "unit": factories.names(["MHz"], index * 0),
        },
    )
    timeline = Timeline(run, factories.info())

    titles = [line.title for line in timeline.lines]
    assert titles == ["launched, not started", "PTA allocated device 0", "AI Core frequency device 0"]
    assert timeline.origin == first  # as in all figures, however early the samples begin
    assert timeline.whole[0] == first - 1_000_000
    time_ns, value = timeline.lines[2].within(*timeline.whole)
    assert len(time_ns) <= 400
    assert value.max() == 1_850
    memory = run["memory"]["allocated_bytes"].to_numpy(np.float64)
    assert timeline.lines[1].top * 2**20 == memory.max()


def _two_devices(run: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Add a counter of two devices, sampled in turn; it starts later on the second."""
    first = int(run["python"]["start_ns"].min())
    device = np.array([0, 1, 0, 1])
    columns = {
        "time_ns": first + np.array([0, 10, 20, 30]) * 1_000,
        "device_id": device,
        "counter": factories.names(["HBM read"], device * 0),
        "value": np.array([5.0, 100.0, 7.0, 300.0]),
        "unit": factories.names(["GB/s"], device * 0),
    }
    return {**run, "counters": tables.build("counters", columns)}


def test_counters_that_are_alike_are_summed() -> None:
    timeline = Timeline(_two_devices(factories.profile(20)), factories.info())

    total = timeline.lines[-1]
    assert (total.title, total.unit, total.total) == ("HBM read, sum of 2", "GB/s", True)
    assert (total.time_ns - timeline.origin).tolist() == [0, 10_000, 20_000, 30_000]
    assert total.value.tolist() == [5, 105, 107, 307]
    assert [line.kind for line in timeline.lines if line.total or "HBM" in line.title] == ["HBM read"] * 3


def test_a_moment_that_is_pointed_at_is_shown() -> None:
    timeline = Timeline(factories.profile(200), factories.info())
    start, end = timeline.whole
    moment = start + (end - start) * 3 // 4

    timeline.point_at(moment)
    near = timeline.window
    assert timeline.cursor == moment
    assert near[0] < moment < near[1]
    assert near[1] - near[0] == (end - start) // 20
    timeline.point_at(near[1] + 1)
    assert timeline.window[0] < near[1] + 1 < timeline.window[1]
    assert timeline.window[1] - timeline.window[0] == near[1] - near[0]
    timeline.clear()
    assert timeline.cursor is None
