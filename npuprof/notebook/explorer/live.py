"""Live figures that a browser shows completely, however long plotly.js takes to load: see ``live.js``."""

from __future__ import annotations

from pathlib import Path

import plotly
import plotly.graph_objects as go
import traitlets

_BUNDLE = str(go.FigureWidget._esm)


class LiveFigure(go.FigureWidget):  # type: ignore[misc]  # plotly has no annotations
    """A live figure whose script is available immediately and loads plotly.js later."""

    _esm = (Path(__file__).parent / "live.js").read_text(encoding="utf-8")
    _plotly = traitlets.Unicode(_BUNDLE).tag(sync=True)
    _plotly_version = traitlets.Unicode(plotly.__version__).tag(sync=True)
