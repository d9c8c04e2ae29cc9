"""The widgets of the panel: a thin view of :class:`npuprof.notebook.panel.controller.PanelController`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from npuprof.errors import NpuprofError
from npuprof.notebook.grid.widget import GridWidget, Message
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.files import complete
from npuprof.notebook.panel.form_view import FormView
from npuprof.notebook.panel.state import MODES, Opened, Question
from npuprof.notebook.widgets import LiveBox, answer_at_once, close_all, on_main_thread
from npuprof.profiles.comparison import Comparison

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile


STYLE = """<style>
.npuprof-panel {
  border: 1px solid var(--jp-border-color2, GrayText); border-radius: 4px; padding: 8px 12px; margin: 2px; gap: 4px;
  overflow: hidden;
}
.npuprof-panel .npuprof-row { flex-wrap: wrap; align-items: center; gap: 4px 8px; overflow: visible; }
.npuprof-panel .npuprof-row > * { overflow: visible; }
.npuprof-panel .widget-toggle-buttons { display: flex; align-items: center; width: auto; margin: 2px; }
.npuprof-panel .widget-toggle-buttons > .widget-label { width: auto; margin-right: 4px; }
.npuprof-panel .npuprof-phase {
  display: inline-block; min-width: 90px; padding: 2px 12px 2px 0; line-height: 18px; white-space: nowrap;
}
.npuprof-panel .npuprof-phase::before { content: "●"; padding-right: 6px; color: var(--jp-ui-font-color3, GrayText); }
.npuprof-panel .npuprof-recording::before { color: var(--jp-error-color1, #c62828); }
.npuprof-panel .npuprof-armed::before { color: var(--jp-warn-color1, #b26a00); }
.npuprof-panel .npuprof-decoding::before { color: var(--jp-brand-color1, #1976d2); }
.npuprof-panel .npuprof-failed::before { content: "▲"; color: var(--jp-error-color1, #c62828); }
.npuprof-panel .npuprof-state { min-height: 46px; overflow: visible; }
.npuprof-panel .npuprof-state > * { flex: none; overflow: visible; }
.npuprof-panel .npuprof-state .widget-html-content { line-height: 18px; }
.npuprof-panel .npuprof-state > :nth-child(2) { flex: 1 1 0; min-width: 0; }
.npuprof-panel .npuprof-state > :nth-child(2) > .widget-html-content { min-width: 0; width: 100%; }
.npuprof-panel .npuprof-line { line-height: 18px; padding: 2px 0; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-changing { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.npuprof-panel .npuprof-problem { color: var(--jp-error-color1, #c62828); line-height: 1.4; }
.npuprof-panel .npuprof-lacking { color: var(--jp-ui-font-color2, GrayText); line-height: 1.4; }
.npuprof-panel .npuprof-title { margin: 4px 0; font-size: 15px; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-question { border-left: 4px solid var(--jp-warn-color1, #b26a00); padding-left: 8px; }
.npuprof-panel .npuprof-question .widget-html-content { line-height: 1.4; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-switches {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); overflow: visible;
}
.npuprof-panel .npuprof-switches > * { width: auto; margin: 0 2px; }
.npuprof-panel code { white-space: pre-wrap; overflow-wrap: anywhere; }
</style>"""


def opened_view(opened: Opened) -> list[Any]:
    """Return the widgets of the open reports."""
    if opened.of_set is not None:
        return [opened.of_set.explore()]
    if len(opened.runs) == 2:
        return _comparison_children(*opened.runs)
    parts = [widgets.HTML(part._repr_html_()) for part in opened.parts]
    return [*(_summed_up(run) for run in opened.runs), *parts]


def _summed_up(run: Profile) -> widgets.Widget:
    """Return the explorer of a run that opens with its overview: a panel has no report above it."""
    from npuprof.notebook.explorer.tabs import explorer_of

    explorer = explorer_of(run)
    explorer.open("Overview")
    return explorer.widget


def _comparison_children(before: Profile, after: Profile) -> list[Any]:
    from npuprof.notebook.explorer.live import LiveFigure

    try:
        comparison = Comparison.of([[after]], [[before]], (after.info.name or "after", before.info.name or "before"))
        return [
            widgets.HTML(comparison._repr_html_()),
            LiveFigure(comparison.plot_waterfall()),
            LiveFigure(comparison.plot_flamegraph()),
        ]
    except NpuprofError as error:
        return [widgets.HTML(f'<div class="npuprof-problem">{escape(str(error))}</div>')]


_SHOWN, _HIDDEN = "", "none"


class PanelView:
    """The widgets of a panel; `widget` holds all of them."""

    def __init__(self, panel: PanelController) -> None:
        self._panel = panel
        self._lock = threading.RLock()
        self._shown: Opened | None = None
        self._asked: Question | None = None
        self._headline = widgets.HTML()
        self._details = widgets.HTML()
        self._start = _button("Start", "Start a run that lasts until Stop, across cells", self._guard(panel.start))
        self._stop = _button("Stop", "Stop the run, decode it and open its report", self._guard(panel.stop))
        self._start.button_style, self._stop.button_style = "primary", "danger"
        self._mode = widgets.ToggleButtons(
            options=MODES,
            description="Profile",
            tooltips=["with Start and Stop", "the next cell that is run", "every cell from now on"],
            style={"button_width": "auto"},
        )
        self._refreshing = 0  # the thread that shows the mode, which is no choice of the user's
        choose = self._observer(panel.set_mode)
        self._mode.observe(lambda change: threading.get_ident() == self._refreshing or choose(change), "value")
        # A hidden bar keeps its space, so that no button moves under the pointer.
        self._bar = widgets.FloatProgress(min=0, max=1, layout={"width": "150px", "display": "none"})
        self._form = FormView(panel, self._observer)
        self._more = widgets.ToggleButton(
            description="Options ▾", tooltip="Show and change what a run collects", layout={"width": "auto"}
        )
        self._more.add_class("npuprof-expands")
        self._more.observe(self._observer(self._show_form), "value")
        self._runs = GridWidget(panel.runs.page(), self._answer)
        self._question = _QuestionView(panel, self._guard)
        self._path = _path_box()
        self._path.observe(self._observer(self._complete), "value")
        load = _button("Load", "Read the path and show it", self._guard(lambda: panel.load(self._path.value)))
        self._opened = widgets.VBox()
        self.widget = LiveBox(
            [
                widgets.HTML(STYLE),
                _add_class("npuprof-row", self._start, self._stop, self._mode, self._more),
                _add_class("npuprof-state", self._headline, self._details, self._bar),
                self._form.widget,
                self._runs,
                self._question.widget,
                _add_class("npuprof-row npuprof-asks", self._path, load),
                self._opened,
            ],
            what="the panel",
        )
        self.widget.add_class("npuprof-panel")
        self._show_form(shown=False)
        self.refresh()
        answer_at_once(self.widget)

    def refresh(self) -> None:
        """Show the current state; usable on any thread."""
        with self._lock:
            panel = self._panel
            state = panel.state()
            self._headline.value = f'<b class="npuprof-phase npuprof-{state.phase}" role="status">{state.headline}</b>'
            # Text that is updated periodically stays on one line: see npuprof-changing.
            style = "npuprof-line npuprof-changing" if state.phase in ("recording", "decoding") else "npuprof-line"
            lines = [(style, state.details), ("npuprof-line", state.hint), ("npuprof-line npuprof-said", state.message)]
            self._details.value = "".join(f'<div class="{look}">{escape(line)}</div>' for look, line in lines if line)
            # What can be used first, so that the focus on a button that ends finds the other.
            for button, is_usable in sorted(
                ((self._start, state.can_start), (self._stop, state.can_stop)), key=lambda pair: not pair[1]
            ):
                button.disabled = not is_usable
            self._refreshing = threading.get_ident()
            self._mode.value = panel.mode  # which may be another one when what observes it is called
            self._refreshing = 0
            self._bar.layout.display = "none" if state.fraction is None else ""
            self._bar.value = state.fraction or 0.0
            self._form.refresh()
            self._runs.show(panel.runs.page())
            if panel.question is not self._asked:
                self._asked = panel.question
                self._question.show(panel.question)
            if panel.opened is not self._shown:
                self._shown = panel.opened
                self._open(panel.opened)

    def close(self) -> None:
        """Close the widgets."""
        with self._lock:
            self._open(None)
            close_all(self.widget)

    def _open(self, opened: Opened | None) -> None:
        for former in self._opened.children:
            close_all(former)
        if opened is None:
            self._opened.children = ()
            return
        close = _button("Close", "Close this report", self._guard(self._panel.close))
        title = widgets.HTML(f'<h3 class="npuprof-title">{escape(opened.title)}</h3>')
        self._opened.children = (_add_class("npuprof-row", title, close), *opened_view(opened))
        answer_at_once(self._opened)

    def _show_form(self, shown: bool) -> None:
        self._form.widget.layout.display = _SHOWN if shown else _HIDDEN

    def _complete(self, typed: str) -> None:
        self._path.options = complete(typed)

    def _answer(self, question: Message) -> None:
        self._guard(lambda: self._panel.answer(question))()

    def _guard(self, act: Callable[[], object]) -> Callable[[], None]:
        """Return a callback that shows failures in the panel; exceptions in widget callbacks are only logged."""

        def guarded() -> None:
            self._panel.heard(on_main_thread=on_main_thread())
            try:
                act()
            except Exception as error:  # noqa: BLE001 - shown in the panel
                self._panel.fail(f"the panel failed: {type(error).__name__}: {error}")

        return guarded

    def _observer(self, act: Callable[[Any], object]) -> Callable[[Any], None]:
        def changed(change: Any) -> None:
            self._guard(lambda: act(change["new"]))()

        return changed


def _add_class(name: str, *children: widgets.Widget) -> widgets.HBox:
    box = widgets.HBox(children)
    for class_name in name.split():
        box.add_class(class_name)
    return box


def _path_box() -> widgets.Combobox:
    return widgets.Combobox(
        description="Load",
        placeholder="path of a recording, a result directory or a file",
        options=complete(""),
        ensure_option=False,
        continuous_update=True,
        style={"description_width": "initial"},
        layout={"width": "auto", "flex": "1 1 240px"},
    )


class _QuestionView:
    """The widgets of a question."""

    def __init__(self, panel: PanelController, guarded: Callable[[Callable[[], object]], Callable[[], None]]) -> None:
        self._text = widgets.HTML()
        self._answer = widgets.Text(continuous_update=False, layout={"width": "auto", "flex": "1 1 200px"})
        self._yes = _button("OK", "Do it", guarded(lambda: panel.confirm(self._answer.value)))
        no = _button("Cancel", "Change nothing", guarded(panel.refuse))
        self.widget = widgets.HBox([self._text, self._answer, self._yes, no], layout={"display": _HIDDEN})
        self.widget.add_class("npuprof-row")
        self.widget.add_class("npuprof-question")
        self.widget.add_class("npuprof-asks")
        no.add_class("npuprof-cancel")

    def show(self, question: Question | None) -> None:
        """Show a question, or hide it."""
        self.widget.layout.display = _SHOWN if question is not None else _HIDDEN
        if question is None:
            return
        self._text.value = f'<span role="alert">{escape(question.text)}</span>'
        self._answer.layout.display = _SHOWN if question.proposed is not None else _HIDDEN
        self._answer.value = question.proposed or ""
        self._answer.placeholder = "new name" if question.kind == "rename" else "new directory"
        self._yes.description = {"rename": "Rename it", "save": "Save it", "delete": "Delete it"}[question.kind]
        self._yes.button_style = "danger" if question.kind == "delete" else "primary"


def _button(label: str, tooltip: str, act: Callable[[], None]) -> widgets.Button:
    button = widgets.Button(description=label, tooltip=tooltip, layout={"width": "auto"})
    button.on_click(lambda _: act())
    return button
