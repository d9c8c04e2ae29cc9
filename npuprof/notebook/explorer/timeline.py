"""The timeline in the notebook: answers the requests of a page that draws it on a canvas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from npuprof.browser.findings import drawn_findings, drawn_notes, drawn_path
from npuprof.browser.saved_run import SavedRun
from npuprof.browser.setup import timeline_setup
from npuprof.errors import NpuprofError, OptionsError
from npuprof.notebook.explorer import view_export
from npuprof.notebook.explorer.canvas import CanvasPlace, CanvasWidget, Message, as_bytes
from npuprof.notebook.explorer.kernel import KernelView
from npuprof.notebook.explorer.requests import slice_in, whole_in
from npuprof.notebook.explorer.texts import matches_text
from npuprof.timeline.details import details
from npuprof.timeline.labels import shade_of
from npuprof.timeline.linking import Link
from npuprof.timeline.range_summary import RangeSummary
from npuprof.timeline.slices import Matches
from npuprof.timeline.state import Answer, Timeline
from npuprof.words.quantities import printable

if TYPE_CHECKING:
    import pandas as pd

    from npuprof.advice.finding import Finding
    from npuprof.profiles.annotations import ProfileAnnotations

_TITLE = "Timeline"
_FIRST_PIXELS = 2_000  # resolution of the first answer, before the width of the page is known
_MOST_PIXELS = 60_000
_LONGEST_NAME = 300
_LONGEST_VALUE = 4_000
_MOST_RELATED = 12

Layout: TypeAlias = dict[str, Any]


_layout: Layout = {}  # the user's layout of the lanes, kept for the next run of this kernel


class TimelineView:
    """Answers a page that shows a timeline.

    Parameters
    ----------
    findings, critical_path
        Return the findings of the run, which are drawn where they happened and listed for a selected slice, and its
        critical path; None for no path.
    held
        Returns what the saved output holds of the run, once it is made: pages ask for the rest only.

    Attributes
    ----------
    widget
        The widget to display.
    canvas
        The widget of the page in it.
    """

    def __init__(
        self,
        timeline: Timeline,
        kernel: KernelView | None = None,
        findings: Callable[[], Iterable[Finding]] = tuple,
        critical_path: Callable[[], pd.DataFrame] | None = None,
        annotated: ProfileAnnotations | None = None,
        link: Link | None = None,
        held: Callable[[], SavedRun | None] = lambda: None,
        explorer: str = "",
    ) -> None:
        self._timeline = timeline
        self._kernel = kernel
        self._findings, self._critical_path = findings, critical_path
        self._annotated = annotated
        if annotated is not None:
            annotated._annotations.followers.append(self._send_notes)
        self._link, self._held, self._explorer = link, held, explorer
        self._is_known = False  # whether a page shows already what changes
        self._window = timeline.window  # the window that the page shows, or was sent
        self._selected: int | None = None
        self._marked: tuple[int, int] | None = None
        self._cursor: int | None = None
        self._matches: Matches | None = None
        self._place: int | None = None
        self._version = 0
        self._first_labels: set[int] = set()
        self._sent: dict[str, set[int]] = {}  # the labels whose names each page already has
        self._answers = self._answers_by_kind()
        self.widget = CanvasPlace(self._make, [] if kernel is None else [kernel.place(_TITLE)])
        timeline.listen(self._redraw)
        self._redraw()

    def _answers_by_kind(self) -> Mapping[str, Callable[[Message], None]]:
        """Return what answers each kind of message of a page."""
        timeline = self._timeline
        return {
            "hello": lambda _: self._answer_hello(),
            "window": self._answer_window,
            "overview": lambda _: self._answer_overview(),
            "select": lambda asked: timeline.select(slice_in(timeline, asked.get("slice"))),
            "mark": self._answer_mark,
            "cursor": self._answer_cursor,
            "search": self._answer_search,
            "match": lambda asked: self._walk(-1 if asked.get("by") == -1 else 1),
            "step": lambda asked: timeline.step(-1 if asked.get("by") == -1 else 1),
            "cause": lambda _: timeline.step_to_cause(),
            "effect": lambda _: timeline.step_to_effect(),
            "jump": lambda asked: self._show_message(timeline.jump(str(asked.get("to")))),
            "clear": lambda _: timeline.clear(),
            "layout": self._keep_layout,
            "export": self._answer_export,
            "findings": lambda _: self._answer_findings(),
            "note": self._answer_note,
            "chosen": self._take_chosen,
            "run": lambda _: self.send_run(),
            "matches": lambda _: self._send_matches(),
        }

    def _make(self) -> CanvasWidget:
        self._first_labels.clear()
        self._sent.clear()
        self.canvas = CanvasWidget(self._setup(), self._first(), self._receive)
        return self.canvas

    def _setup(self) -> Message:
        return {
            **timeline_setup(self._timeline),
            "layout": dict(_layout),
            "explorer": self._explorer,
            "link": None if self._link is None else asdict(self._link),
        }

    def _first(self) -> Message:
        start, end = self._timeline.whole
        answer = self._timeline.answer(start, end, _FIRST_PIXELS)
        content, arrays = self._content(answer, self._first_labels)
        return {"content": content, "buffers": [as_bytes(array) for array in arrays]}

    # -- requests of a page --------------------------------------------------------------------------------

    def _receive(self, asked: Message) -> None:
        kind = asked.get("kind")
        if not isinstance(kind, str) or kind not in self._answers:
            return
        if isinstance(seen := asked.get("seen"), list) and kind != "hello":
            self._take_window(seen)
        try:
            self._answers[kind](asked)
        except Exception as error:
            self._show_message(f"npuprof: {kind} could not be answered: {type(error).__name__}: {error}", failed=True)
            raise

    def _take_window(self, seen: list[object]) -> None:
        """Take over the window that the page shows."""
        start, end = (whole_in(moment_ns) for moment_ns in (*seen, None, None)[:2])
        if start is not None and end is not None and start < end:
            origin = self._timeline.origin
            self._timeline.window = self._window = origin + start, origin + end

    def _answer_hello(self) -> None:
        """Send the state to a page that has just opened."""
        self.send_run()
        self._send_matches()
        self._send_selection()
        self._send_range()
        self._send_cursor()
        self._send_notes()
        if self._timeline.window != self._timeline.whole:
            self._send_window()

    def send_run(self) -> None:
        """Send pages the run's data in the saved output, if it exists."""
        if (held := self._held()) is not None:
            self.canvas.say("run", {}, [np.frombuffer(held.data, np.uint8)])
            if self._matches is not None:
                self._send_matches()

    def _take_chosen(self, asked: Message) -> None:
        """Take over the selection and search of a page that holds the run."""
        timeline, text = self._timeline, str(asked.get("search", ""))[:1_000]
        self._is_known = True
        try:
            if text != ("" if timeline.matches is None else timeline.matches.text):
                timeline.search(text, regex=bool(asked.get("regex")))
            if (number := slice_in(timeline, asked.get("slice"))) != timeline.selected:
                timeline.select(number)
        finally:
            self._is_known = False
        if asked.get("details"):
            self._send_selection(details=True)

    def _answer_window(self, asked: Message) -> None:
        timeline = self._timeline
        low, high = whole_in(asked.get("start")), whole_in(asked.get("end"))
        pixels, page, lanes = asked.get("pixels"), str(asked.get("page"))[:64], asked.get("lanes")
        if low is None or high is None or not low < high or not isinstance(pixels, int):
            return
        origin = timeline.origin
        drawn = [lane for lane in lanes if isinstance(lane, int)] if isinstance(lanes, list) else None
        answer = timeline.answer(origin + low, origin + high, min(max(pixels, 100), _MOST_PIXELS), drawn)
        content, arrays = self._content(answer, self._sent.setdefault(page, set(self._first_labels)))
        known = {key: asked.get(key) for key in ("id", "page")}
        self.canvas.say("window", {**content, **known}, arrays)

    def _content(self, answer: Answer, sent: set[int]) -> tuple[dict[str, Any], list[Any]]:
        """Return an answer as a message; names not yet in `sent` are included and added to it."""
        origin = self._timeline.origin
        labels = sorted(set(answer.columns.label.tolist()) - sent)
        sent.update(labels)
        names = [printable(text, _LONGEST_NAME) for text in self._timeline.labels.texts(labels)]
        arrays = answer.columns.arrays()
        lines = [line.within(answer.start_ns, answer.end_ns) for line in self._timeline.lines]
        content = {
            "version": self._version,
            "start": answer.start_ns - origin,
            "end": answer.end_ns - origin,
            "exact": answer.exact,
            "names": [[label, name, shade_of(name)] for label, name in zip(labels, names, strict=True)],
            "columns": [[name, array.dtype.str[1:]] for name, array in arrays.items()],
        }
        samples = [part for time_ns, value in lines for part in ((time_ns - origin).astype("f8"), value)]
        return content, [*arrays.values(), *samples]

    def _answer_overview(self) -> None:
        strip = self._timeline.overview(*self._timeline.whole)
        self.canvas.say("overview", {"devices": strip.devices, "columns": strip.shares.shape[1]}, [strip.shares])

    def _answer_export(self, asked: Message) -> None:
        what, timeline = asked.get("what"), self._timeline
        try:
            if what == "page":
                text = view_export.page(timeline)
            elif what == "trace":
                text = view_export.trace(timeline)
            elif what == "code":
                text = view_export.code(timeline)
            else:
                return
        except OptionsError as error:
            self._show_message(str(error), failed=True)
            return
        self.canvas.say("export", {"what": what, "page": str(asked.get("page"))[:64], "text": text})

    def _answer_findings(self) -> None:
        """Send the findings, and the critical path, to pages that ask for them."""
        findings = drawn_findings(self._timeline, self._findings())
        path = [] if self._critical_path is None else drawn_path(self._timeline, self._critical_path)
        self.canvas.say("findings", {"findings": findings, "path": path})

    def _answer_note(self, asked: Message) -> None:
        start, end, text = whole_in(asked.get("start")), whole_in(asked.get("end")), asked.get("text")
        if self._annotated is None or start is None or end is None or not isinstance(text, str):
            return
        origin = self._timeline.origin
        try:
            self._annotated.annotate(text, start=origin + min(start, end), end=origin + max(start, end))
        except NpuprofError as error:
            self._show_message(str(error), failed=True)

    def _send_notes(self) -> None:
        if self._annotated is not None:
            self.canvas.say("notes", {"notes": drawn_notes(self._timeline, self._annotated.annotations)})

    def _answer_mark(self, asked: Message) -> None:
        low, high = whole_in(asked.get("start")), whole_in(asked.get("end"))
        if low is not None and high is not None:
            origin = self._timeline.origin
            self._timeline.mark(origin + low, origin + high)

    def _answer_cursor(self, asked: Message) -> None:
        """Store the cursor of a page, which has drawn it already."""
        moment_ns = whole_in(asked.get("at"))
        self._cursor = self._timeline.cursor = None if moment_ns is None else self._timeline.origin + moment_ns

    def _answer_search(self, asked: Message) -> None:
        self._place = None
        try:
            self._timeline.search(str(asked.get("text", ""))[:1_000], regex=bool(asked.get("regex")))
        except OptionsError as error:
            self._show_message(str(error), failed=True)
        else:
            self._walk(1)

    def _walk(self, by: int) -> None:
        self._place = self._timeline.next_match(by)
        self._send_matches()

    def _keep_layout(self, asked: Message) -> None:
        if isinstance(layout := asked.get("layout"), dict):
            _layout.clear()
            _layout.update(layout)

    # -- messages to a page --------------------------------------------------------------------------------

    def _redraw(self) -> None:
        timeline = self._timeline
        if timeline.matches is not self._matches:
            self._matches, self._version = timeline.matches, self._version + 1
            self._place = None
            if not self._is_known:
                self._send_matches()
        if timeline.selected != self._selected:
            self._selected = timeline.selected
            self._show_kernel()
            if not self._is_known:
                self._send_selection()
        if timeline.marked != self._marked:
            self._marked = timeline.marked
            self._send_range()
        if timeline.cursor != self._cursor:
            self._cursor = timeline.cursor
            self._send_cursor()
        if timeline.window != self._window:
            self._window = timeline.window
            self._send_window()

    def _send_cursor(self) -> None:
        self.canvas.say("cursor", {"at": None if self._cursor is None else self._cursor - self._timeline.origin})

    def _send_window(self) -> None:
        start, end = (moment_ns - self._timeline.origin for moment_ns in self._timeline.window)
        self.canvas.say("show", {"start": start, "end": end})

    def _send_matches(self) -> None:
        matches = self._timeline.matches
        text = matches_text(self._timeline, self._place)
        held = None if matches is None else self._held()
        slices = [] if matches is None or held is None or held.merged else [matches.slices.astype(np.uint32)]
        content = {"version": self._version, "text": text, "searching": matches is not None}
        self.canvas.say("matches", content, slices)

    def _show_kernel(self) -> None:
        if self._kernel is not None:
            table, row = self._timeline.slices.row(self._selected) if self._selected is not None else ("", 0)
            self._kernel.show(row if table == "kernels" else None, _TITLE)

    def _send_selection(self, **about: bool) -> None:
        number = self._selected
        self.canvas.say("selected", {"slice": number, **({} if number is None else self._facts(number)), **about})

    def _facts(self, number: int) -> Message:
        timeline = self._timeline
        flows = timeline.arrows()
        ends = {end for arrow in flows.arrows for end in (arrow.cause, arrow.effect)} | {number}
        before = [arrow.cause for arrow in flows.arrows if arrow.effect == number][:_MOST_RELATED]
        after = [arrow.effect for arrow in flows.arrows if arrow.cause == number][:_MOST_RELATED]
        return {
            "name": printable(timeline.slices.name(number), _LONGEST_NAME),
            "ends": [[end, *self._slice_position(end)] for end in sorted(ends)],
            "arrows": [[arrow.cause, arrow.effect] for arrow in flows.arrows],
            "more": flows.more,
            "causes": self._name_rows(before),
            "effects": self._name_rows(after),
            "findings": self._mentions(number),
            "groups": [
                {
                    "title": group.title,
                    "facts": [
                        [label, _lines(value), column, _lines(recorded)]
                        for label, value, column, recorded in group.facts
                    ],
                    "zeros": group.zeros,
                }
                for group in details(timeline.slices, number)
            ],
        }

    def _mentions(self, number: int) -> list[list[str]]:
        """Return title and advice of the findings that have a slice as evidence."""
        table, row = self._timeline.slices.row(number)
        return [
            [finding.title, finding.action]
            for finding in self._findings()
            if finding.table == table and row in finding.rows.index
        ]

    def _slice_position(self, number: int) -> tuple[int, int, int]:
        """Return start and end of a slice relative to the origin, and its lane, -1 if it is not drawn."""
        start, end = self._timeline.slices.span(number)
        lane = self._timeline.lane_of(number)
        origin = self._timeline.origin
        return start - origin, end - origin, -1 if lane is None else lane

    def _name_rows(self, numbers: list[int]) -> list[list[Any]]:
        slices = self._timeline.slices
        return [
            [number, printable(slices.name(number), _LONGEST_NAME) or "(unnamed)", slices.row(number)[0]]
            for number in numbers
        ]

    def _send_range(self) -> None:
        if self._marked is None:
            self.canvas.say("range", {"marked": None})
            return
        origin = self._timeline.origin
        marked = [moment_ns - origin for moment_ns in self._marked]
        self.canvas.say("range", {"marked": marked, "summary": None})
        self.canvas.say("range", {"marked": marked, "summary": _summary_message(self._timeline.summary(*self._marked))})

    def _show_message(self, text: str, *, failed: bool = False) -> None:
        self.canvas.say("said", {"text": text, "failed": failed})


def _summary_message(summary: RangeSummary) -> Message:
    return {
        "names": [
            [row.where, printable(row.name, _LONGEST_NAME), row.count, row.sum_ns, row.mean_ns, row.p95_ns, row.max_ns]
            for row in summary.by_name
        ],
        "lanes": [
            [row.where, row.name, row.count, row.sum_ns, row.mean_ns, row.p95_ns, row.max_ns] for row in summary.by_lane
        ],
        "parts": [[row.part, row.cause, row.duration_ns] for row in summary.parts],
        "left": summary.names_left,
        "code": summary.code,
    }


def _lines(value: str) -> str:
    """Return a value as text; stacks have a line for each frame."""
    text = value[:_LONGEST_VALUE]
    return text.replace(";", "\n") if "\n" in text or text.count(";") > 3 else text
