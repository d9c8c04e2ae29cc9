"""What to do with each run of a schedule when it has ended: the frameworks' ``tensorboard_trace_handler``."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.errors import NpuprofError, OptionsError

if TYPE_CHECKING:
    from npuprof.session.session import Session, TraceReady


def trace_handler(
    dir_name: str | PathLike[str] | None = None,
    worker_name: str | None = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> TraceReady:
    """Make an ``on_trace_ready`` that puts each run into a directory and analyses it.

    Parameters
    ----------
    dir_name
        Where each run goes, as ``<worker>_<time>_npuprof``; it stays in ``Options.output`` when not given.
    worker_name
        The run's worker: host name and process id when not given.
    analyse_flag
        Whether to decode the run and save its tables in it.
    async_mode
        Whether a process of its own does that, while the profiled loop goes on.

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

    def handle(session: Session) -> None:
        recording = session.recording
        if dir_name is not None:
            recording.directory = _moved(recording.directory, Path(dir_name).expanduser(), worker)
        if analyse_flag:
            session.analyse(mode="async" if async_mode else "sync")

    return handle


def _moved(source: Path, place: Path, worker: str) -> Path:
    """Move a recording below a directory, under a name that is free."""
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
