"""Offline analysis: decoding what was recorded into saved profiles, now or in the background.

The frameworks' profilers call this ``analyse``: their parsers write text files, npuprof writes the tables as
Parquet beside the raw data, which ``npuprof.load`` opens at once. Nothing is removed.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.machine import environment
from npuprof.options.values import flag

if TYPE_CHECKING:
    from npuprof.info import Selected
    from npuprof.profiles import Profile
    from npuprof.ranks.profile_set import ProfileSet

TABLES_DIRECTORY = "npuprof_tables"
TRACE_FILE = "trace_view.json"

Mode = Literal["sync", "async"]


def check_mode(mode: str) -> None:
    """Refuse what is neither ``sync`` nor ``async``."""
    if mode not in ("sync", "async"):
        raise OptionsError(f"mode must be sync or async, not {mode!r}")


def offline_analyse(
    path: str | PathLike[str],
    *,
    step_list: Iterable[int] | None = None,
    pretty: bool = False,
    data_simplification: bool = True,
) -> Profile | ProfileSet:
    """Decode a recording or a result, and save its tables below it, unless those of the same steps are there.

    Parameters
    ----------
    path
        What :func:`npuprof.load` opens, or a directory around many: those are read side by side.
    step_list
        Numbers of the steps to keep; all when not given.
    pretty
        Also write the timeline as an indented Chrome trace beside the tables.
    data_simplification
        Has no effect: MindSpore's parser deletes the raw data by it, and npuprof deletes nothing.

    Returns
    -------
    The profile, or a set of them.

    Raises
    ------
    OptionsError
        If an argument has a wrong value.
    SourceError
        If nothing there can be read, or a run has no step of a wanted number.
    """
    flag("data_simplification", data_simplification)
    from npuprof.loading import open_path
    from npuprof.profiles import Profile
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
    """Do what :func:`offline_analyse` does, in a process of its own that outlives this one; its log lies beside.

    Raises
    ------
    NpuprofError
        If the process cannot be started.
    """
    arguments = [sys.executable, "-m", "npuprof.session.offline", str(path)]
    arguments += [f"--step={step}" for step in step_list or ()] + ["--pretty"] * pretty
    try:
        with ((path if path.is_dir() else path.parent) / "analyse.log").open("wb") as log:
            # A session of its own: an interrupt of the kernel is not meant for it.
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
    _background[:] = [one for one in _background if one.poll() is None]  # collect those that have ended
    _background.append(process)


_background: list[subprocess.Popen[bytes]] = []


@atexit.register
def _leave_alone() -> None:
    for process in _background:
        process.returncode = process.returncode or 0  # it goes on: nothing to warn of


def tables_of(recording: Path) -> Path:
    """Return where the saved tables of a recording or a result go."""
    return (recording if recording.is_dir() else recording.parent) / TABLES_DIRECTORY


def _save(profile: Profile, *, pretty: bool) -> None:
    if profile.info.recording is None:
        return
    target = tables_of(profile.info.recording)
    if target.exists() and _selection_of(target) != profile.info.selection:
        replacement = target.with_name(f"{target.name}.new")
        shutil.rmtree(replacement, ignore_errors=True)  # of an analysis that was interrupted
        profile.save(replacement)
        shutil.rmtree(target)
        replacement.rename(target)
    elif not target.exists():
        profile.save(target)
    if pretty:
        profile.to_chrome_trace(target / TRACE_FILE, pretty=True)


def _selection_of(tables: Path) -> Selected | None:
    """Return which part of its run a saved profile holds; None where it cannot be read."""
    from npuprof.sources.detect import detect

    try:
        return detect(tables).found[0].describe().selection
    except (NpuprofError, OSError):
        return None


def _main(arguments: list[str]) -> None:
    steps = [int(word.partition("=")[2]) for word in arguments[1:] if word.startswith("--step=")]
    offline_analyse(arguments[0], step_list=steps or None, pretty="--pretty" in arguments)


if __name__ == "__main__":
    _main(sys.argv[1:])
