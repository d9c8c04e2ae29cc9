"""Support for widgets: messages that arrive while a cell runs, and a note in saved notebooks.

From JupyterLab 4.4 on, widget messages go to a subshell of the kernel (ipykernel 7), a thread that answers while a cell
runs. From ipykernel 7.2 on, they instead go to where the widget was last written from, so that messages to a widget
created by a cell would wait for the cell; this is turned off for npuprof's widgets.

In a saved notebook without its kernel, a live view is replaced by a line that names it and says how to restore it. A
view whose kernel was restarted stays, pale, with the same line: it is a picture of the past.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from npuprof.errors import describe_failure
from npuprof.notebook.keys import keep_keys
from npuprof.tables.info import Info
from npuprof.words.quantities import printable
from npuprof.words.texts import AS_TEXT, KEYS, cell_classes


def answer_at_once(widget: Any) -> None:
    """Deliver messages to a widget and its children on the subshell; no-op for kernels that already do so."""
    seen: set[int] = set()
    waiting = [widget]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        comm: Any = getattr(current, "comm", None)
        if comm is not None and hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = None  # read by the kernel; None means no subshell
        waiting += getattr(current, "children", ())


def close_all(widget: Any) -> None:
    """Close a widget and all its children."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def on_main_thread() -> bool:
    """Return whether the caller is on the thread that runs cells."""
    return threading.current_thread() is threading.main_thread()


_LONGEST_NAME = 60

# The note is a separate output: a front end that knows widgets shows only the widget's form of an output, even if the
# model is missing. The note is hidden while the view is connected; otherwise it hides the front end's message about the
# missing model. It appears with a delay, since the view may still be loading. Viewers that strip styles show it.
_STYLE = """<style>
@keyframes npuprof-late {{ from {{ max-height: 0; overflow: hidden; opacity: 0; }} }}
.npuprof-note-{id} {{ animation: npuprof-late 1ms 3s backwards; }}
.npuprof-live-{id}.jupyter-widgets-disconnected {{ opacity: 0.5; }}
body:has(.npuprof-live-{id}:not(.jupyter-widgets-disconnected)) .npuprof-note-{id},
.jp-OutputArea-child:has(+ .jp-OutputArea-child .npuprof-note-{id}):not(:has(.npuprof-live-{id})) {{ display: none; }}
</style>"""


class LiveBox(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no annotations
    """A box of widgets with a note for viewers without its kernel.

    Parameters
    ----------
    again
        Instructions to restore it, a clause after "run this cell again"; empty for no other way.
    saved
        Returns HTML that shows the same without a kernel, for the saved notebook; made after the view is displayed. A
        failure is said in its place.
    """

    def __init__(
        self,
        children: Any,
        *,
        what: str,
        again: str = "",
        saved: Callable[[], str] | None = None,
        **options: Any,
    ) -> None:
        keep_keys()
        super().__init__(children, **options)
        self._what, self._again, self._saved = what, again, saved
        self.add_class(f"npuprof-live-{self.model_id}")
        self.add_class(KEYS)

    @property
    def _ipython_display_(self) -> Callable[[], None] | None:
        # Without this method, as after `close`, IPython shows the representation.
        return None if self.comm is None else self._display_with_note

    def _display_with_note(self) -> None:
        if (colab := sys.modules.get("google.colab.output")) is not None:
            colab.enable_custom_widget_manager()  # anywidget asks for it too, but a view may make its first one later
        bundle = self._repr_mimebundle_()
        note = (
            f"npuprof: {self._what} needs a running kernel: run this cell again{self._again}. "
            "What is still shown of it is a picture of the past."
        )
        display({**bundle, "text/plain": f"[{self._what}: shown where its kernel runs]"}, raw=True)
        try:
            saved = "" if self._saved is None else self._saved()
        except Exception as error:  # noqa: BLE001 - said; the live view is displayed already
            saved, note = "", f"{note} It could not be saved in the notebook: {describe_failure(error)}."
        display({"text/plain": note, "text/html": _note_html(self.model_id, note, saved)}, raw=True)


def explorer_box(widget: Any, info: Info, saved: Callable[[], str] | None = None) -> LiveBox:
    """Return the box of the explorer of a run; its note has the run's name and, if known, the path to load it from.

    `saved` is that of :class:`LiveBox`.
    """
    name, path = info.name, info.recording
    subject = f"the explorer of {printable(name, _LONGEST_NAME)}" if name else "the explorer"
    again = "" if path is None else f", or open the run with npuprof.load({str(path)!r}).explore()"
    box = LiveBox([widget], what=subject, again=again, saved=saved, layout={"width": "100%"})
    for cell in cell_classes(info.cells):
        box.add_class(cell)
    return box


def _note_html(model_id: str, note: str, saved: str) -> str:
    style = "color:var(--jp-ui-font-color2,inherit);overflow-wrap:anywhere"
    line = f'<div class="npuprof-note-{model_id} {AS_TEXT}" style="{style}">{escape(note)}</div>'
    below = f'<div class="npuprof-note-{model_id} {AS_TEXT}">{saved}</div>' if saved else ""
    return _STYLE.format(id=model_id) + line + below
