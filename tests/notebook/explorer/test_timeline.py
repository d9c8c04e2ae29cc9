from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from npuprof.advice.finding import Finding
from npuprof.browser.script import script
from npuprof.notebook.explorer import timeline as module
from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from tests import factories


@pytest.fixture
def view() -> Iterator[_Heard]:
    module._layout.clear()
    yield _Heard(TimelineView(Timeline(factories.profile(50), factories.info())))
    module._layout.clear()


class _Heard:
    """A view, and what it says to pages."""

    def __init__(self, view: TimelineView) -> None:
        self.view = view
        self.timeline = view._timeline
        self.messages: list[tuple[dict[str, Any], list[memoryview]]] = []
        view.canvas.send = lambda content, buffers=(): self.messages.append((content, list(buffers)))

    def ask(self, kind: str, **asked: Any) -> dict[str, list[dict[str, Any]]]:
        """Ask as a page does; the answers by kind."""
        self.messages.clear()
        self.view.canvas._asked(None, {"kind": kind, **asked}, None)
        return self.heard()

    def heard(self) -> dict[str, list[dict[str, Any]]]:
        heard: dict[str, list[dict[str, Any]]] = {}
        for content, _ in self.messages:
            heard.setdefault(content["kind"], []).append(content)
        return heard

    def window(self, start: int = 0, end: int = 500_000, **more: Any) -> dict[str, Any]:
        asked = {"id": 7, "page": "p", "start": start, "end": end, "pixels": 1_000, "lanes": None, **more}
        (answer,) = self.ask("window", **asked)["window"]
        return answer


def test_window_is_columns_and_unique_names(view: _Heard) -> None:
    answer = view.window()

    assert (answer["id"], answer["page"]) == (7, "p")
    arrays = {
        name: np.frombuffer(buffer, dtype="<" + kind)
        for (name, kind), buffer in zip(answer["columns"], view.messages[0][1], strict=False)
    }
    assert len({len(array) for array in arrays.values()}) == 1
    some = int(np.flatnonzero(arrays["count"] == 1)[3])
    start, end = view.timeline.slices.span(int(arrays["slice"][some]))
    origin = view.timeline.whole[0]
    assert (start - origin, end - start) == (arrays["start"][some], arrays["length"][some])
    first = {label for label, *_ in view.view.canvas.first["content"]["names"]}
    assert set(arrays["label"].tolist()) <= first | {label for label, *_ in answer["names"]}
    assert view.window()["names"] == []  # the page has them
    assert len(view.messages[0][1]) == len(answer["columns"]) + 2 * len(view.timeline.lines)


def test_a_page_reports_its_window_without_an_echo(view: _Heard) -> None:
    heard = view.ask("select", slice=3, seen=[0, 400_000.7])

    assert "show" not in heard
    start, end = view.timeline.window
    assert (start - view.timeline.whole[0], end - view.timeline.whole[0]) == (0, 400_001)
    assert heard["selected"][0]["slice"] == 3


def test_selected_kernel_is_described_with_causes(view: _Heard) -> None:
    number = view.timeline.slices.first["kernels"] + 10

    (told,) = view.ask("select", slice=number)["selected"]

    assert [name for _, name, _ in told["causes"]] == ["launch"]
    assert len(told["arrows"]) == 3
    ends = {end: (start, stop, lane) for end, start, stop, lane in told["ends"]}
    start, stop = view.timeline.slices.span(number)
    assert ends[number][:2] == (start - view.timeline.whole[0], stop - view.timeline.whole[0])
    assert all(lane >= 0 for _, _, lane in ends.values())
    facts = {key: value for group in told["groups"] for key, value, _, _ in group["facts"]}
    recorded = {column: raw for group in told["groups"] for _, _, column, raw in group["facts"]}
    assert facts["table"] == "kernels, row 10"
    assert facts["duration"].endswith("µs")
    assert int(recorded["duration_ns"]) == stop - start


def test_a_search_is_counted_walked_and_refused(view: _Heard) -> None:
    heard = view.ask("search", text="softmax", regex=False)
    assert heard["matches"][-1]["text"].startswith("1 of ")
    version = heard["matches"][-1]["version"]
    assert view.window()["version"] == version
    assert view.ask("match", by=1)["matches"][-1]["text"].startswith("2 of ")
    (said,) = view.ask("search", text="(", regex=True)["said"]
    assert said["failed"]
    assert "cannot be read" in said["text"]


