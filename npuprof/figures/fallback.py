"""A plotly figure with a fallback for viewers without plotly: an SVG, and its data as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from npuprof import interactive
from npuprof.figures.data_text import data_text
from npuprof.figures.drawing import figure_svg
from npuprof.figures.embed import mimebundle

# The renderers that plotly selects by itself in a kernel; one of them adds scripts, which are left out.
# Any other renderer was selected by the user and is used.
_AS_DATA = frozenset({"plotly_mimetype", "plotly_mimetype+notebook", "jupyterlab", "nteract", "vscode"})


class FigureWithFallback(go.Figure):  # type: ignore[misc]  # plotly has no annotations
    """A figure that also has a picture and a text in its notebook output.

    A viewer shows one of the formats in an output: the figure if it can draw plotly, else the picture or the text. A
    picture that is given does not change with the figure, and a copy of the figure does not have it.

    Parameters
    ----------
    picture
        A function that draws an SVG document, called when the figure is shown; by default it is drawn from the figure.
    """

    def __init__(
        self,
        *arguments: Any,
        name: str = "figure",
        picture: Callable[[], str] | None = None,
        text: Callable[[], str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._called = name
        self._picture = picture
        self._text = text

    @property
    def _ipython_display_(self) -> Callable[[], None] | None:
        # If this is None, IPython uses the MIME bundle.
        shows: Callable[[], None] = super()._ipython_display_
        return None if _as_data() else shows

    def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        if not _as_data():
            return super()._repr_mimebundle_(*arguments, **options)
        interactive.keep_keys()
        bundle = mimebundle(self)
        if picture := self._picture() if self._picture else figure_svg(self):
            bundle["image/svg+xml"] = picture
        return {**bundle, "text/plain": str(self)}

    def __repr__(self) -> str:
        # Of several in a tuple, IPython shows this line of each; plotly's is all of the data.
        return f"<{self._called}: a figure, which a cell shows as its last line, display() anywhere, print() as text>"

    def __str__(self) -> str:
        """Return the figure as text."""
        return self._text() if self._text else data_text(self, self._called)

    def _repr_html_(self) -> str | None:
        # HTML would hide the picture in viewers that prefer HTML, and plotly's HTML loads scripts from another host.
        return None if _as_data() else super()._repr_html_()


def _as_data() -> bool:
    return pio.renderers.default in _AS_DATA
