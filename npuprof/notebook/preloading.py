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
    "npuprof.report.html",
    "npuprof.report.run",
    "npuprof.report.text",
    "npuprof.exports.text_figures",
    "npuprof.figures.embed",
    "npuprof.figures.memory",
    "npuprof.session.reruns",
    "npuprof.flame.figure",
    "npuprof.timeline.figure",
    "npuprof.timeline.svg",
)
_OF_A_SET = (
    "npuprof.advice.job_findings",
    "npuprof.exports.set_overview",
    "npuprof.figures.data_text",
    "npuprof.figures.drawing",
    "npuprof.figures.rank_steps",
    "npuprof.figures.rank_timeline",
    "npuprof.ranks.kept_overview",
    "npuprof.ranks.profile_set",
)


def preload(*, report: bool, of_set: bool = False) -> None:
    """Import what a run and its report need; what cannot be imported fails when it is needed, with its message.

    Parameters
    ----------
    report, of_set
        Whether a report is shown, and whether it is that of a set of ranks.
    """
    with standard_library_first():
        for name in (*_OF_A_RUN, *(_OF_A_REPORT if report else ()), *(_OF_A_SET if report and of_set else ())):
            with suppress(Exception):
                import_module(name)
