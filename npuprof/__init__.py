"""The profiler that lives in the notebook, for Huawei Ascend NPUs.

In a notebook, after ``%load_ext npuprof``::

    %%npuprof          profile a cell; %%npuprof? lists the options
    npuprof.panel()    Start and Stop, the options, and the runs of this directory
    npuprof.last()     the newest run; npuprof.history(): all of this notebook
    npuprof.step()     end a step and begin the next, in a loop outside of the cell

In a script::

    with npuprof.profile(level=1) as prof: ...
                       prof.step() in its loop; prof.result is the run
    npuprof.range("name"), npuprof.mark("name")
                       a span and a moment of your own in the timeline

Runs on disk, of any front end::

    npuprof.load(path), npuprof.load_set(path)
                       a run; the ranks of a job
    a - b, npuprof.compare(...)
                       what changed between two runs

Of a run: ``advice()``, ``breakdown()``, ``by("line")``, ``explore()``,
``timeline()``, ``flamegraph()``, ``code()``, ``to_html(path)``, and the tables
``kernels``, ``api``, ``steps`` and others as DataFrames. ``help(npuprof.load)``
explains one name.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from npuprof import interactive
from npuprof.shadowed import standard_library_first

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from npuprof.analysis.chip_limits import chip
    from npuprof.collectors.capabilities import (
        supported_activities,
        supported_ai_core_metrics,
        supported_export_type,
        supported_profiler_level,
    )
    from npuprof.errors import NpuprofError, NpuprofWarning
    from npuprof.loading import compare, load, load_set
    from npuprof.markers import mark, pop, push, range, range_end, range_start  # noqa: A004 - reads as npuprof.range("forward")
    from npuprof.notebook import load_ipython_extension, unload_ipython_extension
    from npuprof.notebook.views import panel
    from npuprof.options import Options
    from npuprof.profiles.comparison import Comparison
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet
    from npuprof.session.engines import engines
    from npuprof.session.mixins import last
    from npuprof.session.offline import offline_analyse, trace_handler
    from npuprof.session.reruns import history
    from npuprof.session.schedule import ProfilerAction, schedule
    from npuprof.session.session import Session, profile, step
    from npuprof.tables.schema import explain

__all__ = [
    "Comparison",
    "NpuprofError",
    "NpuprofWarning",
    "Options",
    "Profile",
    "ProfileSet",
    "ProfilerAction",
    "Session",
    "chip",
    "compare",
    "engines",
    "explain",
    "history",
    "last",
    "load",
    "load_ipython_extension",
    "load_set",
    "mark",
    "offline_analyse",
    "panel",
    "pop",
    "profile",
    "push",
    "range",
    "range_end",
    "range_start",
    "schedule",
    "step",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "trace_handler",
    "unload_ipython_extension",
]

_HOMES = {
    "Comparison": "npuprof.profiles.comparison",
    "NpuprofError": "npuprof.errors",
    "NpuprofWarning": "npuprof.errors",
    "Options": "npuprof.options",
    "Profile": "npuprof.profiles.profile",
    "ProfileSet": "npuprof.ranks.profile_set",
    "ProfilerAction": "npuprof.session.schedule",
    "Session": "npuprof.session.session",
    "chip": "npuprof.analysis.chip_limits",
    "compare": "npuprof.loading",
    "engines": "npuprof.session.engines",
    "explain": "npuprof.tables.schema",
    "history": "npuprof.session.reruns",
    "last": "npuprof.session.mixins",
    "load": "npuprof.loading",
    "load_ipython_extension": "npuprof.notebook",
    "load_set": "npuprof.loading",
    "mark": "npuprof.markers",
    "offline_analyse": "npuprof.session.offline",
    "panel": "npuprof.notebook.views",
    "pop": "npuprof.markers",
    "profile": "npuprof.session.session",
    "push": "npuprof.markers",
    "range": "npuprof.markers",
    "range_end": "npuprof.markers",
    "range_start": "npuprof.markers",
    "schedule": "npuprof.session.schedule",
    "step": "npuprof.session.session",
    "supported_activities": "npuprof.collectors.capabilities",
    "supported_ai_core_metrics": "npuprof.collectors.capabilities",
    "supported_export_type": "npuprof.collectors.capabilities",
    "supported_profiler_level": "npuprof.collectors.capabilities",
    "trace_handler": "npuprof.session.offline",
    "unload_ipython_extension": "npuprof.notebook",
}

_MODULES = ("callbacks", "dynamic", "tensorflow")  # imported when first used, too


def _called_by_help() -> bool:
    """Return whether ``help(npuprof)`` asks for names: pydoc, through one or two functions of ``inspect``."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "inspect":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "docmodule"  # in ``python -m pydoc``, a function of __main__


# Names and rooms are kept from pydoc, which would print every method of every class, 2,800 lines: `help` shows the
# docstring alone, a screen. (A docstring here would be in what IPython shows for ``npuprof?``.)
class _Package(ModuleType):
    @property
    def __path__(self) -> list[str]:  # type: ignore[override]
        if _called_by_help():
            raise AttributeError("__path__")
        return cast("list[str]", vars(self)["__path__"])


def __dir__() -> list[str]:
    """Return what is public; modules and what this one imports are left out."""
    if _called_by_help():
        return []
    return sorted({*__all__, *_HOMES, *_MODULES, "__doc__", "__file__", "__name__", "__path__", "__version__"})


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from npuprof.machine.environment import own_version

        return own_version()
    if name in _MODULES or name in _HOMES:
        with standard_library_first():
            module = import_module(_HOMES.get(name, f"npuprof.{name}"))
        if name in _HOMES:
            globals()[name] = getattr(module, name)
        return globals()[name]
    raise AttributeError(f"module 'npuprof' has no attribute {name!r}")


def _imported_when_called(home: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(home), name)(*arguments, **options)

    return call


def _keep_keys() -> None:
    with suppress(Exception):  # an output is shown in any case
        if (ipython := sys.modules.get("IPython")) is not None and hasattr(ipython.get_ipython(), "kernel"):
            from npuprof.notebook.keys import keep_keys

            keep_keys()


def _nothing_to_finish() -> None:
    """Return at once: a notebook that imports on a thread puts another function in place of this one."""


sys.modules[__name__].__class__ = _Package

interactive.explorer = _imported_when_called("npuprof.notebook.views", "explore")
interactive.show_set = _imported_when_called("npuprof.notebook.report", "show_set")
interactive.show_comparison = _imported_when_called("npuprof.notebook.report", "show_comparison")
interactive.cell_display = _imported_when_called("npuprof.notebook.progress", "cell_display")
interactive.keep_keys = _keep_keys
interactive.finish_imports = _nothing_to_finish

if os.environ.get("NPUPROF_OPTIONS") or os.environ.get("MS_PROFILER_OPTIONS"):
    from npuprof.session import from_environment

    from_environment.start()
