"""The two figures of a report, in as much detail as its size allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from npuprof.figures.embed import saved_bytes
from npuprof.flame.figure import Weight, flamegraph
from npuprof.info import Info
from npuprof.timeline.figure import timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go

LIMIT_BYTES = 900_000
"""Room for both figures in a saved notebook: the report is at most 1 MB with its text."""

# Bars, nodes and characters of a name, from all that is readable down to what fits whatever the names hold.
_DETAILS = ((2000, 2000, 60), (2000, 1000, 32), (1000, 600, 24), (500, 300, 16), (200, 50, 8))


def report_figures(
    tables: Mapping[str, pd.DataFrame], info: Info, *, limit_bytes: int = LIMIT_BYTES
) -> tuple[go.Figure, go.Figure]:
    """Draw the timeline and the flame graph of a run so that together they fit.

    The flame graph is of host time, or of device time for a run without host slices.

    Parameters
    ----------
    tables, info
        What to draw.
    limit_bytes
        The most that both may take in a saved notebook. Fewer bars and shorter names are tried until they
        fit; the coarsest form (about 100 kB) is given whatever the limit.
    """
    weight: Weight = "host" if any(len(tables[name]) for name in ("python", "operators", "api")) else "device"
    for bars, nodes, name in _DETAILS:
        figures = (
            timeline(tables, info, max_slices=bars, longest_name=name),
            flamegraph(tables, info, weight=weight, max_nodes=nodes, longest_name=name),
        )
        if sum(map(saved_bytes, figures)) <= limit_bytes:
            break
    return figures
