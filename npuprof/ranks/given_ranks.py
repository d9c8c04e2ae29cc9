"""Ranks that the caller gives to runs whose files name none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npuprof.errors import OptionsError, SourceError
from npuprof.sources.detect import DetectedResult
from npuprof.sources.files.walk import Walk
from npuprof.sources.global_ranks import MAX_RANK
from npuprof.words.quantities import counted

_DIGITS = re.compile(r"(\d+)")
_MOST_NAMED = 5


def with_ranks(
    root: Path, walked: Walk[DetectedResult], ranks: Sequence[int] | Mapping[str, int]
) -> Walk[DetectedResult]:
    """Return the runs with the ranks that the caller gave."""
    runs = sorted((run for run in walked.results if not run.source.of_many_runs), key=lambda run: _natural(run.path))
    others = [run for run in walked.results if run.source.of_many_runs]
    for rank in ranks.values() if isinstance(ranks, Mapping) else ranks:
        if not 0 <= rank < MAX_RANK:
            raise OptionsError(f"{rank!r} in ranks is no rank: give whole numbers from 0 on")
    if isinstance(ranks, Mapping):
        of_run = {id(run): rank for key, rank in ranks.items() for run in [_named(key, root, runs)]}
    elif len(ranks) == len(runs):
        of_run = {id(run): rank for run, rank in zip(runs, ranks, strict=True)}
    else:
        raise OptionsError(
            f"ranks has {counted(len(ranks), 'number')} for {counted(len(runs), 'run')}, which are in this order: "
            f"{_listed(root, runs)}"
        )
    named = [replace(run, rank=of_run[id(run)], is_rank_given=True) if id(run) in of_run else run for run in runs]
    return Walk([*named, *others], walked.problems, [*walked.left_out, *_other_ranks(root, named)])


def how_to_give(root: Path, runs: Sequence[DetectedResult]) -> str:
    """Return how to say which rank each run is, as advice in a message."""
    ordered = sorted((run for run in runs if not run.source.of_many_runs), key=lambda run: _natural(run.path))
    if not ordered:
        return ""
    numbers = ", ".join(map(str, range(min(len(ordered), 3)))) + ", ..." * (len(ordered) > 3)
    return (
        f"say which rank each is: npuprof.load_set({str(root)!r}, ranks=[{numbers}]) in the order of their paths "
        f"({_listed(root, ordered)}), or ranks={{{_below(root, ordered[0])!r}: 0, ...}}"
    )


def _named(key: str, root: Path, runs: Sequence[DetectedResult]) -> DetectedResult:
    """Return the run that a path names: as given, below the root, a folder around the run, or a file name."""
    wanted = Path(key).expanduser()
    places = {wanted.absolute(), (root / wanted).absolute()}
    found = [run for run in runs if places & {run.path.absolute(), *run.path.absolute().parents}]
    if len(found) != 1:
        found = [run for run in runs if wanted in (Path(run.path.name), Path(_below(root, run)))]
    if len(found) != 1:
        problem = "names no run" if not found else f"names {len(found)} runs"
        raise OptionsError(f"{key!r} in ranks {problem}: the runs are {_listed(root, runs)}")
    return found[0]


def _other_ranks(root: Path, runs: Sequence[DetectedResult]) -> list[str]:
    """Return a sentence for each run whose files name another rank than the given one."""
    problems = []
    for run in runs:
        try:
            recorded = replace(run, rank=None, is_rank_given=False).describe().rank if run.is_rank_given else None
        except (SourceError, OSError):
            continue  # reading it tells
        if recorded not in (None, run.rank):
            problems.append(f"{_below(root, run)} says that it is rank {recorded}; taken for rank {run.rank}, as given")
    return problems


def _below(root: Path, run: DetectedResult) -> str:
    around = root if run.unpacked is None else run.unpacked.folder
    return str(run.path.relative_to(around)) if run.path.is_relative_to(around) else str(run.path)


def _listed(root: Path, runs: Sequence[DetectedResult]) -> str:
    more = f" and {len(runs) - _MOST_NAMED} more" if len(runs) > _MOST_NAMED else ""
    return ", ".join(_below(root, run) for run in runs[:_MOST_NAMED]) + more


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    parts = _DIGITS.split(str(path))
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
