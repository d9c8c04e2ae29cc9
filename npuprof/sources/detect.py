"""Which source reads a path: the first that recognises its content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from npuprof.errors import SourceError
from npuprof.recording import FILE_NAME as RECORDING_FILE_NAME
from npuprof.sources.base import Source

# In this order: a recording of ours holds a PROF_* directory, and a torch_npu result may.
_SOURCES = ("saved", "recording", "torch_npu", "raw")

_LFS_POINTER = b"version https://git-lfs"


def detect(path: Path) -> tuple[Source, Path]:
    """Choose the source for a path by its content.

    Returns
    -------
    tuple
        The source, and the path to give it: `path` itself, or the one run that lies in it.

    Raises
    ------
    SourceError
        If the path does not exist, cannot be read, or no source recognises it.
    """
    _check_readable(path)
    if source := _recognise(path):
        return source, path
    inside = [(source, run) for run in _runs_below(path) if (source := _recognise(run))]
    if len(inside) == 1:
        return inside[0]
    raise SourceError(
        f"{path} holds nothing that npuprof can read: give it a recording of npuprof, a PROF_* directory, "
        f"a torch_npu result (*_ascend_pt) or its trace_view.json{_hint(inside)}"
    )


def _recognise(path: Path) -> Source | None:
    for name in _SOURCES:
        source = cast("Source", import_module(f"npuprof.sources.{name}"))
        if source.recognises(path):
            return source
    return None


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            if next(path.iterdir(), None) is None:
                raise SourceError(f"{path} is an empty directory: give the path of a recording or a result")
        else:
            with path.open("rb") as file:
                head = file.read(len(_LFS_POINTER))
            _check_head(path, head)
    except FileNotFoundError as error:
        raise SourceError(f"{path} does not exist: check the path (the working directory is {Path.cwd()})") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}): check its permissions") from error


def _check_head(path: Path, head: bytes) -> None:
    if not head:
        raise SourceError(f"{path} is empty: the tool that wrote it was stopped, or the copy failed")
    if head == _LFS_POINTER:
        raise SourceError(f"{path} is a git-LFS pointer, not the data: run `git lfs pull` in its repository")


def _runs_below(path: Path) -> list[Path]:
    """Give the directories below a path whose names say that a front end made them."""
    if not path.is_dir():
        return []
    return sorted(child for child in path.iterdir() if child.is_dir() and _looks_like_a_run(child))


def _looks_like_a_run(child: Path) -> bool:
    return "_ascend_" in child.name or child.name.startswith("PROF_") or (child / RECORDING_FILE_NAME).exists()


def _hint(inside: list[tuple[Source, Path]]) -> str:
    """Name the runs below, since users often give the parent of many."""
    if not inside:
        return ""
    return f"; below it there are {len(inside)} runs, give one of them: " + ", ".join(run.name for _, run in inside[:5])
