"""What ends and shows a run is imported before it begins: the profiled code may leave no memory, files or imports.

A kernel that loads the extension answers first: a thread imports between that cell and the next one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

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
    "npuprof.report.difference",
    "jinja2.debug",
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
    "npuprof.figures.drawing",
    "npuprof.figures.rank_steps",
    "npuprof.figures.rank_timeline",
    "npuprof.ranks.kept_overview",
    "npuprof.ranks.profile_set",
    "npuprof.report.ranks",
)
_OF_A_VIEW = ("npuprof.notebook.keys", "npuprof.notebook.explorer.tabs", "npuprof.notebook.explorer.timeline")

_thread: threading.Thread | None = None


def preload(*, report: bool, of_set: bool = False) -> None:
    """Import the modules of a run and its report; an import error appears where the module is needed."""
    finish()
    _follow_workers()
    _import((*_OF_A_RUN, *(_OF_A_REPORT if report else ()), *(_OF_A_SET if report and of_set else ())))


def _follow_workers() -> None:
    """Have workers that cells start listen for later ones."""
    with suppress(Exception):  # an incomplete installation fails when it is needed, with its message
        from npuprof.session.job import follow_workers
        from npuprof.session.session import Session

        follow_workers(Session)


def begin(then: Callable[[], None]) -> bool:
    """Import the modules of a run, its report and a view, then call `then`; return whether a thread does it."""
    global _thread

    def run() -> None:
        _import(_OF_A_RUN)
        _follow_workers()
        _import((*_OF_A_REPORT, *_OF_A_VIEW))
        then()

    if _thread is not None:
        if not _thread.is_alive():
            then()
        return _thread.is_alive()
    _thread = threading.Thread(target=run, name="npuprof imports")
    _thread.start()
    if hasattr(os, "register_at_fork"):  # a child would wait forever for the locks of modules that the thread holds
        os.register_at_fork(before=finish)
    return True


def finish() -> None:
    """Wait until the thread has imported everything."""
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join()


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        with suppress(Exception):
            import_module(name)
    if "npuprof.report.html" in names:
        from npuprof.report.html import compile_template

        with suppress(Exception):
            compile_template()  # after the cell, it may lack files and functions that it needs
