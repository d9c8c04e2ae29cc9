"""The threads on which what is pressed in a widget arrives.

JupyterLab from 4.4 on sends the messages of widgets to a subshell of the kernel (ipykernel 7), a thread that answers
while a cell runs. ipykernel from 7.2 on instead sends them where the widget was last written from, so that those of a
widget that a cell made would wait for the cell: for the panel's widgets that is turned off.
"""

from __future__ import annotations

import threading
from html import escape
from os import PathLike
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from npuprof.exports.html import AS_TEXT
from npuprof.quantities import printable


def answer_at_once(widget: Any) -> None:
    """Deliver the messages of a widget, and of all within it, where the front end sends them.

    Does nothing with kernels that do so by themselves.
    """
    seen: set[int] = set()
    waiting = [widget]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        comm: Any = getattr(one, "comm", None)
        if comm is not None and hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = None  # the kernel asks for it by name, and takes None for none
        waiting += getattr(one, "children", ())


def close_all(widget: Any) -> None:
    """Take a widget and all within it out of the kernel."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def on_main_thread() -> bool:
    """Return whether this is the thread that runs cells."""
    return threading.current_thread() is threading.main_thread()


_LONGEST_NAME = 60

# The line is an output of its own, for a front end shows one form of an output and takes the widget's wherever it
# knows widgets, whether or not it finds the model. It hides while the view is there and connected, and else it hides
# what front ends put into the view's place. It waits for a view on its way. Without styles it shows, and is true.
_STYLE = """<style>
@keyframes npuprof-late {{ from {{ max-height: 0; overflow: hidden; opacity: 0; }} }}
.npuprof-note-{id} {{ animation: npuprof-late 1ms 3s backwards; }}
body:has(.npuprof-live-{id}:not(.jupyter-widgets-disconnected)) .npuprof-note-{id},
.jp-OutputArea-child:has(+ .jp-OutputArea-child .npuprof-note-{id}):not(:has(.npuprof-live-{id})) {{ display: none; }}
</style>"""


class LiveBox(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no annotations
    """A box of widgets that says in its place, where it cannot be shown, what it was.

    Parameters
    ----------
    children
        The widgets in it, as of any box.
    what
        What it is, in a few words: ``the panel``.
    again
        How to have it back, a clause after "run this cell again"; empty for no other way.
    options
        What a box takes besides.
    """

    def __init__(self, children: Any, *, what: str, again: str = "", **options: Any) -> None:
        super().__init__(children, **options)
        self._what, self._again = what, again
        self.add_class(f"npuprof-live-{self.model_id}")

    def _ipython_display_(self) -> None:
        if self.comm is None:
            raise NotImplementedError  # closed: IPython writes its representation then
        bundle = self._repr_mimebundle_()
        note = f"npuprof: {self._what} needs a running kernel: run this cell again{self._again}."
        display({**bundle, "text/plain": f"[{self._what}: shown where its kernel runs]"}, raw=True)
        display({"text/plain": note, "text/html": _note_html(self.model_id, note)}, raw=True)


def explorer_box(widget: Any, name: str, path: PathLike[str] | None) -> LiveBox:
    """Make the box of an explorer, whose line tells its run's name and how to open that again.

    Parameters
    ----------
    widget
        What the explorer shows.
    name
        What the run is called; may be empty.
    path
        Where it can be loaded from, if it can.
    """
    what = f"the explorer of {printable(name, _LONGEST_NAME)}" if name else "the explorer"
    again = "" if path is None else f", or open the run with npuprof.load({str(path)!r}).explore()"
    return LiveBox([widget], what=what, again=again, layout={"width": "100%"})


def _note_html(model_id: str, note: str) -> str:
    style = "color:var(--jp-ui-font-color2,inherit);overflow-wrap:anywhere"
    line = f'<div class="npuprof-note-{model_id} {AS_TEXT}" style="{style}">{escape(note)}</div>'
    return _STYLE.format(id=model_id) + line
