"""The views of the explorer that a page draws: one script for all of them, and its widget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import anywidget
import ipywidgets as widgets
import numpy.typing as npt
import traitlets

from npuprof.browser.script import script, style
from npuprof.notebook.explorer.requests import known_of
from npuprof.notebook.widgets import answer_at_once

Message: TypeAlias = Mapping[str, Any]


class CanvasWidget(anywidget.AnyWidget):
    """Sends the script to a page, and exchanges messages with it.

    Parameters
    ----------
    first
        The first answer, so that a page can draw before it sends a request; arrays are sent as bytes.
    """

    _esm = script()
    _css = style()
    setup = traitlets.Dict().tag(sync=True)
    first = traitlets.Dict().tag(sync=True)
    kept = traitlets.Dict().tag(sync=True)  # what a page makes of its view, for when it is loaded again

    def __init__(self, setup: Message, first: Message, answer: Callable[[Message], None]) -> None:
        super().__init__(setup=dict(setup), first=dict(first))
        self.add_class("npuprof-canvas")
        self._answer = answer
        self.on_msg(self._asked)

    def say(self, kind: str, content: Message, arrays: Sequence[npt.NDArray[Any]] = ()) -> None:
        """Send a message to all pages, with numeric arrays as binary buffers."""
        self.send({"kind": kind, **content}, [as_bytes(array) for array in arrays])

    def _asked(self, _: object, content: object, __: object) -> None:
        if isinstance(content, dict):
            self._answer(content)


def answering(
    canvas: Callable[[], CanvasWidget], answers: Mapping[str, Callable[[Message], None]]
) -> Callable[[Message], None]:
    """Return what answers the messages of a canvas by their kinds, one after the other; the page shows what fails."""
    lock = threading.RLock()  # messages may arrive on another thread

    def receive(asked: Message) -> None:
        kind = asked.get("kind")
        if not isinstance(kind, str) or kind not in answers:
            return
        try:
            with lock:
                answers[kind](asked)
        except Exception as error:
            text = f"npuprof: {kind} could not be answered: {type(error).__name__}: {error}"
            canvas().say("said", {**known_of(asked), "text": text, "failed": True})
            raise

    return receive


_LOADING = """<style>
@keyframes npuprof-late {{ from {{ max-height: 0; opacity: 0; overflow: hidden; }} }}
.npuprof-loading:has(~ .npuprof-canvas :is(.npuprof-timeline, .npuprof-grid)) {{ display: none; }}
button.npuprof-loading {{ animation: npuprof-late 1ms {seconds}s backwards; }}
</style><span role="status">npuprof: working …</span>"""
_LATE_S = 10  # seconds until a page that shows nothing offers to try again


class CanvasPlace(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no annotations
    """A canvas, with a placeholder until the page has drawn it, and a button to try again if it fails to."""

    def __init__(self, make: Callable[[], CanvasWidget], below: Sequence[widgets.Widget] = ()) -> None:
        self._make = make
        again = widgets.Button(description="Try again", tooltip="load the view again", layout={"width": "auto"})
        again.on_click(lambda _: self._retry())
        again.add_class("npuprof-loading")
        line = widgets.HTML(_LOADING.format(seconds=_LATE_S))
        line.add_class("npuprof-loading")
        self._loading, self._below = (line, again), below
        self._canvas = make()
        super().__init__([*self._loading, self._canvas, *below], layout={"width": "100%"})

    def _retry(self) -> None:
        former, self._canvas = self._canvas, self._make()
        self.children = (*self._loading, self._canvas, *self._below)
        answer_at_once(self._canvas)
        former.close()


def as_bytes(array: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array, little-endian, as browsers read them."""
    return memoryview(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
