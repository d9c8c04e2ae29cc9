from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuprof.errors import OptionsError
from npuprof.flame.fold import Root
from npuprof.flame.scope import Scope
from npuprof.flame.state import MOST_FRAMES, MOST_LEVELS, FlameGraph, press
from npuprof.flame.view import MOST_BYTES, FlameColumns, flame_columns
from npuprof.info import Info
from tests import factories

MANY_NAMES = tuple(f"kernel_{i}" for i in range(20_000))


@pytest.fixture(scope="module")
def many() -> FlameGraph:
    """A run with far more paths than are shown."""
    return FlameGraph(factories.profile(20_000, kernel_names=MANY_NAMES), factories.info())


@pytest.fixture
def flame(many: FlameGraph) -> FlameGraph:
    many.look_at(Scope())
    many.weigh("device")
    many.turn("icicle")
    many.search("")
    many.show_all()
    return many


@pytest.fixture
def small() -> FlameGraph:
    return FlameGraph(factories.profile(200), factories.info())


def _frame(flame: FlameGraph, name: str) -> int:
    picture = flame.picture()
    return next(frame for frame in range(len(picture.frames)) if picture.name(frame) == name)


def _names(flame: FlameGraph) -> list[str]:
    picture = flame.picture()
    return [picture.name(frame) for frame in range(len(picture.frames))]


def _view(flame: FlameGraph) -> FlameColumns:
    return flame_columns(flame.picture(), flame.frame_matches())


@pytest.mark.slow
def test_zooming_into_a_frame_brings_the_detail_that_was_folded(flame: FlameGraph) -> None:
    whole = _names(flame)
    assert len(whole) <= MOST_FRAMES
    assert any(name.endswith(" more)") for name in whole)

    flame.zoom(_frame(flame, "aten::softmax"))

    zoomed = _names(flame)
    assert zoomed[0] == "aten::softmax"
    assert len(zoomed) <= MOST_FRAMES
    assert len({name for name in zoomed if name.startswith("kernel_")} - set(whole)) > 500
    assert flame.path() == ["aten::softmax"]


@pytest.mark.slow
def test_the_rest_is_opened_by_a_click_and_left_again(flame: FlameGraph) -> None:
    flame.zoom(_frame(flame, "aten::softmax"))
    flame.zoom(_frame(flame, "launch"))
    flame.up()
    shown, picture = set(_names(flame)), flame.picture()
    more = next(frame for frame in range(len(picture.frames)) if picture.frames.folded[frame])
    total, number = int(picture.frames.total[more]), int(picture.frames.folded[more])

    flame.zoom(more)

    assert flame.picture().frames.total[0] == total
    assert flame.path()[-1] == "the rest"
    kernels = _names(flame)[1:]
    assert len(kernels) == number
    assert not set(kernels) & shown
    caller = flame.root.path
    flame.zoom(0)  # the frame at the top leads up
    assert flame.root == Root(caller)
    flame.show_all()
    assert flame.path() == []


@pytest.mark.slow
def test_every_picture_balances(flame: FlameGraph) -> None:
    for step in (None, 1):
        for weight in flame.weights:
            flame.look_at(Scope(step=step))
            flame.weigh(weight)
            flame.show_all()
            for _ in range(6):
                frames = flame.picture().frames
                assert frames.exclusive.sum() + frames.total[frames.folded > 0].sum() == frames.total[0] > 0
                flame.zoom(min(3, len(frames) - 1))


def test_the_root_stays_while_it_has_something_of_the_weight(small: FlameGraph) -> None:
    small.weigh("device")
    small.zoom(_frame(small, "SoftmaxV2"))
    operator = small.path()

    small.weigh("host")  # a kernel has no host time, the call that launched it has

    assert operator[-1] == "SoftmaxV2"
    assert small.path() == operator[:-1]
    small.weigh("device")
    assert small.path() == operator[:-1]
    small.look_at(Scope(thread=101))
    assert small.picture().frames.total[0] > 0


def test_a_step_is_distinguished_from_the_whole(small: FlameGraph) -> None:
    whole = small.picture().whole

    small.look_at(Scope(step=1))

    assert 0 < small.picture().whole < whole / 2
    with pytest.raises(OptionsError, match="no step 17"):
        small.look_at(Scope(step=17))
    assert small.scope == Scope(step=1)
    assert small.picture().whole < whole / 2


@pytest.mark.slow
def test_only_weights_that_the_run_has_are_offered() -> None:
    kernels = factories.profile(5)["kernels"]
    assert FlameGraph(factories.all_tables(kernels=kernels), Info()).weights == ["device", "count"]
    assert FlameGraph(factories.profile(5) | {"kernels": kernels.iloc[:0]}, Info()).weights == ["host", "count"]
    empty = FlameGraph(factories.all_tables(), Info())
    assert empty.weights == ["count"]
    assert len(empty.picture().frames) == 1
    with pytest.raises(OptionsError, match="must be one of count"):
        empty.weigh("host")
    with pytest.raises(OptionsError, match="one of icicle, flame"):
        empty.turn("pie")  # type: ignore[arg-type]  # the wrong value is the point


def test_a_search_shows_its_share_and_fades_other_frames(small: FlameGraph) -> None:
    small.search("aten::softmax")

    picture, found = small.picture(), small.frame_matches()
    assert found is not None
    softmax = [frame for frame in range(len(picture.frames)) if picture.name(frame) == "aten::softmax"]
    assert np.flatnonzero(found.lit).tolist() == softmax
    assert found.total == picture.frames.total[softmax].sum()
    told = picture.match_text(found)
    assert told.startswith(f"{len(softmax)} frames, ")
    assert told.endswith(" % of host time")
    view = _view(small)
    assert set(np.flatnonzero(view.lit == 1)) == set(softmax)
    small.search("main")
    small.zoom(_frame(small, "train.py(20): step"))  # what was found is above the root
    found = small.frame_matches()
    assert found is not None
    assert small.picture().match_text(found) == "no match"
    small.search("")
    assert small.frame_matches() is None
    assert (_view(small).lit == 1).all()


