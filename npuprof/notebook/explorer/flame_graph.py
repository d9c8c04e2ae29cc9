"""The flame graph as widgets: controls, search, a canvas, and the selected frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
import numpy as np

from npuprof.arrays import Int64
from npuprof.errors import OptionsError
from npuprof.figures.colours import FAMILIES, family_label
from npuprof.flame.figure import nothing
from npuprof.flame.sandwich import sandwich
from npuprof.flame.scope import Scope
from npuprof.flame.search import FrameMatches
from npuprof.flame.state import FlameGraph, press
from npuprof.flame.view import TITLES, DrawnFlames, amount_text, flame_columns
from npuprof.notebook.explorer.canvas import CanvasPlace, FlameCanvas, Message, as_bytes
from npuprof.notebook.explorer.controls import button, search_fields, side_by_side
from npuprof.notebook.widgets import answer_at_once
from npuprof.quantities import printable
from npuprof.texts import AS_TEXT


class FlameFigure:
    """Shows a flame graph on a canvas.

    Parameters
    ----------
    flame
        The state to show.
    on_frame, on_key
        Called with the number of a clicked frame, and with a key.

    Attributes
    ----------
    widget
        The widget of the page.
    place
        The widget to display, which contains that of the page.
    size_bytes
        The approximate size of the last update.
    """

    def __init__(self, flame: FlameGraph, on_frame: Callable[[int], None], on_key: Callable[[str], None]) -> None:
        self._flame = flame
        self._on_frame, self._on_key = on_frame, on_key
        self.size_bytes = 0
        self.place = CanvasPlace(self._make)

    def _make(self) -> FlameCanvas:
        self.widget = FlameCanvas(self._answer)
        self.draw()
        return self.widget

    def draw(self) -> None:
        """Draw the picture."""
        flame = self._flame
        picture = flame.picture()
        simulated = "simulated NPU · " if flame.info.simulated else ""
        title = f"{simulated}{TITLES[picture.weight]}"
        with self.widget.hold_sync():
            self.widget.cursor = flame.cursor
            message, self.size_bytes = picture_message(
                picture, title, flame.frame_matches(), is_upwards=flame.orientation == "flame"
            )
            self.widget.picture = message

    def draw_cursor(self) -> None:
        """Draw the cursor only."""
        self.widget.cursor = self._flame.cursor

    def _answer(self, asked: Message) -> None:
        frame, key = asked.get("frame"), asked.get("key")
        if asked.get("kind") == "frame" and isinstance(frame, int):
            self._on_frame(frame)
        elif asked.get("kind") == "key" and isinstance(key, str):
            self._on_key(key)


def picture_message(
    picture: DrawnFlames, title: str, matches: FrameMatches | None = None, *, is_upwards: bool = False
) -> tuple[dict[str, Any], int]:
    """Return a picture as a page draws it, with the total after its title, and its approximate size in bytes."""
    shown = flame_columns(picture, matches)
    arrays = {name: as_bytes(value) for name, value in vars(shown).items() if isinstance(value, np.ndarray)}
    content = {
        **arrays,
        "looks": shown.looks,
        "names": shown.names,
        "facts": shown.facts,
        "levels": int(picture.frames.depth.max()) + 1,
        "upwards": is_upwards,
        "searching": matches is not None,
        "title": f"{title}: {amount_text(int(picture.frames.total[0]), picture.weight)}",
        "nothing": "" if picture.frames.total[0] else nothing(picture),
    }
    return content, shown.size_bytes


_STYLE = """<style>
.npuprof-flame .widget-toggle-buttons { display: flex; flex-flow: row nowrap; align-items: center; }
.npuprof-flame .widget-toggle-buttons > .widget-label { height: auto; margin: 0 4px 0 8px; }
.npuprof-flame .long { overflow-wrap: anywhere; }
</style>"""

FLAME_CLASS = "npuprof-flame"
"""Class of the box around controls and picture."""

_FAMILIES = ("python", "operator", "api", "matrix", "vector", "movement", "wait")
_WEIGHT_WORDS = {"host": "host time", "device": "device time", "count": "count"}
_SHAPES = (("icicle", "icicle"), ("flame", "flame"))
_SHAPE_TIPS = ("callers above their callees", "callers below their callees")
_FRAMES = (("all calls", "call"), ("modules", "module"))
_FRAME_TIPS = ("every Python call has a frame", "only Python calls of modules have frames")
_ALL = ""  # a dropdown with value None has no selection
_MOST_OFFERED = 5_000  # steps or threads in a list
_LONGEST_NAME, _LONGEST_CRUMB, _MOST_CRUMBS = 400, 40, 12


class FlameGraphView:
    """Shows a flame graph and applies the user's actions to it.

    Parameters
    ----------
    flame
        The state; others may change it too.
    choose
        Called with the rows of the frame at the top, by table, and its name, to select them in all views; None if
        that is impossible.

    Attributes
    ----------
    widget
        The widget to display.
    figure
        The figure in it.
    """

    def __init__(self, flame: FlameGraph, choose: Callable[[Mapping[str, Int64], str], None] | None = None) -> None:
        self._flame = flame
        self._choose = choose
        self._lock = threading.RLock()  # browser messages may arrive on another thread
        self._drawn = self._picture_state()
        self.figure = FlameFigure(flame, self._under_lock(flame.zoom), self._under_lock(lambda key: press(flame, key)))
        self._match_text, self._path, self._frame = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._beside = widgets.VBox([], layout={"width": "100%"})  # callers and callees, once there is a frame
        self._up = button("Up", "U: show the caller of the frame at the top", self._under_lock(flame.up))
        self._all = button("All", "0: show everything again", self._under_lock(flame.show_all))
        self.widget = self._box()
        self._sandwiched: tuple[DrawnFlames, str] | None = None
        flame.listen(self._redraw)
        self._update_texts()

    def _box(self) -> widgets.Widget:
        legend = _legend(self._flame.calls.runtime)
        rows = [side_by_side(self._view_controls()), side_by_side(self._search_controls())]
        box = widgets.VBox(
            [widgets.HTML(_STYLE), *rows, self._path, self.figure.place, self._frame, self._beside, legend]
        )
        box.layout.width = "100%"
        box.add_class(FLAME_CLASS)
        return box

    def _view_controls(self) -> list[widgets.Widget]:
        flame = self._flame
        weights = [(_WEIGHT_WORDS[weight], weight) for weight in flame.weights]
        weight = _toggles("Width by", weights, [f"a frame is as wide as its {word}" for word, _ in weights])
        weight.observe(self._changed_to(flame.weigh), "value")
        shape = _toggles("Shape", _SHAPES, _SHAPE_TIPS)
        shape.observe(self._changed_to(flame.turn), "value")
        step, thread = _choice("Step", flame.steps), _choice("Thread", flame.threads)

        def look(_: object) -> None:
            flame.look_at(Scope(_select(step), _select(thread)))

        frames = _toggles("Frames", _FRAMES, _FRAME_TIPS)
        frames.observe(self._changed_to(lambda what: flame.group(by_module=what == "module")), "value")
        # A single thread leaves nothing to choose.
        choices = [choice for choice, least in ((step, 1), (thread, 2)) if len(choice.options) > least]
        for choice in choices:
            choice.observe(self._under_lock(look), "value")
        chosen = button(
            "Select its slices", "Select the slices of the frame at the top in all views", self._select_root
        )
        selects = [] if self._choose is None else [chosen]
        return [self._up, self._all, *selects, weight, *([frames] if flame.has_modules else []), *choices, shape]

    def _search_controls(self) -> list[widgets.Widget]:
        flame = self._flame
        text, regex = search_fields(self._under_lock(lambda text, regex: flame.search(text, regex=regex)))
        previous = button("Previous", "P: the match before", self._under_lock(lambda: flame.next_match(-1)))
        following = button("Next", "N: the next match", self._under_lock(lambda: flame.next_match(1)))
        return [text, regex, previous, following, self._match_text]

    def _select_root(self) -> None:
        path = self._flame.path()
        if self._choose is not None and path:
            self._choose(self._flame.rows_of_root(), path[-1])

    def _changed_to(self, action: Callable[[Any], Any]) -> Callable[[Any], None]:
        return self._under_lock(lambda change: action(change["new"]))

    def _under_lock(self, action: Callable[..., Any]) -> Callable[..., None]:
        """Return a callback that runs the action under the lock and shows an OptionsError."""

        def do(*given: Any) -> None:
            with self._lock:
                try:
                    action(*given)
                except OptionsError as error:
                    self._show_message(str(error))

        return do

    def _show_message(self, text: str) -> None:
        self._match_text.value = f'<span class="{AS_TEXT}" role="status">{escape(text)}</span>'

    def _picture_state(self) -> tuple[object, ...]:
        """Return the state that determines the picture."""
        flame = self._flame
        return (flame.picture(), flame.orientation, flame.text, flame.regex)

    def _redraw(self) -> None:
        with self._lock:
            look = self._picture_state()
            if look == self._drawn:
                self.figure.draw_cursor()
            else:
                self._drawn = look
                self.figure.draw()
            self._update_texts()
            if path := self._flame.path():
                self._show_sandwich(path[-1])

    def _show_sandwich(self, name: str) -> None:
        """Show who called the frames of a name, and what they called, below the graph."""
        picture = self._flame.picture()
        if self._sandwiched == (picture, name) or (halves := sandwich(picture, name)) is None:
            return
        self._sandwiched = picture, name
        if not self._beside.children:
            self._halves = [FlameCanvas(self._answered(at)) for at in range(len(halves))]
        shown = printable(name, _LONGEST_NAME)
        self._drawn_halves = halves
        for half, widget, title in zip(halves, self._halves, ("callers of", "callees of"), strict=True):
            widget.picture = picture_message(half, f"{title} {shown}", is_upwards=title == "callers of")[0]
        if not self._beside.children:  # after the pictures, without which a page cannot draw them
            self._beside.children = (widgets.HTML(), *self._halves)
            answer_at_once(self._beside)
        title = f"Callers above and callees below of <b>{escape(shown)}</b>, wherever it was called"
        self._beside.children[0].value = f'<div class="long {AS_TEXT}">{title}</div>'

    def _answered(self, at: int) -> Callable[[Message], None]:
        """Return what shows the callers and callees of a frame that is clicked in a half."""

        def answer(asked: Message) -> None:
            half, frame = self._drawn_halves[at], asked.get("frame")
            is_one = asked.get("kind") == "frame" and isinstance(frame, int) and 0 < frame < len(half.frames)
            if is_one and isinstance(frame, int) and not half.frames.folded[frame]:
                self._show_sandwich(half.name(frame))

        return self._under_lock(answer)

    def _update_texts(self) -> None:
        flame = self._flame
        picture, matches = flame.picture(), flame.frame_matches()
        self._show_message("" if matches is None else picture.match_text(matches))
        self._up.disabled = self._all.disabled = not flame.path()
        self._path.value = f'<div class="long {AS_TEXT}">{_crumbs(flame.path())}</div>'
        name = escape(printable(picture.name(flame.cursor), _LONGEST_NAME))
        facts = " · ".join(map(escape, picture.facts(flame.cursor)))
        self._frame.value = (
            f'<div class="long {AS_TEXT}" role="status"><b>{name}</b> · {facts}</div>'
            '<div class="faint">A click on a frame zooms into it, and on the one at the root goes up.</div>'
        )


def _legend(runtime: str) -> widgets.Widget:
    """Return the legend of the colours."""
    swatches = " ".join(
        f'<span><span class="swatch" style="background:{FAMILIES[family].colour}"></span>'
        f"{escape(family_label(family, runtime))}</span>"
        for family in _FAMILIES
    )
    return widgets.HTML(f'<div class="swatches">{swatches}</div>')


def _crumbs(names: list[str]) -> str:
    """Return the escaped path from the root; a long one has its middle left out."""
    visible_names = ["everything", *(printable(name, _LONGEST_CRUMB) for name in names)]
    if len(visible_names) > _MOST_CRUMBS:
        visible_names = [*visible_names[:2], "…", *visible_names[3 - _MOST_CRUMBS :]]
    return " › ".join(map(escape, visible_names))


def _toggles(description: str, options: Sequence[tuple[str, str]], tooltips: Sequence[str]) -> widgets.ToggleButtons:
    return widgets.ToggleButtons(
        description=description,
        options=options,
        tooltips=tooltips,
        layout={"width": "auto"},
        style={"button_width": "auto", "description_width": "auto"},
    )


def _choice(description: str, numbers: Sequence[int]) -> widgets.Dropdown:
    options = [("all", _ALL), *((str(number), number) for number in numbers[:_MOST_OFFERED])]
    return widgets.Dropdown(
        options=options, description=description, layout={"width": "auto"}, style={"description_width": "auto"}
    )


def _select(choice: widgets.Dropdown) -> int | None:
    return None if choice.value == _ALL else int(choice.value)
