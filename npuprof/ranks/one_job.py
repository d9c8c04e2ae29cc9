"""Whether traces of torch's profiler in a directory belong to one job: the trace handler adds to earlier files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.ranks.entries import Entry
from npuprof.sources.global_ranks import world_size
from npuprof.sources.kineto.facts import COLLECTOR, worker_of_name
from npuprof.words.quantities import counted

_MOST_NAMED = 3
_ADVICE = "load those of one job alone: move them into a folder of their own"


def refuse_several_jobs(root: Path, entries: Sequence[Entry]) -> None:
    """Refuse traces of jobs of different sizes, and two workers that have the same rank at the same time."""
    traces = [entry for entry in entries if entry.info.collector == COLLECTOR and entry.run.path.is_file()]
    sizes: dict[int, list[str]] = {}
    for entry in traces:
        if size := world_size(entry.info):
            sizes.setdefault(size, []).append(entry.run.path.name)
    if len(sizes) > 1:
        jobs = "; ".join(f"{counted(size, 'rank')}: {_named(names)}" for size, names in sorted(sizes.items()))
        raise SourceError(f"{root} holds traces of jobs with different numbers of ranks ({jobs}): {_ADVICE}")
    by_rank: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for entry in traces:
        worker = worker_of_name(entry.run.path.name)
        if worker is not None and entry.info.rank is not None and entry.info.started_ns is not None:
            spans = by_rank.setdefault(entry.info.rank, {}).setdefault(worker.name, [])
            spans.append((entry.info.started_ns, worker.written_ns))
    for rank, workers in sorted(by_rank.items()):
        for (first, spans), (second, other_spans) in combinations(sorted(workers.items()), 2):
            if _overlap(spans, other_spans):
                raise SourceError(
                    f"{root} holds traces of several jobs: the workers {first} and {second} are both rank {rank} at "
                    f"the same time; {_ADVICE}"
                )


def _overlap(spans: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> bool:
    """Return whether the times of two workers, from their first trace to their last, overlap."""
    (low, high), (other_low, other_high) = (
        (min(start for start, _ in times), max(end for _, end in times)) for times in (list(spans), list(others))
    )
    return low < other_high and other_low < high


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