def test_a_pattern_that_cannot_be_read_leaves_nothing_lit(small: FlameGraph) -> None:
    small.search("aten")
    with pytest.raises(OptionsError, match="cannot be read"):
        small.search("(", regex=True)
    assert small.frame_matches() is None


@pytest.mark.slow
def test_keys_walk_zoom_and_come_back(small: FlameGraph) -> None:
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        assert press(small, key)
    assert small.picture().name(small.cursor) == "train.py(20): step"
    press(small, "Enter")
    assert small.path() == ["train.py(1): main", "train.py(20): step"]
    assert small.cursor == 0
    press(small, "Enter")  # the one at the top stays there
    assert len(small.path()) == 2
    press(small, "Backspace")
    assert small.path() == ["train.py(1): main"]
    press(small, "0")
    assert small.path() == []
    small.turn("flame")
    press(small, "ArrowUp")
    assert small.picture().name(small.cursor) == "train.py(1): main"
    first = small.cursor
    press(small, "ArrowRight")
    assert small.picture().frames.left[small.cursor] > 0
    press(small, "ArrowLeft")
    press(small, "ArrowLeft")  # nothing is left of it
    assert small.cursor == first
    press(small, "u")
    assert not press(small, "q")


def test_matches_are_walked_in_a_circle(small: FlameGraph) -> None:
    small.search("aten::add")
    found = small.frame_matches()
    assert found is not None
    lit = set(np.flatnonzero(found.lit).tolist())

    walked = []
    for _ in range(len(lit) + 1):
        press(small, "n")
        walked.append(small.cursor)

    assert set(walked) == lit
    assert walked[0] == walked[-1]
    press(small, "p")
    assert small.cursor == walked[-2]


@pytest.mark.parametrize("frame", [-1, 10**9])
def test_a_frame_of_a_picture_that_is_no_more_is_let_pass(small: FlameGraph, frame: int) -> None:
    small.zoom(frame)
    small.point(frame)

    assert (small.root, small.cursor) == (Root(), 0)


@pytest.mark.slow
def test_frames_lie_within_their_caller_side_by_side(flame: FlameGraph) -> None:
    frames = flame.picture().frames
    left, width = frames.left, frames.total / frames.total[0]

    assert (left[1:] >= left[frames.above[1:]] - 1e-9).all()
    assert (left[1:] + width[1:] <= (left + width)[frames.above[1:]] + 1e-9).all()
    for level in range(int(frames.depth.max()) + 1):
        row = np.flatnonzero(frames.depth == level)
        row = row[np.argsort(left[row], kind="stable")]
        assert (left[row[1:]] >= (left + width)[row[:-1]] - 1e-9).all()


@pytest.mark.slow
def test_any_picture_is_a_small_answer() -> None:
    name = "<img src=x onerror=alert(1)>$\\alpha$" * 20
    flame = FlameGraph(factories.profile(6_000, kernel_names=[f"{i}{name}" for i in range(6_000)]), factories.info())
    flame.weigh("device")

    for _ in range(5):
        view = _view(flame)
        assert view.size_bytes <= MOST_BYTES * 1.1
        picture = flame.picture()
        flame.zoom(next((at for at in range(len(picture.frames)) if picture.frames.folded[at]), 1))
    assert any("<img" in text for text in view.names)  # as it was recorded: a page sets it as text


def test_hover_has_every_known_value_of_a_frame(small: FlameGraph) -> None:
    small.zoom(_frame(small, "train.py(1): main"))
    picture = small.picture()

    lines = picture.hover(_frame(small, "aten::linear"), 60).split("<br>")

    assert lines[0] == "<b>aten::linear</b>"
    assert lines[1].startswith("operator, ")
    assert lines[1].endswith(" calls")
    assert lines[2].startswith("host ")
    assert lines[2].endswith(" self")
    assert lines[3].startswith("device ")
    assert "% of host time" in lines[4]
    assert lines[4].endswith("% of the view")


@pytest.mark.slow
def test_a_tower_of_calls_is_cut_and_can_be_climbed() -> None:
    depth = 300
    run = factories.profile(1)
    python = run["python"].iloc[[0] * depth].reset_index(drop=True)
    python["start_ns"] += np.arange(depth)
    python["duration_ns"] = 10_000 - 2 * np.arange(depth)
    python["id"], python["depth"] = np.arange(depth), np.arange(depth)
    python["parent_id"] = python["parent_id"].iloc[:0].reindex(range(depth))
    flame = FlameGraph(factories.all_tables(python=python), Info())

    assert flame.picture().frames.depth.max() == MOST_LEVELS
    for _ in range(10):
        flame.zoom(len(flame.picture().frames) - 1)
    assert flame.picture().frames.depth.max() < MOST_LEVELS
    assert len(flame.path()) > depth - MOST_LEVELS


def test_listeners_hear_of_every_change(small: FlameGraph) -> None:
    heard: list[int] = []
    small.listen(lambda: heard.append(1))

    acts: list[Callable[[], object]] = [
        lambda: small.weigh("count"),
        lambda: small.look_at(Scope(step=1)),
        lambda: small.turn("flame"),
        lambda: small.search("add"),
        lambda: small.zoom(1),
        small.up,
        lambda: small.point(1),
    ]
    for act in acts:
        before = len(heard)
        act()
        assert len(heard) == before + 1
