"""What ends and shows a run is imported before it begins: the profiled code may leave no memory, files or imports."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from npuprof.shadowed import standard_library_first

_OF_A_RUN = ("npuprof.markers", "npuprof.session.session", "npuprof.lines.recorder", "numpy")
_OF_A_REPORT = (
    "pandas.core.methods.to_dict",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "plotly.graph_objs._figure",
    "plotly.subplots",
    "npuprof.loading",
    "npuprof.advice.findings",
    "npuprof.advice.rules",
    "npuprof.analysis.coverage",
    "npuprof.analysis.summary",
    "npuprof.exports.html",
    "npuprof.exports.text",
    "npuprof.exports.text_figures",
    "npuprof.figures.embed",
    "npuprof.figures.memory",
    "npuprof.session.reruns",
    "npuprof.flame.figure",
    "npuprof.timeline.figure",
    "npuprof.timeline.svg",
)


def preload(*, report: bool) -> None:
    """Import what a run and its report need; what cannot be imported fails when it is needed, with its message."""
    with standard_library_first():
        for name in (*_OF_A_RUN, *(_OF_A_REPORT if report else ())):
            with suppress(Exception):
                import_module(name)
