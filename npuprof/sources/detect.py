"""Which source reads a path: the first that recognises its content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from npuprof.errors import SourceError
from npuprof.sources.base import Source

# In this order: a recording of ours holds a PROF_* directory, and a torch_npu result may.
_SOURCES = ("saved", "recording", "torch_npu", "raw")

_LFS_POINTER = b"version https://git-lfs"


def detect(path: Path) -> Source:
    """Choose the source for a path by its content.

    Raises
    ------
    SourceError
        If the path does not exist, cannot be read, or no source recognises it.
    """
    _check_readable(path)
    for name in _SOURCES:
        source = cast("Source", import_module(f"npuprof.sources.{name}"))
        if source.recognises(path):
            return source
    raise SourceError(
        f"{path} holds nothing that npuprof can read: give it a recording of npuprof, a PROF_* directory, "
        f"a torch_npu result (*_ascend_pt) or its trace_view.json{_hint(path)}"
    )


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


def _hint(path: Path) -> str:
    """Name the directories below that a source would take, since users often give the parent."""
    if not path.is_dir():
        return ""
    inner = sorted(child.name for child in path.iterdir() if child.is_dir())
    likely = [name for name in inner if "_ascend_" in name or name.startswith("PROF_")][:5]
    return f"; below it there are {', '.join(likely)}" if likely else ""
