"""Which source reads a path: the first that recognises its content."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeAlias, cast

from npuprof.errors import SourceError
from npuprof.sources.base import Source
from npuprof.sources.choice import raw_is_complete
from npuprof.sources.walk import Walk, walk

Preference: TypeAlias = Literal["raw", "parsed"] | None

# In this order: a recording of ours holds a PROF_* directory, and a torch_npu result may.
_SOURCES = (
    *("saved", "recording", "database", "single_file"),
    *("torch_npu", "torch_npu.unparsed", "msprof", "raw", "loose_folder"),
)
_RAW = ("recording", "torch_npu.unparsed", "raw")
_ONLY_GIVEN = ("loose_folder",)  # a copy beside its result would count twice
_PARSED_OF_RAW = ("database", "msprof")  # what the vendor made of the raw data in the same directory

_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Run:
    """A run that was recognised: the source's name, the source, and the path to give it."""

    name: str
    source: Source
    path: Path


def detect(path: Path, preferred: Preference = None) -> Walk[Run]:
    """Find the run at a path, or the runs below it.

    Parameters
    ----------
    path
        A run, one file, or a directory around runs.
    preferred
        ``raw`` for raw data only, ``parsed`` for the vendor's results only. By default, where a ``PROF_*``
        directory holds both, the raw data if it is complete.

    Returns
    -------
    The runs, at least one, and what the walk through a directory left out.

    Raises
    ------
    SourceError
        If the path does not exist, cannot be read, or no source recognises anything of it.
    """
    _check_readable(path)
    if run := _recognise(path, preferred, given=True):
        return Walk([run])
    below = walk(path, lambda directory: _recognise(directory, preferred)) if path.is_dir() else Walk[Run]()
    if below.found:
        return below
    wanted = {"raw": "raw data", "parsed": "parsed results"}.get(preferred or "", "nothing")
    told = f"holds no {wanted}" if preferred else "holds nothing that npuprof can read"
    raise SourceError(
        f"{path} {told}: give it a recording of npuprof, a PROF_* directory, "
        f"a torch_npu result (*_ascend_pt) or one file of a result{_hint(preferred)}{_lost(below)}"
    )


def _recognise(path: Path, preferred: Preference, *, given: bool = False) -> Run | None:
    for name in _SOURCES:
        if (preferred == "raw" and name not in _RAW) or (preferred == "parsed" and name in _RAW):
            continue
        if name in _ONLY_GIVEN and not given:
            continue
        source = cast("Source", import_module(f"npuprof.sources.{name}"))
        if source.recognises(path):
            if preferred is None and name in _PARSED_OF_RAW and raw_is_complete(path):
                continue
            return Run(name, source, path)
    return None


def _hint(preferred: Preference) -> str:
    if preferred == "parsed":
        return "; `msprof --export=on --output=PATH` makes results of raw data"
    return ""


def _lost(below: Walk[Run]) -> str:
    return "".join(f"; {problem}" for problem in below.problems[:3])


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
