"""Offline analysis: decode recordings into saved profiles, at once or in the background.

The frameworks' profilers call it ``analyse``. Their parsers write text files; npuprof writes the tables as Parquet next
to the raw data, where ``npuprof.load`` opens them quickly. No file is removed.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.machine import environment
from npuprof.options.values import flag
from npuprof.session.schedule import TraceReady

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet
    from npuprof.tables.info import Selected


TABLES_DIRECTORY = "npuprof_tables"
TRACE_FILE = "trace_view.json"

Mode = Literal["sync", "async"]


def check_mode(mode: str) -> None:
    """Raise an OptionsError unless the mode is ``sync`` or ``async``."""
    if mode not in ("sync", "async"):
        raise OptionsError(f"mode must be sync or async, not {mode!r}")


def offline_analyse(
    path: str | PathLike[str],
    *,
    step_list: Iterable[int] | None = None,
    pretty: bool = False,
    data_simplification: bool = True,
) -> Profile | ProfileSet:
    """Decode a recording or a result and save its tables in it, unless these tables are already saved.

    Parameters
    ----------
    path
        What :func:`npuprof.load` opens; several runs below a directory are read in parallel.
    step_list
        The step numbers to keep; by default all steps.
    pretty
        Also write the timeline as an indented Chrome trace.
    data_simplification
        Accepted for compatibility with MindSpore, whose parser deletes the raw data; npuprof deletes nothing.

    Returns
    -------
    The profile, or a set of profiles.

    Raises
    ------
    OptionsError
        If an argument has a wrong value.
    SourceError
        If nothing can be read, or a run does not have a requested step.
    """
    flag("data_simplification", data_simplification)
    from npuprof.loading import open_path
    from npuprof.profiles.profile import Profile
    from npuprof.sources.files.archives import is_archive

    if is_archive(Path(path)):
        raise SourceError(f"{path} is an archive, where no tables can be saved: unpack it, and analyse that")
    opened = open_path(path, steps=step_list)
    if isinstance(opened, Profile):
        _save(opened, pretty=pretty)
        return opened
    for profile in opened:
        _save(profile, pretty=pretty)
    return opened


def analyse_in_background(path: Path, *, step_list: Iterable[int] | None = None, pretty: bool = False) -> None:
    """Run :func:`offline_analyse` in a process that outlives this one; its log is ``analyse.log`` in the result.

    Raises
    ------
    NpuprofError
        If the process cannot be started.
    """
    arguments = [sys.executable, "-m", "npuprof.session.offline", str(path)]
    arguments += [f"--step={step}" for step in step_list or ()] + ["--pretty"] * pretty
    try:
        with ((path if path.is_dir() else path.parent) / "analyse.log").open("wb") as log:
            # In a new session: an interrupt of the kernel must not end the process.
            process = subprocess.Popen(  # noqa: S603 - this interpreter and this module
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment.of_own_process(),
            )
    except OSError as error:
        raise NpuprofError(f"no process can be started to analyse {path} ({error}): use mode='sync'") from error
    _background[:] = [running for running in _background if running.poll() is None]
    _background.append(process)


_background: list[subprocess.Popen[bytes]] = []


@atexit.register
def _leave_alone() -> None:
    for process in _background:
        process.returncode = process.returncode or 0  # avoids a ResourceWarning for a process that goes on


def tables_of(recording: Path) -> Path:
    """Return the directory for the saved tables of a recording or a result."""
    return (recording if recording.is_dir() else recording.parent) / TABLES_DIRECTORY


def _save(profile: Profile, *, pretty: bool) -> None:
    if profile.info.recording is None:
        return
    target = tables_of(profile.info.recording)
    if target.exists() and _selection_of(target) != profile.info.selection:
        replacement = target.with_name(f"{target.name}.new")
        shutil.rmtree(replacement, ignore_errors=True)  # left by an interrupted analysis
        profile.save(replacement)
        shutil.rmtree(target)
        replacement.rename(target)
    elif not target.exists():
        profile.save(target)
    if pretty:
        profile.to_chrome_trace(target / TRACE_FILE, pretty=True)


def _selection_of(tables: Path) -> Selected | None:
    """Return the selection of a saved profile; None if it cannot be read."""
    from npuprof.sources.detect import detect

    try:
        return detect(tables).results[0].describe().selection
    except (NpuprofError, OSError):
        return None


def _main(arguments: list[str]) -> None:
    steps = [int(word.partition("=")[2]) for word in arguments[1:] if word.startswith("--step=")]
    offline_analyse(arguments[0], step_list=steps or None, pretty="--pretty" in arguments)


if __name__ == "__main__":
    _main(sys.argv[1:])


def trace_handler(
    dir_name: str | PathLike[str] | None = None,
    worker_name: str | None = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> TraceReady:
    """Return an ``on_trace_ready`` that moves each run into a directory and analyses it.

    Parameters
    ----------
    dir_name
        The directory for the runs, named ``<worker>_<time>_npuprof``; by default they stay in ``Options.output``.
    worker_name
        The name of the worker; by default host name and process id.
    analyse_flag
        Whether to decode the run and save its tables.
    async_mode
        Whether to analyse in a background process, while the profiled loop goes on.

    Returns
    -------
    callable
        For ``npuprof.profile(on_trace_ready=...)``.

    Raises
    ------
    OptionsError
        If an argument has a wrong value.
    """
    for name, value in (("analyse_flag", analyse_flag), ("async_mode", async_mode)):
        if not isinstance(value, bool):
            raise OptionsError(f"{name} must be True or False, not {value!r}")
    if worker_name is not None and not re.fullmatch(r"[^\x00-\x1f/\\]{1,100}", worker_name):
        raise OptionsError(f"worker_name must be 1 to 100 characters without slashes, not {worker_name!r}")
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def handle(session: Any) -> None:
        recording = session.recording
        if dir_name is not None:
            recording.directory = _move(recording.directory, Path(dir_name).expanduser(), worker)
        if analyse_flag:
            session.analyse(mode="async" if async_mode else "sync")

    return handle


def _move(source: Path, place: Path, worker: str) -> Path:
    """Move a recording into a directory under an unused name."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = f"{time.strftime('%Y%m%d%H%M%S', time.localtime())}{time.time_ns() // 1_000_000 % 1000:03d}"
        for suffix in ("", *(f"_{number}" for number in range(1, 1000))):
            target = place.absolute() / f"{worker}_{stamp}{suffix}_npuprof"
            if not target.exists():
                shutil.move(source, target)
                return target
    except OSError as error:
        raise NpuprofError(f"the recording cannot be moved to {place} ({error}): it stays in {source}") from error
    raise NpuprofError(f"{place} holds a thousand runs of this millisecond: the recording stays in {source}")
