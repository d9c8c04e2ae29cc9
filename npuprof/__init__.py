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
from typing import Any

import lazy_loader

_imported, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
# A star import must not hide the user's own `tensorflow`.
__all__ = [name for name in _names if name not in ("callbacks", "dynamic", "simulator", "tensorflow")]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from npuprof.machine.environment import own_version

        return own_version()
    return _imported(name)


if os.environ.get("NPUPROF_OPTIONS") or os.environ.get("MS_PROFILER_OPTIONS"):
    from npuprof.session import from_environment

    from_environment.start()
