"""Live figures that a browser shows whole, however long it takes to load plotly.js: see ``live.js``."""

from __future__ import annotations

from pathlib import Path

import plotly
import plotly.graph_objects as go
import traitlets

_BUNDLE = str(go.FigureWidget._esm)


class LiveFigure(go.FigureWidget):  # type: ignore[misc]  # plotly has no annotations
    """A figure in a notebook, whose script is there at once and loads plotly.js later."""

    _esm = (Path(__file__).parent / "live.js").read_text(encoding="utf-8")
    _plotly = traitlets.Unicode(_BUNDLE).tag(sync=True)
    _plotly_version = traitlets.Unicode(plotly.__version__).tag(sync=True)
