"""Walk a directory for paths that a source recognises: bounded, without cycles."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

MAX_DEPTH = 6
MAX_DIRECTORIES = 20_000
MAX_RESULTS = 10_000

_Result = TypeVar("_Result")


@dataclass
class Walk(Generic[_Result]):
    """The results of a walk."""

    results: list[_Result] = field(default_factory=list)  # in order of paths
    problems: list[str] = field(default_factory=list)  # unreadable directories, which may hold more results
    left_out: list[str] = field(default_factory=list)  # files that were not opened, such as archives


def walk(
    root: Path,
    recognise: Callable[[Path], Sequence[_Result]],
    ends: Callable[[_Result], bool] = lambda _: True,
    *,
    max_depth: int = MAX_DEPTH,
    max_directories: int = MAX_DIRECTORIES,
    max_results: int = MAX_RESULTS,
) -> Walk[_Result]:
    """Visit the directories below `root`, level by level; usually a recognised directory is not descended into.

    A directory that is reached twice, through a link, is visited once.
    """
    result: Walk[_Result] = Walk()
    pending = deque([(root, 0)])
    seen: set[tuple[int, int]] = set()
    while pending:
        directory, depth = pending.popleft()
        try:
            here = directory.stat()
            if (here.st_dev, here.st_ino) in seen:
                continue
            seen.add((here.st_dev, here.st_ino))
            runs = recognise(directory) if depth else []
            children = [] if any(map(ends, runs)) or depth >= max_depth else _children(directory)
        except OSError as error:
            result.problems.append(f"{directory} cannot be listed ({error.strerror or error})")
            continue
        result.results.extend(runs)
        pending.extend((child, depth + 1) for child in children)
        if len(seen) >= max_directories or len(result.results) >= max_results:
            if pending:
                result.problems.append(
                    f"stopped after {len(seen)} directories and {len(result.results)} results: give one further in"
                )
            break
    return result


def _children(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        return sorted(Path(entry.path) for entry in entries if _is_directory(entry))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a cyclic link; its siblings are visited
        return False
