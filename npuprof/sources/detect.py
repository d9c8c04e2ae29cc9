"""Which source reads a path: the first that recognises its content."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, cast

from npuprof.errors import SourceError
from npuprof.sources.base import Source
from npuprof.sources.choice import raw_problem
from npuprof.sources.files.walk import Walk, walk

Preference: TypeAlias = Literal["raw", "parsed"] | None

# In this order: a recording of ours holds a PROF_* directory, and a torch_npu result may.
_SOURCES = (
    *("saved", "recording", "cluster", "database", "kineto", "single_file"),
    *("torch_npu", "torch_npu.unparsed", "msprof", "raw", "loose_folder"),
)
_RAW = ("recording", "torch_npu.unparsed", "raw")
_ONLY_GIVEN = ("loose_folder",)  # a copy beside its result would count twice
_PARSED_OF_RAW = ("database", "torch_npu", "msprof")  # what the vendor made of the raw data in the same directory

CLUSTER = "cluster"
"""The source of what the vendor's tool made of many runs; it is none itself."""

_MAX_AROUND = 4  # a slice lies two levels below its PROF_* directory, and that in a result
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Run:
    """A run that was recognised.

    Attributes
    ----------
    name, source
        What reads it, and its name.
    path
        What to give to it.
    choice
        Why it was chosen where the path holds raw data and the vendor's result of it; else empty.
    """

    name: str
    source: Source
    path: Path
    choice: str = ""


def detect(path: Path, preferred: Preference = None) -> Walk[Run]:
    """Find the run at a path, or the runs below it.

    Parameters
    ----------
    path
        A run, one file, or a directory around runs.
    preferred
        ``raw`` for raw data only, ``parsed`` for the vendor's results only. By default, where a ``PROF_*``
        directory or a result of torch_npu holds both, the raw data if it is complete; see :mod:`.choice`.

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
        # The files of a cluster's analysis may have been copied beside the runs.
        beside = _below(path, preferred) if run.name == CLUSTER else Walk[Run]()
        return Walk([run, *beside.found], beside.problems)
    below = _below(path, preferred)
    if below.found:
        return below
    wanted = {"raw": "raw data", "parsed": "parsed results"}.get(preferred or "", "nothing")
    told = f"holds no {wanted}" if preferred else "holds nothing that npuprof can read"
    raise SourceError(
        f"{path} {told}: give it a recording of npuprof, a PROF_* directory, "
        f"a result of torch_npu (*_ascend_pt) or MindSpore (*_ascend_ms), or one file of a result"
        f"{_hint(path, preferred)}{_lost(below)}"
    )


def _below(path: Path, preferred: Preference) -> Walk[Run]:
    return walk(path, lambda directory: _recognise(directory, preferred)) if path.is_dir() else Walk[Run]()


def _recognise(path: Path, preferred: Preference, *, given: bool = False) -> Run | None:
    choice = ""
    for name in _SOURCES:
        if (preferred == "raw" and name not in _RAW) or (preferred == "parsed" and name in _RAW):
            continue
        if choice and name not in _RAW:
            continue
        if name in _ONLY_GIVEN and not given:
            continue
        source = _source(name)
        if not source.recognises(path):
            continue
        if preferred is None and name in _PARSED_OF_RAW and _holds_raw(path):
            if problem := raw_problem(path):
                told = "the vendor's result is shown; source='raw' shows the raw data, which is not complete"
                return Run(name, source, path, f"{told}: {problem}")
            choice = "raw data is shown; source='parsed' shows the vendor's result of it, which is here too"
            continue
        return Run(name, source, path, choice)
    return None


def _source(name: str) -> Source:
    return cast("Source", import_module(f"npuprof.sources.{name}"))


def _holds_raw(path: Path) -> bool:
    return any(_source(name).recognises(path) for name in _RAW)


def _hint(path: Path, preferred: Preference) -> str:
    if path.name.startswith("OPPROF_") or (path / "OpBasicInfo.csv").is_file():
        return "; this is a result of msopprof, which measures one operator: open it with MindStudio Insight"
    if preferred == "parsed":
        return (
            "; `msprof --export=on --output=PATH` makes results of PROF_* directories, `analyse(PATH)` of "
            "torch_npu.profiler.profiler or mindspore.profiler.profiler those of a framework; without "
            'source="parsed" the raw data is decoded here'
        )
    around = next((parent for parent in islice(path.parents, _MAX_AROUND) if _recognise(parent, preferred)), None)
    return f"; it is a part of {around}, which can be read: give that" if around else ""


def _lost(below: Walk[Run]) -> str:
    return "".join(f"; {problem}" for problem in below.problems[:3])


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            if next(path.iterdir(), None) is None:
                raise SourceError(f"{path} is an empty directory: give the path of a recording or a result")
        elif not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for whoever writes to it
            raise SourceError(f"{path} is a pipe, socket or device and no file: save what it gives, and give that")
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
