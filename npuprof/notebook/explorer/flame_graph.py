"""The flame graph as widgets: controls, search, a figure whose traces are updated in place, and the selected frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from npuprof.errors import OptionsError
from npuprof.exports.html import AS_TEXT
from npuprof.figures.colours import FAMILIES, FOREGROUND, MODEBAR
from npuprof.figures.embed import CONFIG
from npuprof.flame.figure import nothing
from npuprof.flame.scope import Scope
from npuprof.flame.state import FlameGraph, press
from npuprof.flame.view import TITLES, FlameView, amount_text, flame_view
from npuprof.notebook.explorer.browser_events import FLAME_CLASS, FLAME_SCROLLED_CLASS, FlameKeys
from npuprof.notebook.explorer.controls import button, search_fields, side_by_side
from npuprof.notebook.explorer.live import LiveFigure
from npuprof.quantities import printable

_FRAME_TRACE, _LABEL_TRACE = range(2)
_LEVEL_PIXELS = 20
_TOP_PIXELS, _BOTTOM_PIXELS = 34, 8
_SIDE_PIXELS = 4
_LEAST_LEVELS = 4
_THICKNESS = 0.94
_LABEL_PIXELS = 4.0  # from a frame's left edge to its name
_HOVER = {"bgcolor": "#20262c", "bordercolor": FOREGROUND, "font": {"color": "#f5f5f5"}}  # legible on any colour
_CURSOR = {
    "type": "rect",
    "xref": "x",
    "yref": "y",
    "line": {"color": "#0072b2", "width": 2.5},
    "fillcolor": "rgba(255,255,255,0.35)",  # the line alone is invisible on a frame of the same colour
}


class FlameFigure:
    """Shows a flame graph in a figure.

    Parameters
    ----------
    flame
        The state to show.
    on_frame
        Called with the number of a clicked frame.

    Attributes
    ----------
    widget
        The figure.
    size_bytes
        The approximate size of the last update.
    """

    def __init__(self, flame: FlameGraph, on_frame: Callable[[int], None]) -> None:
        self._flame = flame
        self._on_frame = on_frame
        self.size_bytes = 0
        self.widget = LiveFigure(data=_traces(), layout=_layout())
        self.widget._config = {**CONFIG, "responsive": False, "doubleClick": False, "scrollZoom": False}
        self.widget.data[_FRAME_TRACE].on_click(self._clicked)
        self.draw()

    def fit(self, width: int) -> None:
        """Set the width of the figure, in pixels, as reported by the browser."""
        if width > 0:
            self._flame.resize(width - 2 * _SIDE_PIXELS)

    def draw(self) -> None:
        """Draw the picture."""
        flame = self._flame
        picture = flame.picture()
        shown = flame_view(picture, flame.found(), flame.pixels)
        self.size_bytes = shown.size_bytes
        with self.widget.batch_update():
            self._draw_frames(shown)
            self._draw_cursor()
            layout = self.widget.layout
            levels = max(shown.levels, _LEAST_LEVELS)
            edges = [-0.5, levels - 0.5]
            layout.yaxis.range = edges if flame.orientation == "flame" else edges[::-1]
            layout.width = flame.pixels + 2 * _SIDE_PIXELS
            layout.height = _TOP_PIXELS + _BOTTOM_PIXELS + _LEVEL_PIXELS * levels
            simulated = "<b>simulated NPU</b> · " if flame.info.simulated else ""
            amount = amount_text(int(picture.frames.total[0]), picture.weight)
            layout.title.text = f"<sub>{simulated}{TITLES[picture.weight]}: {amount}</sub>"
            layout.annotations = [] if picture.frames.total[0] else [_said(nothing(picture))]

    def draw_cursor(self) -> None:
        """Draw the cursor only."""
        with self.widget.batch_update():
            self._draw_cursor()

    def _draw_frames(self, shown: FlameView) -> None:
        frames, labels = self.widget.data[_FRAME_TRACE], self.widget.data[_LABEL_TRACE]
        frames.y, frames.base, frames.x = shown.level, shown.left, shown.width
        frames.marker.color, frames.marker.opacity = shown.colour, shown.opacity
        frames.marker.line.color, frames.marker.line.width = shown.outline, shown.outline_width
        frames.hovertext = shown.hover
        labels.x, labels.y = shown.label_left + _LABEL_PIXELS / self._flame.pixels, shown.label_level
        labels.text, labels.textfont.color = shown.label, shown.ink

    def _draw_cursor(self) -> None:
        flame = self._flame
        frames, at = flame.picture().frames, flame.cursor
        if not at:
            self.widget.layout.shapes = []
            return
        left, level = float(frames.left[at]), int(frames.depth[at])
        right = left + int(frames.total[at]) / int(frames.total[0])
        edges = {"x0": left, "x1": right, "y0": level - _THICKNESS / 2, "y1": level + _THICKNESS / 2}
        self.widget.layout.shapes = [{**_CURSOR, **edges}]

    def _clicked(self, _trace: object, points: Any, _state: object) -> None:
        if points.point_inds:
            self._on_frame(int(points.point_inds[0]))


def _said(text: str) -> dict[str, Any]:
    return {"text": text, "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}


def _traces() -> list[Any]:
    frames = go.Bar(
        orientation="h",
        width=_THICKNESS,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    labels = go.Scatter(mode="text", textfont={"size": 11}, hoverinfo="skip", textposition="middle right")
    return [frames, labels]


def _layout() -> dict[str, Any]:
    removed = MODEBAR["remove"]
    kept = [str(button) for button in removed] if isinstance(removed, list) else []
    return {
        "template": go.layout.Template(),
        "title": {"text": "", "x": 0.01, "xref": "container", "y": 0.99, "yanchor": "top", "yref": "container"},
        "barmode": "overlay",
        "showlegend": False,
        "margin": {"l": _SIDE_PIXELS, "r": _SIDE_PIXELS, "t": _TOP_PIXELS, "b": _BOTTOM_PIXELS},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": FOREGROUND, "size": 11},
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": 0, **_HOVER},
        "dragmode": False,
        "modebar": {**MODEBAR, "remove": [*kept, "zoom", "pan", "zoomIn", "zoomOut", "autoScale", "resetScale"]},
        "uirevision": "same",
        "xaxis": {"visible": False, "fixedrange": True, "autorange": False, "range": [0, 1]},
        "yaxis": {"visible": False, "fixedrange": True, "autorange": False},
    }


_STYLE = """<style>
.npuprof-flame:focus-visible { outline: 2px solid var(--jp-brand-color1, #0072b2); outline-offset: 2px; }
.npuprof-flame .npuprof-flame-scrolled { overflow-y: auto; overflow-x: hidden; max-height: 640px; }
.npuprof-flame .npuprof-flame-scrolled .bars path { cursor: pointer; }
.npuprof-flame .widget-toggle-buttons { display: flex; flex-flow: row nowrap; align-items: center; }
.npuprof-flame .widget-toggle-buttons > .widget-label { height: auto; margin: 0 4px 0 8px; }
.npuprof-flame .long { overflow-wrap: anywhere; }
</style>"""

_FAMILIES = ("python", "operator", "api", "matrix", "vector", "movement", "wait")
_WEIGHT_WORDS = {"host": "host time", "device": "device time", "count": "count"}
_SHAPES = (("icicle", "icicle"), ("flame", "flame"))
_SHAPE_TIPS = ("callers above their callees", "callers below their callees")
_ALL = ""  # a dropdown with value None has no selection
_MOST_OFFERED = 5_000  # steps or threads in a list
_LONGEST_NAME, _LONGEST_CRUMB, _MOST_CRUMBS = 400, 40, 12


class FlameGraphView:
    """Shows a flame graph and applies the user's actions to it.

    Parameters
    ----------
    flame
        The state; others may change it too.

    Attributes
    ----------
    widget
        The widget to display.
    figure
        The figure in it.
    """

    def __init__(self, flame: FlameGraph) -> None:
        self._flame = flame
        self._lock = threading.RLock()  # browser messages may arrive on another thread
        self._drawn = self._look()
        self.figure = FlameFigure(flame, self._done(flame.zoom))
        self._keys = FlameKeys(self._done(lambda key: press(flame, key)), self._done(self.figure.fit))
        self._found, self._path, self._frame = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._up = button("Up", "U: show the caller of the frame at the top", self._done(flame.up))
        self._all = button("All", "0: show everything again", self._done(flame.show_all))
        self.widget = self._box()
        flame.listen(self._changed)
        self._update_texts()

    def _box(self) -> widgets.Widget:
        place = widgets.Box([self.figure.widget], layout={"display": "block", "width": "100%"})
        place.add_class(FLAME_SCROLLED_CLASS)
        rows = [side_by_side(self._view_controls()), side_by_side(self._search_controls())]
        box = widgets.VBox([widgets.HTML(_STYLE), *rows, self._path, place, self._frame, _legend(), self._keys])
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
            flame.look_at(Scope(_chosen(step), _chosen(thread)))

        # A single thread leaves nothing to choose.
        choices = [choice for choice, least in ((step, 1), (thread, 2)) if len(choice.options) > least]
        for choice in choices:
            choice.observe(self._done(look), "value")
        return [self._up, self._all, weight, *choices, shape]

    def _search_controls(self) -> list[widgets.Widget]:
        flame = self._flame
        text, regex = search_fields(self._done(lambda text, regex: flame.search(text, regex=regex)))
        previous = button("Previous", "P: the match before", self._done(lambda: flame.next_match(-1)))
        following = button("Next", "N: the next match", self._done(lambda: flame.next_match(1)))
        return [text, regex, previous, following, self._found]

    def _changed_to(self, action: Callable[[Any], Any]) -> Callable[[Any], None]:
        return self._done(lambda change: action(change["new"]))

    def _done(self, action: Callable[..., Any]) -> Callable[..., None]:
        """Return the action as a callback that holds the lock and shows an OptionsError."""

        def do(*given: Any) -> None:
            with self._lock:
                try:
                    action(*given)
                except OptionsError as error:
                    self._say(str(error))

        return do

    def _say(self, text: str) -> None:
        self._found.value = f'<span class="{AS_TEXT}" role="status">{escape(text)}</span>'

    def _look(self) -> tuple[object, ...]:
        """Return everything that a picture depends on."""
        flame = self._flame
        return (flame.picture(), flame.orientation, flame.pixels, flame.text, flame.regex)

    def _changed(self) -> None:
        with self._lock:
            look = self._look()
            if look == self._drawn:
                self.figure.draw_cursor()
            else:
                before, self._drawn = self._drawn, look
                self.figure.draw()
                if before[:2] != look[:2]:
                    self._keys.show_root(at_bottom=self._flame.orientation == "flame")
            self._update_texts()

    def _update_texts(self) -> None:
        flame = self._flame
        picture, found = flame.picture(), flame.found()
        self._say("" if found is None else picture.found(found))
        self._up.disabled = self._all.disabled = not flame.path()
        self._path.value = f'<div class="long {AS_TEXT}">{_crumbs(flame.path())}</div>'
        name = escape(printable(picture.name(flame.cursor), _LONGEST_NAME))
        facts = " · ".join(map(escape, picture.facts(flame.cursor)))
        self._frame.value = (
            f'<div class="long {AS_TEXT}" role="status"><b>{name}</b> · {facts}</div>'
            '<div class="faint">A click on a frame zooms into it, and on the one at the root goes up.</div>'
        )


def _legend() -> widgets.Widget:
    """Return the legend of the colours."""
    swatches = " ".join(
        f'<span><span class="swatch" style="background:{look.colour}"></span>{escape(look.label)}</span>'
        for look in (FAMILIES[family] for family in _FAMILIES)
    )
    return widgets.HTML(f'<div class="swatches">{swatches}</div>')


def _crumbs(names: list[str]) -> str:
    """Return the escaped path to the root, without its middle if it is long."""
    shown = ["everything", *(printable(name, _LONGEST_CRUMB) for name in names)]
    if len(shown) > _MOST_CRUMBS:
        shown = [*shown[:2], "…", *shown[3 - _MOST_CRUMBS :]]
    return " › ".join(map(escape, shown))


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


def _chosen(choice: widgets.Dropdown) -> int | None:
    return None if choice.value == _ALL else int(choice.value)