def test_a_range_says_at_once_that_it_is_worked_on(view: _Heard) -> None:
    told = view.ask("mark", start=0, end=300_000)["range"]

    assert [one["summary"] is None for one in told] == [True, False]
    assert told[0]["marked"] == [0, 300_000]
    assert {row[0] for row in told[1]["summary"]["names"]} >= {"kernels", "operators"}


def test_late_page_gets_the_state(view: _Heard) -> None:
    view.timeline.select(view.timeline.slices.first["kernels"])
    view.timeline.mark(view.timeline.whole[0], view.timeline.whole[0] + 10)

    heard = view.ask("hello", seen=[0, 1])

    assert heard["selected"][0]["slice"] == view.timeline.selected
    assert heard["range"][-1]["marked"] == [0, 10]


def test_the_layout_is_remembered_for_the_next_run(view: _Heard) -> None:
    view.ask("layout", layout={"hidden": ["Python"]})

    other = TimelineView(Timeline(factories.profile(5), factories.info()))

    assert other.canvas.setup["layout"] == {"hidden": ["Python"]}


_NONSENSE: list[dict[str, Any]] = [
    {"kind": "window", "start": float("nan"), "end": 1e300, "pixels": 10, "lanes": ["a"]},
    {"kind": "window", "start": 5, "end": 1, "pixels": 10},
    {"kind": "window", "start": 0, "end": 1, "pixels": "many"},
    {"kind": "window"},
    {"kind": "select", "slice": 10**12},
    {"kind": "select", "slice": -1},
    {"kind": "mark", "start": None, "end": []},
    {"kind": "jump", "to": 7},
    {"kind": "layout", "layout": "wide"},
    {"kind": "search"},
    {"kind": "nothing", "seen": [float("inf"), 0]},
    {"kind": "step", "by": "x", "seen": ["a"]},
    {"kind": ["window"]},
    {},
]


@pytest.mark.parametrize("asked", _NONSENSE)
def test_impossible_messages_of_a_page_are_survived(view: _Heard, asked: dict[str, Any]) -> None:
    view.view.canvas._asked(None, asked, None)
    view.view.canvas._asked(None, "text", None)

    assert view.timeline.window[0] < view.timeline.window[1]
    assert view.window()["kind"] == "window"


def test_a_slice_lists_the_findings_that_mention_it() -> None:
    tables = factories.profile(50)
    evidence = tables["kernels"].iloc[[3, 7]]
    slow = Finding("slow_rule", "fires", "Kernels are slow", action="Fuse them.", table="kernels", rows=evidence)
    heard = _Heard(TimelineView(Timeline(tables, factories.info()), findings=lambda: [slow]))
    first = heard.timeline.slices.first["kernels"]
    shown = [heard.ask("select", slice=first + row)["selected"][0]["findings"] for row in (3, 4)]
    assert shown == [[["Kernels are slow", "Fuse them."]], []]


def test_what_fails_is_said_in_the_page(view: _Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(view.timeline, "overview", fail)
    with pytest.raises(RuntimeError):
        view.ask("overview")
    (said,) = view.heard()["said"]
    assert said["failed"]
    assert "no memory" in said["text"]


def test_a_page_that_shows_nothing_can_be_tried_again(view: _Heard) -> None:
    place = view.view.widget
    line, again, first = place.children
    assert "working" in line.value

    again.click()

    assert place.children[2] is view.view.canvas
    assert view.view.canvas is not first
    assert len(view.view.canvas.first["content"]["names"]) == len(first.first["content"]["names"])
    assert first.comm is None


def test_the_module_is_small_exports_once_and_reaches_no_network() -> None:
    text = script()

    assert len(text) < 190_000
    assert text.count("export default") == 1
    assert "import " not in text.replace("important", "")
    text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")  # a name, which nobody opens
    assert not any(word in text for word in ("http:", "https:", "fetch(", "XMLHttpRequest", "innerHTML", "eval("))
    assert CanvasWidget._esm == script()


def test_page_has_the_runs_notes() -> None:
    run = Profile(Decoded(factories.profile(20), factories.info(), Notes()))
    heard = _Heard(TimelineView(Timeline(run.tables, run.info), annotated=run))
    told = heard.ask("note", start=5, end=900, text="<b>here</b>")
    assert told["notes"][-1]["notes"] == [[5, 900, "<b>here</b>"]]
    assert run.annotations.to_numpy().tolist() == [[heard.timeline.origin + 5, 895, "<b>here</b>"]]
    heard.ask("note", start=1, end="x", text="no")
    heard.ask("note", start=1, end=2, text="x" * 3_000)
    assert len(run.annotations) == 1
