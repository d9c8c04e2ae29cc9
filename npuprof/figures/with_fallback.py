"""Methods whose figures carry their data as text, imported without plotly."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    import plotly.graph_objects as go

_Parameters = ParamSpec("_Parameters")


def with_fallback(name: str) -> Callable[[Callable[_Parameters, go.Figure]], Callable[_Parameters, go.Figure]]:
    """Return a decorator that attaches a figure's data as text, for viewers without plotly."""

    def decorated(draw: Callable[_Parameters, go.Figure]) -> Callable[_Parameters, go.Figure]:
        @wraps(draw)
        def drawn(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> go.Figure:
            from npuprof.figures.fallback import FigureWithFallback

            return FigureWithFallback(draw(*arguments, **options), name=name)

        return drawn

    return decorated
