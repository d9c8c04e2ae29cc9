"""Dynamic profiling: a file, changed from outside, selects the steps of a running training to profile.

In the training, ``init`` once and ``step`` at the end of each step; from a second notebook, ``edit``::

    npuprof.dynamic.init("dynamic")            # in the training
    for batch in data:
        train(batch)
        npuprof.dynamic.step()

The file is ``profiler_config.json`` with the keys of torch_npu or of MindSpore. In torch_npu's file, ``start_step`` is
the number of ``step()`` calls before the run begins, 0 for never and -1 for the next call, with ``warmup`` and
``active`` steps; in MindSpore's file, ``start_step`` and ``stop_step`` are the first and the last step, counted from 1,
and -1 is never. ``is_rank`` and ``rank_list`` choose ranks in either file. Recordings are in ``<prof_dir or
prof_path>/rank<r>_start<first>_stop<last>/``, and events are logged in ``log/`` next to the file. Source:
collectors/FRONTENDS.md sections 1 and 2; the vendors' pages (dynamic_profile, DynamicProfilerMonitor).

The file is ``profiler_config.json`` with the keys of torch_npu or of MindSpore. In torch_npu's, ``start_step`` is the
number of ``step()`` calls before the run begins, 0 for never and -1 for the next one, with ``warmup`` and ``active``
steps; in MindSpore's, ``start_step`` and ``stop_step`` are the first and the last step, counted from 1, and -1 is
never.
``is_rank`` and ``rank_list`` choose ranks in either. Recordings lie in
``<prof_dir or prof_path>/rank<r>_start<first>_stop<last>/``, and events are logged in ``log/`` beside the file.
Source: collectors/FRONTENDS.md sections 1 and 2; the vendors' pages (dynamic_profile, DynamicProfilerMonitor).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from npuprof.dynamic import requests
from npuprof.dynamic.files import config_path, edit
from npuprof.dynamic.monitor import Monitor
from npuprof.dynamic.requests import Dialect
from npuprof.errors import OptionsError, SessionError
from npuprof.options import COLLECTORS
from npuprof.options.values import one_of
from npuprof.options.values import path as path_of

__all__ = ["close", "edit", "init", "set_state", "start", "step"]

_monitor: Monitor | None = None


def init(
    path: str | PathLike[str],
    *,
    keys: Dialect | None = None,
    collector: str = "auto",
    output: str | PathLike[str] | None = None,
) -> Path:
    """Watch ``profiler_config.json`` in a directory; if absent, write one that profiles nothing.

    Parameters
    ----------
    path
        The directory, created if missing and visible to all ranks to be profiled.
    keys
        The framework whose keys a new file has; by default MindSpore if imported, else torch_npu.
    collector
        The front end, unless the file names one.
    output
        The directory for recordings if the file has ``./`` or nothing; by default the working directory.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    OptionsError
        If an argument has a wrong value, or the directory cannot be created.
    SourceError
        If the file cannot be written.

    Notes
    -----
    In an existing file, a request for a future step is accepted at once; a request to begin now only after a change.
    """
    global _monitor
    one_of("keys", keys, (None, "torch_npu", "mindspore"))
    one_of("collector", collector, COLLECTORS)
    file = config_path(path)
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise OptionsError(
            f"{file.parent} cannot be made ({error.strerror or error}): pass a directory that you can write to"
        ) from error
    close()
    dialect: Dialect = keys or ("mindspore" if "mindspore" in sys.modules else "torch_npu")
    _monitor = Monitor(file, dialect, collector, requests.HERE if output is None else path_of("output", output))
    return file


def step() -> None:
    """End a step of the training; takes microseconds while the file is unchanged.

    Raises
    ------
    SessionError
        If :func:`init` was not called.
    """
    _initialise("step").step()


def start(config_path: str | PathLike[str] | None = None) -> None:
    """Begin now the run that a file describes, whatever its step number; errors are logged.

    Parameters
    ----------
    config_path
        The file; by default the watched one.

    Raises
    ------
    SessionError
        If :func:`init` was not called.
    """
    _initialise("start").start(None if config_path is None else Path(config_path).expanduser())


def set_state(state: Mapping[str, int]) -> None:
    """Set the number of finished steps, for example after a checkpoint: ``set_state({"cur_step": 1000})``.

    Raises
    ------
    OptionsError
        If the state holds anything else.
    SessionError
        If :func:`init` was not called.
    """
    monitor = _initialise("set_state")
    number = state.get("cur_step")
    if set(state) != {"cur_step"} or isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise OptionsError(f"the state is {{'cur_step': number}} with a number of at least 0, not {dict(state)!r}")
    monitor.set_step(number)


def close() -> None:
    """Stop watching; a run that is being recorded ends."""
    global _monitor
    monitor, _monitor = _monitor, None
    if monitor is not None:
        monitor.close()


def _initialise(call: str) -> Monitor:
    if _monitor is None:
        raise SessionError(f"npuprof.dynamic.{call}() needs a file to watch: call npuprof.dynamic.init(path) first")
    return _monitor
